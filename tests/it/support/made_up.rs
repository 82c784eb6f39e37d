//! Fake servers of the OpenAI protocol, with the gaps and faults of real ones.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

/// The features of a server. The default serves all of OpenAI's completions and chat, by token ids and by text, without
/// a limit.
#[derive(Clone, Debug)]
pub struct MadeUp {
    /// `/v1/completions` exists.
    pub completions: bool,
    /// `/v1/chat/completions` exists.
    pub chat: bool,
    /// A prompt may be token ids; otherwise they are rejected with 422.
    pub token_ids: bool,
    /// The stream ends with `usage`.
    pub usage: bool,
    /// `/v1/models` exists.
    pub models: bool,
    /// Body fields that are rejected with 400; the message names the field.
    pub unknown_fields: &'static [&'static str],
    /// The key that every request needs; without it, the answer is 401.
    pub key: Option<&'static str>,
    /// The longest input plus output; longer requests are rejected with 400, in vLLM's words.
    pub limit: Option<u64>,
    /// True if `/v1/models` reports the limit, too.
    pub limit_in_models: bool,
    /// Tokens of the limit that the server reserves: it rejects requests that need them.
    pub keeps: u64,
    /// The process dies on a request with more tokens: its connections break, and new ones are refused.
    pub dies_beyond: Option<u64>,
    /// A request with more tokens is never answered, and neither is any later one.
    pub hangs_beyond: Option<u64>,
    /// Every request gets this status, as from an unrelated server.
    pub always: Option<u16>,
    /// Tokens counted on top of the prompt's, such as those of a chat template.
    pub further_tokens: u64,
    /// Each answer counts a different number of extra tokens, below this, so that no correction makes a prompt exact.
    pub uneven: u64,
    /// The text ends after this many tokens, unless `ignore_eos` or `min_tokens` is in the body.
    pub ends_at: Option<u64>,
    /// A model that is not listed is rejected with 404; the message names it.
    pub only_its_model: bool,
    /// `/tokenize` exists and reads this field: `prompt` as vLLM's, `content` as llama.cpp's.
    pub tokenize: Option<&'static str>,
    /// A request with more tokens gets this status and message.
    pub refuses_beyond: Option<(u64, u16, &'static str)>,
    /// Prompts are cut to this limit without a word: that of the prompt alone, or of prompt and output.
    pub cuts: Option<Cut>,
    /// A request with more tokens is answered with nothing.
    pub empty_beyond: Option<u64>,
    /// `max_tokens` is rejected with 400 in favour of `max_completion_tokens`.
    pub newer_length: bool,
    /// A rejection repeats the body of the request, as FastAPI's does.
    pub repeats_body: bool,
    /// Answers are streamed; otherwise each is one JSON object.
    pub streams: bool,
    /// `/health` exists, as vLLM has it.
    pub health: bool,
    /// The items of `/v1/models`.
    pub lists: Vec<Value>,
    /// Unlisted models that are served although others are rejected with 404.
    pub aliases: &'static [&'static str],
    /// Delay of the model list.
    pub lists_after: Duration,
}

impl Default for MadeUp {
    fn default() -> Self {
        Self {
            completions: true,
            chat: true,
            token_ids: true,
            usage: true,
            models: true,
            unknown_fields: &[],
            key: None,
            limit: None,
            limit_in_models: false,
            keeps: 0,
            dies_beyond: None,
            hangs_beyond: None,
            always: None,
            further_tokens: 0,
            uneven: 1,
            ends_at: None,
            only_its_model: false,
            tokenize: None,
            refuses_beyond: None,
            cuts: None,
            empty_beyond: None,
            newer_length: false,
            repeats_body: false,
            streams: true,
            lists: vec![json!({ "id": "made-up", "object": "model" })],
            aliases: &[],
            health: false,
            lists_after: Duration::ZERO,
        }
    }
}

/// The limit to which a server cuts prompts.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Input(u64),
    Total(u64),
}

/// A server with these features, and otherwise the default ones: `made_up! { chat: false }`.
macro_rules! made_up {
    ($($feature:ident: $value:expr),* $(,)?) => {
        $crate::support::made_up::MadeUp { $($feature: $value,)* ..Default::default() }
    };
}
pub(crate) use made_up;

/// A request as received, and its status; 0 if unanswered.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub body: Value,
    pub status: u16,
}

/// A running server, stopped on drop.
pub struct Running {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    end: watch::Sender<bool>,
}

impl Running {
    /// The completion and chat requests so far, including rejected ones.
    pub fn completions(&self) -> Vec<Seen> {
        let all = self.all();
        all.into_iter()
            .filter(|seen| seen.path.ends_with("completions"))
            .collect()
    }

    /// All requests so far.
    pub fn all(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.send_replace(true);
    }
}

struct Serving {
    made_up: MadeUp,
    seen: Arc<Mutex<Vec<Seen>>>,
    end: watch::Sender<bool>,
    hangs: Notify,
    hung: Mutex<bool>,
}

impl MadeUp {
    /// Starts the server on a free port.
    pub fn start(self) -> Running {
        self.start_at(0)
    }

    /// Starts the server on this port, for example that of one that died.
    pub fn start_at(self, port: u16) -> Running {
        let (end, mut ended) = watch::channel(false);
        let seen = Arc::default();
        let serving = Arc::new(Serving {
            made_up: self,
            seen: Arc::clone(&seen),
            end: end.clone(),
            hangs: Notify::new(),
            hung: Mutex::new(false),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            // Remaining tasks are dropped with the runtime, which breaks their connections.
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let app = Router::new().fallback(answer).with_state(serving);
                tokio::select! {
                    served = axum::serve(listener, app).into_future() => served.unwrap(),
                    _ = ended.wait_for(|end| *end) => {}
                }
            });
        });
        Running {
            url: format!("http://{address}"),
            seen,
            end,
        }
    }
}

async fn answer(
    State(serving): State<Arc<Serving>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if *serving.hung.lock().unwrap() {
        serving.hangs.notified().await;
    }
    let at = {
        let mut seen = serving.seen.lock().unwrap();
        seen.push(Seen {
            path: uri.path().to_owned(),
            body: body.clone(),
            status: 0,
        });
        seen.len() - 1
    };
    let response = respond(&serving, &method, uri.path(), &headers, &body).await;
    serving.seen.lock().unwrap()[at].status = response.status().as_u16();
    response
}

async fn respond(serving: &Serving, method: &Method, path: &str, headers: &HeaderMap, body: &Value) -> Response {
    let made_up = &serving.made_up;
    let error = |status: u16, message: String| {
        let body = json!({ "error": { "message": message, "type": "invalid_request_error", "code": status } });
        (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
    };
    if let Some(status) = made_up.always {
        let mut answer = error(status, "no such thing here".to_owned());
        if answer.status().is_redirection() {
            let elsewhere = "https://login.example/".parse().unwrap();
            answer.headers_mut().insert(header::LOCATION, elsewhere);
        }
        return answer;
    }
    let key = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(wanted) = made_up.key
        && key != Some(&format!("Bearer {wanted}"))
    {
        return error(401, "Incorrect API key provided".to_owned());
    }
    let chat = match (method.as_str(), path) {
        ("GET", "/v1/models") if made_up.models => {
            tokio::time::sleep(made_up.lists_after).await;
            let mut models = made_up.lists.clone();
            for model in models.iter_mut().filter(|_| made_up.limit_in_models) {
                model["max_model_len"] = json!(made_up.limit);
            }
            return json!({ "object": "list", "data": models }).to_string().into_response();
        }
        ("GET", "/health") if made_up.health => return StatusCode::OK.into_response(),
        ("POST", "/tokenize") if made_up.tokenize.is_some() => return tokenize(made_up, body),
        ("POST", "/v1/completions") if made_up.completions => false,
        ("POST", "/v1/chat/completions") if made_up.chat => true,
        _ => return error(404, "Not Found".to_owned()),
    };
    if let Some(model) = body["model"]
        .as_str()
        .filter(|_| made_up.only_its_model)
        .filter(|model| !made_up.aliases.contains(model) && made_up.lists.iter().all(|one| one["id"] != *model))
    {
        return error(404, format!("The model `{model}` does not exist."));
    }
    if let Some(name) = made_up.unknown_fields.iter().find(|name| !body[**name].is_null()) {
        return error(400, format!("Unrecognized request argument supplied: {name}"));
    }
    if made_up.newer_length && !body["max_tokens"].is_null() {
        let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return error(400, message.to_owned());
    }
    let text = if chat {
        &body["messages"][0]["content"]
    } else {
        &body["prompt"]
    };
    let input = match text {
        Value::Array(ids) if !made_up.token_ids && made_up.repeats_body => {
            let said = json!({ "loc": ["body", "prompt"], "msg": "Input should be a valid string", "input": ids, "ctx": body });
            let answer = json!({ "detail": [said] }).to_string();
            return (StatusCode::UNPROCESSABLE_ENTITY, answer).into_response();
        }
        Value::Array(_) if !made_up.token_ids => {
            return error(422, "Input should be a valid string: prompt".to_owned());
        }
        Value::Array(ids) => ids.len(),
        text => words(text),
    } as u64
        + made_up.further_tokens
        + (serving.seen.lock().unwrap().len() as u64 - 1) % made_up.uneven;
    let output = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64());
    let output = output.unwrap_or(16);
    let total = input + output;
    if let Some(limit) = made_up.limit.filter(|limit| total + made_up.keeps > *limit) {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, you requested {total} tokens ({input} in the messages, {output} \
             in the completion). Please reduce the length of the messages or completion."
        );
        return error(400, message);
    }
    if let Some((_, status, words)) = made_up.refuses_beyond.filter(|(most, ..)| total > *most) {
        return error(status, words.to_owned());
    }
    if made_up.dies_beyond.is_some_and(|most| total > most) {
        serving.end.send_replace(true);
        std::future::pending::<()>().await;
    }
    if made_up.hangs_beyond.is_some_and(|most| total > most) {
        *serving.hung.lock().unwrap() = true;
        serving.hangs.notified().await;
    }
    let goes_on = ["ignore_eos", "min_tokens"].iter().any(|field| !body[*field].is_null());
    let (output, finish) = match made_up.ends_at.filter(|end| !goes_on && *end < output) {
        Some(end) => (end, "stop"),
        None => (output, "length"),
    };
    let (output, finish) = match made_up.empty_beyond.filter(|most| total > *most) {
        Some(_) => (0, "stop"),
        None => (output, finish),
    };
    let input = match made_up.cuts {
        Some(Cut::Input(most)) => input.min(most),
        Some(Cut::Total(most)) => input.min(most.saturating_sub(output).max(1)),
        None => input,
    };
    let total = input + output;
    let usage = made_up
        .usage
        .then(|| json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": total }));
    if !made_up.streams {
        let choice = json!({ "index": 0, "text": "word", "finish_reason": finish });
        return json!({ "id": "x", "choices": [choice], "usage": usage })
            .to_string()
            .into_response();
    }
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(events(chat, output, finish, usage)),
    )
        .into_response()
}

fn words(text: &Value) -> usize {
    text.as_str().unwrap_or_default().split_whitespace().count()
}

fn tokenize(made_up: &MadeUp, body: &Value) -> Response {
    let chat = &body["messages"][0]["content"];
    let count = match made_up.tokenize {
        Some("prompt") => words(&body["prompt"]) + words(chat) + made_up.further_tokens as usize,
        _ => words(&body["content"]),
    };
    let tokens = vec![7; count];
    let answer = match made_up.tokenize {
        Some("prompt") => json!({ "count": count, "max_model_len": 8192, "tokens": tokens }),
        _ => json!({ "tokens": tokens }),
    };
    answer.to_string().into_response()
}

/// One event per token, the finish event, and the usage if there is one.
fn events(
    chat: bool,
    output: u64,
    finish: &'static str,
    usage: Option<Value>,
) -> impl futures_util::Stream<Item = Result<String, Infallible>> {
    let choice = move |text: &str, finish: Value| {
        let said = if chat {
            json!({ "delta": { "content": text } })
        } else {
            json!({ "text": text })
        };
        let mut choice = said;
        choice["index"] = json!(0);
        choice["finish_reason"] = finish;
        json!({ "id": "x", "model": "made-up", "choices": [choice] })
    };
    let tokens = (1..=output).map(move |number| {
        let finish = if number == output { json!(finish) } else { Value::Null };
        choice(" word", finish)
    });
    let nothing = (output == 0).then(|| choice("", json!(finish)));
    let counts = usage.map(|usage| json!({ "id": "x", "model": "made-up", "choices": [], "usage": usage }));
    let lines = tokens
        .chain(nothing)
        .chain(counts)
        .map(|event| format!("data: {event}\n\n"));
    let all = lines.chain(std::iter::once("data: [DONE]\n\n".to_owned()));
    futures_util::stream::iter(all.map(Ok))
}
