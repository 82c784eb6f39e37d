//! The devices of the simulated engine. Memory and power are atomics, because a sampler reads them from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::profile::Power;
use crate::telemetry::{Activity, Device, Reading, Tenant};

/// Simulated devices `sim0`, `sim1`, …; all ranks of an engine use the same amount.
#[derive(Debug)]
pub(crate) struct SimDevices {
    name: String,
    count: u64,
    total: u64,
    baseline: u64,
    used: AtomicU64,
    power: Option<Power>,
    busy: AtomicBool,
}

impl SimDevices {
    /// Devices of `total` bytes each; `baseline` bytes are in use before the engine starts.
    pub(crate) fn new(name: impl Into<String>, count: u64, total: u64, baseline: u64, power: Option<Power>) -> Self {
        Self {
            name: name.into(),
            count,
            total,
            baseline,
            used: AtomicU64::new(baseline),
            power,
            busy: AtomicBool::new(false),
        }
    }

    /// Sets the bytes in use on each device.
    pub(crate) fn set(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    pub(crate) fn reading(&self) -> Reading {
        self.with(self.used.load(Ordering::Relaxed))
    }

    /// The reading before the engine started.
    pub(crate) fn before(&self) -> Reading {
        self.with(self.baseline)
    }

    /// The engine's memory is attributed to this process.
    fn with(&self, used: u64) -> Reading {
        let id = |index: u64| format!("sim{index}");
        let ours = |index: u64| Tenant {
            pid: std::process::id(),
            device: id(index),
            used: Some(used.saturating_sub(self.baseline)),
        };
        let device = |index: u64| Device {
            id: id(index),
            name: self.name.clone(),
            used,
            total: self.total,
        };
        Reading {
            devices: (0..self.count).map(device).collect(),
            tenants: if used > self.baseline {
                (0..self.count).map(ours).collect()
            } else {
                Vec::new()
            },
            activity: self.power.map_or_else(Vec::new, |power| {
                (0..self.count).map(|index| self.activity(id(index), power)).collect()
            }),
        }
    }

    fn activity(&self, device: String, power: Power) -> Activity {
        let busy = self.busy.load(Ordering::Relaxed);
        Activity {
            device,
            power_mw: Some(1000 * if busy { power.busy_w } else { power.idle_w }),
            busy_percent: Some(if busy { 100 } else { 0 }),
        }
    }
}
