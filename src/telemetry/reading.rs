//! One look at memory, and where looks come from.

use serde::{Deserialize, Serialize};

use crate::fault::Result;

/// Memory of one device at one moment, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// UUID of a GPU; `host`, or a cgroup's path, for host memory; `sim0` for the simulated engine.
    pub id: String,
    /// For people: `NVIDIA H200`.
    pub name: String,
    /// Bytes in use by anybody.
    pub used: u64,
    /// Bytes that are there.
    pub total: u64,
}

/// What one process holds on one device, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The process, as the host numbers it.
    pub pid: u32,
    /// The device's id.
    pub device: String,
    /// Bytes, where the driver says.
    pub used: Option<u64>,
}

/// What one device does at one moment, where its driver tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// The device's id.
    pub device: String,
    /// Power drawn, in milliwatts.
    pub power_mw: Option<u64>,
    /// Share of the last moments in which it computed, in per cent.
    pub busy_percent: Option<u64>,
}

/// One look at every device of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The devices.
    pub devices: Vec<Device>,
    /// The processes on them, where the source can tell.
    pub tenants: Vec<Tenant>,
    /// What the devices do, where the source can tell.
    #[serde(default)]
    pub activity: Vec<Activity>,
}

impl Reading {
    /// Bytes in use on all devices together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.devices.iter().map(|device| device.used).sum()
    }

    /// Bytes that all devices have together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.devices.iter().map(|device| device.total).sum()
    }
}

/// Where looks come from. Called on the sampler's threads.
pub trait Source: Send {
    /// `nvml`, `amd`, `host` or `sim`.
    fn name(&self) -> &'static str;

    /// One look at everything.
    fn read(&mut self) -> Result<Reading>;

    /// What a sampler does at its full rate: memory, and whatever comes with it at no cost. All that [`Source::slow`] looks at may be
    /// left out.
    fn quick(&mut self) -> Result<Reading> {
        self.read()
    }

    /// Another look at the same devices for what takes longer than memory (processes, power), on a thread of its own and at a
    /// slower rate. None where [`Source::quick`] tells all.
    fn slow(&self) -> Option<Box<dyn Source>> {
        None
    }
}
