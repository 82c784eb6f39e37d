//! Requests that are declined, in each engine's words, statuses and bodies.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::sim::profile::Engine;

/// A request that is declined.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    /// `BadRequestError`, `validation`, `invalid_request_error`: as each engine names it.
    kind: &'static str,
    message: String,
    /// vLLM: the parameter that is wrong.
    param: Option<&'static str>,
    /// llama.cpp: `n_prompt_tokens` and `n_ctx`.
    context: Option<(u64, u64)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            param: None,
            context: None,
        }
    }

    /// A request that makes no sense to this engine.
    pub(super) fn bad(engine: Engine, message: impl Into<String>) -> Self {
        match engine {
            Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm | Engine::Transformers => {
                Self::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
            }
            Engine::Tgi => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation", message),
            Engine::Llamacpp | Engine::Ollama => Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message),
        }
    }

    /// vLLM: the request is too long.
    pub(super) fn too_long(message: String) -> Self {
        Self {
            param: Some("input_tokens"),
            ..Self::bad(Engine::Vllm, message)
        }
    }

    /// llama.cpp: the prompt does not fit into a slot.
    pub(super) fn context(prompt: u64, slot: u64) -> Self {
        let message =
            format!("request ({prompt} tokens) exceeds the available context size ({slot} tokens), try increasing it");
        Self {
            context: Some((prompt, slot)),
            ..Self::new(StatusCode::BAD_REQUEST, "exceed_context_size_error", message)
        }
    }

    /// TGI's 429; for the others what a proxy in front of them says.
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

    /// Something broke while the answer was made.
    pub(super) fn broken(engine: Engine, message: impl Into<String>) -> Self {
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

    /// The body.
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

    /// The answer.
    pub(super) fn respond(&self, engine: Engine) -> Response {
        // transformers answers a broken request with plain text.
        if engine == Engine::Transformers && self.status == StatusCode::INTERNAL_SERVER_ERROR {
            return (self.status, "Internal Server Error").into_response();
        }
        (self.status, Json(self.body(engine))).into_response()
    }

    /// The message alone.
    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}
