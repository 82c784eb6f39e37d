//! OpenAI routes: completions and chat, streaming or not, models, and vLLM's additions (version, tokenize). Unknown
//! fields are ignored, as by most engines.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stream::{AnswerReader, CompleteAnswer, Finish, OutputToken, StreamFormat, read_all, text};
use super::{ApiError, Prompt, limits, metrics, stream, tensorrt_llm};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;

/// Routes of every engine.
pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        // Only vLLM has this. All profiles provide it, to identify the simulation.
        .route("/version", get(version))
}

pub(super) fn vllm() -> Router<Arc<EngineCore>> {
    routes()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ping", get(|| async { StatusCode::OK }))
        .route("/tokenize", post(tokenize))
        .route(
            "/metrics",
            get(|State(core): State<Arc<EngineCore>>| async move { metrics::page(&core) }),
        )
}

pub(super) fn transformers() -> Router<Arc<EngineCore>> {
    routes().route("/health", get(|| async { Json(json!({ "status": "ok" })) }))
}

async fn version(State(core): State<Arc<EngineCore>>) -> Response {
    Json(json!({ "version": core.setup.version() })).into_response()
}

async fn models(State(core): State<Arc<EngineCore>>) -> Response {
    let length = (core.max_total < u64::MAX).then_some(core.max_total);
    let card = json!({
        "id": core.setup.model, "object": "model", "created": 0, "owned_by": "SIMULATED",
        "root": core.setup.model, "parent": null, "max_model_len": length,
    });
    Json(json!({ "object": "list", "data": [card] })).into_response()
}

async fn completions(state: State<Arc<EngineCore>>, body: Bytes) -> Response {
    handle(state, body, Shape::Text).await
}

async fn chat(state: State<Arc<EngineCore>>, body: Bytes) -> Response {
    handle(state, body, Shape::Chat).await
}

async fn handle(State(core): State<Arc<EngineCore>>, body: Bytes, shape: Shape) -> Response {
    let engine = core.setup.profile.engine;
    let parsed = read(engine, &body).and_then(|body| size(&core, &body, shape).map(|size| (body, size)));
    let (body, size) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return error.respond(engine),
    };
    let output = match limits::output_tokens(&core, size) {
        Ok(output) => output,
        Err(error) => return error.respond(engine),
    };
    if engine == Engine::TensorrtLlm
        && let Some(ended) = tensorrt_llm::exceeds_cache(&core, size.input, output)
    {
        return ended;
    }
    let cached = match (&body.prompt, shape) {
        (Some(prompt), Shape::Text) if core.has_prefix_cache() => {
            prompt.hashes(&core).map_or(0, |hashes| core.look_up(&hashes))
        }
        _ => 0,
    };
    let mut reader = AnswerReader::new(core.submit(size.rows, size.input, output, cached));
    let answer = Answer::new(&core, shape, reader.id(), size.rows, size.input, &body);
    if body.stream == Some(true) {
        return stream::respond(reader, answer);
    }
    match read_all(&mut reader).await {
        Ok(whole) => Json(answer.whole(&whole)).into_response(),
        Err(message) => ApiError::generation_failed(engine, message).respond(engine),
    }
}

/// Parses a request. Most engines ignore unknown fields.
fn read(engine: Engine, body: &[u8]) -> Result<Body, ApiError> {
    if engine == Engine::TensorrtLlm {
        tensorrt_llm::check_fields(body)?;
    }
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(engine, error.to_string()))
}

fn size(core: &EngineCore, body: &Body, shape: Shape) -> Result<limits::RequestSize, ApiError> {
    let engine = core.setup.profile.engine;
    if core.overloaded() {
        return Err(ApiError::overloaded(engine));
    }
    if let Some(model) = body
        .model
        .as_ref()
        .filter(|model| engine == Engine::Vllm && **model != core.setup.model)
    {
        let message = format!("The model `{model}` does not exist.");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "NotFoundError", message));
    }
    // A name without a revision means `main`.
    let pinned = |name: &str| name.trim_end_matches("@main") == core.setup.model.trim_end_matches("@main");
    if let Some(model) = body
        .model
        .as_ref()
        .filter(|model| engine == Engine::Transformers && !pinned(model))
    {
        let message = format!("Server is pinned to '{}'; got '{model}'", core.setup.model);
        return Err(ApiError::bad_request(engine, message));
    }
    if body.stream != Some(true) && body.stream_options.is_some() && engine == Engine::Vllm {
        return Err(ApiError::bad_request(
            engine,
            "Stream options can only be defined when `stream=True`.",
        ));
    }
    let (rows, input) = match shape {
        Shape::Text => body
            .prompt
            .as_ref()
            .ok_or_else(|| ApiError::bad_request(engine, "`prompt` is missing"))?
            .measure(core)?,
        Shape::Chat => {
            let texts = body.messages.iter().flatten().map(Message::text);
            let count = core
                .counter
                .chat(texts)
                .map_err(|fault| ApiError::bad_request(engine, fault.message))?;
            (1, count)
        }
    };
    let default =
        (shape == Shape::Text && matches!(engine, Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm)).then_some(16);
    Ok(limits::RequestSize {
        rows,
        input,
        output: body.output()?.or(default),
        min_tokens: body.min_tokens.unwrap_or(0),
    })
}

#[derive(Deserialize)]
struct Tokenize {
    prompt: String,
    #[serde(default = "yes")]
    add_special_tokens: bool,
}

fn yes() -> bool {
    true
}

async fn tokenize(State(core): State<Arc<EngineCore>>, Json(body): Json<Tokenize>) -> Response {
    match core.counter.tokens(&body.prompt, body.add_special_tokens) {
        Ok(tokens) => {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            Json(json!({ "count": ids.len(), "max_model_len": core.max_total, "tokens": ids })).into_response()
        }
        Err(fault) => ApiError::bad_request(Engine::Vllm, fault.message).respond(Engine::Vllm),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Chat,
}

pub(super) struct Answer {
    engine: Engine,
    shape: Shape,
    id: u64,
    rows: u64,
    input: u64,
    produced: u64,
    usage: bool,
    usage_always: bool,
    ids: bool,
    /// Start of every event, up to the choices.
    event_start: String,
}

impl Answer {
    pub(super) fn new(core: &EngineCore, shape: Shape, id: u64, rows: u64, input: u64, body: &Body) -> Self {
        let engine = core.setup.profile.engine;
        let (name, prefix) = match shape {
            Shape::Text => ("text_completion", "cmpl-"),
            Shape::Chat => ("chat.completion.chunk", "chatcmpl-"),
        };
        let model = Value::from(core.setup.model.as_str());
        let options = body.stream_options.as_ref();
        Self {
            engine,
            shape,
            id,
            rows,
            input,
            produced: 0,
            usage: options.is_some_and(|options| options.include_usage) || engine == Engine::Transformers,
            usage_always: options.is_some_and(|options| options.continuous_usage_stats),
            ids: body.return_token_ids == Some(true) && engine == Engine::Vllm,
            event_start: format!(
                "{{\"id\":\"{prefix}{id}\",\"object\":\"{name}\",\"created\":0,\"model\":{model},\"system_fingerprint\":\"SIMULATED\",\"choices\":"
            ),
        }
    }

    pub(super) fn whole(&self, whole: &CompleteAnswer) -> Value {
        let text = text(self.id, whole.tokens);
        let (object, mut choice) = match self.shape {
            Shape::Text => ("text_completion", json!({ "index": 0, "text": text, "logprobs": null })),
            Shape::Chat => (
                "chat.completion",
                json!({ "index": 0, "message": { "role": "assistant", "content": text }, "logprobs": null }),
            ),
        };
        choice["finish_reason"] = reason(whole.finish).into();
        let usage = self.usage(whole.tokens);
        let event_start: String = format!("{}[]}}", self.event_start);
        let mut body: Value = serde_json::from_str(&event_start).unwrap_or_default();
        body["object"] = object.into();
        body["choices"] = json!([choice]);
        body["usage"] = usage;
        body
    }

    fn usage(&self, tokens: u64) -> Value {
        let (input, output) = (self.rows * self.input, self.rows * tokens);
        json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
    }

    /// transformers sends usage with the last token, the others in a separate event.
    fn usage_in_last(&self) -> bool {
        self.engine == Engine::Transformers
    }
}

impl StreamFormat for Answer {
    fn open(&mut self, out: &mut String) {
        if self.shape == Shape::Chat && self.engine != Engine::Tgi {
            out.push_str("data: ");
            out.push_str(&self.event_start);
            out.push_str("[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
        }
    }

    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>) {
        self.produced += tokens.len() as u64;
        out.push_str("data: ");
        out.push_str(&self.event_start);
        out.push_str(match self.shape {
            Shape::Text => "[{\"index\":0,\"text\":\"",
            Shape::Chat => "[{\"index\":0,\"delta\":{\"content\":\"",
        });
        for token in tokens {
            token.text(out);
        }
        out.push('"');
        if self.shape == Shape::Chat {
            out.push('}');
        }
        let _ = match finish {
            Some(finish) => write!(out, ",\"logprobs\":null,\"finish_reason\":\"{}\"", reason(finish)),
            None => write!(out, ",\"logprobs\":null,\"finish_reason\":null"),
        };
        if self.ids {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            let _ = write!(out, ",\"token_ids\":{ids:?}");
        }
        out.push_str("}]");
        if self.usage_always || (self.usage_in_last() && finish.is_some()) {
            let _ = write!(out, ",\"usage\":{}", self.usage(self.produced));
        }
        out.push_str("}\n\n");
    }

    fn close(&mut self, out: &mut String) {
        if self.usage && !self.usage_in_last() {
            let _ = write!(
                out,
                "data: {}[],\"usage\":{}}}\n\n",
                self.event_start,
                self.usage(self.produced)
            );
        }
        if self.engine != Engine::Transformers {
            out.push_str("data: [DONE]\n\n");
        }
    }

    fn failed(&mut self, out: &mut String, message: &str) {
        let body = match self.engine {
            // transformers does not escape the message, so one with quotes is not valid JSON.
            Engine::Transformers => format!("{{\"error\": \"{message}\"}}"),
            // Up to 1.2 the stream just ends.
            Engine::TensorrtLlm => return,
            engine => ApiError::generation_failed(engine, message).body(engine).to_string(),
        };
        let _ = write!(out, "data: {body}\n\n");
        if matches!(self.engine, Engine::Vllm | Engine::Sglang) {
            out.push_str("data: [DONE]\n\n");
        }
    }
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "stop",
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<Prompt>,
    pub(super) messages: Option<Vec<Message>>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    /// llama.cpp's own name, accepted here too.
    n_predict: Option<u64>,
    /// transformers: a string of JSON.
    generation_config: Option<String>,
    pub(super) min_tokens: Option<u64>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    /// Token counts at the end.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Token counts with every event.
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    content: Option<String>,
}

impl Message {
    pub(super) fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct GenerationConfig {
    max_new_tokens: Option<u64>,
}

impl Body {
    /// Number of tokens to produce, if the request sets it.
    pub(super) fn output(&self) -> Result<Option<u64>, ApiError> {
        let configured = match &self.generation_config {
            None => None,
            Some(text) => {
                let config: GenerationConfig = serde_json::from_str(text).map_err(|error| {
                    ApiError::bad_request(Engine::Transformers, format!("generation_config: {error}"))
                })?;
                config.max_new_tokens
            }
        };
        Ok(configured
            .or(self.max_completion_tokens)
            .or(self.max_tokens)
            .or(self.n_predict))
    }
}
