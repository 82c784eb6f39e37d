//! GPU and host memory over time: sources (NVML, AMD sysfs, host memory, the simulated engine), a sampler thread at 1
//! to 1000 Hz, and time series with phases. Only this module uses NVML.
//!
//! [`gpus`] lists the GPUs. [`gpu_source`], [`host`] and [`Polled`] create sources. [`Sampler`] reads one source
//! (memory at the full rate, processes and power ten times a second) and returns peaks by phase and between moments.
//! [`require_alone`] and [`settle`] check whether a GPU is free before a start.

mod amd;
mod csv;
pub mod host;
mod nvml;
mod sampler;
mod series;
mod tenancy;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};

pub use amd::{Amd, AmdCards};
pub use csv::{files, read_activity, read_series};
pub use nvml::Nvidia;
pub use sampler::{MAX_HZ, MIN_HZ, Recording, SLOW_HZ, Sampler, SamplerHealth, UsedByDevice};
pub use series::{
    ActivitySample, DeviceActivity, PeakSnapshot, Phase, ProcessMemory, Series, SeriesRow, SlowSamples, Spread,
};
pub use tenancy::{
    FOREIGN_LIMIT, ForeignProcess, SETTLE_SLACK, Settled, foreign_processes, never_settled, require_alone, settle,
    unsettled,
};

use crate::fault::{Fault, Result};

/// The supported GPU vendors. The first one's remedy is reported if there is no GPU.
static VENDORS: [&dyn GpuVendor; 2] = [&Nvidia, &Amd];

/// Variables with which users restrict a process to certain GPUs.
pub fn choices() -> impl Iterator<Item = &'static str> {
    VENDORS.iter().flat_map(|vendor| vendor.choices()).copied()
}

/// The GPUs of this machine; never empty. The error states what is missing, for each vendor.
pub fn gpus() -> Result<Vec<GpuInfo>> {
    let (mut found, mut absent) = (Vec::new(), None::<Fault>);
    for vendor in VENDORS {
        let choice = vendor.choices().iter().find_map(|name| std::env::var(name).ok());
        match vendor.list() {
            Ok(gpus) => found.extend(match &choice {
                Some(choice) => left_visible(gpus, choice),
                None => gpus,
            }),
            Err(fault) => match &mut absent {
                Some(absent) => absent.message = format!("{}; {}", absent.message, fault.message),
                None => absent = Some(fault),
            },
        }
    }
    match absent {
        Some(absent) if found.is_empty() => Err(absent),
        None if found.is_empty() => Err(Fault::missing(
            "no GPU is left visible by `CUDA_VISIBLE_DEVICES` or its like",
            "name one there, or unset it",
        )),
        _ => Ok(found),
    }
}

/// The GPUs of a vendor that a variable such as `CUDA_VISIBLE_DEVICES` leaves visible, in its order and numbered
/// accordingly, as engines see them. Schedulers use it to assign GPUs to a job. As in CUDA, entries after an unknown
/// one are ignored.
fn left_visible(all: Vec<GpuInfo>, choice: &str) -> Vec<GpuInfo> {
    let named = choice.split(',').map(|name| {
        let (name, index) = (name.trim(), name.trim().parse::<u32>().ok());
        let is_meant = |gpu: &&GpuInfo| match index {
            Some(index) => gpu.index == index,
            None => !name.is_empty() && gpu.id.starts_with(name),
        };
        all.iter().find(is_meant).cloned()
    });
    let visible = named.map_while(|gpu| gpu).zip(0..);
    visible.map(|(gpu, index)| GpuInfo { index, ..gpu }).collect()
}

/// Variables that make only these GPUs visible to a process; empty if no GPU is named.
///
/// # Errors
///
/// As [`select`].
pub fn only_visible(names: &[String]) -> Result<BTreeMap<String, String>> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let gpus = select(names)?;
    let variables = gpus
        .first()
        .map(|first| first.vendor.visible(&gpus))
        .unwrap_or_default();
    let named = variables.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(named.collect())
}

/// Selects GPUs by index or UUID, in the given order.
///
/// # Errors
///
/// `missing` if there is no GPU, or none with that name; `usage` if one is named twice, or vendors are mixed.
pub fn select(names: &[String]) -> Result<Vec<GpuInfo>> {
    select_from(&gpus()?, names)
}

/// A source that reads these GPUs.
///
/// # Errors
///
/// As [`select`].
pub fn gpu_source(names: &[String]) -> Result<Box<dyn Source>> {
    let selected = select(names)?;
    let ids: Vec<String> = selected.iter().map(|gpu| gpu.id.clone()).collect();
    match selected.first() {
        Some(gpu) => gpu.vendor.source(&ids),
        None => Err(Fault::usage("no GPU is given").hint("`gpus` is a list of indices or UUIDs: `[0]`")),
    }
}

/// A source that reads these GPUs, or `None` if this machine has no GPU, so that the default `gpus: [0]` of a script
/// has no effect there.
///
/// # Errors
///
/// `missing` if there are GPUs, but none with that name; `usage` as in [`select`].
pub fn gpus_if_any(names: &[String]) -> Result<Option<Box<dyn Source>>> {
    match gpus() {
        Ok(_) if !names.is_empty() => gpu_source(names).map(Some),
        _ => Ok(None),
    }
}

/// Reads every GPU of this machine once.
///
/// # Errors
///
/// `missing` if there is no GPU.
pub fn read_gpus() -> Result<Reading> {
    let available = gpus()?;
    let mut all = Reading::default();
    for vendor in VENDORS {
        let of_vendor = available.iter().filter(|gpu| gpu.vendor.name() == vendor.name());
        let ids: Vec<String> = of_vendor.map(|gpu| gpu.id.clone()).collect();
        if !ids.is_empty() {
            let reading = vendor.source(&ids)?.read()?;
            all.devices.extend(reading.devices);
            all.tenants.extend(reading.tenants);
        }
    }
    Ok(all)
}

fn select_from(available: &[GpuInfo], names: &[String]) -> Result<Vec<GpuInfo>> {
    let mut selected: Vec<GpuInfo> = Vec::new();
    for name in names {
        let index: Option<u32> = name.parse().ok();
        let matches = |gpu: &&GpuInfo| Some(gpu.index) == index || gpu.id.eq_ignore_ascii_case(name);
        let Some(gpu) = available.iter().find(matches) else {
            let listed: Vec<String> = available
                .iter()
                .map(|gpu| format!("{} ({})", gpu.index, gpu.id))
                .collect();
            return Err(Fault::missing(
                format!("there is no GPU `{name}`"),
                format!("there are: {}", listed.join(", ")),
            ));
        };
        if selected.iter().any(|other| other.id == gpu.id) {
            return Err(Fault::usage(format!("GPU `{name}` is named twice")));
        }
        if selected.iter().any(|other| other.vendor != gpu.vendor) {
            return Err(Fault::usage("GPUs of different vendors cannot serve one engine"));
        }
        selected.push(gpu.clone());
    }
    Ok(selected)
}

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

    /// The fast path for the sampler's full rate: memory, and anything that comes with it at no cost. May omit the data
    /// that [`Source::slow_source`] reads.
    fn read_memory(&mut self) -> Result<Reading> {
        self.read()
    }

    /// Another source for the same devices that reads slower data (processes, power) on a separate thread at a lower
    /// rate. `None` if [`Source::read_memory`] reads everything.
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
    /// Its index from 0, as in `gpus` options: on this machine, or in `CUDA_VISIBLE_DEVICES` if that is set.
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
    /// Names of its device files below `/dev/dri`, if a container needs them.
    #[serde(skip)]
    pub nodes: Vec<String>,
}

/// A GPU vendor: implemented in one file, and listed in `VENDORS`.
pub trait GpuVendor: Sync {
    /// The name in scripts: `nvidia`.
    fn name(&self) -> &'static str;

    /// Its GPUs on this machine; never empty.
    ///
    /// # Errors
    ///
    /// `missing` with the reason as one clause: `no NVIDIA driver: libnvidia-ml.so.1 is not installed`.
    fn list(&self) -> Result<Vec<GpuInfo>>;

    /// A source that reads the GPUs with these ids.
    ///
    /// # Errors
    ///
    /// `missing` if there is no GPU with such an id.
    fn source(&self, ids: &[String]) -> Result<Box<dyn Source>>;

    /// Variables with which users restrict a process to certain GPUs.
    fn choices(&self) -> &'static [&'static str];

    /// Variables that restrict a process to these GPUs.
    fn visible(&self, gpus: &[GpuInfo]) -> Vec<(&'static str, String)>;

    /// The files through which a container uses the GPUs; `None` if Docker has a runtime for them.
    fn files(&self, gpus: &[GpuInfo]) -> Option<GpuFiles>;
}

/// Requirements of a container that uses GPUs through their device files.
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
fn indices(gpus: &[GpuInfo]) -> String {
    let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    indices.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    fn available() -> Vec<GpuInfo> {
        let gpu = |index, vendor| GpuInfo {
            index,
            id: format!("GPU-{index}a"),
            name: "test".into(),
            vendor,
            used: 0,
            total: 1,
            driver: None,
            nodes: Vec::new(),
        };
        vec![gpu(0, Vendor(&Nvidia)), gpu(1, Vendor(&Nvidia)), gpu(2, Vendor(&Amd))]
    }

    fn indices(names: &[&str]) -> Result<Vec<u32>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Ok(select_from(&available(), &names)?.iter().map(|gpu| gpu.index).collect())
    }

    #[test]
    fn gpus_are_selected_by_index_or_uuid_in_order() {
        assert_eq!(indices(&["1", "gpu-0A"]).unwrap(), [1, 0]);
        assert_eq!(indices(&[]).unwrap(), [0_u32; 0]);
    }

    #[test]
    fn what_a_scheduler_leaves_visible_is_numbered_by_its_variable() {
        let left = |choice: &str| -> Vec<(u32, String)> {
            left_visible(available(), choice)
                .into_iter()
                .map(|gpu| (gpu.index, gpu.id))
                .collect()
        };
        let (first, second) = (available()[0].id.clone(), available()[1].id.clone());
        assert_eq!(left("1,0"), [(0, second.clone()), (1, first)]);
        assert_eq!(left(&second), [(0, second.clone())]);
        assert_eq!(left("1,7,0"), [(0, second)]);
        assert!(left("").is_empty() && left("-1").is_empty());
    }

    #[test]
    fn invalid_selection_names_the_gpu() {
        let fault = indices(&["7"]).unwrap_err();
        assert_eq!(fault.kind, Kind::Missing);
        assert!(fault.hint.unwrap().contains("0 (GPU-0a)"));
        assert_eq!(indices(&["0", "GPU-0a"]).unwrap_err().kind, Kind::Usage);
        assert_eq!(indices(&["0", "2"]).unwrap_err().kind, Kind::Usage);
    }
}
