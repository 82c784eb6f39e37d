//! Runs one load. [`Feed`] supplies the load's client with requests while the plan wants more, and processes its finished
//! records: each is written to disk as one JSON line, so that nothing is lost in a crash. The script's thread answers the
//! client's requests, and stops it when time is up, the engine dies, or the user interrupts. With a simulated engine that
//! does not run in real time, everything that a load plans and reports is in the time of the modelled card, so that its
//! figures are the card's.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::monitor::LoadMonitor;
use super::session::Session;
use crate::engine::handle::Running;
use crate::engine::metrics::StallDetector;
use crate::engine::{Engine, Limits, Protocol, RequestForm, protocol};
use crate::fault::{Fault, Result};
use crate::fmt::number;
use crate::load::engine_side::Observations;
use crate::load::plan::{LoadProgress, Request, Schedule};
use crate::load::{BuildJob, Control, FailureForm, Job, LoadRun, Outcome, Record, RequestSource, run_load};
use crate::run::{BoundedFile, Event, hide_json};
use crate::task::lock;
use crate::warning::{CLOCK_TOO_FAST, Warning};

/// How long an interrupted load may take to finish its records.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// Interval of progress events.
const PROGRESS: Duration = Duration::from_secs(1);

impl Engine {
    /// Runs a load to its end. Also returns whether the engine died during the load.
    ///
    /// # Errors
    ///
    /// Errors of the client or the adapter; `interrupted`, after unfinished requests were cut off and written to disk.
    pub(super) fn run_client(
        &self,
        running: &Running,
        monitor: &LoadMonitor,
        session: &Session,
        feed: &Arc<Feed>,
        mut signals: UnboundedReceiver<Signal>,
    ) -> Result<(LoadRun, bool)> {
        let (mut config, measured) = session.client_config();
        config.key.clone_from(&running.key);
        let url = session.url.clone();
        let cancel = config.cancel.clone();
        let source: Arc<dyn RequestSource> = Arc::clone(feed) as _;
        let client = async move { run_load(&url, config, source).await };
        let mut client = self.context.tasks.runtime().spawn(client);
        // Ends the load's threads on every exit path.
        let _stop = cancel.clone().drop_guard();
        let lost = |error| Fault::internal(format!("load client task failed: {error}"));
        let mut deadline = None;
        let mut died = false;
        let mut progress = (Instant::now(), 0);
        let (interval, mut stall) = (PROGRESS.min(session.stall / 4), StallDetector::new(session.stall));
        let mut next_check = Instant::now() + interval;
        loop {
            let event = self.wait(async {
                Ok(tokio::select! {
                    biased;
                    result = &mut client => Signal::Over(Box::new(result.map_err(lost).flatten())),
                    Some(signal) = signals.recv() => signal,
                    () = until(deadline) => Signal::TimeUp,
                    () = tokio::time::sleep_until(next_check.into()) => Signal::Tick,
                })
            });
            let result = event.and_then(|event| {
                match event {
                    Signal::Over(driven) => return driven.map(Some),
                    Signal::Form(input, output, reply) => {
                        // The requesting thread may have ended.
                        let _ = reply.send(self.form_for(Some(running), input, output));
                    }
                    Signal::MeasurementBegan => deadline = measured.map(|measured| Instant::now() + measured),
                    Signal::ConnectionBroke => {
                        if !died && self.wait(running.server.exit())?.is_some() {
                            died = true;
                            cancel.cancel();
                        }
                    }
                    Signal::TimeUp => {
                        deadline = None;
                        cancel.cancel();
                    }
                    Signal::Tick => {
                        next_check = Instant::now() + interval;
                        if let Some(why) = stall.update(feed.counts(), monitor.latest(), Instant::now()) {
                            feed.give_up(why);
                            cancel.cancel();
                        }
                    }
                }
                if progress.0.elapsed() >= PROGRESS {
                    self.report_progress(feed, &mut progress, session.expected())?;
                    if let Some(sampler) = &running.sampler {
                        self.show_memory(sampler)?;
                    }
                }
                Ok(None)
            });
            match result {
                Ok(None) => {}
                Ok(Some(driven)) => return Ok((driven, died)),
                Err(fault) => {
                    self.shutdown(&cancel, client);
                    return Err(fault);
                }
            }
        }
    }

    /// The request form for these lengths.
    pub(super) fn form_for(&self, running: Option<&Running>, input: u64, output: u64) -> Result<RequestForm> {
        self.request(&Limits::new(input.max(1), output, 1).point()?, running)
    }

    /// Cuts off unfinished requests and waits for their records to be written.
    fn shutdown(&self, cancel: &CancellationToken, client: JoinHandle<Result<LoadRun>>) {
        cancel.cancel();
        if client.is_finished() {
            return;
        }
        let abort = client.abort_handle();
        // Results that are not on disk by now are lost.
        let _ = self
            .context
            .tasks
            .finish(async { tokio::time::timeout(SHUTDOWN_TIMEOUT, client).await });
        abort.abort();
    }

    fn report_progress(&self, feed: &Feed, progress: &mut (Instant, u64), expected: Option<u64>) -> Result<()> {
        let (issued, done) = feed.counts();
        let (at, before) = std::mem::replace(progress, (Instant::now(), done));
        self.context.run.note(Event::Loading {
            done,
            issued,
            expected,
            per_second: (done - before) as f64 / feed.clock.model(at.elapsed()).as_secs_f64(),
        })
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Model seconds per real second above which delays of this machine would outweigh the modelled times.
const MAX_SPEED: f64 = 100.0;

/// Real seconds without a power sample that count as a gap.
const MAX_GAP_SECONDS: f64 = 1.0;

/// How much faster than real time an engine runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ModelClock {
    /// Model seconds per real second by which times are converted.
    pub(super) speed: f64,
    /// The same of an engine that is too fast: nothing is converted, and its times are not the card's.
    too_fast: Option<f64>,
}

impl ModelClock {
    /// From the real seconds per model second of a simulated engine; `None` for any other.
    pub(super) fn new(time_scale: Option<f64>) -> Self {
        let speed = time_scale.map_or(1.0, |scale| 1.0 / scale);
        match speed <= MAX_SPEED {
            true => Self { speed, too_fast: None },
            false => Self {
                speed: 1.0,
                too_fast: Some(speed),
            },
        }
    }

    /// Whether its times and rates are those of an engine.
    pub(super) fn is_meaningful(self) -> bool {
        self.too_fast.is_none()
    }

    /// What a reader must know; `None` in real time.
    pub(super) fn note(self) -> Option<Warning> {
        match self.too_fast {
            Some(speed) => {
                let speed = if speed.is_finite() {
                    format!("{} times as fast as", number(speed))
                } else {
                    "without waiting, unlike".to_owned()
                };
                Some(Warning::new(
                    CLOCK_TOO_FAST,
                    format!(
                        "the simulated clock runs {speed} the card that it models: times, rates and energy of loads are not the card's, and cost is \
                         not computed; set `sim.time_scale` to 0.01 or more"
                    ),
                ))
            }
            None if self.speed == 1.0 => None,
            None => Some(Warning::from(format!(
                "the simulated clock runs {} times as fast as the card that it models: times and rates of loads are converted to the card's, and \
                 delays of this machine count as many times in them",
                number(self.speed)
            ))),
        }
    }

    /// A duration of the model in real time.
    pub(super) fn real(self, model: Duration) -> Duration {
        Duration::try_from_secs_f64(model.as_secs_f64() / self.speed).unwrap_or(model)
    }

    /// A real duration in the time of the model.
    pub(super) fn model(self, real: Duration) -> Duration {
        if self.speed == 1.0 {
            real
        } else {
            real.mul_f64(self.speed)
        }
    }

    /// A record in the time of the model.
    pub(super) fn record(self, record: &Record) -> Cow<'_, Record> {
        if self.speed == 1.0 {
            return Cow::Borrowed(record);
        }
        Cow::Owned(Record {
            itl_ms: record.itl_ms.iter().map(|gap| gap * self.speed as f32).collect(),
            ..record.clone().retimed(|moment| self.model(moment))
        })
    }

    /// Samples in the time of the model.
    pub(super) fn observations(self, mut seen: Observations) -> Observations {
        seen.hz /= self.speed;
        // What counts as a gap between samples is a matter of real time.
        seen.power_gap = MAX_GAP_SECONDS * self.speed;
        seen.retime(|at| at * self.speed);
        seen
    }
}

/// Ends a load after this many consecutive requests without an answer: immediately if the engine is unreachable; after
/// timeouts only if nothing completed for two timeouts.
const MAX_UNANSWERED: u64 = 32;

/// Ends a load after this many consecutive failures of any kind. Rejected requests are replaced immediately and could
/// repeat without end.
const MAX_CONSECUTIVE_FAILURES: u64 = 10_000;

/// Builds the body of a request. Called by several threads.
pub(super) type BodyBuilder = Arc<dyn Fn(&Request) -> Result<(Bytes, Protocol)> + Send + Sync>;

pub(super) struct Feed {
    pub(super) schedule: Mutex<Schedule>,
    pub(super) build: BodyBuilder,
    pub(super) progress: Mutex<LoadProgress>,
    /// Where records are written, unless the run has no folder.
    pub(super) file: Mutex<Option<(PathBuf, BoundedFile)>>,
    /// Number of the repeat, from 1.
    pub(super) repeat: u64,
    pub(super) signals: UnboundedSender<Signal>,
    pub(super) timeout: Duration,
    pub(super) clock: ModelClock,
    /// The first error of writing records.
    pub(super) fault: Mutex<Option<Fault>>,
    /// Requests below this index need no call to `LoadProgress::issued`.
    pub(super) quiet_until: AtomicU64,
    pub(super) issued: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) failing: Mutex<FailureStreak>,
    pub(super) given_up: Mutex<Option<String>>,
}

/// Failures since a request last completed.
pub(super) struct FailureStreak {
    /// Time of the last completion, or of the load's preparation.
    completed: Instant,
    failed: u64,
    unanswered: u64,
}

impl Default for FailureStreak {
    fn default() -> Self {
        Self {
            completed: Instant::now(),
            failed: 0,
            unanswered: 0,
        }
    }
}

impl Feed {
    pub(super) fn progress(&self) -> MutexGuard<'_, LoadProgress> {
        lock(&self.progress)
    }

    /// Requests issued and ended so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.issued.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }

    pub(super) fn give_up(&self, why: String) {
        lock(&self.given_up).get_or_insert(why);
    }

    fn signal(&self, signal: Signal) {
        // The receiver is gone only when the load is over.
        let _ = self.signals.send(signal);
    }

    /// Appends a record as one line, with one write.
    fn write(&self, record: &Record, warmup: bool) -> Result<()> {
        let mut file = lock(&self.file);
        let Some((path, file)) = &mut *file else {
            return Ok(());
        };
        let record = Record {
            warmup,
            ..record.clone()
        };
        let line = hide_json(record.to_line(self.repeat)?) + "\n";
        file.write_all(line.as_bytes()).map_err(|error| Fault::io(path, &error))
    }
}

impl RequestSource for Feed {
    fn next(&self) -> Result<Option<BuildJob>> {
        let next = lock(&self.schedule).next();
        let mut progress = self.progress();
        let Some(request) = next else {
            progress.exhausted();
            return Ok(None);
        };
        if !progress.should_send(&request) {
            return Ok(None);
        }
        self.quiet_until.store(progress.quiet_until(), Ordering::Release);
        let (clock, timeout, build) = (self.clock, self.timeout, Arc::clone(&self.build));
        Ok(Some(Box::new(move || {
            let (body, protocol) = build(&request)?;
            Ok(Job {
                at: request.due.map(|due| clock.real(due)),
                body,
                decoder: protocol::decoder(protocol),
                timeout,
                input: request.input,
                output: request.output,
            })
        })))
    }

    fn issued(&self, index: u64, at: Duration) -> Control {
        self.issued.fetch_add(1, Ordering::Relaxed);
        if index < self.quiet_until.load(Ordering::Acquire) {
            return Control::Continue;
        }
        let mut progress = self.progress();
        let (begins, go) = progress.issued(index, self.clock.model(at));
        self.quiet_until.store(progress.quiet_until(), Ordering::Release);
        drop(progress);
        if begins {
            self.signal(Signal::MeasurementBegan);
        }
        go
    }

    fn ended(&self, record: &Record) -> Control {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let record = &*self.clock.record(record);
        let (go, warmup) = {
            let mut progress = self.progress();
            (progress.ended(record), progress.is_warmup(record.index))
        };
        if let Err(fault) = self.write(record, warmup) {
            lock(&self.fault).get_or_insert(fault);
        }
        let form = record.failure().map(|failure| failure.form);
        if matches!(form, Some(FailureForm::Broken | FailureForm::Unreachable)) {
            self.signal(Signal::ConnectionBroke);
        }
        if let Some(why) = lock(&self.failing).add(&record.outcome, self.timeout) {
            self.give_up(why);
            return Control::Abort;
        }
        go
    }
}

impl FailureStreak {
    /// Records the outcome of a request. Returns a reason if the load must be given up.
    fn add(&mut self, outcome: &Outcome, timeout: Duration) -> Option<String> {
        let failure = match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Completed => {
                *self = Self::default();
                return None;
            }
            Outcome::CutOff => return None,
        };
        self.failed += 1;
        let unreachable = failure.form == FailureForm::Unreachable;
        if unreachable || failure.form == FailureForm::Deadline {
            self.unanswered += 1;
        } else {
            self.unanswered = 0;
        }
        let what = if self.failed >= MAX_CONSECUTIVE_FAILURES {
            format!("{} requests in a row failed", self.failed)
        } else if self.unanswered >= MAX_UNANSWERED && (unreachable || self.completed.elapsed() >= timeout * 2) {
            format!("{} requests in a row were not answered", self.unanswered)
        } else {
            return None;
        };
        Some(format!("{what}, the last with `{}`: {}", failure.form, failure.message))
    }
}

/// What the script's thread acts on during a load.
pub(super) enum Signal {
    /// Requests the adapter's form for this input and output length. Adapters may only be called on the script's
    /// thread.
    Form(u64, u64, SyncSender<Result<RequestForm>>),
    /// The measured part began.
    MeasurementBegan,
    /// A connection broke, so the engine may be dead.
    ConnectionBroke,
    TimeUp,
    Tick,
    Over(Box<Result<LoadRun>>),
}

/// Base name of a repeat's files: `3` for load 3, `3-repeat-2` for its second repeat.
pub(super) fn file_stem(number: u64, repeat: u64) -> String {
    match repeat {
        1 => number.to_string(),
        _ => format!("{number}-repeat-{repeat}"),
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;

    #[test]
    fn a_clock_that_is_too_fast_converts_nothing_and_says_so() {
        let second = Duration::from_secs(1);
        for (scale, model, meaningful, says) in [
            (None, 1.0, true, None),
            (Some(1.0), 1.0, true, None),
            (Some(0.1), 10.0, true, Some("10 times as fast")),
            (Some(0.0005), 1.0, false, Some("2,000 times as fast")),
            (Some(0.0), 1.0, false, Some("without waiting")),
        ] {
            let clock = ModelClock::new(scale);
            assert_eq!(
                (clock.model(second).as_secs_f64(), clock.is_meaningful()),
                (model, meaningful),
                "{scale:?}"
            );
            assert_eq!(clock.real(clock.model(second)), second);
            assert_eq!(clock.note().is_some(), says.is_some());
            assert!(
                says.is_none_or(|says| clock.note().unwrap().message.contains(says)),
                "{:?}",
                clock.note()
            );
        }
    }
}

#[cfg(test)]
mod streak_tests {
    use super::*;
    use crate::load::Failure;

    const TIMEOUT: Duration = Duration::from_secs(3600);

    fn failing(seconds_ago: u64) -> FailureStreak {
        FailureStreak {
            completed: Instant::now().checked_sub(Duration::from_secs(seconds_ago)).unwrap(),
            ..FailureStreak::default()
        }
    }

    fn failed(form: FailureForm) -> Outcome {
        Outcome::Failed(Failure {
            form,
            message: "why".into(),
        })
    }

    /// After how many such failures in a row a load is given up, out of 20,000.
    fn given_up(failing: &mut FailureStreak, outcome: &Outcome, timeout: Duration) -> Option<usize> {
        (1..=20_000).find(|_| failing.add(outcome, timeout).is_some())
    }

    #[test]
    fn failures_in_a_row_end_a_load_and_a_completed_request_forgives_them() {
        let (status, nobody) = (failed(FailureForm::Status(429)), failed(FailureForm::Unreachable));
        assert_eq!(given_up(&mut failing(0), &status, TIMEOUT), Some(10_000));
        assert_eq!(given_up(&mut failing(0), &nobody, TIMEOUT), Some(32));
        let mut one = failing(0);
        for _ in 0..31 {
            assert_eq!(one.add(&nobody, TIMEOUT), None);
        }
        assert_eq!(one.add(&Outcome::Completed, TIMEOUT), None);
        assert_eq!(given_up(&mut one, &nobody, TIMEOUT), Some(32));
        assert_eq!(given_up(&mut failing(0), &Outcome::CutOff, TIMEOUT), None);
    }

    #[test]
    fn deadlines_end_a_load_once_none_was_met_for_two_of_them() {
        let late = failed(FailureForm::Deadline);
        assert_eq!(
            given_up(&mut failing(0), &late, TIMEOUT),
            Some(10_000),
            "many that were sent at once are late at once"
        );
        assert_eq!(given_up(&mut failing(9), &late, Duration::from_secs(4)), Some(32));
        let why = (0..32).find_map(|_| failing(9).add(&late, Duration::ZERO));
        assert_eq!(why, None, "each is the first");
    }
}
