//! A sequence in the scheduler.

use crate::sim::memory::CudaOom;

/// A request to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: u64,
    /// Prompts of the same length, computed in lockstep (a batch of `generate`); otherwise 1.
    pub(crate) rows: u64,
    /// Prompt tokens of each.
    pub(crate) input: u64,
    /// Tokens to produce for each, at least 1.
    pub(crate) output: u64,
    /// Prompt tokens found in the prefix cache; not computed the first time.
    pub(crate) cached: u64,
}

/// Result of a step for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// One more token (of each row).
    Token,
    Last,
    /// Out of memory.
    Oom(CudaOom),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub(super) request: Request,
    pub(super) produced: u64,
    /// Tokens in the KV cache.
    pub(super) computed: u64,
    pub(super) blocks: u64,
}

impl Sequence {
    pub(super) fn new(request: Request) -> Self {
        Self {
            request,
            produced: 0,
            computed: request.cached,
            blocks: 0,
        }
    }

    /// Prompt and produced tokens. The KV of the newest one is computed by the step that produces the next.
    pub(super) fn tokens(&self) -> u64 {
        self.request.input + self.produced
    }

    /// Tokens to compute before the next token is produced.
    pub(super) fn uncomputed(&self) -> u64 {
        self.tokens() - self.computed
    }

    pub(super) fn done(&self) -> bool {
        self.produced >= self.request.output
    }

    /// Tokens in the KV cache, over all rows.
    pub(super) fn resident(&self) -> u64 {
        self.request.rows * self.computed
    }
}
