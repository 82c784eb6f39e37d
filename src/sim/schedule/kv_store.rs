//! KV cache of the sequences.

use super::sequence::Sequence;
use crate::sim::memory::{BlockPool, CudaOom, DynamicMemory};

/// When blocks are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvAllocation {
    /// Token by token (vLLM).
    Grow,
    /// At admission, for the prompt and this many output tokens; after each such slice the sequence is resubmitted
    /// (TGI).
    Slice(u64),
    /// A slot of this many tokens, whatever is requested (llama.cpp).
    Slot(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum KvStore {
    Pool(BlockPool, KvAllocation),
    Dynamic(Box<DynamicMemory>),
}

impl KvStore {
    /// Blocks that a sequence needs for `computed` tokens.
    fn target(&self, seq: &Sequence, computed: u64) -> u64 {
        match self {
            Self::Dynamic(_) => 0,
            Self::Pool(blocks, KvAllocation::Grow) => blocks.blocks_for(computed),
            Self::Pool(blocks, KvAllocation::Slot(tokens)) => blocks.blocks_for(*tokens),
            Self::Pool(blocks, KvAllocation::Slice(slice)) => {
                let finished_slices = seq.produced / slice * slice;
                blocks.blocks_for(seq.request.input + seq.request.output.min(finished_slices + slice))
            }
        }
    }

    /// Allocates what the sequence needs to compute `chunk` more tokens, all or nothing. False if there are not
    /// enough free blocks. `resident` is the number of tokens held by all running sequences.
    pub(super) fn allocate_for(&mut self, seq: &mut Sequence, chunk: u64, resident: u64) -> Result<bool, CudaOom> {
        let missing = self.target(seq, seq.computed + chunk).saturating_sub(seq.blocks);
        match self {
            Self::Pool(blocks, _) => {
                let allocated = blocks.allocate(missing);
                if allocated {
                    seq.blocks += missing;
                }
                Ok(allocated)
            }
            Self::Dynamic(memory) => {
                let tokens = seq.request.rows * chunk;
                let peak = if seq.produced == 0 {
                    memory.prefill(tokens, resident)
                } else {
                    memory.decode(resident + tokens)
                };
                memory.grow(peak).map(|()| true)
            }
        }
    }

    pub(super) fn release(&mut self, seq: &mut Sequence) {
        if let Self::Pool(blocks, _) = self {
            blocks.release(seq.blocks);
        }
        seq.blocks = 0;
        seq.computed = 0;
    }

    /// Whether the whole sequence would fit now. vLLM does not admit a sequence because its first chunk fits.
    pub(super) fn can_admit(&self, seq: &Sequence) -> bool {
        match self {
            Self::Pool(blocks, _) => self.target(seq, seq.tokens()) <= blocks.free(),
            Self::Dynamic(_) => true,
        }
    }

    /// Whether the sequence must be resubmitted before its next token.
    pub(super) fn slice_ended(&self, seq: &Sequence) -> bool {
        matches!(self, Self::Pool(_, KvAllocation::Slice(slice)) if seq.produced.is_multiple_of(*slice))
    }

    /// Share of the pool in use, 0 to 1; none without a pool.
    pub(crate) fn usage(&self) -> Option<f64> {
        match self {
            Self::Pool(blocks, _) => Some(blocks.usage()),
            Self::Dynamic(_) => None,
        }
    }
}
