//! One thread that looks at memory at a steady rate, and a second one, slower, for what takes longer: processes and power.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fault::{Fault, Result};

use super::beside::{Beside, Moment};
use super::crest::Crest;
use super::phase::Phase;
use super::reading::{Reading, Source};
use super::schedule::Schedule;
use super::series::{Peak, Row, Series};
use super::spread::Spread;

/// Looks at processes and power a second; as often as at memory where that is less.
pub const BESIDE_HZ: f64 = 10.0;

/// The kernel may wake a thread this much after its time, in nanoseconds, to wake others with it: a fiftieth of what it does by itself.
const TIMER_SLACK: u64 = 1000;

/// Bytes in use by a device's id.
pub type Used = BTreeMap<String, u64>;

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
    /// The longest that a look began after its time, in microseconds.
    pub latest_us: u64,
    /// Looks at processes and power.
    pub beside: u64,
}

/// What a sampler saw in its life.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Memory.
    pub series: Series,
    /// Power, utilisation, processes.
    pub beside: Beside,
    /// How well the schedule was kept.
    pub health: Health,
}

/// A running sampler. Dropping it stops its threads.
pub struct Sampler {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
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
    beside: Beside,
    health: Health,
    latest: Reading,
    /// The newest look that saw everything.
    whole: Reading,
    /// Its time, or that of a later look at memory.
    at: u64,
    crest: Crest,
}

impl Sampler {
    /// Looks at `source` `hz` times a second (1 to 1000) from now on; the first look is made before this returns.
    ///
    /// # Errors
    ///
    /// `usage` for another rate, and what the first look fails with.
    pub fn start(source: Box<dyn Source>, hz: f64) -> Result<Self> {
        Self::start_in(Phase::Baseline, None, source, hz)
    }

    /// The same where something is under way already: looks belong to `phase`, and what was seen before it stands first.
    ///
    /// # Errors
    ///
    /// As [`Sampler::start`].
    pub fn start_in(phase: Phase, before: Option<&Reading>, mut source: Box<dyn Source>, hz: f64) -> Result<Self> {
        let mut schedule = Schedule::new(hz)?;
        let name = source.name();
        let shared = Arc::new(Shared {
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let slow = source.slow();
        let apart = slow.is_some();
        let reading = source.read()?;
        if let Some(before) = before {
            shared.seen().series.push(0, before);
        }
        shared.mark(phase);
        shared.seen().take_whole(0, &reading);
        shared.keep(&mut schedule, 0, Ok(reading));
        let mut sampler = Self {
            shared,
            threads: Vec::new(),
            source: name,
        };
        sampler.spawn("sampler", move |shared| shared.watch(source.as_mut(), schedule, apart))?;
        if let Some(mut slow) = slow {
            let schedule = Schedule::new(hz.min(BESIDE_HZ))?;
            sampler.spawn("sampler-beside", move |shared| {
                shared.watch_beside(slow.as_mut(), schedule)
            })?;
        }
        Ok(sampler)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&shared))
            .map_err(|error| Fault::internal(format!("the sampler's thread cannot be started: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// What is looked at: `nvml`, `amd`, `host` or `sim`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// When it started: the times of what it saw count from here.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// From here on, looks belong to this phase.
    pub fn mark(&self, phase: Phase) {
        self.shared.mark(phase);
    }

    /// Adds a look that somebody else made just now, so that a moment which matters is there however slow the rate is.
    pub fn add(&self, reading: &Reading) {
        let mut seen = self.shared.seen();
        let at = self.shared.micros(Instant::now());
        seen.take_whole(at, reading);
        seen.take(at, reading.clone());
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

    /// Power and utilisation as seen between two moments, with the look before them and the one after, where there were any.
    #[must_use]
    pub fn activity_between(&self, from: Instant, to: Instant) -> Vec<Moment> {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        let seen = self.shared.seen();
        let moments = seen.beside.moments();
        let first = moments.partition_point(|moment| moment.to < from).saturating_sub(1);
        let last = moments.partition_point(|moment| moment.from <= to);
        moments[first..(last + 1).min(moments.len()).max(first)].to_vec()
    }

    /// Bytes in use by device, in the last look before a moment and in the first one after it; none where there was no such look.
    #[must_use]
    pub fn around(&self, moment: Instant) -> (Option<Used>, Option<Used>) {
        let at = self.shared.micros(moment);
        let seen = self.shared.seen();
        let used = |row: &Row| {
            let ids = seen.series.devices().iter().map(|device| device.id.clone());
            ids.zip(row.used.iter().copied()).collect()
        };
        let (before, after) = seen.series.around(at);
        (before.map(used), after.map(used))
    }

    /// What was seen so far.
    #[must_use]
    pub fn series(&self) -> Series {
        self.shared.seen().series.clone()
    }

    /// The moment at which most was in use so far, and who held it.
    #[must_use]
    pub fn crest(&self) -> Crest {
        self.shared.seen().crest.clone()
    }

    /// How memory on all devices together spread in the looks of these phases between two moments; none where there were none.
    #[must_use]
    pub fn spread(&self, phases: &[Phase], from: Instant, to: Instant) -> Option<Spread> {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        self.shared.seen().series.spread(phases, from, to)
    }

    /// How well the schedule was kept so far.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.seen().health.clone()
    }

    /// Stops looking, and gives what was seen.
    #[must_use]
    pub fn stop(mut self) -> Record {
        self.end();
        let mut seen = self.shared.seen();
        Record {
            series: std::mem::take(&mut seen.series),
            beside: std::mem::take(&mut seen.beside),
            health: std::mem::take(&mut seen.health),
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
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
    /// `apart`: processes and power are looked at by another thread.
    fn watch(&self, source: &mut dyn Source, mut schedule: Schedule, apart: bool) {
        // Without it looks are some 50 µs later, no more: it is no reason not to look.
        let _precise = nix::sys::prctl::set_timerslack(TIMER_SLACK);
        let mut beside = Schedule::new(BESIDE_HZ);
        while self.wait_until(Duration::from_nanos(schedule.due())) {
            let began = nanos(self.origin.elapsed());
            let reading = source.quick();
            if !apart
                && let (Ok(reading), Ok(beside)) = (&reading, &mut beside)
                && began >= beside.due()
            {
                beside.looked(began, began);
                let mut seen = self.seen();
                seen.health.beside += 1;
                seen.take_whole(began / 1000, reading);
            }
            self.keep(&mut schedule, began, reading);
        }
    }

    fn watch_beside(&self, source: &mut dyn Source, mut schedule: Schedule) {
        while self.wait_until(Duration::from_nanos(schedule.due())) {
            let began = nanos(self.origin.elapsed());
            let reading = source.read();
            schedule.looked(began, nanos(self.origin.elapsed()));
            let mut seen = self.seen();
            match reading {
                Ok(reading) => {
                    seen.health.beside += 1;
                    seen.take_whole(began / 1000, &reading);
                }
                Err(fault) => seen.fail(fault),
            }
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
        let due = schedule.due();
        let ended = nanos(self.origin.elapsed());
        let look = schedule.looked(began, ended);
        let mut seen = self.seen();
        seen.health.taken += 1;
        seen.health.late += u64::from(look.late);
        seen.health.lost += look.lost;
        seen.health.slowest_us = seen.health.slowest_us.max((ended - began) / 1000);
        seen.health.latest_us = seen.health.latest_us.max(began.saturating_sub(due) / 1000);
        match reading {
            Ok(reading) => seen.take(began / 1000, reading),
            Err(fault) => seen.fail(fault),
        }
    }

    fn mark(&self, phase: Phase) {
        self.seen().series.mark(phase);
    }

    fn micros(&self, moment: Instant) -> u64 {
        nanos(moment.saturating_duration_since(self.origin)) / 1000
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// A look at memory.
    fn take(&mut self, at: u64, reading: Reading) {
        // Two threads look: one can be kept from telling until the other has told.
        self.at = self.at.max(at);
        self.series.push(self.at, &reading);
        self.crest.quick(&reading.devices, &self.whole);
        self.latest.devices = reading.devices;
    }

    /// A look at everything.
    fn take_whole(&mut self, at: u64, reading: &Reading) {
        self.at = self.at.max(at);
        self.beside.push(self.at, self.series.phase(), reading);
        self.crest.whole(reading);
        self.latest.tenants.clone_from(&reading.tenants);
        self.latest.activity.clone_from(&reading.activity);
        self.whole.clone_from(reading);
    }

    fn fail(&mut self, fault: Fault) {
        self.health.errors += 1;
        self.health.last_error = Some(fault.message);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
