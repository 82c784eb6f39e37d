//! Conducts one load: starts the client, answers its questions on the script's thread, ends it when its time is up, when the engine dies, or when the
//! user has had enough.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::beside::Beside;
use super::feed::Feed;
use super::stall::Stall;
use crate::boundary::Point;
use crate::engine::handle::Running;
use crate::engine::{Engine, Limits, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::{Drive, Driven, Source, drive};
use crate::run::Event;

/// How long a load that is interrupted may take to tell what it was doing.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Between two words on how far it is.
const PROGRESS: Duration = Duration::from_secs(1);

/// What those who serve a load tell its conductor.
pub(super) enum Signal {
    /// A thread that makes requests needs the adapter's form for these lengths; adapters can be asked on the script's thread only.
    Form(u64, u64, SyncSender<Result<RequestForm>>),
    /// The measured part began.
    HandedOver,
    /// A connection broke: the engine may be dead.
    Suspect,
}

/// What came of a load, and whether the engine was seen to be dead while it went on.
pub(super) struct Conducted {
    pub(super) driven: Driven,
    pub(super) died: bool,
}

/// What a conductor needs to know.
pub(super) struct Orders {
    pub(super) url: String,
    pub(super) drive: Drive,
    pub(super) feed: Arc<Feed>,
    pub(super) signals: UnboundedReceiver<Signal>,
    /// Ends so long after the measured part began, where that moment was not known beforehand.
    pub(super) lasts: Option<Duration>,
    /// Requests expected in all, where that is known.
    pub(super) expected: Option<u64>,
    /// For so long nothing may move.
    pub(super) stall: Duration,
}

/// What happens next.
enum Happening {
    Signal(Signal),
    Over(Box<Result<Driven>>),
    TimeUp,
    Tick,
}

impl Engine {
    /// Runs a load to its end.
    ///
    /// # Errors
    ///
    /// What the client or the adapter failed with; `interrupted`, once what was under way is cut off and on disk.
    pub(super) fn conduct(&self, running: &Running, beside: &Beside, orders: Orders) -> Result<Conducted> {
        let Orders {
            url,
            drive: plan,
            feed,
            mut signals,
            lasts,
            expected,
            stall,
        } = orders;
        let cut = plan.cut.clone();
        let source: Arc<dyn Source> = Arc::clone(&feed) as _;
        let client = async move { drive(&url, plan, source).await };
        let mut client = self.context.tasks.runtime().spawn(client);
        let _end = End(&feed, &cut);
        let mut deadline = None;
        let mut died = false;
        let mut told = (Instant::now(), 0);
        let (look, mut stall) = (PROGRESS.min(stall / 4), Stall::new(stall));
        let mut next_look = Instant::now() + look;
        loop {
            let happening = self.context.tasks.wait(async {
                Ok(tokio::select! {
                    biased;
                    over = &mut client => Happening::Over(Box::new(joined(over))),
                    Some(signal) = signals.recv() => Happening::Signal(signal),
                    () = until(deadline) => Happening::TimeUp,
                    () = tokio::time::sleep_until(next_look.into()) => Happening::Tick,
                })
            });
            let conducted = happening.and_then(|happening| {
                match happening {
                    Happening::Over(driven) => return driven.map(Some),
                    Happening::Signal(Signal::Form(input, output, reply)) => {
                        // Whoever asked may be gone.
                        let _ = reply.send(self.form_of(running.limits.as_ref(), input, output));
                    }
                    Happening::Signal(Signal::HandedOver) => deadline = lasts.map(|lasts| Instant::now() + lasts),
                    Happening::Signal(Signal::Suspect) => {
                        if !died && self.context.tasks.wait(running.server.exit())?.is_some() {
                            died = true;
                            cut.cancel();
                        }
                    }
                    Happening::TimeUp => {
                        deadline = None;
                        cut.cancel();
                    }
                    Happening::Tick => {
                        next_look = Instant::now() + look;
                        if let Some(why) = stall.sees(feed.counts(), beside.latest(), Instant::now()) {
                            feed.give_up(why);
                            cut.cancel();
                        }
                    }
                }
                if told.0.elapsed() >= PROGRESS {
                    self.tell_progress(&feed, &mut told, expected)?;
                    if let Some(sampler) = &running.sampler {
                        self.show_memory(sampler)?;
                    }
                }
                Ok(None)
            });
            match conducted {
                Ok(None) => {}
                Ok(Some(driven)) => return Ok(Conducted { driven, died }),
                Err(fault) => {
                    self.farewell(&feed, &cut, client);
                    return Err(fault);
                }
            }
        }
    }

    /// The adapter's form of a request of these lengths.
    pub(super) fn form_of(&self, limits: Option<&Limits>, input: u64, output: u64) -> Result<RequestForm> {
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        let point = Point::default()
            .with("input", whole(input.max(1))?)
            .with("output", whole(output)?)
            .with("concurrency", 1);
        self.adapter.request(&point, limits)
    }

    /// Cuts off what is under way and lets its records reach the disk.
    fn farewell(&self, feed: &Feed, cut: &CancellationToken, client: JoinHandle<Result<Driven>>) {
        cut.cancel();
        feed.larder.close();
        if client.is_finished() {
            return;
        }
        let abort = client.abort_handle();
        // What it would still have to say is on disk, or lost.
        let _ = self
            .context
            .tasks
            .finish(async { tokio::time::timeout(FAREWELL, client).await });
        abort.abort();
    }

    fn tell_progress(&self, feed: &Feed, told: &mut (Instant, u64), expected: Option<u64>) -> Result<()> {
        let (issued, done) = feed.counts();
        let (at, before) = std::mem::replace(told, (Instant::now(), done));
        self.context.run.note(Event::Loading {
            done,
            issued,
            expected,
            per_second: (done - before) as f64 / at.elapsed().as_secs_f64(),
        })
    }
}

/// Ends the threads of a load however it is left.
struct End<'a>(&'a Feed, &'a CancellationToken);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.1.cancel();
        self.0.larder.close();
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn joined(over: std::result::Result<Result<Driven>, tokio::task::JoinError>) -> Result<Driven> {
    over.map_err(|error| Fault::internal(format!("the client of the load ended badly: {error}")))?
}
