//! HTTP APIs of the simulated engine: routes, prompts and errors. Each engine has its own routes, answers and error
//! bodies. Shared: counting a prompt's tokens, and reading an answer from the scheduler and streaming it ([`stream`]).

mod limits;
mod llamacpp;
mod metrics;
mod ollama;
mod openai;
mod stream;
mod tensorrt_llm;
mod tgi;

use std::fmt;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::{Value, json};

use super::engine_core::EngineCore;
use super::profile::Engine;
use super::tokens::PrefixHashes;

/// Enough for a prompt of more than a million token ids.
const BODY_LIMIT: usize = 64 << 20;

pub(super) fn router(core: Arc<EngineCore>) -> Router {
    let routes = match core.setup.profile.engine {
        Engine::Vllm => openai::vllm(),
        Engine::Transformers => openai::transformers(),
        Engine::Sglang => openai::routes().merge(metrics::sglang_routes()),
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    Text(String),
    Ids(PrefixHashes),
    Several(Vec<Prompt>),
}

impl Prompt {
    /// Number of prompts and tokens of each, as this engine counts.
    pub(super) fn measure(&self, core: &EngineCore) -> Result<(u64, u64), ApiError> {
        let engine = core.setup.profile.engine;
        match self {
            Self::Ids(ids) if ids.tokens() == 0 => Err(ApiError::bad_request(engine, "prompt is empty")),
            Self::Ids(ids) => Ok((1, ids.tokens())),
            Self::Text(text) => {
                let count = core.counter.count(text, true);
                count
                    .map(|count| (1, count))
                    .map_err(|fault| ApiError::bad_request(engine, fault.message))
            }
            Self::Several(prompts) => {
                let sizes = prompts
                    .iter()
                    .map(|prompt| prompt.measure(core))
                    .collect::<Result<Vec<_>, _>>()?;
                let Some((_, first)) = sizes.first() else {
                    return Err(ApiError::bad_request(engine, "prompt is empty"));
                };
                if sizes.iter().any(|(_, tokens)| tokens != first) {
                    return Err(ApiError::bad_request(
                        engine,
                        "SIMULATED: several prompts must have the same length",
                    ));
                }
                Ok((sizes.len() as u64, *first))
            }
        }
    }
}

impl Prompt {
    /// Prefix hashes for the prefix cache; none for several prompts.
    pub(super) fn hashes(&self, core: &EngineCore) -> Option<PrefixHashes> {
        match self {
            Self::Ids(ids) => Some(ids.clone()),
            Self::Text(text) => {
                let mut hashes = PrefixHashes::default();
                let tokens = core.counter.tokens(text, true).ok()?;
                tokens.iter().for_each(|token| hashes.push(u64::from(token.id)));
                Some(hashes)
            }
            Self::Several(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

struct PromptVisitor;

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = Prompt;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, token ids, or a list of either")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Prompt, E> {
        Ok(Prompt::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Prompt, A::Error> {
        let (mut ids, mut several) = (PrefixHashes::default(), Vec::new());
        while let Some(item) = items.next_element::<Item>()? {
            match item {
                Item::Id(id) => ids.push(id),
                Item::Prompt(prompt) => several.push(prompt),
            }
        }
        match (ids.tokens(), several.is_empty()) {
            (_, true) => Ok(Prompt::Ids(ids)),
            (0, false) => Ok(Prompt::Several(several)),
            _ => Err(A::Error::custom("token ids and prompts are mixed")),
        }
    }
}

enum Item {
    Id(u64),
    Prompt(Prompt),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id or a prompt")
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Item, E> {
        Ok(Item::Id(id))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        PromptVisitor.visit_str(text).map(Item::Prompt)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Item, A::Error> {
        PromptVisitor.visit_seq(items).map(Item::Prompt)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    status: StatusCode,
    /// Error type as the engine names it: `BadRequestError`, `validation`, `invalid_request_error`.
    kind: &'static str,
    message: String,
    /// vLLM: name of the offending parameter.
    param: Option<&'static str>,
    /// llama.cpp: `n_prompt_tokens` and `n_ctx`.
    context: Option<(u64, u64)>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            param: None,
            context: None,
        }
    }

    /// Invalid request.
    pub(super) fn bad_request(engine: Engine, message: impl Into<String>) -> Self {
        match engine {
            Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm | Engine::Transformers => {
                Self::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
            }
            Engine::Tgi => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation", message),
            Engine::Llamacpp | Engine::Ollama => Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message),
        }
    }

    pub(super) fn too_long(message: String) -> Self {
        Self {
            param: Some("input_tokens"),
            ..Self::bad_request(Engine::Vllm, message)
        }
    }

    pub(super) fn context_exceeded(prompt: u64, slot: u64) -> Self {
        let message =
            format!("request ({prompt} tokens) exceeds the available context size ({slot} tokens), try increasing it");
        Self {
            context: Some((prompt, slot)),
            ..Self::new(StatusCode::BAD_REQUEST, "exceed_context_size_error", message)
        }
    }

    /// TGI's own 429; for other engines, what a proxy in front of them answers.
    pub(super) fn overloaded(engine: Engine) -> Self {
        if engine == Engine::Ollama {
            let message = "server busy, please try again.  maximum pending requests exceeded";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        }
        let kind = match engine {
            Engine::Tgi => "overloaded",
            Engine::Llamacpp | Engine::Ollama => "unavailable_error",
            Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm | Engine::Transformers => "RateLimitError",
        };
        Self::new(StatusCode::TOO_MANY_REQUESTS, kind, "Model is overloaded")
    }

    /// llama.cpp while it loads.
    pub(super) fn loading() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", "Loading model")
    }

    /// Generation failed.
    pub(super) fn generation_failed(engine: Engine, message: impl Into<String>) -> Self {
        match engine {
            Engine::Tgi => Self::new(
                StatusCode::FAILED_DEPENDENCY,
                "generation",
                format!("Request failed during generation: {}", message.into()),
            ),
            Engine::Llamacpp => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message),
            Engine::Ollama => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "server_error",
                format!("an error was encountered while running the model: {}", message.into()),
            ),
            Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm | Engine::Transformers => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message)
            }
        }
    }

    pub(super) fn body(&self, engine: Engine) -> Value {
        let code = self.status.as_u16();
        match engine {
            Engine::Tgi => json!({ "error": self.message, "error_type": self.kind }),
            Engine::Ollama => json!({ "error": self.message }),
            Engine::Llamacpp => {
                let mut error = json!({ "code": code, "message": self.message, "type": self.kind });
                if let Some((prompt, slot)) = self.context {
                    error["n_prompt_tokens"] = prompt.into();
                    error["n_ctx"] = slot.into();
                }
                json!({ "error": error })
            }
            Engine::Sglang | Engine::TensorrtLlm => {
                json!({ "object": "error", "message": self.message, "type": self.kind, "param": null, "code": code })
            }
            Engine::Vllm | Engine::Transformers => {
                json!({ "error": { "message": self.message, "type": self.kind, "param": self.param, "code": code } })
            }
        }
    }

    pub(super) fn respond(&self, engine: Engine) -> Response {
        // transformers answers internal errors with plain text.
        if engine == Engine::Transformers && self.status == StatusCode::INTERNAL_SERVER_ERROR {
            return (self.status, "Internal Server Error").into_response();
        }
        (self.status, Json(self.body(engine))).into_response()
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_prompt_is_read_and_mixtures_are_refused() {
        let read = |text: &str| serde_json::from_str::<Prompt>(text);
        let ids = |ids: &[u64]| {
            let mut hashes = PrefixHashes::default();
            ids.iter().for_each(|id| hashes.push(*id));
            Prompt::Ids(hashes)
        };
        assert_eq!(read("\"a b\"").unwrap(), Prompt::Text("a b".to_owned()));
        assert_eq!(read("[1, 2, 3]").unwrap(), ids(&[1, 2, 3]));
        assert_eq!(read("[[1], [2]]").unwrap(), Prompt::Several(vec![ids(&[1]), ids(&[2])]));
        assert!(read("[1, \"a\"]").is_err());
        assert!(read("[-1]").is_err());
        assert!(read("{}").is_err());
    }
}
