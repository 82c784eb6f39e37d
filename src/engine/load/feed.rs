//! Supplies the load's client with requests while the plan wants more, and processes its finished records: each is
//! written to disk as one JSON line, so that nothing is lost in a crash.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::clock::ModelClock;
use crate::engine::adapter::{Protocol, RequestForm};
use crate::engine::wire::protocol;
use crate::engine::wire::refusal::short_error_detail;
use crate::fault::{Fault, Result};
use crate::load::plan::{LoadProgress, PlannedRequest, Schedule};
use crate::load::{
    BuildRequest, Control, FailureForm, LoadRun, QueuedRequest, Rejection, RequestOutcome, RequestRecord, RequestSource,
};
use crate::run::{BoundedFile, hide_json};
use crate::task::lock;

/// Ends a load after this many consecutive requests without an answer: immediately if the engine is unreachable; after
/// timeouts only if nothing completed for two timeouts.
const MAX_UNANSWERED: u64 = 32;

/// Ends a load after this many consecutive failures of any kind. Rejected requests are replaced immediately and could
/// repeat without end.
const MAX_CONSECUTIVE_FAILURES: u64 = 10_000;

/// Ends a load if for this time every request was rejected and no answer was in progress.
const MAX_REJECTED: Duration = Duration::from_secs(60);

/// The wait after a first rejection without `Retry-After`, and the longest: it doubles each time.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// Builds the body of a request. Called by several threads.
pub(crate) type BodyBuilder = Arc<dyn Fn(&PlannedRequest) -> Result<(Bytes, Protocol)> + Send + Sync>;

pub(crate) struct Feed {
    pub(crate) schedule: Mutex<Schedule>,
    pub(crate) build: BodyBuilder,
    pub(crate) progress: Mutex<LoadProgress>,
    /// The file of the records; `None` if the run has no folder.
    pub(crate) file: Mutex<Option<(PathBuf, BoundedFile)>>,
    /// Number of the repeat, from 1.
    pub(crate) repeat: u64,
    pub(crate) signals: UnboundedSender<Signal>,
    pub(crate) timeout: Duration,
    pub(crate) clock: ModelClock,
    /// The first error of writing records.
    pub(crate) fault: Mutex<Option<Fault>>,
    /// `LoadProgress::issued` is not called for requests below this index.
    pub(crate) quiet_until: AtomicU64,
    pub(crate) issued: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) failing: Mutex<FailureStreak>,
    pub(crate) given_up: Mutex<Option<String>>,
    /// Closed loop: rejected requests wait and are sent again.
    pub(crate) retries: bool,
    pub(crate) served: Mutex<Served>,
}

/// The requests that the server serves.
pub(crate) struct Served {
    /// Requests that have a token and have not ended.
    streaming: u64,
    /// When the server last served a request, or when the load was prepared.
    last: Instant,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            streaming: 0,
            last: Instant::now(),
        }
    }
}

/// Failures since a request last completed.
pub(crate) struct FailureStreak {
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
    pub(crate) fn progress(&self) -> MutexGuard<'_, LoadProgress> {
        lock(&self.progress)
    }

    /// Requests issued and ended so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.issued.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }

    pub(crate) fn give_up(&self, why: String) {
        lock(&self.given_up).get_or_insert(why);
    }

    fn signal(&self, signal: Signal) {
        // The receiver is gone only when the load is over.
        let _ = self.signals.send(signal);
    }

    /// Appends a record as one line, with one write.
    fn write(&self, record: &RequestRecord, warmup: bool) -> Result<()> {
        let mut file = lock(&self.file);
        let Some((path, file)) = &mut *file else {
            return Ok(());
        };
        let record = RequestRecord {
            warmup,
            ..record.clone()
        };
        let line = hide_json(record.to_line(self.repeat)?) + "\n";
        file.write_all(line.as_bytes()).map_err(|error| Fault::io(path, &error))
    }
}

impl RequestSource for Feed {
    fn next(&self) -> Result<Option<BuildRequest>> {
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
            Ok(QueuedRequest {
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

    fn retries(&self) -> bool {
        self.retries
    }

    fn rejected(&self, rejection: &Rejection, before: u32) -> Option<Duration> {
        let longest = self.clock.real(MAX_REJECTED);
        let served = lock(&self.served);
        if served.streaming == 0 && served.last.elapsed() >= longest {
            let seconds = MAX_REJECTED.as_secs();
            self.give_up(format!(
                "rate limited: the server rejected every request for {seconds} s, with status {}: {}",
                rejection.status,
                short_error_detail(&rejection.body)
            ));
            return None;
        }
        let noise = f64::from(served.last.elapsed().subsec_nanos() % 1000) / 1e3;
        Some(
            self.clock
                .real(backoff(before, rejection.retry_after, noise))
                .min(longest),
        )
    }

    fn first_token(&self) {
        let mut served = lock(&self.served);
        (served.streaming, served.last) = (served.streaming + 1, Instant::now());
    }

    fn ended(&self, record: &RequestRecord) -> Control {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if record.first_token.is_some() {
            let mut served = lock(&self.served);
            (served.streaming, served.last) = (served.streaming.saturating_sub(1), Instant::now());
        }
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
        }
        if lock(&self.given_up).is_some() {
            return Control::Abort;
        }
        go
    }
}

/// How long to wait before sending a request again that was rejected `before` other times: the server's `Retry-After`, or
/// exponential backoff, give or take a half by `noise` (0 to 1), so that requests do not come back together.
fn backoff(before: u32, retry_after: Option<Duration>, noise: f64) -> Duration {
    let doubled = BACKOFF.0.saturating_mul(1 << before.min(16)).min(BACKOFF.1);
    let own = doubled.mul_f64(0.5 + noise);
    retry_after.filter(|wait| !wait.is_zero()).unwrap_or(own)
}

impl FailureStreak {
    /// Records the outcome of a request. Returns a reason if the load must be given up.
    fn add(&mut self, outcome: &RequestOutcome, timeout: Duration) -> Option<String> {
        let failure = match outcome {
            RequestOutcome::Failed(failure) => failure,
            RequestOutcome::Completed => {
                *self = Self::default();
                return None;
            }
            RequestOutcome::CutOff => return None,
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

/// Events that the script's thread handles during a load.
pub(crate) enum Signal {
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
pub(crate) fn file_stem(number: u64, repeat: u64) -> String {
    match repeat {
        1 => number.to_string(),
        _ => format!("{number}-repeat-{repeat}"),
    }
}

#[cfg(test)]
mod streak_tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3600);

    fn failing(seconds_ago: u64) -> FailureStreak {
        FailureStreak {
            completed: Instant::now().checked_sub(Duration::from_secs(seconds_ago)).unwrap(),
            ..FailureStreak::default()
        }
    }

    fn failed(form: FailureForm) -> RequestOutcome {
        RequestOutcome::failed(form, "why")
    }

    /// The number of such failures in a row, up to 20,000, after which a load is given up.
    fn given_up(failing: &mut FailureStreak, outcome: &RequestOutcome, timeout: Duration) -> Option<usize> {
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
        assert_eq!(one.add(&RequestOutcome::Completed, TIMEOUT), None);
        assert_eq!(given_up(&mut one, &nobody, TIMEOUT), Some(32));
        assert_eq!(given_up(&mut failing(0), &RequestOutcome::CutOff, TIMEOUT), None);
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

    #[test]
    fn a_rejected_request_waits_as_asked_or_longer_each_time() {
        let seconds = Duration::from_secs;
        assert_eq!(backoff(0, Some(seconds(7)), 0.9), seconds(7));
        let waits: Vec<f64> = (0..8).map(|before| backoff(before, None, 0.5).as_secs_f64()).collect();
        assert_eq!(waits, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
        assert_eq!(backoff(2, Some(Duration::ZERO), 0.0).as_secs_f64(), 0.5);
        assert!(backoff(u32::MAX, None, 1.0) <= seconds(12));
    }
}
