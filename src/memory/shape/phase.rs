//! What a forward pass holds at once beside weights and KV cache.

/// Numbers per token that live at once in one phase of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Phase {
    /// Which tensors, for people.
    pub tensors: &'static str,
    /// Numbers per token in the model's type that every rank holds.
    pub whole: u64,
    /// Numbers per token in the model's type that ranks share.
    pub shared: u64,
    /// Numbers per token in float32 that every rank holds.
    pub whole_f32: u64,
    /// Numbers per token in float32 that ranks share.
    pub shared_f32: u64,
}

impl Phase {
    /// Bytes per token on one of `ranks`, with `bytes` for a number in the model's type.
    #[must_use]
    pub(in crate::memory) fn bytes_per_token(&self, ranks: u64, bytes: u64) -> u64 {
        let ranks = ranks.max(1);
        let model = self.whole.saturating_add(self.shared.div_ceil(ranks));
        let single = self.whole_f32.saturating_add(self.shared_f32.div_ceil(ranks));
        model.saturating_mul(bytes).saturating_add(single.saturating_mul(4))
    }
}
