//! The blocks in which vLLM allocates the cache of a hybrid model: attention and recurrent states share one pool.

use serde::Serialize;

use super::components::Kv;
use crate::memory::shape::ModelShape;

/// Tokens of which a block has a multiple: the smallest block that `FlashAttention` takes.
const ALIGNMENT: u64 = 16;

/// The blocks of one pool, on one rank.
///
/// vLLM makes a page of attention at least as large as the state of a recurrent layer, and pads the state to the same
/// size. Layers of one kind form groups of equal size, and a block has one page for each layer of a group: a sequence
/// takes a block for every `tokens` tokens for each group of attention layers, and one for each group of recurrent ones
/// (`_align_hybrid_block_size`, `_get_kv_cache_groups_uniform_page_size` in vLLM 0.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StateBlocks {
    /// Tokens of a block of attention.
    pub tokens: u64,
    /// Bytes of a block.
    pub bytes: u64,
    /// Blocks of a sequence for every `tokens` tokens.
    pub per_tokens: u64,
    /// Blocks of a sequence for its states.
    pub per_sequence: u64,
}

impl StateBlocks {
    /// `None` unless some layers have full attention, all alike, and some a state, all alike.
    pub(super) fn new(shape: &ModelShape, kv: Kv) -> Option<Self> {
        let attention = shape.layers.iter().filter(|layer| !layer.per_token.is_empty());
        let states = shape.layers.iter().filter(|layer| layer.per_sequence.is_some());
        let is_full = attention.clone().all(|layer| {
            layer
                .per_token
                .iter()
                .all(|cache| cache.window.is_none() && cache.tokens == 1)
        });
        let (token, attention) = alike(attention.map(|layer| kv.token_of(layer)))?;
        let (state, states) = alike(states.map(|layer| kv.state_of(layer)))?;
        let tokens = ALIGNMENT.checked_mul(state.div_ceil(token.checked_mul(ALIGNMENT)?))?;
        let group = group_size(attention, states);
        is_full.then_some(Self {
            tokens,
            bytes: tokens.checked_mul(token)?.checked_mul(group)?,
            per_tokens: attention.div_ceil(group),
            per_sequence: states.div_ceil(group),
        })
    }

    /// Bytes of sequences of this many tokens. One block of the pool is never used.
    pub(super) fn bytes_of(self, tokens: u64, sequences: u64) -> u64 {
        let by_tokens = tokens.div_ceil(self.tokens).saturating_mul(self.per_tokens);
        let blocks = by_tokens.saturating_add(self.per_sequence).saturating_mul(sequences);
        blocks.saturating_add(1).saturating_mul(self.bytes)
    }
}

/// The value, if all are equal and not 0, and how many there are.
fn alike(mut values: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    let first = values.next().filter(|first| *first > 0)?;
    let mut count = 1;
    for value in values {
        if value != first {
            return None;
        }
        count += 1;
    }
    Some((first, count))
}

/// Layers of a group: those of the rarer kind, unless the other has less than half as many more.
fn group_size(one: u64, other: u64) -> u64 {
    let (least, most) = (one.min(other), one.max(other));
    if most * 2 < least * 3 { most } else { least }
}
