//! Where the KV of sequences lives, and when it is taken.

use super::seq::Seq;
use crate::sim::memory::{Blocks, CudaOom, DynamicMemory};

/// When blocks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// As tokens come (vLLM).
    Grow,
    /// For the prompt and up to so many tokens of output at admission; the sequence is submitted anew after each such slice (TGI).
    Slice(u64),
    /// For a slot of so many tokens, whatever is asked (llama.cpp).
    Slot(u64),
}

/// Where the KV of sequences lives.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// A pool of blocks.
    Pool(Blocks, Growth),
    /// Memory that grows with the requests.
    Dynamic(Box<DynamicMemory>),
}

impl Store {
    /// Blocks that a sequence must hold for `computed` tokens to be in the cache.
    fn target(&self, seq: &Seq, computed: u64) -> u64 {
        match self {
            Self::Dynamic(_) => 0,
            Self::Pool(blocks, Growth::Grow) => blocks.holding(computed),
            Self::Pool(blocks, Growth::Slot(tokens)) => blocks.holding(*tokens),
            Self::Pool(blocks, Growth::Slice(slice)) => {
                let begun = seq.produced / slice * slice;
                blocks.holding(seq.request.input + seq.request.output.min(begun + slice))
            }
        }
    }

    /// Gives the sequence what it lacks to compute `share` more tokens, all or nothing. False: no block is free. `resident` tokens are held
    /// by every running sequence together.
    pub(super) fn provide(&mut self, seq: &mut Seq, share: u64, resident: u64) -> Result<bool, CudaOom> {
        let lacking = self.target(seq, seq.computed + share).saturating_sub(seq.blocks);
        match self {
            Self::Pool(blocks, _) => {
                let provided = blocks.take(lacking);
                if provided {
                    seq.blocks += lacking;
                }
                Ok(provided)
            }
            Self::Dynamic(memory) => {
                let tokens = seq.request.rows * share;
                let peak = if seq.produced == 0 {
                    memory.prefill(tokens, resident)
                } else {
                    memory.decode(resident + tokens)
                };
                memory.grow(peak).map(|()| true)
            }
        }
    }

    /// Takes everything from a sequence.
    pub(super) fn release(&mut self, seq: &mut Seq) {
        if let Self::Pool(blocks, _) = self {
            blocks.give(seq.blocks);
        }
        seq.blocks = 0;
        seq.computed = 0;
    }

    /// Whether everything known of a sequence would fit now: vLLM lets nobody in on the strength of its first chunk alone.
    pub(super) fn has_room(&self, seq: &Seq) -> bool {
        match self {
            Self::Pool(blocks, _) => self.target(seq, seq.known()) <= blocks.free(),
            Self::Dynamic(_) => true,
        }
    }

    /// Whether the sequence must be submitted anew before its next token.
    pub(super) fn slice_ended(&self, seq: &Seq) -> bool {
        matches!(self, Self::Pool(_, Growth::Slice(slice)) if seq.produced.is_multiple_of(*slice))
    }

    /// Share of the KV cache in use, 0 to 1; none where there is no pool.
    pub(crate) fn usage(&self) -> Option<f64> {
        match self {
            Self::Pool(blocks, _) => Some(blocks.usage()),
            Self::Dynamic(_) => None,
        }
    }
}
