//! Bytes that layers keep per token and per sequence.

use crate::memory::shape::{Dtype, Layer, Shape};

/// How the cache is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kv {
    pub(super) dtype: Dtype,
    /// The type of a recurrent layer's state, unless the model says another.
    pub(super) state: Dtype,
    /// Ranks that share it.
    pub(super) ranks: u64,
}

impl Kv {
    /// Bytes per token of one layer, on one rank, until its window is full.
    pub(super) fn token_of(self, layer: &Layer) -> u64 {
        layer
            .per_token
            .as_ref()
            .map_or(0, |kept| self.dtype.bytes(kept.on_rank(self.ranks)))
    }

    /// Bytes of one layer's state of a sequence, on one rank.
    pub(super) fn state_of(self, layer: &Layer) -> u64 {
        layer.per_sequence.as_ref().map_or(0, |state| {
            let convolution = self.state.bytes(state.convolution.div_ceil(self.ranks));
            let recurrent = state
                .dtype
                .unwrap_or(self.state)
                .bytes(state.recurrent.div_ceil(self.ranks));
            convolution.saturating_add(recurrent)
        })
    }

    /// Bytes per further token of a sequence shorter than every window, on one rank.
    pub(super) fn token(self, shape: &Shape) -> u64 {
        sum(shape, |layer| self.token_of(layer))
    }

    /// Bytes per sequence that do not depend on its length, on one rank.
    pub(super) fn state(self, shape: &Shape) -> u64 {
        sum(shape, |layer| self.state_of(layer))
    }

    /// Bytes of a sequence of this many tokens, on one rank.
    pub(super) fn sequence(self, shape: &Shape, tokens: u64) -> u64 {
        sum(shape, |layer| {
            let kept = layer.per_token.as_ref().map_or(0, |kept| kept.kept(tokens));
            self.token_of(layer)
                .saturating_mul(kept)
                .saturating_add(self.state_of(layer))
        })
    }
}

fn sum(shape: &Shape, of: impl Fn(&Layer) -> u64) -> u64 {
    shape.layers.iter().fold(0, |sum: u64, layer| {
        sum.saturating_add(of(layer).saturating_mul(layer.count))
    })
}
