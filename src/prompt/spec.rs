//! The specification of a prompt, and the prompt.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// Maximum prompt length in tokens: beyond every context length; 64 MiB as ids.
pub const MAX_TOKENS: usize = 1 << 24;

/// How a prompt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Token ids.
    Tokens,
    /// Text.
    Text,
}

/// The specification of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSpec {
    /// Token count including everything that the engine adds: special tokens, and the chat template if `chat` is set.
    pub tokens: usize,
    /// Token ids or text.
    pub form: PromptForm,
    /// Whether the text is the content of a single user message in the model's chat template.
    pub chat: bool,
    /// Number of leading tokens that all prompts of one seed share, including those that the engine adds in front.
    pub shared_prefix: usize,
}

impl PromptSpec {
    /// `tokens` token ids without a shared prefix.
    #[must_use]
    pub fn ids(tokens: usize) -> Self {
        Self {
            tokens,
            form: PromptForm::Tokens,
            chat: false,
            shared_prefix: 0,
        }
    }

    /// Text of `tokens` tokens, including special tokens.
    #[must_use]
    pub fn text(tokens: usize) -> Self {
        Self {
            form: PromptForm::Text,
            ..Self::ids(tokens)
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.tokens > MAX_TOKENS {
            return Err(Fault::usage(format!(
                "a prompt of {} tokens is longer than the {MAX_TOKENS} that can be made",
                self.tokens
            )));
        }
        if self.shared_prefix > 0 && self.shared_prefix >= self.tokens {
            return Err(Fault::usage(format!(
                "`shared_prefix` of {} tokens leaves nothing unique in a prompt of {} to differ",
                self.shared_prefix, self.tokens
            ))
            .hint(format!("at most {}", self.tokens.saturating_sub(1))));
        }
        if self.chat && self.form == PromptForm::Tokens {
            return Err(Fault::usage("a chat message is text, not token ids").hint("leave `chat` out, or ask for text"));
        }
        Ok(())
    }
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The ids or text to send.
    pub content: Content,
    /// Token count including everything that the engine adds.
    pub count: usize,
}

/// Content of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Token ids, used by the engine as they are.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}
