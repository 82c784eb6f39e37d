//! What feeds the client: requests from the larder as long as the plan wants them, and an ear for what became of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::conduct::Signal;
use super::keep::Keep;
use super::larder::Larder;
use crate::engine::protocol;
use crate::fault::{Fault, Result};
use crate::load::plan::Course;
use crate::load::{FailureForm, Go, Job, Outcome, Record, Source};

/// So many requests in a row end a load that found nobody who listens, or that nobody answered in time while for two such times
/// no other was.
const DESERTED: u64 = 32;

/// So many requests in a row that failed, however they did, end a load: one that is turned away at once is followed by the next at once.
const HOPELESS: u64 = 10_000;

/// Feeds one load.
pub(super) struct Feed {
    pub(super) larder: Arc<Larder>,
    course: Mutex<Course>,
    keep: Mutex<Keep>,
    fault: Mutex<Option<Fault>>,
    signals: UnboundedSender<Signal>,
    timeout: Duration,
    /// Up to which request the course need not be told that it is issued.
    quiet_until: AtomicU64,
    issued: AtomicU64,
    ended: AtomicU64,
    failing: Mutex<Failing>,
    given_up: Mutex<Option<String>>,
}

/// Failures since a request last completed.
struct Failing {
    /// When that was, or the load was made ready.
    completed: Instant,
    failed: u64,
    unanswered: u64,
}

impl Feed {
    pub(super) fn new(
        larder: Arc<Larder>,
        course: Course,
        keep: Keep,
        signals: UnboundedSender<Signal>,
        timeout: Duration,
    ) -> Self {
        Self {
            larder,
            quiet_until: AtomicU64::new(course.quiet_until()),
            course: Mutex::new(course),
            keep: Mutex::new(keep),
            fault: Mutex::default(),
            signals,
            timeout,
            issued: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failing: Mutex::new(Failing {
                completed: Instant::now(),
                failed: 0,
                unanswered: 0,
            }),
            given_up: Mutex::default(),
        }
    }

    /// The load as it went.
    pub(super) fn course(&self) -> MutexGuard<'_, Course> {
        lock(&self.course)
    }

    /// Requests issued and ended so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.issued.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }

    /// What keeping the records failed with, if it did: told once.
    pub(super) fn failed(&self) -> Option<Fault> {
        lock(&self.fault).take()
    }

    /// Why the load was given up, if it was.
    pub(super) fn given_up(&self) -> Option<String> {
        lock(&self.given_up).clone()
    }

    /// Gives the load up.
    pub(super) fn give_up(&self, why: String) {
        lock(&self.given_up).get_or_insert(why);
    }

    fn signal(&self, signal: Signal) {
        // Nobody listens any more only when the load is over.
        let _ = self.signals.send(signal);
    }
}

impl Source for Feed {
    fn next(&self) -> Result<Option<Job>> {
        let Some(ready) = self.larder.take()? else {
            self.course().exhausted();
            return Ok(None);
        };
        let mut course = self.course();
        if !course.wants(&ready.request) {
            return Ok(None);
        }
        self.quiet_until.store(course.quiet_until(), Ordering::Release);
        Ok(Some(Job {
            at: ready.request.due,
            body: ready.body,
            decoder: protocol::decoder(ready.protocol),
            timeout: self.timeout,
            input: ready.request.input,
            output: ready.request.output,
            // Marked when it has ended: which is the first to count may not be known yet.
            warmup: false,
        }))
    }

    fn issued(&self, index: u64, at: Duration) -> Go {
        self.issued.fetch_add(1, Ordering::Relaxed);
        if index < self.quiet_until.load(Ordering::Acquire) {
            return Go::On;
        }
        let mut course = self.course();
        let (begins, go) = course.issued(index, at);
        self.quiet_until.store(course.quiet_until(), Ordering::Release);
        drop(course);
        if begins {
            self.signal(Signal::HandedOver);
        }
        go
    }

    fn ended(&self, record: &Record) -> Go {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let (go, warmup) = {
            let mut course = self.course();
            (course.ended(record), course.is_warmup(record.index))
        };
        if let Err(fault) = lock(&self.keep).write(record, warmup) {
            lock(&self.fault).get_or_insert(fault);
        }
        let form = match &record.outcome {
            Outcome::Failed(failure) => Some(failure.form),
            _ => None,
        };
        if matches!(form, Some(FailureForm::Broken | FailureForm::Unreachable)) {
            self.signal(Signal::Suspect);
        }
        if let Some(why) = lock(&self.failing).see(&record.outcome, self.timeout) {
            self.give_up(why);
            return Go::CutOff;
        }
        go
    }
}

impl Failing {
    /// Takes note of how a request ended; why the load is to be given up, if it is.
    fn see(&mut self, outcome: &Outcome, timeout: Duration) -> Option<String> {
        let failure = match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Completed => {
                *self = Self {
                    completed: Instant::now(),
                    failed: 0,
                    unanswered: 0,
                };
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
        let what = if self.failed >= HOPELESS {
            format!("{} requests in a row failed", self.failed)
        } else if self.unanswered >= DESERTED && (unreachable || self.completed.elapsed() >= timeout * 2) {
            format!("{} requests in a row were not answered", self.unanswered)
        } else {
            return None;
        };
        Some(format!("{what}, the last with `{}`: {}", failure.form, failure.message))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Failure;

    const TIMEOUT: Duration = Duration::from_secs(3600);

    fn failing(seconds_ago: u64) -> Failing {
        Failing {
            completed: Instant::now().checked_sub(Duration::from_secs(seconds_ago)).unwrap(),
            failed: 0,
            unanswered: 0,
        }
    }

    fn failed(form: FailureForm) -> Outcome {
        Outcome::Failed(Failure {
            form,
            message: "why".into(),
        })
    }

    /// After how many such ends in a row a load is given up, of 20,000.
    fn given_up(failing: &mut Failing, outcome: &Outcome, timeout: Duration) -> Option<usize> {
        (1..=20_000).find(|_| failing.see(outcome, timeout).is_some())
    }

    #[test]
    fn failures_in_a_row_end_a_load_and_a_completed_request_forgives_them() {
        let (status, nobody) = (failed(FailureForm::Status(429)), failed(FailureForm::Unreachable));
        assert_eq!(given_up(&mut failing(0), &status, TIMEOUT), Some(10_000));
        assert_eq!(given_up(&mut failing(0), &nobody, TIMEOUT), Some(32));
        let mut one = failing(0);
        for _ in 0..31 {
            assert_eq!(one.see(&nobody, TIMEOUT), None);
        }
        assert_eq!(one.see(&Outcome::Completed, TIMEOUT), None);
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
        let why = (0..32).find_map(|_| failing(9).see(&late, Duration::ZERO));
        assert_eq!(why, None, "each is the first");
    }
}
