//! Core of a running simulated engine, between HTTP and scheduler. It queues requests, runs steps in scaled time, sends
//! tokens, and triggers exits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::TimeScaler;
use super::devices::SimDevices;
use super::exit::{Exit, LogSink};
use super::options::{AfterFailure, FailedRequest, Setup, Victim};
use super::scheduler::{Counters, Gauges, KvStore, Scheduler, SequenceEvent, SequenceRequest};
use super::start::{Limits, Serving};
use super::tokens::{PrefixCache, PrefixHashes, TokenCounter};
use crate::task::lock;

/// Steps between two yields to the async runtime when model time is free (time scale 0).
const STEPS_PER_YIELD: u32 = 32;

/// Delay before an exit, so that the error reaches the client first.
const EXIT_DELAY: Duration = Duration::from_millis(20);

/// Limit of the wait for further requests, in units of `gather_ms`.
const MAX_GATHER_PERIODS: u32 = 20;

pub(super) struct EngineCore {
    pub(super) setup: Setup,
    pub(super) counter: TokenCounter,
    pub(super) devices: Arc<SimDevices>,
    pub(super) limits: Limits,
    // Step count at the last read of metrics that are cleared by each read (TensorRT-LLM).
    last_metrics_step: AtomicU64,
    log: LogSink,
    ready: watch::Sender<bool>,
    dead: AtomicBool,
    refusals: AtomicU64,
    arrivals: AtomicU64,
    queue: Mutex<QueueState>,
    wake: Notify,
    exit_sender: mpsc::UnboundedSender<Exit>,
}

struct QueueState {
    scheduler: Scheduler,
    prefixes: PrefixCache,
    clients: HashMap<u64, mpsc::UnboundedSender<SequenceEvent>>,
    next: u64,
}

/// State for the metrics pages.
pub(super) struct Snapshot {
    pub(super) gauges: Gauges,
    pub(super) counters: Counters,
    /// Tokens looked up in the prefix cache, and tokens found there.
    pub(super) prefixes: (u64, u64),
}

impl EngineCore {
    pub(super) fn new(
        setup: Setup,
        serving: Serving,
        counter: TokenCounter,
        devices: Arc<SimDevices>,
        log: LogSink,
        exit_sender: mpsc::UnboundedSender<Exit>,
    ) -> Self {
        Self {
            refusals: AtomicU64::new(setup.options.misbehave.refuse_429.unwrap_or(0)),
            arrivals: AtomicU64::new(0),
            setup,
            counter,
            devices,
            last_metrics_step: AtomicU64::new(0),
            log,
            ready: watch::Sender::new(false),
            dead: AtomicBool::new(false),
            queue: Mutex::new(QueueState {
                scheduler: serving.scheduler,
                prefixes: PrefixCache::new(serving.limits.kv_tokens.unwrap_or_default()),
                clients: HashMap::new(),
                next: 1,
            }),
            limits: serving.limits,
            wake: Notify::new(),
            exit_sender,
        }
    }

    /// Marks the model as loaded; requests are served from now on.
    pub(super) fn set_loaded(&self) {
        self.ready.send_replace(true);
    }

    pub(super) fn is_loaded(&self) -> bool {
        *self.ready.borrow()
    }

    pub(super) async fn wait_loaded(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Whether the engine is alive but no longer serves.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Logs a request's failure and applies its effect on the engine.
    pub(super) fn apply_failure(&self, failed: &FailedRequest) {
        for text in &failed.log {
            self.log_line(&format!("SIMULATED {text}"));
        }
        if failed.then != AfterFailure::Lives {
            self.dead.store(true, Ordering::Release);
        }
        if failed.then == AfterFailure::Exits {
            let (exit_sender, exit) = (self.exit_sender.clone(), failed.ending);
            tokio::spawn(async move {
                // Let the error reach the client first.
                tokio::time::sleep(EXIT_DELAY).await;
                let _ = exit_sender.send(exit);
            });
        }
    }

    /// Counts an arriving request. Returns whether the configured misbehaviour applies to it.
    pub(super) fn next_request_misbehaves(&self) -> bool {
        let number = self.arrivals.fetch_add(1, Ordering::AcqRel) + 1;
        self.setup.options.misbehave.applies_to(number)
    }

    /// Whether to answer this request with 429, because of misbehaviour or the engine's own limit.
    pub(super) fn overloaded(&self) -> bool {
        let refused = self.next_request_misbehaves()
            && self
                .refusals
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1))
                .is_ok();
        let busy = || {
            self.setup
                .max_concurrent
                .is_some_and(|limit| self.queue().clients.len() as u64 >= limit)
        };
        refused || busy()
    }

    /// Whether the engine has a prefix cache and it is enabled.
    pub(super) fn has_prefix_cache(&self) -> bool {
        self.setup.options.prefix_cache != Some(false) && self.setup.profile.engine.has_prefix_cache()
    }

    /// The number of the prompt's tokens found in the prefix cache. Adds the prompt to it.
    pub(super) fn look_up(&self, prompt: &PrefixHashes) -> u64 {
        self.queue().prefixes.look_up(prompt)
    }

    /// Queues a request; `cached` prompt tokens need not be computed.
    pub(super) fn submit(self: &Arc<Self>, rows: u64, input: u64, output: u64, cached: u64) -> QueuedRequest {
        let (sender, events) = mpsc::unbounded_channel();
        let mut queue = self.queue();
        let id = queue.next;
        queue.next += 1;
        queue.clients.insert(id, sender);
        queue.scheduler.submit(SequenceRequest {
            id,
            rows,
            input,
            output,
            cached,
        });
        drop(queue);
        self.wake.notify_one();
        QueuedRequest {
            id,
            total: input.saturating_add(output),
            events,
            core: Arc::clone(self),
        }
    }

    /// The current state. If model time is faster than real time, the `metrics` page shows the highest gauges since it
    /// was last read, because nobody could read it in time.
    pub(super) fn snapshot(&self, metrics: bool) -> Snapshot {
        let mut queue = self.queue();
        Snapshot {
            gauges: if metrics && self.setup.time_scale < 1.0 {
                queue.scheduler.take_peaks()
            } else {
                queue.scheduler.gauges()
            },
            counters: *queue.scheduler.counters(),
            prefixes: (queue.prefixes.queries, queue.prefixes.hits),
        }
    }

    /// Whether steps were made since the last call; `steps` is the current count.
    pub(super) fn has_new_steps(&self, steps: u64) -> bool {
        self.last_metrics_step.swap(steps, Ordering::AcqRel) != steps
    }

    /// Ends the process.
    pub(super) fn exit_process(&self, exit: Exit) {
        // Fails only if the process is already exiting.
        let _ = self.exit_sender.send(exit);
    }

    pub(super) fn log_line(&self, line: &str) {
        (self.log)(&self.setup.profile.engine.stamped(line));
    }

    /// Runs steps until dropped.
    pub(super) async fn run(self: Arc<Self>) {
        let mut scaler = TimeScaler::new(self.setup.time_scale);
        let mut steps: u32 = 0;
        loop {
            let starves = self.setup.options.misbehave.starve;
            let Some(seconds) = (!starves).then(|| self.step()).flatten() else {
                self.devices.set_busy(false);
                self.wake.notified().await;
                self.wait_for_more_requests().await;
                scaler.reset();
                continue;
            };
            self.devices.set_busy(true);
            steps = steps.wrapping_add(1);
            if let Some(sleep) = scaler.spend(seconds) {
                let began = Instant::now();
                tokio::time::sleep(sleep).await;
                scaler.slept(began.elapsed());
            } else if steps.is_multiple_of(STEPS_PER_YIELD) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until no request has arrived for `gather_ms`, or until the limit is reached.
    async fn wait_for_more_requests(&self) {
        let quiet = Duration::from_millis(self.setup.gather_ms);
        if quiet.is_zero() {
            return;
        }
        let began = Instant::now();
        while began.elapsed() < quiet * MAX_GATHER_PERIODS
            && tokio::time::timeout(quiet, self.wake.notified()).await.is_ok()
        {}
    }

    /// Runs one step and returns its model time; `None` if there are no requests.
    fn step(&self) -> Option<f64> {
        let mut queue = self.queue();
        let step = queue.scheduler.step()?;
        let used = match queue.scheduler.store() {
            KvStore::Pool(..) => self.limits.memory.used_serving,
            KvStore::Dynamic(memory) => memory.used(),
        };
        self.devices.set(used);
        for (id, event) in step.events {
            if let SequenceEvent::Oom(oom) = event {
                self.log_line(&format!("SIMULATED torch.OutOfMemoryError: {oom}"));
                let exit = match self.setup.options.oom.unwrap_or_default() {
                    Victim::Request => None,
                    Victim::Process => Some(Exit::FAILED),
                    Victim::Killed => Some(Exit {
                        oom_killed: true,
                        ..Exit::KILLED
                    }),
                };
                if let Some(exit) = exit {
                    self.exit_process(exit);
                    return Some(step.seconds);
                }
            }
            let client = match event {
                SequenceEvent::Token => queue.clients.get(&id).cloned(),
                SequenceEvent::Last | SequenceEvent::Oom(_) => queue.clients.remove(&id),
            };
            if let Some(client) = client {
                // Sending fails if the client disconnected; it cancels by dropping its request.
                let _ = client.send(event);
            }
        }
        Some(step.seconds)
    }

    fn cancel(&self, id: u64) {
        let mut queue = self.queue();
        if queue.clients.remove(&id).is_some() {
            queue.scheduler.cancel(id);
        }
    }

    fn queue(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.queue)
    }
}

/// A request in the engine. Dropping it cancels the request.
pub(super) struct QueuedRequest {
    pub(super) id: u64,
    /// Tokens of input and output.
    pub(super) total: u64,
    pub(super) events: mpsc::UnboundedReceiver<SequenceEvent>,
    pub(super) core: Arc<EngineCore>,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.core.cancel(self.id);
    }
}
