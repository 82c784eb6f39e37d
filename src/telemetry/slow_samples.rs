//! Slow samples (power and utilisation of devices, and memory of processes, taken at a lower rate than memory), and
//! the moment of peak memory with the processes that held it.
//!
//! Pure, with bounded size. Times are microseconds since the sampler's start. When there are too many rows, neighbours
//! are merged: power and utilisation to their mean, a process's memory to its maximum. The processes at the peak are
//! those of the nearest slow sample: the one before the peak, or a later one with at least as much memory.

use std::collections::HashMap;

use super::series::{Phase, merge_pairs};
use super::source::{Device, Reading, Tenant};

/// Maximum rows of each kind before neighbours are merged: almost two hours at 10 Hz.
const MOST_ROWS: usize = 1 << 16;

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
    pub looks: u64,
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
    pub looks: u64,
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
                looks: 1,
                devices: reading.activity.iter().map(activity_of).collect(),
            });
        }
        for tenant in &reading.tenants {
            self.record_process(at, tenant);
        }
        let here = |pid: u32, device: &str| {
            let mut tenants = reading.tenants.iter();
            tenants.any(|tenant| tenant.pid == pid && tenant.device == device)
        };
        self.open.retain(|(pid, device), _| here(*pid, device));
        if self.activity.len() > MOST_ROWS {
            self.activity = merge_pairs(std::mem::take(&mut self.activity), can_merge, join);
        }
        if self.processes.len() > self.limit.max(MOST_ROWS) {
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
            row.looks += 1;
            return;
        }
        self.open.insert(key, self.processes.len());
        self.processes.push(ProcessMemory {
            from: at,
            to: at,
            looks: 1,
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
                    first.looks += row.looks;
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

fn activity_of(activity: &super::source::Activity) -> DeviceActivity {
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
    let (a, b) = (into.looks as f64, row.looks as f64);
    let mean = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some((one * a + other * b) / (a + b)),
        (one, other) => one.or(other),
    };
    for (device, other) in into.devices.iter_mut().zip(&row.devices) {
        device.power_w = mean(device.power_w, other.power_w);
        device.busy_percent = mean(device.busy_percent, other.busy_percent);
    }
    into.to = row.to;
    into.looks += row.looks;
}

/// The moment at which total memory on all devices was highest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakSnapshot {
    /// The devices at that moment.
    pub devices: Vec<Device>,
    /// The nearest sample of processes, with the memory seen by that sample itself.
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
        // Also if equal: this sample knows the processes.
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
            .map(|row| (row.tenant.pid, row.tenant.used, row.from, row.to, row.looks))
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
        let looks = 2 * MOST_ROWS as u64 + 9;
        for at in 0..looks {
            let held = if at == 101 { looks } else { at };
            samples.push(at, Phase::Load, &reading(at % 2 * 2000, &[(1, held)]));
        }
        assert!(samples.activity().len() <= MOST_ROWS && samples.processes().len() <= 2 * MOST_ROWS);
        assert_eq!(samples.activity().iter().map(|row| row.looks).sum::<u64>(), looks);
        assert_eq!(samples.processes().iter().map(|row| row.looks).sum::<u64>(), looks);
        let energy: f64 = samples
            .activity()
            .iter()
            .map(|row| row.devices[0].power_w.unwrap() * row.looks as f64)
            .sum();
        assert!((energy - looks as f64).abs() <= 1.0, "one watt on average: {energy}");
        let most = samples.processes().iter().filter_map(|row| row.tenant.used).max();
        assert_eq!(most, Some(looks), "the highest is never lost");
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
