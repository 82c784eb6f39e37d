//! llama-server's own routes: `/completion`, `/props`, `/slots`, `/tokenize`, health and metrics.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stream::{AnswerReader, Finish, OutputToken, StreamFormat, read_all, text};
use super::{ApiError, Prompt, limits, metrics, stream};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;

pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/completion", post(completion))
        .route("/completions", post(completion))
        .route("/props", get(props))
        .route("/slots", get(slots))
        .route("/tokenize", post(tokenize))
        .route("/health", get(|| async { Json(json!({ "status": "ok" })) }))
        .route(
            "/metrics",
            get(|State(core): State<Arc<EngineCore>>| async move { metrics::page(&core) }),
        )
}

#[derive(Debug, Deserialize)]
struct Body {
    prompt: Prompt,
    /// -1: until the slot is full.
    n_predict: Option<i64>,
    max_tokens: Option<i64>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    return_tokens: bool,
}

async fn completion(State(core): State<Arc<EngineCore>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    let parsed = match body {
        Ok(Json(body)) => admitted(&core, &body).map(|admitted| (body, admitted)),
        Err(rejection) => Err(ApiError::bad_request(Engine::Llamacpp, rejection.body_text())),
    };
    let (body, (mut reader, mut answer)) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return error.respond(Engine::Llamacpp),
    };
    if body.stream {
        return stream::respond(reader, answer);
    }
    match read_all(&mut reader).await {
        Ok(whole) => {
            answer.produced = whole.tokens;
            answer.finish = whole.finish;
            let mut body = answer.end();
            body["content"] = text(answer.request, whole.tokens).into();
            Json(body).into_response()
        }
        Err(message) => ApiError::generation_failed(Engine::Llamacpp, message).respond(Engine::Llamacpp),
    }
}

fn admitted(core: &Arc<EngineCore>, body: &Body) -> Result<(AnswerReader, Events), ApiError> {
    if core.overloaded() {
        return Err(ApiError::overloaded(Engine::Llamacpp));
    }
    let (rows, input) = body.prompt.measure(core)?;
    let wanted = body
        .n_predict
        .or(body.max_tokens)
        .and_then(|tokens| u64::try_from(tokens).ok());
    let size = limits::RequestSize {
        rows,
        input,
        output: wanted,
        min_tokens: 0,
    };
    let output = limits::output_tokens(core, size)?;
    let reader = AnswerReader::new(core.submit(rows, input, output, 0));
    let events = Events {
        request: reader.id(),
        input,
        produced: 0,
        finish: Finish::Length,
        truncated: wanted.is_none_or(|wanted| wanted > output),
        tokens: body.return_tokens,
        model: core.setup.model.clone(),
    };
    Ok((reader, events))
}

/// Stream events of `/completion`. There is no final `[DONE]`.
struct Events {
    request: u64,
    input: u64,
    produced: u64,
    finish: Finish,
    truncated: bool,
    tokens: bool,
    model: String,
}

impl Events {
    /// The last event, or the whole answer without its text.
    fn end(&self) -> Value {
        json!({
            "index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": true, "model": self.model,
            "stop_type": match self.finish { Finish::Length => "limit", Finish::Stop => "eos" },
            "truncated": self.truncated && self.finish == Finish::Length,
            "tokens_predicted": self.produced, "tokens_evaluated": self.input, "tokens_cached": self.input + self.produced,
            "timings": { "cache_n": 0, "prompt_n": self.input, "predicted_n": self.produced },
        })
    }
}

impl StreamFormat for Events {
    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>) {
        self.produced += tokens.len() as u64;
        let (mut content, mut ids) = (String::new(), Vec::new());
        for token in tokens {
            token.text(&mut content);
            if self.tokens {
                ids.push(token.id);
            }
        }
        let _ = write!(
            out,
            "data: {{\"index\":0,\"content\":\"{content}\",\"tokens\":{ids:?},\"stop\":false,\"id_slot\":0,\"tokens_predicted\":{},\"tokens_evaluated\":{}}}\n\n",
            self.produced, self.input
        );
        if let Some(finish) = finish {
            self.finish = finish;
        }
    }

    fn close(&mut self, out: &mut String) {
        let _ = write!(out, "data: {}\n\n", self.end());
    }

    fn failed(&mut self, out: &mut String, message: &str) {
        let _ = write!(
            out,
            "data: {}\n\n",
            ApiError::generation_failed(Engine::Llamacpp, message).body(Engine::Llamacpp)
        );
    }
}

async fn props(State(core): State<Arc<EngineCore>>) -> Response {
    Json(json!({
        "default_generation_settings": { "n_ctx": core.max_total },
        "total_slots": core.setup.max_seqs, "model_path": core.setup.model,
        "build_info": core.setup.version(),
    }))
    .into_response()
}

async fn slots(State(core): State<Arc<EngineCore>>) -> Response {
    let running = core.snapshot().running as u64;
    let slots: Vec<_> = (0..core.setup.max_seqs)
        .map(|id| json!({ "id": id, "n_ctx": core.max_total, "is_processing": id < running }))
        .collect();
    Json(slots).into_response()
}

#[derive(Deserialize)]
struct Tokenize {
    content: String,
    #[serde(default)]
    add_special: bool,
}

async fn tokenize(State(core): State<Arc<EngineCore>>, Json(body): Json<Tokenize>) -> Response {
    match core.counter.tokens(&body.content, body.add_special) {
        Ok(tokens) => {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            Json(json!({ "tokens": ids })).into_response()
        }
        Err(fault) => ApiError::bad_request(Engine::Llamacpp, fault.message).respond(Engine::Llamacpp),
    }
}
