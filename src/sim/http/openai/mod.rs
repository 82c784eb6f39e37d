//! OpenAI routes: completions and chat, streaming or not, models, and vLLM's additions (version, tokenize).

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
use super::api_error::ApiError;
use super::reader::{AnswerReader, read_all};
use super::{admit, metrics, stream, tensorrt_llm};
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
    let output = match admit::output_tokens(&core, size) {
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

fn size(core: &EngineCore, body: &Body, shape: Shape) -> Result<admit::RequestSize, ApiError> {
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
            let texts = body.messages.iter().flatten().map(request::Message::text);
            let count = core
                .counter
                .chat(texts)
                .map_err(|fault| ApiError::bad_request(engine, fault.message))?;
            (1, count)
        }
    };
    let default =
        (shape == Shape::Text && matches!(engine, Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm)).then_some(16);
    Ok(admit::RequestSize {
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
