//! HTTP APIs of the simulated engine. Each engine has its routes routes, answers and error bodies. Shared: counting a
//! prompt's tokens, reading an answer from the scheduler ([`reader`]) and streaming it ([`stream`]).

mod admit;
mod api_error;
mod llamacpp;
mod metrics;
mod ollama;
mod openai;
mod prompt;
mod reader;
mod sglang;
mod stream;
mod tensorrt_llm;
mod tgi;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use super::engine_core::EngineCore;
use super::profile::Engine;
use api_error::ApiError;

/// Enough for a prompt of more than a million token ids.
const BODY_LIMIT: usize = 64 << 20;

pub(super) fn router(core: Arc<EngineCore>) -> Router {
    let routes = match core.setup.profile.engine {
        Engine::Vllm => openai::vllm(),
        Engine::Transformers => openai::transformers(),
        Engine::Sglang => openai::routes().merge(sglang::routes()),
        Engine::TensorrtLlm => openai::routes().merge(tensorrt_llm::routes()),
        Engine::Tgi => openai::routes().merge(tgi::routes()),
        Engine::Llamacpp => openai::routes().merge(llamacpp::routes()),
        Engine::Ollama => openai::routes().merge(ollama::routes()),
    };
    routes
        .route("/sim/memory", get(memory))
        .layer(middleware::from_fn_with_state(Arc::clone(&core), failing))
        .layer(middleware::from_fn_with_state(Arc::clone(&core), while_loading))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(core)
}

/// Memory of the simulated device, for an engine in a process or container; the same as the in-process handle's
/// reading.
async fn memory(State(core): State<Arc<EngineCore>>) -> Response {
    Json(core.devices.reading()).into_response()
}

/// A dead engine answers 503 everywhere. A failing engine refuses POST requests, if configured so.
async fn failing(State(core): State<Arc<EngineCore>>, request: Request, next: Next) -> Response {
    if request.uri().path() == "/sim/memory" {
        return next.run(request).await;
    }
    let refused = core.setup.misbehave.fail_request.as_ref();
    let status = refused.and_then(|failed| StatusCode::from_u16(failed.status?).ok());
    if let (Some(failed), Some(status)) = (refused, status.filter(|_| request.method() == Method::POST))
        && core.next_request_misbehaves()
    {
        core.apply_failure(failed);
        return (status, failed.message.clone().unwrap_or_default()).into_response();
    }
    if core.is_dead() {
        return (StatusCode::SERVICE_UNAVAILABLE, "SIMULATED: dead").into_response();
    }
    next.run(request).await
}

/// llama-server and SGLang accept connections while loading, and Ollama even answers; the others do not listen yet.
async fn while_loading(State(core): State<Arc<EngineCore>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let answers = core.setup.profile.engine == Engine::Ollama && (path == "/" || path.starts_with("/api/"));
    if answers || core.is_loaded() || path == "/sim/memory" {
        return next.run(request).await;
    }
    if core.setup.profile.engine == Engine::Sglang {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    ApiError::loading().respond(Engine::Llamacpp)
}
