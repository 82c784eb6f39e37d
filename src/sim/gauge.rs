//! Memory of the simulated device, as a sampler on another thread reads it: an atomic, no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::{Device, Reading, Tenant};

/// The id of the one simulated device.
pub const DEVICE: &str = "sim0";

/// Memory of the simulated device.
#[derive(Debug)]
pub(crate) struct Gauge {
    name: String,
    total: u64,
    baseline: u64,
    used: AtomicU64,
}

impl Gauge {
    /// A device of `total` bytes, `baseline` of them taken before the engine starts.
    pub(crate) fn new(name: impl Into<String>, total: u64, baseline: u64) -> Self {
        Self {
            name: name.into(),
            total,
            baseline,
            used: AtomicU64::new(baseline),
        }
    }

    /// Sets the bytes in use.
    pub(crate) fn set(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
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
        let ours = Tenant {
            pid: std::process::id(),
            device: DEVICE.to_owned(),
            used: Some(used.saturating_sub(self.baseline)),
        };
        Reading {
            devices: vec![Device {
                id: DEVICE.to_owned(),
                name: self.name.clone(),
                used,
                total: self.total,
            }],
            tenants: if used > self.baseline { vec![ours] } else { Vec::new() },
            activity: Vec::new(),
        }
    }
}
