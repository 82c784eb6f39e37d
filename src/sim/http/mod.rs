//! The wire protocols of the simulated engine. Each engine has its own routes, answers and error bodies; what all share is reading
//! a prompt's size, reading an answer out of the scheduler ([`reader`]), and streaming it ([`sse`]).

mod admit;
mod llamacpp;
mod metrics;
mod ollama;
mod openai;
mod prompt;
mod reader;
mod refusal;
mod sglang;
mod sse;
mod tensorrt_llm;
mod tgi;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use super::profile::Engine;
use super::service::Service;
use refusal::Refusal;

/// Longest request body: a prompt of a million token ids and more.
const BODY_LIMIT: usize = 64 << 20;

/// Every route of this engine.
pub(super) fn router(service: Arc<Service>) -> Router {
    let own = match service.setup.profile.engine {
        Engine::Vllm => openai::vllm(),
        Engine::Transformers => openai::transformers(),
        Engine::Sglang => openai::routes().merge(sglang::routes()),
        Engine::TensorrtLlm => openai::routes().merge(tensorrt_llm::routes()),
        Engine::Tgi => openai::routes().merge(tgi::routes()),
        Engine::Llamacpp => openai::routes().merge(llamacpp::routes()),
        Engine::Ollama => openai::routes().merge(ollama::routes()),
    };
    own.route("/sim/memory", get(memory))
        .layer(middleware::from_fn_with_state(Arc::clone(&service), failing))
        .layer(middleware::from_fn_with_state(Arc::clone(&service), while_loading))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(service)
}

/// Memory of the simulated device: the readings that the in-process handle gives, for an engine in a process or container.
async fn memory(State(service): State<Arc<Service>>) -> Response {
    Json(service.gauge.reading()).into_response()
}

/// A dead engine answers nothing but that it is dead; a failing one refuses what is posted, where it was told to.
async fn failing(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    if request.uri().path() == "/sim/memory" {
        return next.run(request).await;
    }
    let refused = service.setup.misbehave.fail_request.as_ref();
    let status = refused.and_then(|failed| StatusCode::from_u16(failed.status?).ok());
    if let (Some(failed), Some(status)) = (refused, status.filter(|_| request.method() == Method::POST))
        && service.is_concerned()
    {
        service.fail(failed);
        return (status, failed.message.clone().unwrap_or_default()).into_response();
    }
    if service.is_dead() {
        return (StatusCode::SERVICE_UNAVAILABLE, "SIMULATED: dead").into_response();
    }
    next.run(request).await
}

/// llama-server and SGLang take connections before their model is there, and Ollama answers them; the others do not listen yet.
async fn while_loading(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let answers = service.setup.profile.engine == Engine::Ollama && (path == "/" || path.starts_with("/api/"));
    if answers || service.is_open() || path == "/sim/memory" {
        return next.run(request).await;
    }
    if service.setup.profile.engine == Engine::Sglang {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    Refusal::loading().respond(Engine::Llamacpp)
}
