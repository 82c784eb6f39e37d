//! One sequence on its way through the scheduler.

use crate::sim::memory::CudaOom;

/// What is asked: so many tokens in, so many out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Identifies it in events.
    pub(crate) id: u64,
    /// Prompts of the same length that are computed in lockstep (a batch of `generate`); 1 elsewhere.
    pub(crate) rows: u64,
    /// Prompt tokens of each.
    pub(crate) input: u64,
    /// Tokens to produce for each, at least 1.
    pub(crate) output: u64,
    /// Prompt tokens that need not be computed the first time: the prefix cache has them.
    pub(crate) cached: u64,
}

/// What a step did for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// One more token (of each row).
    Token,
    /// The last token.
    Last,
    /// Memory ran out for this request.
    Oom(CudaOom),
}

/// A sequence that waits or runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seq {
    pub(super) request: Request,
    /// Tokens produced.
    pub(super) produced: u64,
    /// Tokens whose KV is in the cache.
    pub(super) computed: u64,
    /// Blocks held.
    pub(super) blocks: u64,
}

impl Seq {
    pub(super) fn new(request: Request) -> Self {
        Self {
            request,
            produced: 0,
            computed: request.cached,
            blocks: 0,
        }
    }

    /// Tokens that are known: prompt and produced. The newest one's KV is computed by the step that produces the next.
    pub(super) fn known(&self) -> u64 {
        self.request.input + self.produced
    }

    /// Tokens to compute before the next one comes out.
    pub(super) fn due(&self) -> u64 {
        self.known() - self.computed
    }

    /// Whether everything asked for is there.
    pub(super) fn done(&self) -> bool {
        self.produced >= self.request.output
    }

    /// KV tokens held over all rows.
    pub(super) fn resident(&self) -> u64 {
        self.request.rows * self.computed
    }
}
