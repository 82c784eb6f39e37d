//! Ollama's own routes: `/api/generate` as lines of JSON, and what tells of models. The server answers before its model is loaded.

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

use super::reader::{Finish, Reader, whole};
use super::refusal::Refusal;
use super::sse::{Produced, Wire, text};
use super::{admit, sse};
use crate::sim::profile::Engine;
use crate::sim::service::Service;

/// Chunks of the same text after which a request is dropped without a word.
const REPEATS: u64 = 30;

/// Ollama's own routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/", get(|| async { "Ollama is running" }))
        .route("/api/generate", post(generate))
        .route("/api/ps", get(ps))
        .route("/api/show", post(show))
        .route("/api/tags", get(tags))
        .route("/api/version", get(version))
        // The real one has no such page; the simulated engine's own adapter asks it.
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

async fn generate(State(service): State<Arc<Service>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    let body = match body {
        Ok(Json(body)) => body,
        Err(rejection) => return Refusal::bad(Engine::Ollama, rejection.body_text()).respond(Engine::Ollama),
    };
    if let Some(refusal) = unknown(&service, &body.model) {
        return refusal.respond(Engine::Ollama);
    }
    service.opened().await;
    if let Some(why) = &service.unloadable {
        return Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "load", why.clone()).respond(Engine::Ollama);
    }
    if body.prompt.is_empty() {
        return Json(json!({ "model": body.model, "response": "", "done": true, "done_reason": "load" }))
            .into_response();
    }
    let (mut reader, mut lines) = match admitted(&service, &body) {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.respond(Engine::Ollama),
    };
    if body.stream {
        return sse::respond(reader, lines);
    }
    match whole(&mut reader).await {
        Ok(answer) => {
            lines.produced = answer.tokens;
            let mut last = lines.end(answer.finish);
            last["response"] = text(reader.id(), answer.tokens).into();
            Json(last).into_response()
        }
        Err(message) => Refusal::broken(Engine::Ollama, message).respond(Engine::Ollama),
    }
}

fn admitted(service: &Arc<Service>, body: &Body) -> Result<(Reader, Lines), Refusal> {
    if service.overloaded() {
        return Err(Refusal::overloaded(Engine::Ollama));
    }
    let slot = service.max_total;
    if body.options.num_ctx.is_some_and(|asked| asked != slot) {
        let message = "SIMULATED: another num_ctx than that of the start would load the model anew";
        return Err(Refusal::bad(Engine::Ollama, message));
    }
    let counted = service.counter.count(&body.prompt, true);
    let mut input = counted.map_err(|fault| Refusal::bad(Engine::Ollama, fault.message))?;
    if body.truncate {
        // Cut without a word.
        input = input.min(slot.saturating_sub(1));
    }
    let ask = admit::Ask {
        rows: 1,
        input,
        output: body.options.num_predict.and_then(|tokens| u64::try_from(tokens).ok()),
        least: 0,
    };
    let output = admit::output(service, ask)?;
    let reader = Reader::new(service.submit(1, input, output, 0));
    let lines = Lines {
        model: body.model.clone(),
        input,
        produced: 0,
        // What random weights do where nothing is drawn.
        repeats: body.options.temperature == Some(0.0),
    };
    Ok((reader, lines))
}

/// Lines of `/api/generate`.
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

    /// Whether the guard against repetition has dropped the answer.
    fn dropped(&self) -> bool {
        self.repeats && self.produced > REPEATS
    }
}

impl Wire for Lines {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn tokens(&mut self, out: &mut String, tokens: &[Produced], finish: Option<Finish>) {
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
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        }
        if let Some(finish) = finish.filter(|_| !self.dropped()) {
            let _ = writeln!(out, "{}", self.end(finish));
        }
    }

    fn close(&mut self, _out: &mut String) {}

    fn failed(&mut self, out: &mut String, message: &str) {
        let _ = writeln!(out, "{}", Refusal::broken(Engine::Ollama, message).body(Engine::Ollama));
    }
}

fn unknown(service: &Service, model: &str) -> Option<Refusal> {
    let tagged = |name: &str| {
        if name.contains(':') {
            name.to_owned()
        } else {
            format!("{name}:latest")
        }
    };
    (tagged(model) != tagged(&service.setup.model))
        .then(|| Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("model '{model}' not found")))
}

#[derive(Deserialize)]
struct Named {
    model: String,
}

async fn show(State(service): State<Arc<Service>>, Json(body): Json<Named>) -> Response {
    match unknown(&service, &body.model) {
        Some(refusal) => refusal.respond(Engine::Ollama),
        None => Json(json!({
            "details": { "format": "gguf", "family": "llama", "quantization_level": "F16" },
            "model_info": { "llama.context_length": service.setup.profile.defaults.max_position_embeddings },
        }))
        .into_response(),
    }
}

async fn ps(State(service): State<Arc<Service>>) -> Response {
    let loaded = service.is_open() && service.unloadable.is_none();
    let used: u64 = service.gauge.reading().devices.iter().map(|device| device.used).sum();
    let models = loaded.then(|| {
        json!({
            "name": service.setup.model, "model": service.setup.model, "size": used, "size_vram": used,
            "context_length": service.max_total,
        })
    });
    Json(json!({ "models": models.into_iter().collect::<Vec<_>>() })).into_response()
}

async fn tags(State(service): State<Arc<Service>>) -> Response {
    Json(json!({ "models": [{ "name": service.setup.model, "model": service.setup.model }] })).into_response()
}

async fn version(State(service): State<Arc<Service>>) -> Response {
    Json(json!({ "version": service.setup.version() })).into_response()
}
