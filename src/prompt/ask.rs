//! What prompt is wanted, and the prompt.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// The longest prompt that is made, in tokens: above every context length there is, and 64 MiB as ids.
pub const MAX_TOKENS: usize = 1 << 24;

/// How a prompt travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Token ids.
    Tokens,
    /// Text.
    Text,
}

/// What prompt is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Tokens, as counted with everything that the engine adds: special tokens, and the chat template where `chat` is set.
    pub tokens: usize,
    /// Token ids or text.
    pub form: PromptForm,
    /// Whether the text becomes the content of one user message, within the model's chat template.
    pub chat: bool,
    /// How many tokens at the start are the same in every prompt of one seed. What the engine puts before the text counts.
    pub shared_prefix: usize,
}

impl Ask {
    /// Exactly so many token ids, all different from the first on.
    #[must_use]
    pub fn ids(tokens: usize) -> Self {
        Self {
            tokens,
            form: PromptForm::Tokens,
            chat: false,
            shared_prefix: 0,
        }
    }

    /// Text of exactly so many tokens, special tokens included.
    #[must_use]
    pub fn text(tokens: usize) -> Self {
        Self {
            form: PromptForm::Text,
            ..Self::ids(tokens)
        }
    }

    /// Refuses what nobody can make.
    pub(super) fn check(&self) -> Result<()> {
        if self.tokens > MAX_TOKENS {
            return Err(Fault::usage(format!(
                "a prompt of {} tokens is longer than the {MAX_TOKENS} that can be made",
                self.tokens
            )));
        }
        if self.shared_prefix > 0 && self.shared_prefix >= self.tokens {
            return Err(Fault::usage(format!(
                "`shared_prefix` of {} tokens leaves nothing of a prompt of {} to differ",
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
    /// What to send.
    pub content: Content,
    /// Tokens, as counted with everything that the engine adds.
    pub count: usize,
}

/// What a prompt consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Token ids, taken by the engine as they are.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}
