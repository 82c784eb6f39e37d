//! What a layer keeps between steps: of each token, or of each sequence.

use super::Dtype;

/// Keys and values of one token, or the latent that stands for both: `heads` times `width` numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct PerToken {
    /// KV heads; 1 for a latent (MLA), which every rank keeps.
    pub heads: u64,
    /// Numbers per head: key and value together, or latent and rotary key.
    pub width: u64,
    /// The most recent tokens that are kept; all where absent.
    pub window: Option<u64>,
}

impl PerToken {
    /// Numbers per token that one of `ranks` keeps.
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

/// The state of a recurrent layer (Mamba, gated delta rule): the same size however long the sequence is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct PerSequence {
    /// Inputs that the convolution still needs, one fewer than its kernel covers, in the model's type.
    pub convolution: u64,
    /// The recurrent state.
    pub recurrent: u64,
    /// The type of the recurrent state; the model's where absent.
    pub dtype: Option<Dtype>,
}
