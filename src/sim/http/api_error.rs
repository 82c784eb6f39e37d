//! HTTP errors with each engine's messages, status codes and bodies.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::sim::profile::Engine;

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
