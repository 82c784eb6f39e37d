//! HTTP APIs of the simulated engine: routes, information pages and errors. A generation request of any API is read by
//! [`request`], and answered in the form of its API ([`answer`]), whole or as a stream.

mod answer;
mod request;
mod scores;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use minijinja::value::Serde;
use minijinja::{Value as Values, context};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine_core::EngineCore;
use super::profile::Engine;

/// Enough for a prompt of more than a million token ids.
const BODY_LIMIT: usize = 64 << 20;

/// An API through which text is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    /// OpenAI's completions.
    Completions,
    /// OpenAI's chat.
    Chat,
    /// TGI's `/generate_stream`.
    Tgi,
    /// llama-server's `/completion`.
    Llamacpp,
    /// Ollama's `/api/generate`.
    Ollama,
}

pub(super) fn router(core: Arc<EngineCore>) -> Router {
    let engine = core.setup.profile.engine;
    let own = match engine {
        Engine::Tgi => Some(("/generate_stream", Api::Tgi)),
        Engine::Llamacpp => Some(("/completion", Api::Llamacpp)),
        Engine::Ollama => Some(("/api/generate", Api::Ollama)),
        Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm | Engine::Transformers => None,
    };
    let openai = [
        ("/v1/completions", Api::Completions),
        ("/v1/chat/completions", Api::Chat),
    ];
    let mut routes = Router::new().route("/sim/memory", get(memory));
    for (path, api) in openai.into_iter().chain(own) {
        routes = routes.route(
            path,
            post(move |State(core): State<Arc<EngineCore>>, body: Bytes| request::generate(core, api, body)),
        );
    }
    for path in engine.pages() {
        routes = routes.route(path, get(page));
    }
    match engine {
        Engine::Vllm | Engine::Llamacpp => routes = routes.route("/tokenize", post(tokenize)),
        Engine::Ollama => routes = routes.route("/api/show", post(show)),
        _ => {}
    }
    routes
        .layer(middleware::from_fn_with_state(Arc::clone(&core), failing))
        .layer(middleware::from_fn_with_state(Arc::clone(&core), while_loading))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(core)
}

/// Memory of the simulated device, for an engine in a process or container. Equals the in-process handle's reading.
async fn memory(State(core): State<Arc<EngineCore>>) -> Response {
    Json(core.devices.reading()).into_response()
}

/// A dead engine answers 503 everywhere. A failing engine refuses POST requests if configured.
async fn failing(State(core): State<Arc<EngineCore>>, request: Request, next: Next) -> Response {
    if request.uri().path() == "/sim/memory" {
        return next.run(request).await;
    }
    let refused = core.setup.options.misbehave.fail_request.as_ref();
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
    let (engine, path) = (core.setup.profile.engine, request.uri().path());
    let answers = engine == Engine::Ollama && (path == "/" || path.starts_with("/api/"));
    if answers || core.is_loaded() || path == "/sim/memory" {
        return next.run(request).await;
    }
    match engine {
        Engine::Sglang => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => ApiError::new(Problem::Loading, "Loading model").respond(Engine::Llamacpp),
    }
}

/// A page of information or metrics: the section of its path in the engine's file.
async fn page(State(core): State<Arc<EngineCore>>, uri: Uri) -> Response {
    filled(&core, &format!("GET {}", uri.path()), uri.path() == "/metrics")
}

/// A section of the engine's file as an answer. `metrics` marks the metrics page, which some engines clear on each
/// read.
fn filled(core: &EngineCore, section: &str, metrics: bool) -> Response {
    let (setup, limits, snapshot) = (&core.setup, &core.limits, core.snapshot(metrics));
    let used: u64 = core.devices.reading().devices.iter().map(|device| device.used).sum();
    let usage = snapshot.gauges.usage.unwrap_or_default();
    let values = context! {
        model => setup.model.as_str(),
        // Used in a label of Prometheus.
        label => setup.model.replace(['"', '\\', '\n'], "_"),
        version => setup.version(),
        max_total => (limits.max_total < u64::MAX).then_some(limits.max_total),
        max_input => limits.max_input,
        longest => setup.profile.defaults.max_position_embeddings,
        max_seqs => setup.max_seqs,
        max_concurrent => setup.max_concurrent,
        utilization => setup.utilization,
        fp8 => setup.fp8,
        memory => Values::from(Serde(limits.memory)),
        kv_tokens => limits.kv_tokens,
        kv_bytes => limits.memory.blocks.saturating_mul(limits.memory.block_bytes),
        used_blocks => (usage * limits.memory.blocks as f64).round() as u64,
        usage,
        running => snapshot.gauges.running,
        waiting => snapshot.gauges.waiting,
        counters => Values::from(Serde(snapshot.counters)),
        prefix_queries => snapshot.prefixes.0,
        prefix_hits => snapshot.prefixes.1,
        new_steps => metrics && core.has_new_steps(snapshot.counters.steps),
        loaded => core.is_loaded() && limits.load_error.is_none(),
        device_used => used,
    };
    match setup.profile.engine.text(section, &values) {
        Ok(text) => ([(CONTENT_TYPE, content_type(&text))], text).into_response(),
        Err(fault) => (StatusCode::INTERNAL_SERVER_ERROR, fault.message).into_response(),
    }
}

/// Ollama's information on a model.
async fn show(State(core): State<Arc<EngineCore>>, Json(body): Json<Value>) -> Response {
    match request::other_model(&core, body["model"].as_str().unwrap_or_default()) {
        Some(error) => error.respond(Engine::Ollama),
        None => filled(&core, "POST /api/show", false),
    }
}

#[derive(Deserialize)]
struct Tokenize {
    #[serde(alias = "content")]
    prompt: String,
    #[serde(alias = "add_special")]
    add_special_tokens: Option<bool>,
}

async fn tokenize(State(core): State<Arc<EngineCore>>, Json(body): Json<Tokenize>) -> Response {
    let engine = core.setup.profile.engine;
    let special = body.add_special_tokens.unwrap_or(engine != Engine::Llamacpp);
    let ids = match core.counter.tokens(&body.prompt, special) {
        Ok(ids) => ids,
        Err(fault) => return ApiError::bad_request(fault.message).respond(engine),
    };
    Json(match engine {
        Engine::Llamacpp => json!({ "tokens": ids }),
        _ => json!({ "count": ids.len(), "max_model_len": core.limits.max_total, "tokens": ids }),
    })
    .into_response()
}

/// The reason why a request or its generation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Problem {
    BadRequest,
    /// llama.cpp: the prompt does not fit into its slot.
    ContextExceeded,
    NotFound,
    /// Too many requests: TGI's own limit; for other engines, the answer of a proxy in front of them.
    Overloaded,
    Loading,
    /// Ollama: the model could not be loaded.
    LoadFailed,
    GenerationFailed,
    /// TensorRT-LLM: the request does not fit into the cache. The engine only logs it, and ends the stream without an
    /// event.
    EndsSilently,
}

/// An error. The section `error` of an engine's file turns it into a status and a body.
#[derive(Clone, Debug, PartialEq)]
struct ApiError {
    problem: Problem,
    message: String,
    /// Further fields of the error: vLLM's `param`, llama.cpp's `n_prompt_tokens` and `n_ctx`.
    fields: Values,
}

impl ApiError {
    fn new(problem: Problem, message: impl Into<String>) -> Self {
        Self {
            problem,
            message: message.into(),
            fields: context! {},
        }
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Problem::BadRequest, message)
    }

    fn answer(&self, engine: Engine) -> (StatusCode, String) {
        let values = context! { problem => Values::from(Serde(self.problem)), message => self.message.as_str(), ..self.fields.clone() };
        let text = engine.text("error", &values).unwrap_or_default();
        let (status, body) = text.split_once('\n').unwrap_or_default();
        let status = status.parse().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, body.trim_end().to_owned())
    }

    fn respond(&self, engine: Engine) -> Response {
        if self.problem == Problem::EndsSilently {
            return ([(CONTENT_TYPE, "text/event-stream")], Body::empty()).into_response();
        }
        let (status, body) = self.answer(engine);
        (status, [(CONTENT_TYPE, content_type(&body))], body).into_response()
    }
}

/// The type of a page: JSON, or text.
fn content_type(text: &str) -> &'static str {
    match text.bytes().next() {
        Some(b'{' | b'[') => "application/json",
        _ => "text/plain; version=0.0.4; charset=utf-8",
    }
}
