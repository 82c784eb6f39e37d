//! The body of an OpenAI request. Unknown fields are ignored, as the engines do.

use serde::Deserialize;

use crate::sim::http::prompt::Prompt;
use crate::sim::http::refusal::Refusal;
use crate::sim::profile::Engine;

/// The body.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<Prompt>,
    pub(super) messages: Option<Vec<Message>>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    /// llama.cpp's own name, accepted here too.
    n_predict: Option<u64>,
    /// transformers: a JSON text of its own.
    generation_config: Option<String>,
    pub(super) min_tokens: Option<u64>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
}

/// What a stream tells beside tokens.
#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    /// Counts at the end.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Counts with every event.
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

/// One message of a conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    content: Option<String>,
}

impl Message {
    /// Its text.
    pub(super) fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct GenerationConfig {
    max_new_tokens: Option<u64>,
}

impl Body {
    /// Tokens to produce, where the request says.
    pub(super) fn output(&self) -> Result<Option<u64>, Refusal> {
        let configured = match &self.generation_config {
            None => None,
            Some(text) => {
                let config: GenerationConfig = serde_json::from_str(text)
                    .map_err(|error| Refusal::bad(Engine::Transformers, format!("generation_config: {error}")))?;
                config.max_new_tokens
            }
        };
        Ok(configured
            .or(self.max_completion_tokens)
            .or(self.max_tokens)
            .or(self.n_predict))
    }
}
