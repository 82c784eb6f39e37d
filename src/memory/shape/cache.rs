//! What a layer keeps between steps, per token or per sequence.

use super::Dtype;

/// Keys and values of one token, or the latent that replaces them: `heads` times `width` elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct PerToken {
    /// KV heads; 1 for a latent (MLA), which every rank keeps.
    pub heads: u64,
    /// Elements per head: key and value together, or latent and rotary key.
    pub width: u64,
    /// Only the most recent tokens are kept; `None` for all.
    pub window: Option<u64>,
}

impl PerToken {
    /// Elements per token on one of `ranks`.
    #[must_use]
    pub(in crate::memory) fn on_rank(&self, ranks: u64) -> u64 {
        self.heads.div_ceil(ranks.max(1)).max(1).saturating_mul(self.width)
    }

    /// Tokens kept of a sequence of `tokens`.
    #[must_use]
    pub(in crate::memory) fn kept(&self, tokens: u64) -> u64 {
        self.window.map_or(tokens, |window| tokens.min(window))
    }
}

/// The state of a recurrent layer (Mamba, gated delta rule), whose size does not depend on the sequence length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct PerSequence {
    /// Inputs that the convolution still needs (one less than its kernel), in the model's type.
    pub convolution: u64,
    pub recurrent: u64,
    /// The type of the recurrent state; `None` for the model's.
    pub dtype: Option<Dtype>,
}
