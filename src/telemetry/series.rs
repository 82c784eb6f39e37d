//! A time series of memory with bounded size, the phases it is divided into, and the distribution of its values.
//!
//! Pure: times are microseconds since the sampler's start. A row represents consecutive samples with equal memory, so
//! an idle engine needs a single row. If there are too many rows, neighbours of the same phase are merged to their
//! maximum: detail is lost, peaks are not.
//!
//! [`SlowSamples`] are power and utilisation of devices, and memory of processes, taken at a lower rate. They are
//! merged too: power and utilisation to their mean, a process's memory to its maximum. [`PeakSnapshot`] is the moment
//! of peak memory with the processes that held it. The processes come from the nearest slow sample: the one before the
//! peak, or a later one with at least as much memory.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Activity, Device, Reading, Tenant};

/// Rows kept before neighbours are merged: 131,072, some 10 MiB with eight GPUs.
const MOST_ROWS: usize = 1 << 17;

/// Consecutive samples with equal memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesRow {
    /// Time of the first sample, in microseconds since the sampler's start.
    pub from: u64,
    /// Time of the last sample, in microseconds since the sampler's start.
    pub to: u64,
    /// Phase of the engine's life.
    pub phase: Phase,
    /// Number of samples.
    pub samples: u64,
    /// Used bytes on all devices together.
    pub total: u64,
    /// Used bytes on each device, in the order of [`Series::devices`].
    pub used: Vec<u64>,
}

/// Memory over time.
#[derive(Clone, Debug)]
pub struct Series {
    devices: Vec<Device>,
    rows: Vec<SeriesRow>,
    phase: Phase,
    max_rows: usize,
    limit: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self::bounded(MOST_ROWS)
    }
}

impl Series {
    /// An empty series with at most this many rows (at least 16), plus two per change of phase.
    pub fn bounded(max_rows: usize) -> Self {
        Self {
            devices: Vec::new(),
            rows: Vec::new(),
            phase: Phase::default(),
            max_rows: max_rows.max(16),
            limit: max_rows.max(16),
        }
    }

    /// A series read from a file, which contains only the ids of the devices.
    pub(super) fn from_rows(ids: &[String], rows: Vec<SeriesRow>) -> Self {
        let device = |id: &String| Device {
            id: id.clone(),
            ..Device::default()
        };
        Self {
            devices: ids.iter().map(device).collect(),
            phase: rows.last().map_or_else(Phase::default, |row| row.phase),
            rows,
            ..Self::default()
        }
    }

    /// Sets the phase of the following samples.
    pub fn mark(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Adds a sample. Times must not decrease.
    pub fn push(&mut self, at: u64, reading: &Reading) {
        let used = self.columns(reading);
        match self.rows.last_mut() {
            Some(row) if row.phase == self.phase && row.used == used => {
                row.to = at;
                row.samples += 1;
            }
            _ => self.rows.push(SeriesRow {
                from: at,
                to: at,
                phase: self.phase,
                samples: 1,
                total: used.iter().sum(),
                used,
            }),
        }
        if self.rows.len() > self.limit {
            self.merge_rows();
            // If rows of many short phases cannot be merged, do not try again on every sample.
            self.limit = self.max_rows.max(2 * self.rows.len());
        }
    }

    /// The devices, with the memory of the latest sample.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The rows, oldest first.
    pub fn rows(&self) -> &[SeriesRow] {
        &self.rows
    }

    /// The part between two times, inclusive. Between two samples, the memory of the earlier one applies, so the row in
    /// force at `from` is included.
    pub fn between(&self, from: u64, to: u64) -> Series {
        Series {
            devices: self.devices.clone(),
            rows: self.window(from, to).to_vec(),
            phase: self.phase,
            ..Self::bounded(self.max_rows)
        }
    }

    /// The last sample up to a time, and the first one from it on, if any.
    pub fn around(&self, at: u64) -> (Option<&SeriesRow>, Option<&SeriesRow>) {
        let next = self.rows.partition_point(|row| row.to < at);
        let last = self.rows.partition_point(|row| row.from <= at);
        (last.checked_sub(1).map(|last| &self.rows[last]), self.rows.get(next))
    }

    /// The most bytes in use on all devices together at one moment; `None` without samples.
    pub fn peak(&self) -> Option<u64> {
        self.rows.iter().map(|row| row.total).max()
    }

    /// Distribution of total memory over the samples of these phases between two times, inclusive.
    pub fn spread(&self, phases: &[Phase], from: u64, to: u64) -> Option<Spread> {
        let rows = self.window(from, to).iter().filter(|row| phases.contains(&row.phase));
        Spread::from_weighted(rows.map(|row| (row.total, row.samples)))
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn window(&self, from: u64, to: u64) -> &[SeriesRow] {
        if to < from {
            return &[];
        }
        let end = self.rows.partition_point(|row| row.from <= to);
        let start = self.rows.partition_point(|row| row.from <= from).saturating_sub(1);
        self.rows.get(start..end).unwrap_or_default()
    }

    /// Used bytes in the order of `devices`. New devices had 0 before; missing devices have 0 now.
    fn columns(&mut self, reading: &Reading) -> Vec<u64> {
        for device in &reading.devices {
            match self.devices.iter_mut().find(|known| known.id == device.id) {
                Some(known) => known.clone_from(device),
                None => {
                    self.devices.push(device.clone());
                    self.rows.iter_mut().for_each(|row| row.used.push(0));
                }
            }
        }
        let used = |known: &Device| reading.devices.iter().find(|device| device.id == known.id);
        self.devices
            .iter()
            .map(|known| used(known).map_or(0, |device| device.used))
            .collect()
    }

    /// Merges neighbours of the same phase in pairs. The newest row stays as it is, because it may still grow.
    fn merge_rows(&mut self) {
        let newest = self.rows.pop();
        let rows = std::mem::take(&mut self.rows);
        self.rows = merge_pairs(rows, |last, row| last.phase == row.phase, merge);
        self.rows.extend(newest);
    }
}

/// Merges neighbours that are `mergeable` in pairs.
pub(super) fn merge_pairs<T>(rows: Vec<T>, mergeable: impl Fn(&T, &T) -> bool, merge: impl Fn(&mut T, &T)) -> Vec<T> {
    let mut merged: Vec<T> = Vec::with_capacity(rows.len() / 2 + 1);
    let mut open = false;
    for row in rows {
        match merged.last_mut() {
            Some(last) if open && mergeable(last, &row) => {
                merge(last, &row);
                open = false;
            }
            _ => {
                merged.push(row);
                open = true;
            }
        }
    }
    merged
}

fn merge(into: &mut SeriesRow, row: &SeriesRow) {
    into.to = row.to;
    into.samples += row.samples;
    into.total = into.total.max(row.total);
    for (highest, &now) in into.used.iter_mut().zip(&row.used) {
        *highest = now.max(*highest);
    }
}

/// Number, minimum, mean, standard deviation and maximum of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Number of values.
    pub samples: u64,
    /// Minimum.
    pub lowest: u64,
    /// The mean.
    pub mean: f64,
    /// Population standard deviation; 0 for a single value.
    pub std: f64,
    /// Maximum.
    pub highest: u64,
}

impl Spread {
    /// From pairs of value and frequency; `None` without values.
    pub fn from_weighted(values: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut spread: Option<Self> = None;
        let mut squares = 0.0;
        for (value, times) in values.into_iter().filter(|(_, times)| *times > 0) {
            let seen = spread.get_or_insert(Self {
                lowest: value,
                highest: value,
                ..Self::default()
            });
            seen.samples += times;
            seen.lowest = seen.lowest.min(value);
            seen.highest = seen.highest.max(value);
            let distance = value as f64 - seen.mean;
            seen.mean += distance * times as f64 / seen.samples as f64;
            squares += times as f64 * distance * (value as f64 - seen.mean);
        }
        spread.map(|spread| Self {
            std: (squares / spread.samples as f64).max(0.0).sqrt(),
            ..spread
        })
    }
}

/// The state of the engine when memory was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the engine starts.
    #[default]
    Baseline,
    /// From the engine's start until it is ready.
    Loading,
    /// Ready and idle.
    Ready,
    /// Warm-up requests.
    WarmUp,
    /// Measured requests.
    Load,
    /// After the engine ended.
    After,
}

impl Phase {
    /// All phases in chronological order.
    pub const ALL: [Phase; 6] = [
        Phase::Baseline,
        Phase::Loading,
        Phase::Ready,
        Phase::WarmUp,
        Phase::Load,
        Phase::After,
    ];

    /// The name in scripts and files.
    pub fn name(self) -> &'static str {
        ["baseline", "loading", "ready", "warm_up", "load", "after"][self as usize]
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Maximum rows of each kind before neighbours are merged: almost two hours at 10 Hz.
const MOST_SLOW_ROWS: usize = 1 << 16;

/// Power and utilisation of one device, in one sample or averaged over several.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceActivity {
    /// The device's id.
    pub device: String,
    /// Power drawn, in watts.
    pub power_w: Option<f64>,
    /// Utilisation in per cent.
    pub busy_percent: Option<f64>,
}

/// Power and utilisation of all devices, in one sample or averaged over several.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivitySample {
    /// Time of the first sample, in microseconds since the sampler's start.
    pub from: u64,
    /// Time of the last sample, in microseconds since the sampler's start.
    pub to: u64,
    /// Phase of the engine's life.
    pub phase: Phase,
    /// Number of samples.
    pub samples: u64,
    /// Each device that reports power or utilisation.
    pub devices: Vec<DeviceActivity>,
}

/// Memory of one process on one device, while it stayed the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Time of the first sample, in microseconds since the sampler's start.
    pub from: u64,
    /// Time of the last sample, in microseconds since the sampler's start.
    pub to: u64,
    /// Number of samples.
    pub samples: u64,
    /// The process, the device, and the bytes.
    pub tenant: Tenant,
}

/// All slow samples of a sampler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowSamples {
    activity: Vec<ActivitySample>,
    processes: Vec<ProcessMemory>,
    /// Index of the latest row of each process on each device, while it can be extended.
    open: HashMap<(u32, String), usize>,
    limit: usize,
}

impl SlowSamples {
    /// Adds a sample. Times must not decrease.
    pub fn push(&mut self, at: u64, phase: Phase, reading: &Reading) {
        if !reading.activity.is_empty() {
            self.activity.push(ActivitySample {
                from: at,
                to: at,
                phase,
                samples: 1,
                devices: reading.activity.iter().map(activity_of).collect(),
            });
        }
        for tenant in &reading.tenants {
            self.record_process(at, tenant);
        }
        let here = |pid: u32, device: &str| {
            reading
                .tenants
                .iter()
                .any(|tenant| tenant.pid == pid && tenant.device == device)
        };
        self.open.retain(|(pid, device), _| here(*pid, device));
        if self.activity.len() > MOST_SLOW_ROWS {
            self.activity = merge_pairs(std::mem::take(&mut self.activity), can_merge, join);
        }
        if self.processes.len() > self.limit.max(MOST_SLOW_ROWS) {
            self.merge_processes();
        }
    }

    /// Power and utilisation, oldest first.
    pub fn activity(&self) -> &[ActivitySample] {
        &self.activity
    }

    /// Memory of processes, ordered by the start of each row.
    pub fn processes(&self) -> &[ProcessMemory] {
        &self.processes
    }

    fn record_process(&mut self, at: u64, tenant: &Tenant) {
        let key = (tenant.pid, tenant.device.clone());
        if let Some(row) = self.open.get(&key).and_then(|&row| self.processes.get_mut(row))
            && row.tenant.used == tenant.used
        {
            row.to = at;
            row.samples += 1;
            return;
        }
        self.open.insert(key, self.processes.len());
        self.processes.push(ProcessMemory {
            from: at,
            to: at,
            samples: 1,
            tenant: tenant.clone(),
        });
    }

    /// Merges each process's rows on a device in pairs.
    fn merge_processes(&mut self) {
        let mut merged: Vec<ProcessMemory> = Vec::with_capacity(self.processes.len());
        let mut partners: HashMap<(u32, String), usize> = HashMap::new();
        self.open.clear();
        for row in self.processes.drain(..) {
            let key = (row.tenant.pid, row.tenant.device.clone());
            match partners.remove(&key).and_then(|at| merged.get_mut(at)) {
                Some(first) => {
                    first.to = row.to;
                    first.samples += row.samples;
                    first.tenant.used = first.tenant.used.max(row.tenant.used);
                }
                None => {
                    partners.insert(key, merged.len());
                    merged.push(row);
                }
            }
        }
        self.processes = merged;
        // If many short-lived processes cannot be merged, do not try again on every sample.
        self.limit = 2 * self.processes.len();
    }
}

fn activity_of(activity: &Activity) -> DeviceActivity {
    DeviceActivity {
        device: activity.device.clone(),
        power_w: activity.power_mw.map(|power| power as f64 / 1000.0),
        busy_percent: activity.busy_percent.map(|busy| busy as f64),
    }
}

/// Whether two samples have the same phase and devices.
fn can_merge(last: &ActivitySample, row: &ActivitySample) -> bool {
    let ids = |moment: &ActivitySample| -> Vec<String> {
        moment.devices.iter().map(|device| device.device.clone()).collect()
    };
    last.phase == row.phase && ids(last) == ids(row)
}

fn join(into: &mut ActivitySample, row: &ActivitySample) {
    let (a, b) = (into.samples as f64, row.samples as f64);
    let mean = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some((one * a + other * b) / (a + b)),
        (one, other) => one.or(other),
    };
    for (device, other) in into.devices.iter_mut().zip(&row.devices) {
        device.power_w = mean(device.power_w, other.power_w);
        device.busy_percent = mean(device.busy_percent, other.busy_percent);
    }
    into.to = row.to;
    into.samples += row.samples;
}

/// The moment of the highest total memory on all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakSnapshot {
    /// The devices at that moment.
    pub devices: Vec<Device>,
    /// The nearest sample of processes, with the memory that this sample saw itself.
    pub processes: Reading,
}

impl PeakSnapshot {
    /// Adds a memory sample; `processes` is the latest sample of processes.
    pub(super) fn add_memory(&mut self, devices: &[Device], processes: &Reading) {
        if self.devices.is_empty() || used(devices) > used(&self.devices) {
            self.devices = devices.to_vec();
            self.processes = processes.clone();
        }
    }

    /// Adds a sample of memory and processes.
    pub(super) fn add_full(&mut self, reading: &Reading) {
        // Also if equal, because this sample includes processes.
        if self.devices.is_empty() || reading.used() >= used(&self.devices) {
            self.devices.clone_from(&reading.devices);
            self.processes = reading.clone();
        }
    }
}

fn used(devices: &[Device]) -> u64 {
    devices.iter().map(|device| device.used).sum()
}

#[cfg(test)]
mod series_tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(used: &[u64]) -> Reading {
        let device = |(index, &used): (usize, &u64)| Device {
            id: format!("gpu{index}"),
            name: "test".into(),
            used,
            total: 1000,
        };
        Reading {
            devices: used.iter().enumerate().map(device).collect(),
            tenants: Vec::new(),
            activity: Vec::new(),
        }
    }

    #[test]
    fn equal_samples_are_one_row() {
        let mut series = Series::default();
        for at in 0..1000 {
            series.push(at, &reading(&[5, 6]));
        }
        assert_eq!(series.rows().len(), 1);
        assert_eq!(series.rows()[0].samples, 1000);
        series.mark(Phase::Load);
        series.push(1000, &reading(&[5, 6]));
        assert_eq!(series.rows().len(), 2, "a phase has rows of its own");
    }

    #[test]
    fn window_starts_with_the_row_in_force() {
        let mut series = Series::default();
        series.push(10, &reading(&[1]));
        series.push(20, &reading(&[9]));
        series.push(30, &reading(&[2]));
        let peak = |from, to| series.between(from, to).peak();
        assert_eq!(peak(0, 9), None);
        assert_eq!(peak(0, 10), Some(1));
        assert_eq!(peak(11, 12), Some(1), "between two samples, the earlier one");
        assert_eq!(peak(21, 40), Some(9));
        assert_eq!(peak(30, 40), Some(2));
        assert_eq!(peak(40, 30), None);
    }

    #[test]
    fn around_returns_samples_before_and_after() {
        let mut series = Series::default();
        series.push(10, &reading(&[1]));
        series.push(20, &reading(&[1]));
        series.push(30, &reading(&[2]));
        let around = |at| {
            let (before, after) = series.around(at);
            (before.map(|row| row.total), after.map(|row| row.total))
        };
        assert_eq!(around(5), (None, Some(1)));
        assert_eq!(around(15), (Some(1), Some(1)));
        assert_eq!(around(25), (Some(1), Some(2)));
        assert_eq!(around(31), (Some(2), None));
    }

    #[test]
    fn total_peak_is_at_one_moment() {
        let mut series = Series::default();
        series.push(0, &reading(&[10, 1]));
        series.push(1, &reading(&[1, 10]));
        assert_eq!(series.peak(), Some(11));
    }

    #[test]
    fn devices_may_come_and_go() {
        let mut series = Series::default();
        series.push(0, &reading(&[4]));
        series.push(1, &reading(&[4, 7]));
        series.push(2, &reading(&[]));
        let used: Vec<_> = series.rows().iter().map(|row| row.used.clone()).collect();
        assert_eq!(used, [vec![4, 0], vec![4, 7], vec![0, 0]]);
    }

    proptest! {
        /// Merging bounds the rows, loses no sample, and keeps the peaks of phases and windows.
        #[test]
        fn merging_keeps_peaks(seen in prop::collection::vec((0_usize..6, 0_u64..100, 0_u64..100), 1..400), a in 0_u64..400, b in 0_u64..400) {
            let mut series = Series::bounded(16);
            let mut raw = Vec::new();
            for (at, &(phase, one, two)) in seen.iter().enumerate() {
                // Phases follow each other; merging never crosses them.
                let phase = Phase::ALL[phase * at / seen.len()];
                series.mark(phase);
                series.push(at as u64, &reading(&[one, two]));
                raw.push((at as u64, phase, one + two));
            }
            let phases = series.rows().windows(2).filter(|pair| pair[0].phase != pair[1].phase).count();
            prop_assert!(series.rows().len() <= 16 + 2 * phases, "{} rows, {phases} changes", series.rows().len());
            prop_assert_eq!(series.rows().iter().map(|row| row.samples).sum::<u64>(), seen.len() as u64);
            for phase in Phase::ALL {
                let expected = raw.iter().filter(|look| look.1 == phase).map(|look| look.2).max();
                let of_phase = series.rows().iter().filter(|row| row.phase == phase);
                prop_assert_eq!(of_phase.map(|row| row.total).max(), expected);
            }
            let (from, to) = (a.min(b), a.max(b));
            let expected = raw.iter().filter(|look| (from..=to).contains(&look.0)).map(|look| look.2).max();
            let seen = series.between(from, to).peak();
            prop_assert!(seen >= expected, "{seen:?} {expected:?}");

            let mut exact = Series::bounded(1000);
            for &(at, _, total) in &raw {
                exact.push(at, &reading(&[total]));
            }
            if expected.is_some() {
                prop_assert_eq!(exact.between(from, to).peak(), expected);
            }
        }
    }
}

#[cfg(test)]
mod spread_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_input_has_no_spread() {
        assert_eq!(Spread::from_weighted([]), None);
        assert_eq!(Spread::from_weighted([(7, 0)]), None);
        let one = Spread::from_weighted([(7, 3)]).unwrap();
        assert_eq!((one.lowest, one.highest, one.samples), (7, 7, 3));
        assert!((one.mean - 7.0).abs() < 1e-12 && one.std.abs() < 1e-12);
    }

    proptest! {
        /// In integers, n Σx² - (Σx)² is n² times the variance, without rounding.
        #[test]
        fn matches_exact_integer_arithmetic(values in prop::collection::vec((0_u64..1 << 38, 1_u64..50), 1..40)) {
            let spread = Spread::from_weighted(values.iter().copied()).unwrap();
            let sum = |power: u32| values.iter().map(|&(value, times)| u128::from(value).pow(power) * u128::from(times)).sum::<u128>();
            let count: u64 = values.iter().map(|(_, times)| times).sum();
            prop_assert_eq!(spread.samples, count);
            prop_assert_eq!(Some(spread.lowest), values.iter().map(|(value, _)| *value).min());
            prop_assert_eq!(Some(spread.highest), values.iter().map(|(value, _)| *value).max());
            let mean = sum(1) as f64 / count as f64;
            prop_assert!((spread.mean - mean).abs() <= mean * 1e-12);
            let variance = (u128::from(count) * sum(2) - sum(1) * sum(1)) as f64 / (count as f64).powi(2);
            prop_assert!((spread.std - variance.sqrt()).abs() <= variance.sqrt() * 1e-9 + 1e-3, "{} {}", spread.std, variance.sqrt());
        }
    }
}

#[cfg(test)]
mod slow_samples_tests {
    use super::*;
    use crate::telemetry::Activity;

    fn reading(power_mw: u64, held: &[(u32, u64)]) -> Reading {
        Reading {
            devices: Vec::new(),
            tenants: held
                .iter()
                .map(|&(pid, used)| Tenant {
                    pid,
                    device: "g".into(),
                    used: Some(used),
                })
                .collect(),
            activity: vec![Activity {
                device: "g".into(),
                power_mw: Some(power_mw),
                busy_percent: None,
            }],
        }
    }

    #[test]
    fn process_has_a_row_per_amount_and_stay() {
        let mut samples = SlowSamples::default();
        for (at, held) in [
            (0, vec![(1, 5)]),
            (1, vec![(1, 5), (2, 9)]),
            (2, vec![(1, 6)]),
            (3, vec![(1, 6), (2, 9)]),
        ] {
            samples.push(at, Phase::Load, &reading(0, &held));
        }
        let rows: Vec<_> = samples
            .processes()
            .iter()
            .map(|row| (row.tenant.pid, row.tenant.used, row.from, row.to, row.samples))
            .collect();
        assert_eq!(
            rows,
            [
                (1, Some(5), 0, 1, 2),
                (2, Some(9), 1, 1, 1),
                (1, Some(6), 2, 3, 2),
                (2, Some(9), 3, 3, 1)
            ],
            "process 2 left in between"
        );
    }

    #[test]
    fn rows_are_bounded_and_merging_keeps_values() {
        let mut samples = SlowSamples::default();
        let count = 2 * MOST_SLOW_ROWS as u64 + 9;
        for at in 0..count {
            let held = if at == 101 { count } else { at };
            samples.push(at, Phase::Load, &reading(at % 2 * 2000, &[(1, held)]));
        }
        assert!(samples.activity().len() <= MOST_SLOW_ROWS && samples.processes().len() <= 2 * MOST_SLOW_ROWS);
        assert_eq!(samples.activity().iter().map(|row| row.samples).sum::<u64>(), count);
        assert_eq!(samples.processes().iter().map(|row| row.samples).sum::<u64>(), count);
        let energy: f64 = samples
            .activity()
            .iter()
            .map(|row| row.devices[0].power_w.unwrap() * row.samples as f64)
            .sum();
        assert!((energy - count as f64).abs() <= 1.0, "one watt on average: {energy}");
        let most = samples.processes().iter().filter_map(|row| row.tenant.used).max();
        assert_eq!(most, Some(count), "the highest is never lost");
    }
}

#[cfg(test)]
mod peak_snapshot_tests {
    use super::*;
    use crate::telemetry::Tenant;

    fn look(used: u64, held: u64) -> Reading {
        Reading {
            devices: vec![Device {
                id: "g".into(),
                name: "x".into(),
                used,
                total: 100,
            }],
            tenants: vec![Tenant {
                pid: 1,
                device: "g".into(),
                used: Some(held),
            }],
            activity: Vec::new(),
        }
    }

    #[test]
    fn peak_keeps_its_processes() {
        let mut peak = PeakSnapshot::default();
        peak.add_full(&look(10, 8));
        peak.add_memory(&look(50, 0).devices, &look(10, 8));
        assert_eq!((peak.devices[0].used, peak.processes.used()), (50, 10));
        peak.add_memory(&look(30, 0).devices, &look(30, 29));
        assert_eq!(peak.processes.used(), 10, "a lower moment changes nothing");
        peak.add_full(&look(40, 39));
        assert_eq!(peak.processes.used(), 10, "nor does a sample with less memory");
        peak.add_full(&look(50, 48));
        assert_eq!((peak.devices[0].used, peak.processes.tenants[0].used), (50, Some(48)));
        peak.add_memory(&look(50, 0).devices, &look(1, 1));
        assert_eq!(peak.processes.used(), 50, "an equal memory sample changes nothing");
    }
}
