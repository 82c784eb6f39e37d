//! One reading of devices, and the trait for their sources.

use serde::{Deserialize, Serialize};

use crate::fault::Result;

/// Memory of one device at one moment, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// UUID of a GPU; `host` or a cgroup's path for host memory; `sim0` for the simulated engine.
    pub id: String,
    /// Display name: `NVIDIA H200`.
    pub name: String,
    /// Used bytes, by any process.
    pub used: u64,
    /// Total bytes.
    pub total: u64,
}

/// Memory of one process on one device, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Process id on the host.
    pub pid: u32,
    /// The device's id.
    pub device: String,
    /// Bytes, if the driver reports them.
    pub used: Option<u64>,
}

/// Power and utilisation of one device at one moment, if reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// The device's id.
    pub device: String,
    /// Power drawn, in milliwatts.
    pub power_mw: Option<u64>,
    /// Utilisation in per cent.
    pub busy_percent: Option<u64>,
}

/// One reading of all devices of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The devices.
    pub devices: Vec<Device>,
    /// The processes on them, if the source reports them.
    pub tenants: Vec<Tenant>,
    /// Power and utilisation, if the source reports them.
    #[serde(default)]
    pub activity: Vec<Activity>,
}

impl Reading {
    /// Used bytes on all devices together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.devices.iter().map(|device| device.used).sum()
    }

    /// Total bytes of all devices together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.devices.iter().map(|device| device.total).sum()
    }
}

/// A source of readings. Called on the sampler's threads.
pub trait Source: Send {
    /// `nvml`, `amd`, `host` or `sim`.
    fn name(&self) -> &'static str;

    /// Reads everything.
    fn read(&mut self) -> Result<Reading>;

    /// The fast path for the sampler's full rate: memory, and what comes with it at no cost. May omit what
    /// [`Source::slow_source`] reads.
    fn read_memory(&mut self) -> Result<Reading> {
        self.read()
    }

    /// Another source for the same devices that reads what takes longer than memory (processes, power), on a separate
    /// thread at a lower rate. `None` if [`Source::read_memory`] reads everything.
    fn slow_source(&self) -> Option<Box<dyn Source>> {
        None
    }
}
