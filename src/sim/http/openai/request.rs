//! Body of an OpenAI request. Unknown fields are ignored, as by the engines.

use serde::Deserialize;

use crate::sim::http::api_error::ApiError;
use crate::sim::http::prompt::Prompt;
use crate::sim::profile::Engine;

#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<Prompt>,
    pub(super) messages: Option<Vec<Message>>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    /// llama.cpp's own name, accepted here too.
    n_predict: Option<u64>,
    /// transformers: a string of JSON.
    generation_config: Option<String>,
    pub(super) min_tokens: Option<u64>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    /// Token counts at the end.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Token counts with every event.
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    content: Option<String>,
}

impl Message {
    pub(super) fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct GenerationConfig {
    max_new_tokens: Option<u64>,
}

impl Body {
    /// Number of tokens to produce, if the request sets it.
    pub(super) fn output(&self) -> Result<Option<u64>, ApiError> {
        let configured = match &self.generation_config {
            None => None,
            Some(text) => {
                let config: GenerationConfig = serde_json::from_str(text).map_err(|error| {
                    ApiError::bad_request(Engine::Transformers, format!("generation_config: {error}"))
                })?;
                config.max_new_tokens
            }
        };
        Ok(configured
            .or(self.max_completion_tokens)
            .or(self.max_tokens)
            .or(self.n_predict))
    }
}
