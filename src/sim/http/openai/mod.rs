//! The OpenAI routes: completions and chat, streaming or whole, models, and what vLLM adds (version, tokenize).

mod answer;
mod request;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use self::answer::{Answer, Shape};
use self::request::Body;
use super::reader::{Reader, whole};
use super::refusal::Refusal;
use super::{admit, metrics, sse, tensorrt_llm};
use crate::sim::profile::Engine;
use crate::sim::service::Service;

/// What every engine has.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        // Only vLLM has this; every profile does, as the mark of the simulation.
        .route("/version", get(version))
}

/// What vLLM has.
pub(super) fn vllm() -> Router<Arc<Service>> {
    routes()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ping", get(|| async { StatusCode::OK }))
        .route("/tokenize", post(tokenize))
        .route(
            "/metrics",
            get(|State(service): State<Arc<Service>>| async move { metrics::page(&service) }),
        )
}

/// What `transformers serve` has.
pub(super) fn transformers() -> Router<Arc<Service>> {
    routes().route("/health", get(|| async { Json(json!({ "status": "ok" })) }))
}

async fn version(State(service): State<Arc<Service>>) -> Response {
    Json(json!({ "version": service.setup.version() })).into_response()
}

async fn models(State(service): State<Arc<Service>>) -> Response {
    let length = (service.max_total < u64::MAX).then_some(service.max_total);
    let card = json!({
        "id": service.setup.model, "object": "model", "created": 0, "owned_by": "SIMULATED",
        "root": service.setup.model, "parent": null, "max_model_len": length,
    });
    Json(json!({ "object": "list", "data": [card] })).into_response()
}

async fn completions(state: State<Arc<Service>>, body: Bytes) -> Response {
    handle(state, body, Shape::Text).await
}

async fn chat(state: State<Arc<Service>>, body: Bytes) -> Response {
    handle(state, body, Shape::Chat).await
}

async fn handle(State(service): State<Arc<Service>>, body: Bytes, shape: Shape) -> Response {
    let engine = service.setup.profile.engine;
    let asked = read(engine, &body).and_then(|body| ask(&service, &body, shape).map(|ask| (body, ask)));
    let (body, ask) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.respond(engine),
    };
    let output = match admit::output(&service, ask) {
        Ok(output) => output,
        Err(refusal) => return refusal.respond(engine),
    };
    if engine == Engine::TensorrtLlm
        && let Some(ended) = tensorrt_llm::without_room(&service, ask.input, output)
    {
        return ended;
    }
    let cached = match (&body.prompt, shape) {
        (Some(prompt), Shape::Text) if service.keeps_prefixes() => {
            prompt.heads(&service).map_or(0, |heads| service.look_up(&heads))
        }
        _ => 0,
    };
    let mut reader = Reader::new(service.submit(ask.rows, ask.input, output, cached));
    let answer = Answer::new(&service, shape, reader.id(), ask.rows, ask.input, &body);
    if body.stream == Some(true) {
        return sse::respond(reader, answer);
    }
    match whole(&mut reader).await {
        Ok(whole) => Json(answer.whole(&whole)).into_response(),
        Err(message) => Refusal::broken(engine, message).respond(engine),
    }
}

/// The body of a request. Most engines do not mind fields that they do not know.
fn read(engine: Engine, body: &[u8]) -> Result<Body, Refusal> {
    if engine == Engine::TensorrtLlm {
        tensorrt_llm::check_fields(body)?;
    }
    serde_json::from_slice(body).map_err(|error| Refusal::bad(engine, error.to_string()))
}

fn ask(service: &Service, body: &Body, shape: Shape) -> Result<admit::Ask, Refusal> {
    let engine = service.setup.profile.engine;
    if service.overloaded() {
        return Err(Refusal::overloaded(engine));
    }
    if let Some(model) = body
        .model
        .as_ref()
        .filter(|model| engine == Engine::Vllm && **model != service.setup.model)
    {
        let message = format!("The model `{model}` does not exist.");
        return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFoundError", message));
    }
    // A name without a revision means the main one.
    let pinned = |name: &str| name.trim_end_matches("@main") == service.setup.model.trim_end_matches("@main");
    if let Some(model) = body
        .model
        .as_ref()
        .filter(|model| engine == Engine::Transformers && !pinned(model))
    {
        let message = format!("Server is pinned to '{}'; got '{model}'", service.setup.model);
        return Err(Refusal::bad(engine, message));
    }
    if body.stream != Some(true) && body.stream_options.is_some() && engine == Engine::Vllm {
        return Err(Refusal::bad(
            engine,
            "Stream options can only be defined when `stream=True`.",
        ));
    }
    let (rows, input) = match shape {
        Shape::Text => body
            .prompt
            .as_ref()
            .ok_or_else(|| Refusal::bad(engine, "`prompt` is missing"))?
            .size(service)?,
        Shape::Chat => {
            let texts = body.messages.iter().flatten().map(request::Message::text);
            let count = service
                .counter
                .chat(texts)
                .map_err(|fault| Refusal::bad(engine, fault.message))?;
            (1, count)
        }
    };
    let default =
        (shape == Shape::Text && matches!(engine, Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm)).then_some(16);
    Ok(admit::Ask {
        rows,
        input,
        output: body.output()?.or(default),
        least: body.min_tokens.unwrap_or(0),
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

async fn tokenize(State(service): State<Arc<Service>>, Json(body): Json<Tokenize>) -> Response {
    match service.counter.tokens(&body.prompt, body.add_special_tokens) {
        Ok(tokens) => {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            Json(json!({ "count": ids.len(), "max_model_len": service.max_total, "tokens": ids })).into_response()
        }
        Err(fault) => Refusal::bad(Engine::Vllm, fault.message).respond(Engine::Vllm),
    }
}
