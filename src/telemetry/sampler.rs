//! Samples memory at a steady rate on one thread, and processes and power at a lower rate on a second one.
//!
//! Sample k is due at k times the period, so the rate does not drift. A sample that starts later than the tolerance is
//! late. A sample whose time passes before it can start is lost, and no later sample replaces it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::series::{ActivitySample, PeakSnapshot, Phase, Series, SeriesRow, SlowSamples, Spread};
use super::{Reading, Source};
use crate::fault::{Fault, Result};
use crate::task::lock;

/// Samples of processes and power per second, unless the memory rate is lower.
pub const SLOW_HZ: f64 = 10.0;

/// Timer slack in nanoseconds: how late the kernel may wake the thread to combine wake-ups. The default is 50 µs.
const TIMER_SLACK: u64 = 1000;

/// Used bytes by device id.
pub type UsedByDevice = BTreeMap<String, u64>;

/// How well the sampler kept its schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerHealth {
    /// Samples taken.
    pub taken: u64,
    /// Samples that started more than 0.5 ms, or a twentieth of the period, too late.
    pub late: u64,
    /// Samples skipped because the sampler was busy.
    pub lost: u64,
    /// Failed samples.
    pub errors: u64,
    /// The latest error.
    pub last_error: Option<String>,
    /// The longest duration of a sample, in microseconds.
    pub slowest_us: u64,
    /// The longest delay of a sample's start, in microseconds.
    pub latest_us: u64,
    /// Samples of processes and power.
    pub beside: u64,
}

/// Everything a sampler recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Memory.
    pub series: Series,
    /// Power, utilisation, processes.
    pub slow: SlowSamples,
    /// How well the schedule was kept.
    pub health: SamplerHealth,
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
    data: Mutex<Data>,
}

#[derive(Default)]
struct Data {
    series: Series,
    slow: SlowSamples,
    health: SamplerHealth,
    latest: Reading,
    /// The latest reading that included processes.
    latest_full: Reading,
    /// The time of the latest sample of either kind.
    at: u64,
    peak_snapshot: PeakSnapshot,
}

impl Sampler {
    /// Samples `source` `hz` times a second (1 to 1000). Returns after the first sample.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid rate, and errors of the first sample.
    pub fn start(source: Box<dyn Source>, hz: f64) -> Result<Self> {
        Self::start_in(Phase::Baseline, None, source, hz)
    }

    /// Starts sampling an engine that is already running: in `phase`, with `before` as an earlier sample.
    ///
    /// # Errors
    ///
    /// As in [`Sampler::start`].
    pub fn start_in(phase: Phase, before: Option<&Reading>, mut source: Box<dyn Source>, hz: f64) -> Result<Self> {
        let mut schedule = Schedule::new(hz)?;
        let name = source.name();
        let shared = Arc::new(Shared {
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            data: Mutex::default(),
        });
        let slow = source.slow_source();
        let has_slow_thread = slow.is_some();
        let reading = source.read()?;
        if let Some(before) = before {
            shared.data().series.push(0, before);
        }
        shared.mark(phase);
        shared.data().record_full(0, &reading);
        shared.record_sample(&mut schedule, 0, Ok(reading));
        let mut sampler = Self {
            shared,
            threads: Vec::new(),
            source: name,
        };
        sampler.spawn("sampler", move |shared| {
            shared.run(source.as_mut(), schedule, has_slow_thread)
        })?;
        if let Some(mut slow) = slow {
            let schedule = Schedule::new(hz.min(SLOW_HZ))?;
            sampler.spawn("sampler-beside", move |shared| shared.run_slow(slow.as_mut(), schedule))?;
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

    /// The source's name: `nvml`, `amd`, `host` or `sim`.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Start time; the times of samples are relative to it.
    pub fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// Sets the phase of the following samples.
    pub fn mark(&self, phase: Phase) {
        self.shared.mark(phase);
    }

    /// Adds a reading taken by the caller just now, so that an important moment is recorded at any sampling rate.
    pub fn add(&self, reading: &Reading) {
        let mut data = self.shared.data();
        let at = self.shared.micros(Instant::now());
        data.record_full(at, reading);
        data.record(at, reading.clone());
    }

    /// The latest reading.
    pub fn latest(&self) -> Reading {
        self.shared.data().latest.clone()
    }

    /// Memory between two moments.
    pub fn between(&self, from: Instant, to: Instant) -> Series {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        self.shared.data().series.between(from, to)
    }

    /// Power and utilisation between two moments, including the samples just before and after, if any.
    pub fn activity_between(&self, from: Instant, to: Instant) -> Vec<ActivitySample> {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        let data = self.shared.data();
        let samples = data.slow.activity();
        let first = samples.partition_point(|moment| moment.to < from).saturating_sub(1);
        let last = samples.partition_point(|moment| moment.from <= to);
        samples[first..(last + 1).min(samples.len()).max(first)].to_vec()
    }

    /// Used bytes by device, in the last sample before a moment and in the first one after it, if any.
    pub fn around(&self, moment: Instant) -> (Option<UsedByDevice>, Option<UsedByDevice>) {
        let at = self.shared.micros(moment);
        let data = self.shared.data();
        let used = |row: &SeriesRow| {
            let ids = data.series.devices().iter().map(|device| device.id.clone());
            ids.zip(row.used.iter().copied()).collect()
        };
        let (before, after) = data.series.around(at);
        (before.map(used), after.map(used))
    }

    /// Memory recorded so far.
    pub fn series(&self) -> Series {
        self.shared.data().series.clone()
    }

    /// The moment of peak memory so far, and the processes that held it.
    pub fn peak_snapshot(&self) -> PeakSnapshot {
        self.shared.data().peak_snapshot.clone()
    }

    /// Distribution of total memory over the samples of these phases between two moments; `None` without samples.
    pub fn spread(&self, phases: &[Phase], from: Instant, to: Instant) -> Option<Spread> {
        let (from, to) = (self.shared.micros(from), self.shared.micros(to));
        self.shared.data().series.spread(phases, from, to)
    }

    /// How well the schedule was kept so far.
    pub fn health(&self) -> SamplerHealth {
        self.shared.data().health.clone()
    }

    /// Stops sampling and returns everything recorded.
    pub fn stop(mut self) -> Recording {
        self.end();
        let mut data = self.shared.data();
        Recording {
            series: std::mem::take(&mut data.series),
            slow: std::mem::take(&mut data.slow),
            health: std::mem::take(&mut data.health),
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
            // A source that panicked has ended its thread; earlier samples are kept.
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
    /// Runs the sampling loop. `has_slow_thread`: another thread samples processes and power.
    fn run(&self, source: &mut dyn Source, mut schedule: Schedule, has_slow_thread: bool) {
        // Errors are ignored, because samples are then only some 50 µs later.
        let _precise = nix::sys::prctl::set_timerslack(TIMER_SLACK);
        let mut slow_schedule = Schedule::new(SLOW_HZ);
        while self.wait_until(Duration::from_nanos(schedule.due())) {
            let began = nanos(self.origin.elapsed());
            let reading = source.read_memory();
            if !has_slow_thread
                && let (Ok(reading), Ok(slow_schedule)) = (&reading, &mut slow_schedule)
                && began >= slow_schedule.due()
            {
                slow_schedule.complete(began, began);
                let mut data = self.data();
                data.health.beside += 1;
                data.record_full(began / 1000, reading);
            }
            self.record_sample(&mut schedule, began, reading);
        }
    }

    fn run_slow(&self, source: &mut dyn Source, mut schedule: Schedule) {
        while self.wait_until(Duration::from_nanos(schedule.due())) {
            let began = nanos(self.origin.elapsed());
            let reading = source.read();
            schedule.complete(began, nanos(self.origin.elapsed()));
            let mut data = self.data();
            match reading {
                Ok(reading) => {
                    data.health.beside += 1;
                    data.record_full(began / 1000, &reading);
                }
                Err(fault) => data.fail(fault),
            }
        }
    }

    /// Waits until a sample is due. Returns false if the sampler was stopped.
    fn wait_until(&self, due: Duration) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(left) = due.checked_sub(self.origin.elapsed()).filter(|left| !left.is_zero()) else {
                return true;
            };
            thread::park_timeout(left);
        }
        false
    }

    fn record_sample(&self, schedule: &mut Schedule, began: u64, reading: Result<Reading>) {
        let due = schedule.due();
        let ended = nanos(self.origin.elapsed());
        let (late, lost) = schedule.complete(began, ended);
        let mut data = self.data();
        data.health.taken += 1;
        data.health.late += u64::from(late);
        data.health.lost += lost;
        data.health.slowest_us = data.health.slowest_us.max((ended - began) / 1000);
        data.health.latest_us = data.health.latest_us.max(began.saturating_sub(due) / 1000);
        match reading {
            Ok(reading) => data.record(began / 1000, reading),
            Err(fault) => data.fail(fault),
        }
    }

    fn mark(&self, phase: Phase) {
        self.data().series.mark(phase);
    }

    fn micros(&self, moment: Instant) -> u64 {
        nanos(moment.saturating_duration_since(self.origin)) / 1000
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        lock(&self.data)
    }
}

impl Data {
    /// Adds a memory sample.
    fn record(&mut self, at: u64, reading: Reading) {
        // The other thread may have recorded a later time in between.
        self.at = self.at.max(at);
        self.series.push(self.at, &reading);
        self.peak_snapshot.add_memory(&reading.devices, &self.latest_full);
        self.latest.devices = reading.devices;
    }

    /// Adds a sample that includes processes.
    fn record_full(&mut self, at: u64, reading: &Reading) {
        self.at = self.at.max(at);
        self.slow.push(self.at, self.series.phase(), reading);
        self.peak_snapshot.add_full(reading);
        self.latest.tenants.clone_from(&reading.tenants);
        self.latest.activity.clone_from(&reading.activity);
        self.latest_full.clone_from(reading);
    }

    fn fail(&mut self, fault: Fault) {
        self.health.errors += 1;
        self.health.last_error = Some(fault.message);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Minimum rate in Hz.
pub const MIN_HZ: f64 = 1.0;
/// Maximum rate in Hz.
pub const MAX_HZ: f64 = 1000.0;
/// Allowed delay of a sample; at low rates, a twentieth of the period.
const TOLERANCE_NS: u64 = 500_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    period: u64,
    next: u64,
}

impl Schedule {
    /// A schedule of `hz` samples a second, the first immediately.
    pub(super) fn new(hz: f64) -> Result<Self> {
        if !(MIN_HZ..=MAX_HZ).contains(&hz) {
            return Err(Fault::usage(format!(
                "a sampling rate of {hz} a second is outside {MIN_HZ} to {MAX_HZ}"
            )));
        }
        let period = Duration::from_secs_f64(1.0 / hz).as_nanos();
        Ok(Self {
            period: u64::try_from(period).unwrap_or(u64::MAX),
            next: 0,
        })
    }

    /// When the next sample is due.
    fn due(&self) -> u64 {
        self.next * self.period
    }

    /// Call when the due sample was taken. Returns whether it started later than the tolerance, and the number of
    /// following samples whose time passed before it ended.
    fn complete(&mut self, began: u64, ended: u64) -> (bool, u64) {
        let tolerance = TOLERANCE_NS.max(self.period / 20);
        let late = began > self.due() + tolerance;
        let next = (self.next + 1).max(ended.div_ceil(self.period));
        let lost = next - self.next - 1;
        self.next = next;
        (late, lost)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn rate_has_bounds() {
        for hz in [0.0, 0.99, 1000.1, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::new(hz).is_err(), "{hz}");
        }
        assert_eq!(Schedule::new(50.0).unwrap().period, 20 * MS);
    }

    #[test]
    fn late_sample_does_not_shift_later_ones() {
        let mut schedule = Schedule::new(100.0).unwrap();
        assert_eq!(schedule.complete(0, MS), (false, 0));
        assert_eq!(schedule.due(), 10 * MS);
        assert_eq!(schedule.complete(13 * MS, 14 * MS), (true, 0));
        assert_eq!(schedule.due(), 20 * MS);
        assert_eq!(schedule.complete(20 * MS + 400_000, 61 * MS), (false, 4));
        assert_eq!(schedule.due(), 70 * MS);
    }

    #[test]
    fn sample_that_ends_at_the_next_due_time_loses_none() {
        let mut schedule = Schedule::new(100.0).unwrap();
        assert_eq!(schedule.complete(0, 10 * MS), (false, 0));
        assert_eq!(schedule.due(), 10 * MS);
    }

    proptest! {
        /// Every due time up to the last is either sampled or lost, exactly once.
        #[test]
        fn every_sample_is_taken_or_lost(hz in 1.0_f64..=1000.0, steps in prop::collection::vec((0_u64..5 * MS, 0_u64..50 * MS), 1..200)) {
            let mut schedule = Schedule::new(hz).unwrap();
            let (mut now, mut taken, mut lost) = (0_u64, 0, 0);
            for (delay, duration) in steps {
                let began = now.max(schedule.due()) + delay;
                let (is_late, skipped) = schedule.complete(began, began + duration);
                prop_assert_eq!(is_late, began > (taken + lost) * schedule.period + TOLERANCE_NS.max(schedule.period / 20));
                taken += 1;
                lost += skipped;
                now = began + duration;
                prop_assert_eq!(schedule.due(), (taken + lost) * schedule.period);
                prop_assert!(schedule.due() >= now || skipped == 0);
            }
        }
    }
}
