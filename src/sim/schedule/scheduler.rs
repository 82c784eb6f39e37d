//! The scheduler: decides in each step which sequences compute, are preempted, or are admitted.
//!
//! The order is vLLM's. Running sequences come first, oldest first, each with its uncomputed tokens within the step's
//! token budget. If blocks run out, the newest running sequence is preempted and moved to the front of the queue.
//! Then sequences are admitted in queue order while all their known tokens would fit; none is admitted in a step with
//! a preemption.

use std::collections::VecDeque;

use super::kv_store::KvStore;
use super::sequence::{Event, Request, Sequence};
use crate::sim::memory::CudaOom;
use crate::sim::time::Timing;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

/// Result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Step {
    /// Model time.
    pub(crate) seconds: f64,
    /// By request id, in scheduling order.
    pub(crate) events: Vec<(u64, Event)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    store: KvStore,
    timing: Timing,
    eager: bool,
    max_seqs: usize,
    step_tokens: u64,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    counters: Counters,
}

impl Scheduler {
    /// Runs up to `max_seqs` sequences, and computes up to `step_tokens` tokens in one step.
    pub(crate) fn new(store: KvStore, timing: Timing, eager: bool, max_seqs: u64, step_tokens: u64) -> Self {
        Self {
            store,
            timing,
            eager,
            max_seqs: usize::try_from(max_seqs).unwrap_or(usize::MAX).max(1),
            step_tokens: step_tokens.max(1),
            running: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Queues a request. It must fit into an empty pool; the caller refuses longer ones.
    pub(crate) fn submit(&mut self, request: Request) {
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

    /// Runs one step; none if there are no sequences.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if self.running.is_empty() && self.waiting.is_empty() {
            return None;
        }
        let mut step = Step::default();
        let before = self.counters.preemptions;
        // Constant within a step: newly admitted sequences hold no tokens yet.
        let resident = self.running.iter().map(Sequence::resident).sum();
        let mut chunks = self.schedule_running(resident, &mut step);
        if self.counters.preemptions == before {
            self.admit(resident, &mut chunks, &mut step);
        }
        self.compute(&chunks, &mut step);
        self.counters.steps += 1;
        self.counters.seconds += step.seconds;
        Some(step)
    }

    /// Number of tokens that each running sequence computes in this step. Preempts the newest sequences if blocks run
    /// out.
    fn schedule_running(&mut self, resident: u64, step: &mut Step) -> Vec<u64> {
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
    fn admit(&mut self, resident: u64, chunks: &mut Vec<u64>, step: &mut Step) {
        let mut budget = self.step_tokens - chunks.iter().sum::<u64>();
        while budget > 0 && self.running.len() < self.max_seqs {
            let Some(mut seq) = self.waiting.pop_front() else { break };
            let chunk = seq.uncomputed().min(budget);
            if !self.store.can_admit(&seq) {
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
    fn compute(&mut self, chunks: &[u64], step: &mut Step) {
        let (mut prefill, mut decode, mut left) = (0, 0, Vec::with_capacity(self.running.len()));
        for (mut seq, chunk) in std::mem::take(&mut self.running).into_iter().zip(chunks) {
            if seq.uncomputed() == 1 && seq.produced > 0 {
                decode += seq.request.rows;
            } else {
                prefill += seq.request.rows * chunk;
            }
            seq.computed += chunk;
            if seq.uncomputed() > 0 {
                left.push(seq);
                continue;
            }
            if seq.produced == 0 {
                self.counters.prompt_tokens += seq.request.rows * seq.request.input;
            }
            seq.produced += 1;
            self.counters.generated_tokens += seq.request.rows;
            let event = if seq.done() { Event::Last } else { Event::Token };
            step.events.push((seq.request.id, event));
            if event == Event::Last {
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
    }

    fn fail(&mut self, mut seq: Sequence, oom: CudaOom, step: &mut Step) {
        self.store.release(&mut seq);
        self.counters.failed += 1;
        step.events.push((seq.request.id, Event::Oom(oom)));
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn store(&self) -> &KvStore {
        &self.store
    }
}
