//! Memory at one stage of an engine's life: per GPU and per process, ours apart from everybody else's.
//!
//! Pure. A process is ours when the runtime says so. Where the driver does not tell what our processes hold (in a container it often
//! names none, or numbers them as the host does), ours is what came on top of the baseline, and is called computed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::memory::Provenance;
use crate::telemetry::{Crest, Device, Reading, Spread, Tenant};

/// Memory at one stage, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// In use on all devices together, by everybody.
    pub sum: u64,
    /// In use on the fullest device.
    pub max: u64,
    /// Mean over the devices.
    pub mean: f64,
    /// Standard deviation over the devices, of all of them: 0 for a single one.
    pub std: f64,
    /// Held by the engine on all devices together; none where that is unknown.
    pub ours: Option<u64>,
    /// Held by other processes on all devices together; none where that is unknown.
    pub others: Option<u64>,
    /// Each device.
    pub per_gpu: Vec<Share>,
    /// Each process on them, where the driver tells.
    pub processes: Vec<Holder>,
    /// All devices together over the whole stage, where it is a stretch of time.
    pub over_time: Option<OverTime>,
}

/// How one device is shared, in bytes: `ours`, `others` and `unattributed` add up to `used`, unless the driver tells of processes
/// that hold more than is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// UUID of a GPU; `host`, or a cgroup's path, for host memory; `sim0` for the simulated engine.
    pub id: String,
    /// For people: `NVIDIA H200`.
    pub name: String,
    /// In use by anybody.
    pub used: u64,
    /// What is there.
    pub total: u64,
    /// Held by the engine; none where that is unknown.
    pub ours: Option<u64>,
    /// Held by other processes; none where that is unknown.
    pub others: Option<u64>,
    /// Held by no process that the driver tells of; none where that is unknown.
    pub unattributed: Option<u64>,
    /// Measured: by process. Computed: what came on top of the baseline, or of the processes nearest in time.
    pub provenance: Option<Provenance>,
}

/// What one process holds on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The process, as the driver numbers it.
    pub pid: u32,
    /// Its name, where it can be seen from here.
    pub name: Option<String>,
    /// The device's id.
    pub device: String,
    /// Bytes, where the driver says.
    pub used: Option<u64>,
    /// Whether it is of the engine; none where that cannot be known.
    pub ours: Option<bool>,
}

/// Memory of all devices together over a stretch of time, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverTime {
    /// How long it took.
    pub seconds: f64,
    /// Lowest, mean, deviation, highest, and the number of looks.
    #[serde(flatten)]
    pub spread: Spread,
}

/// What is known of processes when memory is shared out.
pub(super) struct Parties<'a> {
    /// The engine's own processes.
    pub(super) ours: &'a BTreeSet<u32>,
    /// Whether the engine was started: before that, nothing is ours whatever the driver tells.
    pub(super) started: bool,
    /// Nobody else can be on these devices: the memory of a process tree or a cgroup.
    pub(super) alone: bool,
    /// Before the start; none for an engine that ran already.
    pub(super) before: Option<&'a Reading>,
    /// The name of a process that can be seen from here.
    pub(super) name: &'a dyn Fn(u32) -> Option<String>,
}

impl Stage {
    /// Memory at the moment of a look.
    pub(super) fn at(reading: &Reading, parties: &Parties<'_>) -> Self {
        Self::of(&reading.devices, reading, parties)
    }

    /// Memory at its highest; the processes were looked at a little before or after.
    pub(super) fn at_crest(crest: &Crest, parties: &Parties<'_>) -> Self {
        Self::of(&crest.devices, &crest.beside, parties)
    }

    fn of(devices: &[Device], beside: &Reading, parties: &Parties<'_>) -> Self {
        let per_gpu: Vec<Share> = devices.iter().map(|device| share(device, beside, parties)).collect();
        let spread = Spread::of(devices.iter().map(|device| (device.used, 1)));
        let holder = |tenant: &Tenant| Holder {
            pid: tenant.pid,
            name: (parties.name)(tenant.pid),
            device: tenant.device.clone(),
            used: tenant.used,
            ours: parties.is_ours(tenant),
        };
        Self {
            sum: devices.iter().map(|device| device.used).sum(),
            max: spread.map_or(0, |spread| spread.highest),
            mean: spread.map_or(0.0, |spread| spread.mean),
            std: spread.map_or(0.0, |spread| spread.std),
            ours: per_gpu.iter().map(|share| share.ours).sum(),
            others: per_gpu.iter().map(|share| share.others).sum(),
            per_gpu,
            processes: beside.tenants.iter().map(holder).collect(),
            over_time: None,
        }
    }
}

impl Parties<'_> {
    /// None for a process that cannot be seen from here and was not there before the start: ours under another number, or not.
    fn is_ours(&self, tenant: &Tenant) -> Option<bool> {
        if self.alone || self.ours.contains(&tenant.pid) {
            return Some(true);
        }
        let there = |before: &Reading| before.tenants.iter().any(|other| other.pid == tenant.pid);
        let foreign = (self.name)(tenant.pid).is_some() || self.before.is_some_and(there);
        foreign.then_some(false)
    }
}

/// Shares one device out. `beside` is the look at the processes, at the same moment or near it.
fn share(device: &Device, beside: &Reading, parties: &Parties<'_>) -> Share {
    let share = |ours: Option<u64>, others: Option<u64>, provenance| Share {
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
    if parties.alone {
        return share(Some(device.used), Some(0), Some(Provenance::Measured));
    }
    let here = |reading: &Reading| -> Vec<Tenant> {
        let tenants = reading.tenants.iter().filter(|tenant| tenant.device == device.id);
        tenants.cloned().collect()
    };
    let tenants = here(beside);
    let (ours, rest): (Vec<Tenant>, Vec<Tenant>) = tenants
        .into_iter()
        .partition(|tenant| parties.is_ours(tenant) == Some(true));
    let seen = used_on(beside, &device.id).unwrap_or(device.used);
    if !parties.started {
        return share(Some(0), told(&rest), Some(Provenance::Measured));
    }
    if !ours.is_empty()
        && let (Some(held), Some(others)) = (told(&ours), told(&rest))
    {
        return if seen == device.used {
            share(Some(held), Some(others), Some(Provenance::Measured))
        } else {
            // What changed since the processes were looked at is ours: that is what this program makes happen.
            let nobodys = seen.saturating_sub(held).saturating_sub(others);
            let ours = device.used.saturating_sub(others).saturating_sub(nobodys);
            share(Some(ours), Some(others), Some(Provenance::Computed))
        };
    }
    let Some(before) = parties.before else {
        return share(None, None, None);
    };
    let foreign: Vec<Tenant> = rest
        .into_iter()
        .filter(|tenant| parties.is_ours(tenant) == Some(false))
        .collect();
    // One whose bytes are hidden holds what nobody was seen to hold before the start.
    let others: u64 = foreign.iter().filter_map(|tenant| tenant.used).sum();
    let earlier: u64 = here(before).iter().filter_map(|tenant| tenant.used).sum();
    let nobodys = used_on(before, &device.id).unwrap_or(0).saturating_sub(earlier);
    let ours = device.used.saturating_sub(others).saturating_sub(nobodys);
    share(Some(ours), Some(others.min(device.used)), Some(Provenance::Computed))
}

/// What all of them hold; none where the driver hides it of one.
fn told(tenants: &[Tenant]) -> Option<u64> {
    tenants.iter().map(|tenant| tenant.used).sum()
}

fn used_on(reading: &Reading, id: &str) -> Option<u64> {
    let device = reading.devices.iter().find(|device| device.id == id)?;
    Some(device.used)
}
