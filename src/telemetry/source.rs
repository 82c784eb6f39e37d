//! Readings of devices, and the trait for their sources.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};

use crate::fault::Result;

/// Memory of one device at one moment, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub fn used(&self) -> u64 {
        self.devices.iter().map(|device| device.used).sum()
    }

    /// Total bytes of all devices together.
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

/// A source that calls a closure.
pub struct Polled<F> {
    name: &'static str,
    read: F,
}

impl<F: FnMut() -> Result<Reading> + Send> Polled<F> {
    /// Creates a source with this name, such as `sim`.
    pub fn new(name: &'static str, read: F) -> Self {
        Self { name, read }
    }
}

impl<F: FnMut() -> Result<Reading> + Send> Source for Polled<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self) -> Result<Reading> {
        (self.read)()
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuInfo {
    /// Its index from 0, as in `gpus` options: on this machine, or in `CUDA_VISIBLE_DEVICES` where that is set.
    pub index: u32,
    /// Its UUID, which does not change when cards are moved.
    pub id: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Its vendor.
    pub vendor: Vendor,
    /// Used bytes, by any process.
    pub used: u64,
    /// Total bytes.
    pub total: u64,
    /// Driver version, if known.
    pub driver: Option<String>,
    /// Names of its device files below `/dev/dri`, where a container needs them.
    #[serde(skip)]
    pub nodes: Vec<String>,
}

/// A vendor of GPUs: one file, and its line in the list of `gpus.rs`.
pub trait GpuVendor: Sync {
    /// As scripts know it: `nvidia`.
    fn name(&self) -> &'static str;

    /// Its GPUs on this machine; never empty.
    ///
    /// # Errors
    ///
    /// `missing`, why there are none: one clause, `no NVIDIA driver: libnvidia-ml.so.1 is not installed`.
    fn list(&self) -> Result<Vec<GpuInfo>>;

    /// A source that reads the GPUs with these ids.
    ///
    /// # Errors
    ///
    /// `missing` if there is no GPU of such an id.
    fn source(&self, ids: &[String]) -> Result<Box<dyn Source>>;

    /// Variables by which a user may have chosen GPUs for a process already.
    fn choices(&self) -> &'static [&'static str];

    /// Variables that restrict a process to these GPUs.
    fn visible(&self, gpus: &[GpuInfo]) -> Vec<(&'static str, String)>;

    /// The files through which a container uses them; `None` if Docker has a runtime for them.
    fn files(&self, gpus: &[GpuInfo]) -> Option<GpuFiles>;
}

/// What a container needs to use GPUs through their device files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFiles {
    /// Device files of the GPUs and the driver.
    pub devices: Vec<String>,
    /// Groups allowed to open them.
    pub groups: Vec<String>,
    /// Environment variables that restrict the container to these GPUs: `NAME=value`.
    pub env: Vec<String>,
}

/// The vendor of a GPU, which determines how it is read and passed to engines. Serialized as its name.
#[derive(Clone, Copy)]
pub struct Vendor(pub &'static dyn GpuVendor);

impl Deref for Vendor {
    type Target = dyn GpuVendor;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl fmt::Debug for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Vendor {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Vendor {}

impl Serialize for Vendor {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Their indices on this machine: `0,2`.
pub(super) fn indices(gpus: &[GpuInfo]) -> String {
    let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    indices.join(",")
}
