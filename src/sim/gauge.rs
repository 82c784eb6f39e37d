//! Memory and power of the simulated devices, as a sampler on another thread reads it: an atomic, no lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::profile::Power;
use crate::telemetry::{Activity, Device, Reading, Tenant};

/// Memory and power of the simulated devices `sim0`, `sim1`, …, which ranks of one engine use alike.
#[derive(Debug)]
pub(crate) struct Gauge {
    name: String,
    devices: u64,
    total: u64,
    baseline: u64,
    used: AtomicU64,
    power: Option<Power>,
    busy: AtomicBool,
}

impl Gauge {
    /// Devices of `total` bytes each, `baseline` of them taken before the engine starts.
    pub(crate) fn new(name: impl Into<String>, devices: u64, total: u64, baseline: u64, power: Option<Power>) -> Self {
        Self {
            name: name.into(),
            devices,
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

    /// Whether it computes now.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// One look.
    pub(crate) fn reading(&self) -> Reading {
        self.with(self.used.load(Ordering::Relaxed))
    }

    /// A look before the engine started.
    pub(crate) fn before(&self) -> Reading {
        self.with(self.baseline)
    }

    /// What the engine takes belongs to the process that it lives in.
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
            devices: (0..self.devices).map(device).collect(),
            tenants: if used > self.baseline {
                (0..self.devices).map(ours).collect()
            } else {
                Vec::new()
            },
            activity: self.power.map_or_else(Vec::new, |power| {
                (0..self.devices).map(|index| self.activity(id(index), power)).collect()
            }),
        }
    }

    /// Each draws one power while it computes and another while it does not.
    fn activity(&self, device: String, power: Power) -> Activity {
        let busy = self.busy.load(Ordering::Relaxed);
        Activity {
            device,
            power_mw: Some(1000 * if busy { power.busy_w } else { power.idle_w }),
            busy_percent: Some(if busy { 100 } else { 0 }),
        }
    }
}
