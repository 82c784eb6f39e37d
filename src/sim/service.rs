//! A running simulated engine between its HTTP side and its scheduler: takes requests, drives steps in time, hands tokens out,
//! and knows when to die.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, watch};

use super::failing::{FailedRequest, Fate};
use super::gauge::Gauge;
use super::handle::{Exit, LogSink};
use super::options::Victim;
use super::prefixes::{Heads, Prefixes};
use super::profile::Engine;
use super::schedule::{Batch, Counters, Event, Request, Store};
use super::setup::Setup;
use super::start::{Head, Line, Serving, Sizes};
use super::time::Pace;
use super::tokens::Counter;

/// Steps between two yields to the runtime when model time is free.
const STEPS_A_TURN: u32 = 32;

/// What a dying engine needs to say why.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Quiet times that an idle engine waits at most.
const LONGEST_GATHERING: u32 = 20;

/// How long requests that run together wait at most to be seen doing so, when model time is free.
const SHOWN: Duration = Duration::from_millis(100);

/// A running simulated engine.
pub(super) struct Service {
    pub(super) setup: Setup,
    pub(super) counter: Counter,
    pub(super) gauge: Arc<Gauge>,
    pub(super) max_total: u64,
    pub(super) max_input: u64,
    pub(super) kv_tokens: Option<u64>,
    pub(super) blocks: Option<(u64, u64)>,
    pub(super) sizes: Option<Sizes>,
    used: u64,
    // Steps at the last look at metrics that each look empties.
    looked: AtomicU64,
    log: LogSink,
    ready: watch::Sender<bool>,
    /// Ollama: why the model could not be loaded.
    pub(super) unloadable: Option<String>,
    dead: AtomicBool,
    refusals: AtomicU64,
    arrivals: AtomicU64,
    inner: Mutex<Inner>,
    wake: Notify,
    shown: Notify,
    fate: mpsc::UnboundedSender<Exit>,
}

struct Inner {
    batch: Batch,
    prefixes: Prefixes,
    clients: HashMap<u64, Client>,
    next: u64,
}

/// Who waits for tokens.
struct Client {
    events: mpsc::UnboundedSender<Event>,
    /// Whether it has its first.
    begun: bool,
}

/// What the metrics pages tell.
pub(super) struct Snapshot {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) usage: Option<f64>,
    pub(super) counters: Counters,
    /// Tokens looked up in the prefix cache, and found there.
    pub(super) prefixes: (u64, u64),
}

impl Service {
    pub(super) fn new(
        setup: Setup,
        serving: Serving,
        counter: Counter,
        gauge: Arc<Gauge>,
        log: LogSink,
        fate: mpsc::UnboundedSender<Exit>,
    ) -> Self {
        Self {
            refusals: AtomicU64::new(setup.misbehave.refuse_429.unwrap_or(0)),
            arrivals: AtomicU64::new(0),
            setup,
            counter,
            gauge,
            max_total: serving.max_total,
            max_input: serving.max_input,
            kv_tokens: serving.kv_tokens,
            blocks: serving.blocks,
            sizes: serving.sizes,
            used: serving.used,
            looked: AtomicU64::new(0),
            log,
            ready: watch::Sender::new(false),
            unloadable: serving.unloadable,
            dead: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                batch: serving.batch,
                prefixes: Prefixes::new(serving.kv_tokens.unwrap_or_default()),
                clients: HashMap::new(),
                next: 1,
            }),
            wake: Notify::new(),
            shown: Notify::new(),
            fate,
        }
    }

    /// Loaded: requests are served from now on.
    pub(super) fn open(&self) {
        self.ready.send_replace(true);
    }

    /// Whether it is loaded.
    pub(super) fn is_open(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until it is loaded.
    pub(super) async fn opened(&self) {
        // The sender lives as long as the service.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Whether it is there and serves no more.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// A request goes wrong: says so in the log, and what becomes of the engine happens.
    pub(super) fn fail(&self, failed: &FailedRequest) {
        for text in &failed.log {
            self.say(&Line::new(Head::Bare, text));
        }
        if failed.then != Fate::Lives {
            self.dead.store(true, Ordering::Release);
        }
        if failed.then == Fate::Exits {
            let (fate, exit) = (self.fate.clone(), failed.ending.into());
            tokio::spawn(async move {
                // What was said of it reaches the client first.
                tokio::time::sleep(LAST_WORDS).await;
                let _ = fate.send(exit);
            });
        }
    }

    /// Takes note of a request that arrives; whether it is one of those that go wrong before they are let in.
    pub(super) fn is_concerned(&self) -> bool {
        let number = self.arrivals.fetch_add(1, Ordering::AcqRel) + 1;
        self.setup.misbehave.concerns(number)
    }

    /// Whether this request is one of those to answer with 429, by misbehaviour or by a limit of the engine.
    pub(super) fn overloaded(&self) -> bool {
        let refused = self.is_concerned()
            && self
                .refusals
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1))
                .is_ok();
        let busy = || {
            self.setup
                .max_concurrent
                .is_some_and(|most| self.inner().clients.len() as u64 >= most)
        };
        refused || busy()
    }

    /// Whether the engine keeps what it read of prompts for those that begin alike.
    pub(super) fn keeps_prefixes(&self) -> bool {
        let engine = self.setup.profile.engine;
        self.setup.prefix_cache && matches!(engine, Engine::Vllm | Engine::Sglang | Engine::TensorrtLlm)
    }

    /// Looks a prompt up in the prefix cache, which knows it from now on: how many of its tokens are there.
    pub(super) fn look_up(&self, prompt: &Heads) -> u64 {
        self.inner().prefixes.look_up(prompt)
    }

    /// Puts a request into the queue, of whose prompt so many tokens need not be computed.
    pub(super) fn submit(self: &Arc<Self>, rows: u64, input: u64, output: u64, cached: u64) -> Ticket {
        let (sender, events) = mpsc::unbounded_channel();
        let mut inner = self.inner();
        let id = inner.next;
        inner.next += 1;
        inner.clients.insert(
            id,
            Client {
                events: sender,
                begun: false,
            },
        );
        inner.batch.submit(Request {
            id,
            rows,
            input,
            output,
            cached,
        });
        drop(inner);
        self.wake.notify_one();
        Ticket {
            id,
            total: input.saturating_add(output),
            events,
            service: Arc::clone(self),
        }
    }

    /// What the metrics pages tell.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.shown.notify_waiters();
        let inner = self.inner();
        Snapshot {
            running: inner.batch.running(),
            waiting: inner.batch.waiting(),
            usage: inner.batch.store().usage(),
            counters: *inner.batch.counters(),
            prefixes: (inner.prefixes.queries, inner.prefixes.hits),
        }
    }

    /// Whether there were steps since the last time that this was asked; `steps` are those until now.
    pub(super) fn moved(&self, steps: u64) -> bool {
        self.looked.swap(steps, Ordering::AcqRel) != steps
    }

    /// The process ends.
    pub(super) fn die(&self, exit: Exit) {
        // Nobody listens only when it is ending already.
        let _ = self.fate.send(exit);
    }

    /// Writes a log line.
    pub(super) fn say(&self, line: &Line) {
        (self.log)(&line.at(&jiff::Zoned::now()).to_string());
    }

    /// Runs steps for as long as it is polled.
    pub(super) async fn drive(self: Arc<Self>) {
        let mut pace = Pace::new(self.setup.time_scale);
        let mut steps: u32 = 0;
        let mut company = false;
        loop {
            let Some(seconds) = Some(())
                .filter(|()| !self.setup.misbehave.starve)
                .and_then(|()| self.step())
            else {
                self.gauge.set_busy(false);
                self.wake.notified().await;
                company = self.gather().await;
                pace.rest();
                continue;
            };
            self.gauge.set_busy(true);
            steps = steps.wrapping_add(1);
            if company && self.setup.time_scale == 0.0 && self.all_begun() {
                company = false;
                let _ = tokio::time::timeout(SHOWN, self.shown.notified()).await;
            }
            if let Some(sleep) = pace.spend(seconds) {
                let began = Instant::now();
                tokio::time::sleep(sleep).await;
                pace.slept(began.elapsed());
            } else if steps.is_multiple_of(STEPS_A_TURN) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits for company until nobody has come for a while, or it has taken too long altogether; whether anybody came.
    async fn gather(&self) -> bool {
        let quiet = Duration::from_millis(self.setup.gather_ms);
        if quiet.is_zero() {
            return false;
        }
        let began = Instant::now();
        while began.elapsed() < quiet * LONGEST_GATHERING
            && tokio::time::timeout(quiet, self.wake.notified()).await.is_ok()
        {}
        self.inner().clients.len() > 1
    }

    /// Whether everybody who is there has a token: all run together. Where time is free the next step may end it before anybody looks.
    fn all_begun(&self) -> bool {
        let inner = self.inner();
        inner.clients.len() > 1 && inner.clients.values().all(|client| client.begun)
    }

    /// One step; its model time, or nothing where nobody is there.
    fn step(&self) -> Option<f64> {
        let mut inner = self.inner();
        let step = inner.batch.step()?;
        let used = match inner.batch.store() {
            Store::Pool(..) => self.used,
            Store::Dynamic(memory) => memory.used(),
        };
        self.gauge.set(used);
        for (id, event) in step.events {
            if let Event::Oom(oom) = event {
                self.say(&Line::new(Head::Bare, format!("torch.OutOfMemoryError: {oom}")));
                match self.setup.victim {
                    Victim::Request => {}
                    Victim::Process => self.die(exit(1, false)),
                    Victim::Killed => self.die(exit(137, true)),
                }
                if self.setup.victim != Victim::Request {
                    return Some(step.seconds);
                }
            }
            let client = match event {
                Event::Token => inner.clients.get_mut(&id).map(|client| {
                    client.begun = true;
                    client.events.clone()
                }),
                Event::Last | Event::Oom(_) => inner.clients.remove(&id).map(|client| client.events),
            };
            if let Some(client) = client {
                // A client that is gone cancels by dropping its ticket.
                let _ = client.send(event);
            }
        }
        Some(step.seconds)
    }

    fn cancel(&self, id: u64) {
        let mut inner = self.inner();
        if inner.clients.remove(&id).is_some() {
            inner.batch.cancel(id);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exit of the simulated process.
fn exit(code: i32, oom_killed: bool) -> Exit {
    Exit { code, oom_killed }
}

/// A request in the engine. Dropping it gives the request up.
pub(super) struct Ticket {
    pub(super) id: u64,
    /// Tokens of input and output.
    pub(super) total: u64,
    pub(super) events: mpsc::UnboundedReceiver<Event>,
    pub(super) service: Arc<Service>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.service.cancel(self.id);
    }
}
