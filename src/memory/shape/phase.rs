//! What a forward pass holds besides weights and KV cache.

/// Elements per token that live at the same time in one phase of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Phase {
    /// Which tensors, for people.
    pub tensors: &'static str,
    /// Elements in the model's type on every rank.
    pub replicated: u64,
    /// Elements in the model's type that ranks share.
    pub sharded: u64,
    /// Float32 elements on every rank.
    pub replicated_f32: u64,
    /// Float32 elements that ranks share.
    pub sharded_f32: u64,
}

impl Phase {
    /// Bytes per token on one of `ranks`, with `bytes` per element of the model's type.
    #[must_use]
    pub(in crate::memory) fn bytes_per_token(&self, ranks: u64, bytes: u64) -> u64 {
        let ranks = ranks.max(1);
        let model = self.replicated.saturating_add(self.sharded.div_ceil(ranks));
        let single = self.replicated_f32.saturating_add(self.sharded_f32.div_ceil(ranks));
        model.saturating_mul(bytes).saturating_add(single.saturating_mul(4))
    }
}
