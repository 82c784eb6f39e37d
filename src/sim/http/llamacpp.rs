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

use super::prompt::Prompt;
use super::reader::{Finish, Reader, whole};
use super::refusal::Refusal;
use super::sse::{Produced, Wire, text};
use super::{admit, metrics, sse};
use crate::sim::profile::Engine;
use crate::sim::service::Service;

/// llama-server's own routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/completion", post(completion))
        .route("/completions", post(completion))
        .route("/props", get(props))
        .route("/slots", get(slots))
        .route("/tokenize", post(tokenize))
        .route("/health", get(|| async { Json(json!({ "status": "ok" })) }))
        .route(
            "/metrics",
            get(|State(service): State<Arc<Service>>| async move { metrics::page(&service) }),
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

async fn completion(State(service): State<Arc<Service>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    let asked = match body {
        Ok(Json(body)) => admitted(&service, &body).map(|admitted| (body, admitted)),
        Err(rejection) => Err(Refusal::bad(Engine::Llamacpp, rejection.body_text())),
    };
    let (body, (mut reader, mut answer)) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.respond(Engine::Llamacpp),
    };
    if body.stream {
        return sse::respond(reader, answer);
    }
    match whole(&mut reader).await {
        Ok(whole) => {
            answer.produced = whole.tokens;
            answer.finish = whole.finish;
            let mut body = answer.end();
            body["content"] = text(answer.request, whole.tokens).into();
            Json(body).into_response()
        }
        Err(message) => Refusal::broken(Engine::Llamacpp, message).respond(Engine::Llamacpp),
    }
}

fn admitted(service: &Arc<Service>, body: &Body) -> Result<(Reader, Events), Refusal> {
    if service.overloaded() {
        return Err(Refusal::overloaded(Engine::Llamacpp));
    }
    let (rows, input) = body.prompt.size(service)?;
    let wanted = body
        .n_predict
        .or(body.max_tokens)
        .and_then(|tokens| u64::try_from(tokens).ok());
    let ask = admit::Ask {
        rows,
        input,
        output: wanted,
        least: 0,
    };
    let output = admit::output(service, ask)?;
    let reader = Reader::new(service.submit(rows, input, output, 0));
    let events = Events {
        request: reader.id(),
        input,
        produced: 0,
        finish: Finish::Length,
        truncated: wanted.is_none_or(|wanted| wanted > output),
        tokens: body.return_tokens,
        model: service.setup.model.clone(),
    };
    Ok((reader, events))
}

/// Events of `/completion`. No `[DONE]` at the end.
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
    /// The last event, or the whole answer but its text.
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

impl Wire for Events {
    fn tokens(&mut self, out: &mut String, tokens: &[Produced], finish: Option<Finish>) {
        self.produced += tokens.len() as u64;
        let (mut content, mut ids) = (String::new(), Vec::new());
        for token in tokens {
            token.text(&mut content);
            if self.tokens {
                ids.push(token.id);
            }
        }
        // Writing to a string cannot fail.
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
            Refusal::broken(Engine::Llamacpp, message).body(Engine::Llamacpp)
        );
    }
}

async fn props(State(service): State<Arc<Service>>) -> Response {
    Json(json!({
        "default_generation_settings": { "n_ctx": service.max_total },
        "total_slots": service.setup.max_seqs, "model_path": service.setup.model,
        "build_info": service.setup.version(),
    }))
    .into_response()
}

async fn slots(State(service): State<Arc<Service>>) -> Response {
    let running = service.snapshot().running as u64;
    let slots: Vec<_> = (0..service.setup.max_seqs)
        .map(|id| json!({ "id": id, "n_ctx": service.max_total, "is_processing": id < running }))
        .collect();
    Json(slots).into_response()
}

#[derive(Deserialize)]
struct Tokenize {
    content: String,
    #[serde(default)]
    add_special: bool,
}

async fn tokenize(State(service): State<Arc<Service>>, Json(body): Json<Tokenize>) -> Response {
    match service.counter.tokens(&body.content, body.add_special) {
        Ok(tokens) => {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            Json(json!({ "tokens": ids })).into_response()
        }
        Err(fault) => Refusal::bad(Engine::Llamacpp, fault.message).respond(Engine::Llamacpp),
    }
}
