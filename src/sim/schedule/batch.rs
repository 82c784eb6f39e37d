//! One step after the other: who computes what, who is thrown out, who is let in.
//!
//! The order is vLLM's: running sequences first, oldest first, each with what it is due, within the step's token budget; when blocks run out
//! the newest running sequence is thrown out and goes to the head of the queue; then the queue, in order, while the whole of
//! what is known of a sequence would fit, and not in a step that threw anybody out.

use std::collections::VecDeque;

use super::seq::{Event, Request, Seq};
use super::store::Store;
use crate::sim::memory::CudaOom;
use crate::sim::time::Timing;

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// Requests taken.
    pub(crate) submitted: u64,
    /// Requests that got all their tokens.
    pub(crate) finished: u64,
    /// Requests that memory failed.
    pub(crate) failed: u64,
    /// Requests that were given up.
    pub(crate) cancelled: u64,
    /// Tokens of the requests that got all of theirs: prompts, and what was produced.
    pub(crate) finished_tokens: (u64, u64),
    /// Sequences thrown out of the cache.
    pub(crate) preemptions: u64,
    /// Prompt tokens of requests whose prompt was computed.
    pub(crate) prompt_tokens: u64,
    /// Tokens produced.
    pub(crate) generated_tokens: u64,
    /// Steps.
    pub(crate) steps: u64,
    /// Model time spent in steps, seconds.
    pub(crate) seconds: f64,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Step {
    /// Model time.
    pub(crate) seconds: f64,
    /// By request, in the order of the batch.
    pub(crate) events: Vec<(u64, Event)>,
}

/// The scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    store: Store,
    timing: Timing,
    eager: bool,
    max_seqs: usize,
    step_tokens: u64,
    running: Vec<Seq>,
    waiting: VecDeque<Seq>,
    counters: Counters,
}

impl Batch {
    /// An idle engine that runs up to `max_seqs` sequences and computes up to `step_tokens` tokens in one step.
    pub(crate) fn new(store: Store, timing: Timing, eager: bool, max_seqs: u64, step_tokens: u64) -> Self {
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

    /// Puts a request into the queue. It must fit into the pool alone: the caller refuses longer ones.
    pub(crate) fn submit(&mut self, request: Request) {
        self.counters.submitted += 1;
        self.waiting.push_back(Seq::new(request));
    }

    /// Gives a request up, wherever it is.
    pub(crate) fn cancel(&mut self, id: u64) {
        let at = self.running.iter().position(|seq| seq.request.id == id);
        let gone = match at {
            Some(at) => Some(self.running.remove(at)),
            None => {
                let at = self.waiting.iter().position(|seq| seq.request.id == id);
                at.and_then(|at| self.waiting.remove(at))
            }
        };
        if let Some(mut seq) = gone {
            self.store.release(&mut seq);
            self.counters.cancelled += 1;
        }
    }

    /// One step; nothing where nobody is there.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if self.running.is_empty() && self.waiting.is_empty() {
            return None;
        }
        let mut step = Step::default();
        let before = self.counters.preemptions;
        // Constant within a step: what is let in holds nothing yet.
        let resident = self.running.iter().map(Seq::resident).sum();
        let mut shares = self.schedule_running(resident, &mut step);
        if self.counters.preemptions == before {
            self.admit(resident, &mut shares, &mut step);
        }
        self.compute(&shares, &mut step);
        self.counters.steps += 1;
        self.counters.seconds += step.seconds;
        Some(step)
    }

    /// Tokens that each running sequence computes in this step. Sequences without blocks go back to the queue, newest first.
    fn schedule_running(&mut self, resident: u64, step: &mut Step) -> Vec<u64> {
        let (mut shares, mut budget) = (Vec::with_capacity(self.running.len()), self.step_tokens);
        while shares.len() < self.running.len() {
            let at = shares.len();
            let mut seq = self.running[at];
            let share = seq.due().min(budget);
            match self.store.provide(&mut seq, share, resident) {
                Ok(true) => {
                    self.running[at] = seq;
                    shares.push(share);
                    budget -= share;
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
        shares
    }

    /// Lets sequences in from the queue.
    fn admit(&mut self, resident: u64, shares: &mut Vec<u64>, step: &mut Step) {
        let mut budget = self.step_tokens - shares.iter().sum::<u64>();
        while budget > 0 && self.running.len() < self.max_seqs {
            let Some(mut seq) = self.waiting.pop_front() else { break };
            let share = seq.due().min(budget);
            if !self.store.has_room(&seq) {
                self.waiting.push_front(seq);
                break;
            }
            match self.store.provide(&mut seq, share, resident) {
                Ok(true) => {
                    self.running.push(seq);
                    shares.push(share);
                    budget -= share;
                }
                Ok(false) => {
                    self.waiting.push_front(seq);
                    break;
                }
                Err(oom) => self.fail(seq, oom, step),
            }
        }
    }

    /// Computes the shares: tokens come out of sequences that have nothing left to compute.
    fn compute(&mut self, shares: &[u64], step: &mut Step) {
        let (mut prefill, mut decode, mut left) = (0, 0, Vec::with_capacity(self.running.len()));
        for (mut seq, share) in std::mem::take(&mut self.running).into_iter().zip(shares) {
            if seq.due() == 1 && seq.produced > 0 {
                decode += seq.request.rows;
            } else {
                prefill += seq.request.rows * share;
            }
            seq.computed += share;
            if seq.due() > 0 {
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

    fn fail(&mut self, mut seq: Seq, oom: CudaOom, step: &mut Step) {
        self.store.release(&mut seq);
        self.counters.failed += 1;
        step.events.push((seq.request.id, Event::Oom(oom)));
    }

    /// Requests being served.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests waiting.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What has happened since the start.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where the KV lives.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}
