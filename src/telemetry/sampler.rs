//! One thread that looks at memory at a steady rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fault::{Fault, Result};

use super::phase::Phase;
use super::reading::{Reading, Source};
use super::schedule::Schedule;
use super::series::{Peak, Series};

/// How well the sampler kept its schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Looks taken.
    pub taken: u64,
    /// Looks that began more than 0.5 ms, or a twentieth of the period, after their time.
    pub late: u64,
    /// Looks whose time passed while the sampler was kept from looking.
    pub lost: u64,
    /// Looks that failed; nothing was seen then.
    pub errors: u64,
    /// The newest failure.
    pub last_error: Option<String>,
    /// The longest that one look took, in microseconds.
    pub slowest_us: u64,
}

/// A running sampler. Dropping it stops the thread.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    source: &'static str,
}

struct Shared {
    origin: Instant,
    stop: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    series: Series,
    health: Health,
    latest: Reading,
}

impl Sampler {
    /// Looks at `source` `hz` times a second (1 to 1000) from now on; the first look is made before this returns.
    ///
    /// # Errors
    ///
    /// `usage` for another rate, and what the first look fails with.
    pub fn start(mut source: Box<dyn Source>, hz: f64) -> Result<Self> {
        let mut schedule = Schedule::new(hz)?;
        let name = source.name();
        let shared = Arc::new(Shared {
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let reading = source.read()?;
        shared.keep(&mut schedule, 0, Ok(reading));
        let thread = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.watch(source.as_mut(), schedule)
            })
            .map_err(|error| Fault::internal(format!("the sampler's thread cannot be started: {error}")))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            source: name,
        })
    }

    /// What is looked at: `nvml`, `amd`, `host` or `sim`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// From here on, looks belong to this phase.
    pub fn mark(&self, phase: Phase) {
        self.shared.seen().series.mark(phase);
    }

    /// The newest look.
    #[must_use]
    pub fn latest(&self) -> Reading {
        self.shared.seen().latest.clone()
    }

    /// The highest memory between two moments; none where nothing was seen yet.
    #[must_use]
    pub fn peak_between(&self, from: Instant, to: Instant) -> Option<Peak> {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        self.shared.seen().series.peak_between(from, to)
    }

    /// What was seen between two moments.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Series {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        self.shared.seen().series.between(from, to)
    }

    /// What was seen so far.
    #[must_use]
    pub fn series(&self) -> Series {
        self.shared.seen().series.clone()
    }

    /// How well the schedule was kept so far.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.seen().health.clone()
    }

    /// Stops looking, and gives what was seen.
    #[must_use]
    pub fn stop(mut self) -> (Series, Health) {
        self.end();
        let mut seen = self.shared.seen();
        (std::mem::take(&mut seen.series), std::mem::take(&mut seen.health))
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A source that panicked has ended its thread; what was seen before is still there.
            let _ended = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn watch(&self, source: &mut dyn Source, mut schedule: Schedule) {
        while self.wait_until(Duration::from_nanos(schedule.due())) {
            let began = nanos(self.origin.elapsed());
            let reading = source.read();
            self.keep(&mut schedule, began, reading);
        }
    }

    /// False when the sampler was stopped meanwhile.
    fn wait_until(&self, due: Duration) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(left) = due.checked_sub(self.origin.elapsed()).filter(|left| !left.is_zero()) else {
                return true;
            };
            thread::park_timeout(left);
        }
        false
    }

    fn keep(&self, schedule: &mut Schedule, began: u64, reading: Result<Reading>) {
        let ended = nanos(self.origin.elapsed());
        let look = schedule.looked(began, ended);
        let mut seen = self.seen();
        seen.health.taken += 1;
        seen.health.late += u64::from(look.late);
        seen.health.lost += look.lost;
        seen.health.slowest_us = seen.health.slowest_us.max((ended - began) / 1000);
        match reading {
            Ok(reading) => {
                seen.series.push(began / 1000, &reading);
                seen.latest = reading;
            }
            Err(fault) => {
                seen.health.errors += 1;
                seen.health.last_error = Some(fault.message);
            }
        }
    }

    fn micros(&self, moment: Instant) -> u64 {
        nanos(moment.saturating_duration_since(self.origin)) / 1000
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
