//! Continuous batching (pure): running and waiting sequences, KV blocks, preemption with recomputation. There is no
//! clock: a step returns its model time and results; the caller sleeps.
//!
//! The order is vLLM's. Running sequences come first, oldest first, each with its uncomputed tokens within the step's
//! token budget. If blocks run out, the newest running sequence is preempted and moved to the front of the queue. Then
//! sequences are admitted in queue order while all their known tokens would fit. In a step with a preemption, no
//! sequence is admitted.

use std::collections::VecDeque;

use serde::Serialize;

use super::Timing;
use super::memory::{BlockPool, CudaOom, DynamicMemory};

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counters {
    pub(crate) submitted: u64,
    pub(crate) finished: u64,
    /// Requests failed for lack of memory.
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    /// Prompt and output tokens of the finished requests.
    pub(crate) finished_tokens: (u64, u64),
    pub(crate) preemptions: u64,
    /// Prompt tokens of requests whose prompt has been computed.
    pub(crate) prompt_tokens: u64,
    pub(crate) generated_tokens: u64,
    pub(crate) steps: u64,
    /// Model time of all steps.
    pub(crate) seconds: f64,
}

/// The gauges of the metrics page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Gauges {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    /// Share of the pool in use, 0 to 1; `None` without a pool.
    pub(crate) usage: Option<f64>,
}

/// Result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepResult {
    /// Model time.
    pub(crate) seconds: f64,
    /// By request id, in scheduling order.
    pub(crate) events: Vec<(u64, SequenceEvent)>,
    /// Its work.
    pub(crate) work: StepWork,
}

/// Counts of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepWork {
    /// Decoding sequences.
    pub(crate) decodes: u64,
    /// Prompt tokens.
    pub(crate) prefill: u64,
    /// Tokens in the KV cache of its sequences, including those that it adds.
    pub(crate) kv: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    store: KvStore,
    timing: Timing,
    eager: bool,
    max_seqs: usize,
    step_tokens: u64,
    /// Whether prompts are computed in chunks, in the same steps as decodes; otherwise whole and alone.
    chunked: bool,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    counters: Counters,
    /// The highest gauges since the last [`Self::take_peaks`].
    peaks: Gauges,
}

impl Scheduler {
    /// Creates a scheduler that runs up to `max_seqs` sequences, and computes up to `step_tokens` tokens per step.
    pub(crate) fn new(store: KvStore, timing: Timing, eager: bool, max_seqs: u64, step_tokens: u64) -> Self {
        Self {
            store,
            timing,
            eager,
            max_seqs: usize::try_from(max_seqs).unwrap_or(usize::MAX).max(1),
            step_tokens: step_tokens.max(1),
            chunked: true,
            running: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
            peaks: Gauges::default(),
        }
    }

    pub(crate) fn set_chunked(&mut self, chunked: bool) {
        self.chunked = chunked;
    }

    /// Queues a request. It must fit into an empty pool; the caller refuses longer ones.
    pub(crate) fn submit(&mut self, request: SequenceRequest) {
        self.counters.submitted += 1;
        self.waiting.push_back(Sequence::new(request));
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let at = self.running.iter().position(|seq| seq.request.id == id);
        let cancelled = match at {
            Some(at) => Some(self.running.remove(at)),
            None => {
                let at = self.waiting.iter().position(|seq| seq.request.id == id);
                at.and_then(|at| self.waiting.remove(at))
            }
        };
        if let Some(mut seq) = cancelled {
            self.store.release(&mut seq);
            self.counters.cancelled += 1;
        }
    }

    /// Runs one step; `None` if there are no sequences.
    pub(crate) fn step(&mut self) -> Option<StepResult> {
        if self.running.is_empty() && self.waiting.is_empty() {
            return None;
        }
        let mut step = StepResult::default();
        let before = self.counters.preemptions;
        // Constant within a step: newly admitted sequences hold no tokens yet.
        let resident = self.running.iter().map(Sequence::resident).sum();
        // Without chunks, a step of prompts computes nothing of the sequences that run already.
        let ran = self.running.len();
        let mut chunks = vec![0; if self.chunked { 0 } else { ran }];
        if !self.chunked {
            self.admit(resident, &mut chunks, &mut step);
        }
        if self.chunked || self.running.len() == ran {
            chunks = self.schedule_running(resident, &mut step);
            if self.counters.preemptions == before {
                self.admit(resident, &mut chunks, &mut step);
            }
        }
        // Before sequences that end in this step are released.
        self.peaks = self.highest();
        self.compute(&chunks, &mut step);
        self.counters.steps += 1;
        self.counters.seconds += step.seconds;
        Some(step)
    }

    /// Number of tokens that each running sequence computes in this step. Preempts the newest sequences if blocks run
    /// out.
    fn schedule_running(&mut self, resident: u64, step: &mut StepResult) -> Vec<u64> {
        let (mut chunks, mut budget) = (Vec::with_capacity(self.running.len()), self.step_tokens);
        while chunks.len() < self.running.len() {
            let at = chunks.len();
            let mut seq = self.running[at];
            let chunk = seq.uncomputed().min(budget);
            match self.store.allocate_for(&mut seq, chunk, resident) {
                Ok(true) => {
                    self.running[at] = seq;
                    chunks.push(chunk);
                    budget -= chunk;
                }
                Ok(false) => {
                    if let Some(mut newest) = self.running.pop() {
                        self.store.release(&mut newest);
                        self.counters.preemptions += 1;
                        self.waiting.push_front(newest);
                    }
                }
                Err(oom) => {
                    self.running.remove(at);
                    self.fail(seq, oom, step);
                }
            }
        }
        chunks
    }

    /// Admits sequences from the queue.
    fn admit(&mut self, resident: u64, chunks: &mut Vec<u64>, step: &mut StepResult) {
        let mut budget = self.step_tokens - chunks.iter().sum::<u64>();
        while budget > 0 && self.running.len() < self.max_seqs {
            let Some(mut seq) = self.waiting.pop_front() else { break };
            let chunk = seq.uncomputed().min(budget);
            // A prompt longer than any step is cut all the same, or it would wait for ever.
            let whole = self.chunked || chunk == seq.uncomputed() || self.running.is_empty();
            if !whole || !self.store.can_admit(&seq) {
                self.waiting.push_front(seq);
                break;
            }
            match self.store.allocate_for(&mut seq, chunk, resident) {
                Ok(true) => {
                    self.running.push(seq);
                    chunks.push(chunk);
                    budget -= chunk;
                }
                Ok(false) => {
                    self.waiting.push_front(seq);
                    break;
                }
                Err(oom) => self.fail(seq, oom, step),
            }
        }
    }

    /// Computes the chunks. Sequences with nothing left to compute produce a token.
    fn compute(&mut self, chunks: &[u64], step: &mut StepResult) {
        let (mut prefill, mut decode, mut left) = (0, 0, Vec::with_capacity(self.running.len()));
        let mut kv = 0;
        for (mut seq, chunk) in std::mem::take(&mut self.running).into_iter().zip(chunks) {
            if *chunk == 0 {
                left.push(seq);
                continue;
            }
            if seq.uncomputed() == 1 && seq.produced > 0 {
                decode += seq.request.rows;
            } else {
                prefill += seq.request.rows * chunk;
            }
            seq.computed += chunk;
            kv += seq.resident();
            if seq.uncomputed() > 0 {
                left.push(seq);
                continue;
            }
            if seq.produced == 0 {
                self.counters.prompt_tokens += seq.request.rows * seq.request.input;
            }
            seq.produced += 1;
            self.counters.generated_tokens += seq.request.rows;
            let event = if seq.done() {
                SequenceEvent::Last
            } else {
                SequenceEvent::Token
            };
            step.events.push((seq.request.id, event));
            if event == SequenceEvent::Last {
                self.store.release(&mut seq);
                self.counters.finished += 1;
                self.counters.finished_tokens.0 += seq.request.rows * seq.request.input;
                self.counters.finished_tokens.1 += seq.request.rows * seq.produced;
            } else if self.store.slice_ended(&seq) {
                self.store.release(&mut seq);
                self.waiting.push_back(seq);
            } else {
                left.push(seq);
            }
        }
        self.running = left;
        step.seconds = self.timing.step(self.eager, prefill, decode);
        step.work = StepWork {
            decodes: decode,
            prefill,
            kv,
        };
    }

    fn fail(&mut self, mut seq: Sequence, oom: CudaOom, step: &mut StepResult) {
        self.store.release(&mut seq);
        self.counters.failed += 1;
        step.events.push((seq.request.id, SequenceEvent::Oom(oom)));
    }

    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.len(),
            waiting: self.waiting.len(),
            usage: self.store.usage(),
        }
    }

    /// The highest value of each gauge since the last call, because model time may pass faster than anybody reads them.
    pub(crate) fn take_peaks(&mut self) -> Gauges {
        let peaks = self.highest();
        self.peaks = self.gauges();
        peaks
    }

    fn highest(&self) -> Gauges {
        let (now, peaks) = (self.gauges(), self.peaks);
        Gauges {
            running: now.running.max(peaks.running),
            waiting: now.waiting.max(peaks.waiting),
            usage: now.usage.map(|usage| usage.max(peaks.usage.unwrap_or_default())),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn store(&self) -> &KvStore {
        &self.store
    }
}

/// A request to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceRequest {
    pub(crate) id: u64,
    /// Prompts of the same length, computed in lockstep (a batch of `generate`); otherwise 1.
    pub(crate) rows: u64,
    /// Prompt tokens of each.
    pub(crate) input: u64,
    /// Tokens to produce for each, at least 1.
    pub(crate) output: u64,
    /// Prompt tokens found in the prefix cache, which need not be computed at first admission.
    pub(crate) cached: u64,
}

/// Result of a step for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceEvent {
    /// One more token (of each row).
    Token,
    Last,
    /// Out of memory.
    Oom(CudaOom),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub(super) request: SequenceRequest,
    pub(super) produced: u64,
    /// Tokens in the KV cache.
    pub(super) computed: u64,
    pub(super) blocks: u64,
}

impl Sequence {
    pub(super) fn new(request: SequenceRequest) -> Self {
        Self {
            request,
            produced: 0,
            computed: request.cached,
            blocks: 0,
        }
    }

    /// Prompt and produced tokens. The KV cache of the newest token is computed by the step that produces the next one.
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

    /// Allocates the blocks to compute `chunk` more tokens, all or nothing. False if there are not enough free blocks.
    /// `resident` is the number of tokens held by all running sequences.
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

    /// Whether the whole sequence would fit now. vLLM does not admit a sequence merely because its first chunk fits.
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

    /// Share of the pool in use, 0 to 1; `None` without a pool.
    pub(crate) fn usage(&self) -> Option<f64> {
        match self {
            Self::Pool(blocks, _) => Some(blocks.usage()),
            Self::Dynamic(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sim::memory::BlockPool;
    use crate::sim::profile::Profile;

    const BLOCK: u64 = 16;

    fn scheduler(blocks: u64, growth: KvAllocation, seqs: u64, step: u64) -> Scheduler {
        let timing = Profile::load("llama-8b-h200-vllm").unwrap().time;
        Scheduler::new(
            KvStore::Pool(BlockPool::new(blocks, BLOCK), growth),
            timing,
            true,
            seqs,
            step,
        )
    }

    fn growth() -> impl Strategy<Value = KvAllocation> {
        prop_oneof![
            Just(KvAllocation::Grow),
            Just(KvAllocation::Slice(32)),
            Just(KvAllocation::Slot(128))
        ]
    }

    proptest! {
        #[test]
        fn every_request_gets_every_token_and_every_block_comes_back(
            growth in growth(),
            lengths in prop::collection::vec((1_u64..100, 1_u64..28), 1..30),
            blocks in 8_u64..40,
            seqs in 1_u64..10,
            step in 1_u64..300,
        ) {
            let mut scheduler = scheduler(blocks, growth, seqs, step);
            for (id, (input, output)) in (0..).zip(&lengths) {
                scheduler.submit(SequenceRequest { id, rows: 1, input: *input, output: *output, cached: 0 });
            }
            let mut tokens = vec![0; lengths.len()];
            let mut done = vec![false; lengths.len()];
            let mut steps = 0;
            while let Some(step) = scheduler.step() {
                steps += 1;
                prop_assert!(steps < 100_000, "no end");
                prop_assert!(step.seconds > 0.0);
                prop_assert!(scheduler.store().usage().unwrap() <= 1.0);
                prop_assert!(scheduler.gauges().running as u64 <= seqs);
                for (id, event) in step.events {
                    let at = id as usize;
                    prop_assert!(!done[at], "an event after the end");
                    prop_assert!(!matches!(event, SequenceEvent::Oom(_)), "a pool never fails a request");
                    tokens[at] += 1;
                    done[at] = event == SequenceEvent::Last;
                }
                let counters = scheduler.counters();
                let Gauges { running, waiting, .. } = scheduler.gauges();
                let present = (running + waiting) as u64;
                prop_assert_eq!(counters.submitted, counters.finished + counters.failed + counters.cancelled + present);
            }
            prop_assert!(done.iter().all(|done| *done));
            prop_assert_eq!(tokens, lengths.iter().map(|(_, output)| *output).collect::<Vec<_>>());
            prop_assert_eq!(scheduler.store().usage(), Some(0.0));
        }

        #[test]
        fn cancelled_requests_leave_nothing_behind(
            growth in growth(),
            count in 1_u64..20,
            after in 0_usize..50,
            gone in prop::collection::vec(0_u64..20, 0..20),
        ) {
            let mut scheduler = scheduler(16, growth, 4, 64);
            for id in 0..count {
                scheduler.submit(SequenceRequest { id, rows: 1, input: 60, output: 20, cached: 0 });
            }
            for _ in 0..after {
                scheduler.step();
            }
            for id in gone {
                scheduler.cancel(id);
            }
            while scheduler.step().is_some() {}
            prop_assert_eq!(scheduler.store().usage(), Some(0.0));
            prop_assert_eq!(scheduler.counters().submitted, scheduler.counters().finished + scheduler.counters().cancelled);
        }
    }

    #[test]
    fn a_small_pool_preempts_unless_it_reserves_at_admission() {
        let run = |growth| {
            let mut scheduler = scheduler(16, growth, 8, 512);
            for id in 0..3 {
                scheduler.submit(SequenceRequest {
                    id,
                    rows: 1,
                    input: 64,
                    output: 60,
                    cached: 0,
                });
            }
            while scheduler.step().is_some() {}
            (scheduler.counters().preemptions > 0, scheduler.take_peaks().running)
        };
        assert_eq!(run(KvAllocation::Grow), (true, 3));
        assert_eq!(run(KvAllocation::Slice(1024)), (false, 2));
    }
}
