//! Ollama's own routes: `/api/generate` as NDJSON, and information on models. The server answers before its model is
//! loaded.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stream::{AnswerReader, Finish, OutputToken, StreamFormat, read_all, text};
use super::{ApiError, limits, stream};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;

/// After this many identical chunks Ollama drops a request silently.
const REPEATS: u64 = 30;

pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/", get(|| async { "Ollama is running" }))
        .route("/api/generate", post(generate))
        .route("/api/ps", get(ps))
        .route("/api/show", post(show))
        .route("/api/tags", get(tags))
        .route("/api/version", get(version))
        // Ollama has no such page; the adapter of the simulated engine asks for it.
        .route("/health", get(|| async { StatusCode::OK }))
}

#[derive(Debug, Deserialize)]
struct Body {
    model: String,
    #[serde(default)]
    prompt: String,
    #[serde(default = "yes")]
    stream: bool,
    #[serde(default = "yes")]
    truncate: bool,
    #[serde(default)]
    options: Sampling,
}

#[derive(Debug, Default, Deserialize)]
struct Sampling {
    num_ctx: Option<u64>,
    /// -1: until the end of text.
    num_predict: Option<i64>,
    temperature: Option<f64>,
}

fn yes() -> bool {
    true
}

async fn generate(State(core): State<Arc<EngineCore>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    let body = match body {
        Ok(Json(body)) => body,
        Err(rejection) => return ApiError::bad_request(Engine::Ollama, rejection.body_text()).respond(Engine::Ollama),
    };
    if let Some(error) = unknown(&core, &body.model) {
        return error.respond(Engine::Ollama);
    }
    core.wait_loaded().await;
    if let Some(why) = &core.load_error {
        return ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "load", why.clone()).respond(Engine::Ollama);
    }
    if body.prompt.is_empty() {
        return Json(json!({ "model": body.model, "response": "", "done": true, "done_reason": "load" }))
            .into_response();
    }
    let (mut reader, mut lines) = match admitted(&core, &body) {
        Ok(admitted) => admitted,
        Err(error) => return error.respond(Engine::Ollama),
    };
    if body.stream {
        return stream::respond(reader, lines);
    }
    match read_all(&mut reader).await {
        Ok(answer) => {
            lines.produced = answer.tokens;
            let mut last = lines.end(answer.finish);
            last["response"] = text(reader.id(), answer.tokens).into();
            Json(last).into_response()
        }
        Err(message) => ApiError::generation_failed(Engine::Ollama, message).respond(Engine::Ollama),
    }
}

fn admitted(core: &Arc<EngineCore>, body: &Body) -> Result<(AnswerReader, Lines), ApiError> {
    if core.overloaded() {
        return Err(ApiError::overloaded(Engine::Ollama));
    }
    let slot = core.max_total;
    if body.options.num_ctx.is_some_and(|num_ctx| num_ctx != slot) {
        let message = "SIMULATED: a num_ctx other than that of the start would reload the model";
        return Err(ApiError::bad_request(Engine::Ollama, message));
    }
    let counted = core.counter.count(&body.prompt, true);
    let mut input = counted.map_err(|fault| ApiError::bad_request(Engine::Ollama, fault.message))?;
    if body.truncate {
        // Ollama truncates silently.
        input = input.min(slot.saturating_sub(1));
    }
    let size = limits::RequestSize {
        rows: 1,
        input,
        output: body.options.num_predict.and_then(|tokens| u64::try_from(tokens).ok()),
        min_tokens: 0,
    };
    let output = limits::output_tokens(core, size)?;
    let reader = AnswerReader::new(core.submit(1, input, output, 0));
    let lines = Lines {
        model: body.model.clone(),
        input,
        produced: 0,
        // Greedy decoding with random weights repeats itself.
        repeats: body.options.temperature == Some(0.0),
    };
    Ok((reader, lines))
}

/// NDJSON lines of `/api/generate`.
struct Lines {
    model: String,
    input: u64,
    produced: u64,
    repeats: bool,
}

impl Lines {
    fn end(&self, finish: Finish) -> Value {
        let reason = match finish {
            Finish::Length => "length",
            Finish::Stop => "stop",
        };
        json!({
            "model": self.model, "created_at": "SIMULATED", "response": "", "done": true, "done_reason": reason,
            "total_duration": 1, "prompt_eval_count": self.input, "prompt_eval_duration": 1,
            "eval_count": self.produced, "eval_duration": 1,
        })
    }

    /// Whether the repetition guard has dropped the answer.
    fn dropped(&self) -> bool {
        self.repeats && self.produced > REPEATS
    }
}

impl StreamFormat for Lines {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>) {
        for token in tokens {
            if self.dropped() {
                return;
            }
            self.produced += 1;
            let mut text = String::new();
            if self.repeats {
                text.push_str(" w");
            } else {
                token.text(&mut text);
            }
            let line = json!({ "model": self.model, "created_at": "SIMULATED", "response": text, "done": false });
            let _ = writeln!(out, "{line}");
        }
        if let Some(finish) = finish.filter(|_| !self.dropped()) {
            let _ = writeln!(out, "{}", self.end(finish));
        }
    }

    fn close(&mut self, _out: &mut String) {}

    fn failed(&mut self, out: &mut String, message: &str) {
        let _ = writeln!(
            out,
            "{}",
            ApiError::generation_failed(Engine::Ollama, message).body(Engine::Ollama)
        );
    }
}

fn unknown(core: &EngineCore, model: &str) -> Option<ApiError> {
    let tagged = |name: &str| {
        if name.contains(':') {
            name.to_owned()
        } else {
            format!("{name}:latest")
        }
    };
    (tagged(model) != tagged(&core.setup.model))
        .then(|| ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("model '{model}' not found")))
}

#[derive(Deserialize)]
struct Named {
    model: String,
}

async fn show(State(core): State<Arc<EngineCore>>, Json(body): Json<Named>) -> Response {
    match unknown(&core, &body.model) {
        Some(error) => error.respond(Engine::Ollama),
        None => Json(json!({
            "details": { "format": "gguf", "family": "llama", "quantization_level": "F16" },
            "model_info": { "llama.context_length": core.setup.profile.defaults.max_position_embeddings },
        }))
        .into_response(),
    }
}

async fn ps(State(core): State<Arc<EngineCore>>) -> Response {
    let loaded = core.is_loaded() && core.load_error.is_none();
    let used: u64 = core.devices.reading().devices.iter().map(|device| device.used).sum();
    let models = loaded.then(|| {
        json!({
            "name": core.setup.model, "model": core.setup.model, "size": used, "size_vram": used,
            "context_length": core.max_total,
        })
    });
    Json(json!({ "models": models.into_iter().collect::<Vec<_>>() })).into_response()
}

async fn tags(State(core): State<Arc<EngineCore>>) -> Response {
    Json(json!({ "models": [{ "name": core.setup.model, "model": core.setup.model }] })).into_response()
}

async fn version(State(core): State<Arc<EngineCore>>) -> Response {
    Json(json!({ "version": core.setup.version() })).into_response()
}
