//! Memory of the simulated device, as a sampler on another thread reads it: an atomic, no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::{Device, Reading};

/// The id of the one simulated device.
pub const DEVICE: &str = "sim0";

/// Memory of the simulated device.
#[derive(Debug)]
pub(crate) struct Gauge {
    name: String,
    total: u64,
    used: AtomicU64,
}

impl Gauge {
    /// A device of `total` bytes, `used` of them taken.
    pub(crate) fn new(name: impl Into<String>, total: u64, used: u64) -> Self {
        Self {
            name: name.into(),
            total,
            used: AtomicU64::new(used),
        }
    }

    /// Sets the bytes in use.
    pub(crate) fn set(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }

    /// One look.
    pub(crate) fn reading(&self) -> Reading {
        Reading {
            devices: vec![Device {
                id: DEVICE.to_owned(),
                name: self.name.clone(),
                used: self.used.load(Ordering::Relaxed),
                total: self.total,
            }],
            tenants: Vec::new(),
        }
    }
}
