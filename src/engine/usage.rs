//! Memory by the stages of an engine's life, per GPU and per process, split into ours and others'.
//!
//! Each stage is read once at the moment it ends: before the start, ready, after the first complete response, after the
//! stop. The peak comes from the sampler. `memory` decides when stages are read.
//!
//! A process is ours if the runtime says so. The driver may hide the memory of our processes (in a container it often lists
//! none, or uses the host's ids). Then ours is the increase over the baseline, and its provenance is `computed`.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::start::Server;
use crate::fault::Result;
use crate::memory::Provenance;
use crate::telemetry::{Device, PeakSnapshot, Phase, Reading, Sampler, SamplerHealth, Source, Spread, Tenant};

/// Result of `engine.usage()`: the stages of the newest start; `None` for those not reached yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The source: `nvml`, `amd`, `host` or `sim`.
    pub source: Option<String>,
    /// Seconds from launch to ready; `None` for an attached engine.
    pub start_seconds: Option<f64>,
    /// Before the start; `None` for an attached engine.
    pub baseline: Option<Stage>,
    /// Ready and idle, before the first request.
    pub loaded: Option<Stage>,
    /// After the first complete response; `over_time` begins with the first request.
    pub warmed: Option<Stage>,
    /// The peak since the start.
    pub peak: Option<Stage>,
    /// After the stop, once memory was released or the wait timed out; `None` for an attached engine.
    pub after: Option<Stage>,
}

impl Usage {
    /// The stages in their order; `None` for those that were not reached.
    pub fn stages(&self) -> [Option<&Stage>; 5] {
        [&self.baseline, &self.loaded, &self.warmed, &self.peak, &self.after].map(Option::as_ref)
    }
}

/// What `memory/<engine>.usage.json` of a run's folder holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageFile {
    /// Memory by stage.
    #[serde(flatten)]
    pub usage: Usage,
    /// How well the sampler kept its schedule.
    pub sampling: SamplerHealth,
}

impl UsageFile {
    /// Reads it from a run's folder. Missing numbers and `null` are zero or unknown; empty if it is damaged otherwise.
    pub fn read(value: &Value) -> Self {
        Self::deserialize(without_nulls(value)).unwrap_or_default()
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.iter().filter(|(_, value)| !value.is_null());
            known
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(values) => values.iter().map(without_nulls).collect(),
        _ => value.clone(),
    }
}

/// The memory stages of one start so far.
#[derive(Default)]
pub(super) struct MemoryStages {
    /// Before the start; `None` if that is unknown, as for an attached engine.
    pub(super) before: Option<Reading>,
    /// Every process id that ever belonged to the engine: exited processes are no longer listed anywhere.
    pub(super) ours: BTreeSet<u32>,
    /// Whether nobody else can use these devices: the memory of a process tree or a cgroup.
    pub(super) alone: bool,
    /// Whether the engine was attached to.
    pub(super) attached: bool,
    /// Times of the launch, of readiness and of the first request.
    pub(super) began: Option<Instant>,
    pub(super) ready: Option<Instant>,
    pub(super) first: Option<Instant>,
    pub(super) usage: Usage,
}

impl MemoryStages {
    fn ownership(&self, started: bool) -> Ownership<'_> {
        Ownership {
            ours: &self.ours,
            started,
            alone: self.alone,
            before: self.before.as_ref(),
            name: &command,
        }
    }

    pub(super) fn stage(&self, reading: &Reading) -> Stage {
        Stage::at(reading, &self.ownership(true))
    }

    /// Sets the memory source. If only the engine's own processes count, nothing was in use before them.
    pub(super) fn watch(&mut self, server: &Server, source: &mut dyn Source) -> Result<()> {
        self.usage.source = Some(source.name().to_owned());
        self.alone = source.name() == "host";
        if self.attached {
            return Ok(());
        }
        if self.alone {
            self.before = Some(emptied(source.read()?));
        } else if let Some(before) = server.service.sim().map(|handle| handle.before()) {
            self.before = Some(before);
        }
        let baseline = |before| Stage::at(before, &self.ownership(false));
        self.usage.baseline = self.before.as_ref().map(baseline);
        Ok(())
    }

    pub(super) fn record_peak(&mut self, sampler: &Sampler) {
        let mut peak = Stage::at_peak(&sampler.peak_snapshot(), &self.ownership(true));
        peak.over_time = over(sampler, &Phase::ALL, self.began);
        self.usage.peak = Some(peak);
    }
}

/// The same devices with nothing in use.
pub(super) fn emptied(mut reading: Reading) -> Reading {
    reading.tenants.clear();
    reading.devices.iter_mut().for_each(|device| device.used = 0);
    reading
}

/// Memory in these phases since a moment.
pub(super) fn over(sampler: &Sampler, phases: &[Phase], from: Option<Instant>) -> Option<OverTime> {
    let (from, to) = (from?, Instant::now());
    Some(OverTime {
        seconds: to.saturating_duration_since(from).as_secs_f64(),
        spread: sampler.spread(phases, from, to)?,
    })
}

/// The name of a process that is visible from here.
fn command(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Memory at one stage, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// In use on all devices, by any process.
    pub sum: u64,
    /// In use on the fullest device.
    pub max: u64,
    /// Mean over the devices.
    pub mean: f64,
    /// Population standard deviation over the devices; 0 for a single one.
    pub std: f64,
    /// Used by the engine on all devices; `None` if unknown.
    pub ours: Option<u64>,
    /// Used by other processes on all devices; `None` if unknown.
    pub others: Option<u64>,
    /// Each device.
    pub per_gpu: Vec<DeviceUsage>,
    /// Each process on them, if the driver lists any.
    pub processes: Vec<ProcessUsage>,
    /// All devices over the duration of the stage, if it has one.
    pub over_time: Option<OverTime>,
}

/// Memory of one device, in bytes. `ours`, `others` and `unattributed` add up to `used`, unless the driver attributes
/// more to processes than is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUsage {
    /// GPU UUID; `host` or a cgroup path for host memory; `sim0` for the simulated engine.
    pub id: String,
    /// Product name, such as `NVIDIA H200`.
    pub name: String,
    /// In use by any process.
    pub used: u64,
    /// Capacity.
    pub total: u64,
    /// Used by the engine; `None` if unknown.
    pub ours: Option<u64>,
    /// Used by other processes; `None` if unknown.
    pub others: Option<u64>,
    /// Attributed to no process by the driver; `None` if unknown.
    pub unattributed: Option<u64>,
    /// Measured: per process. Computed: from the increase over the baseline, or from the process list nearest in time.
    pub provenance: Option<Provenance>,
}

/// Memory of one process on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUsage {
    /// Process id, as the driver numbers it.
    pub pid: u32,
    /// Its name, if visible from here.
    pub name: Option<String>,
    /// The device's id.
    pub device: String,
    /// Bytes, if the driver reports them.
    pub used: Option<u64>,
    /// Whether it belongs to the engine; `None` if unknown.
    pub ours: Option<bool>,
}

/// Memory of all devices over a period, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverTime {
    /// Duration.
    pub seconds: f64,
    /// Lowest, mean, standard deviation, highest, and the number of samples.
    #[serde(flatten)]
    pub spread: Spread,
}

/// What is known about processes when memory is attributed.
pub(super) struct Ownership<'a> {
    /// The engine's own processes.
    pub(super) ours: &'a BTreeSet<u32>,
    /// Whether the engine was started; before that, nothing is ours.
    pub(super) started: bool,
    /// Whether nobody else can use these devices: the memory of a process tree or a cgroup.
    pub(super) alone: bool,
    /// Memory before the start; `None` for an attached engine.
    pub(super) before: Option<&'a Reading>,
    /// The name of a process that is visible from here.
    pub(super) name: &'a dyn Fn(u32) -> Option<String>,
}

impl Stage {
    pub(super) fn at(reading: &Reading, ownership: &Ownership<'_>) -> Self {
        Self::of(&reading.devices, reading, ownership)
    }

    /// Memory at its peak; the process list was read slightly before or after it.
    pub(super) fn at_peak(peak: &PeakSnapshot, ownership: &Ownership<'_>) -> Self {
        Self::of(&peak.devices, &peak.processes, ownership)
    }

    fn of(devices: &[Device], processes: &Reading, ownership: &Ownership<'_>) -> Self {
        let per_gpu: Vec<DeviceUsage> = devices
            .iter()
            .map(|device| share(device, processes, ownership))
            .collect();
        let spread = Spread::from_weighted(devices.iter().map(|device| (device.used, 1)));
        let holder = |tenant: &Tenant| ProcessUsage {
            pid: tenant.pid,
            name: (ownership.name)(tenant.pid),
            device: tenant.device.clone(),
            used: tenant.used,
            ours: ownership.is_ours(tenant),
        };
        Self {
            sum: devices.iter().map(|device| device.used).sum(),
            max: spread.map_or(0, |spread| spread.highest),
            mean: spread.map_or(0.0, |spread| spread.mean),
            std: spread.map_or(0.0, |spread| spread.std),
            ours: per_gpu.iter().map(|share| share.ours).sum(),
            others: per_gpu.iter().map(|share| share.others).sum(),
            per_gpu,
            processes: processes.tenants.iter().map(holder).collect(),
            over_time: None,
        }
    }
}

impl Ownership<'_> {
    /// `None` for a process that is not visible from here and did not exist before the start: it may be ours under
    /// another id.
    fn is_ours(&self, tenant: &Tenant) -> Option<bool> {
        if self.alone || self.ours.contains(&tenant.pid) {
            return Some(true);
        }
        let there = |before: &Reading| before.tenants.iter().any(|other| other.pid == tenant.pid);
        let foreign = (self.name)(tenant.pid).is_some() || self.before.is_some_and(there);
        foreign.then_some(false)
    }
}

/// Attributes one device's memory. `beside` holds the process list, read at or near the same time.
fn share(device: &Device, processes: &Reading, ownership: &Ownership<'_>) -> DeviceUsage {
    let share = |ours: Option<u64>, others: Option<u64>, provenance| DeviceUsage {
        id: device.id.clone(),
        name: device.name.clone(),
        used: device.used,
        total: device.total,
        ours,
        others,
        unattributed: ours
            .zip(others)
            .map(|(ours, others)| device.used.saturating_sub(ours).saturating_sub(others)),
        provenance,
    };
    if ownership.alone {
        return share(Some(device.used), Some(0), Some(Provenance::Measured));
    }
    let here = |reading: &Reading| -> Vec<Tenant> {
        let tenants = reading.tenants.iter().filter(|tenant| tenant.device == device.id);
        tenants.cloned().collect()
    };
    let tenants = here(processes);
    let (ours, rest): (Vec<Tenant>, Vec<Tenant>) = tenants
        .into_iter()
        .partition(|tenant| ownership.is_ours(tenant) == Some(true));
    let seen = used_on(processes, &device.id).unwrap_or(device.used);
    if !ownership.started {
        return share(Some(0), total_used(&rest), Some(Provenance::Measured));
    }
    if !ours.is_empty()
        && let (Some(held), Some(others)) = (total_used(&ours), total_used(&rest))
    {
        return if seen == device.used {
            share(Some(held), Some(others), Some(Provenance::Measured))
        } else {
            // Changes since the process list was read are ours, because this program caused them.
            let unattributed = seen.saturating_sub(held).saturating_sub(others);
            let ours = device.used.saturating_sub(others).saturating_sub(unattributed);
            share(Some(ours), Some(others), Some(Provenance::Computed))
        };
    }
    let Some(before) = ownership.before else {
        return share(None, None, None);
    };
    let foreign: Vec<Tenant> = rest
        .into_iter()
        .filter(|tenant| ownership.is_ours(tenant) == Some(false))
        .collect();
    // A process with hidden memory accounts for what no process accounted for before the start.
    let others: u64 = foreign.iter().filter_map(|tenant| tenant.used).sum();
    let earlier: u64 = here(before).iter().filter_map(|tenant| tenant.used).sum();
    let unattributed = used_on(before, &device.id).unwrap_or(0).saturating_sub(earlier);
    let ours = device.used.saturating_sub(others).saturating_sub(unattributed);
    share(Some(ours), Some(others.min(device.used)), Some(Provenance::Computed))
}

/// The sum; `None` if the driver hides one of them.
fn total_used(tenants: &[Tenant]) -> Option<u64> {
    tenants.iter().map(|tenant| tenant.used).sum()
}

fn used_on(reading: &Reading, id: &str) -> Option<u64> {
    let device = reading.devices.iter().find(|device| device.id == id)?;
    Some(device.used)
}

#[cfg(test)]
mod tests;
