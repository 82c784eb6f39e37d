//! Memory by stage of an engine's life, per GPU and per process, split into ours and others'.
//!
//! Each stage is read once at the moment it ends: before the start, ready, after the first complete response, after the
//! stop. The peak comes from the sampler. `memory` decides when stages are read.
//!
//! A process is ours if the runtime says so. The driver may hide the memory of our processes (in a container it often
//! lists none, or uses the host's ids). Then ours is the increase over the baseline, and its provenance is `computed`.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::server::Server;
use crate::fault::Result;
use crate::memory::Provenance;
use crate::telemetry::{Device, PeakSnapshot, Phase, Reading, Sampler, SamplerHealth, Source, Spread, Tenant};

/// Result of `engine.usage()`: the stages of the newest start; `None` for a stage not reached yet.
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
    /// The stages in their order; `None` for a stage that was not reached.
    pub fn stages(&self) -> [Option<&Stage>; 5] {
        [&self.baseline, &self.loaded, &self.warmed, &self.peak, &self.after].map(Option::as_ref)
    }
}

/// The file `memory/<engine>.usage.json` of a run's folder.
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
pub(crate) struct MemoryStages {
    /// Before the start; `None` if that is unknown, as for an attached engine.
    pub(crate) before: Option<Reading>,
    /// Every process id that ever belonged to the engine: exited processes are no longer listed anywhere.
    pub(crate) ours: BTreeSet<u32>,
    /// True if no other process counts here: the memory is that of the engine's process tree or cgroup.
    pub(crate) alone: bool,
    /// Whether this program only attached to the engine.
    pub(crate) attached: bool,
    /// Times of the launch, of readiness and of the first request.
    pub(crate) began: Option<Instant>,
    pub(crate) ready: Option<Instant>,
    pub(crate) first: Option<Instant>,
    pub(crate) usage: Usage,
    /// Looks up the name of a visible process: [`command`], except in tests.
    pub(crate) name: Option<fn(u32) -> Option<String>>,
}

impl MemoryStages {
    /// Sets the memory source. If only the engine's own processes count, nothing was in use before them.
    pub(crate) fn watch(&mut self, server: &Server, source: &mut dyn Source) -> Result<()> {
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
        let baseline = |before: &Reading| self.stage_of(&before.devices, before, false);
        self.usage.baseline = self.before.as_ref().map(baseline);
        Ok(())
    }

    pub(crate) fn record_peak(&mut self, sampler: &Sampler) {
        self.usage.peak = Some(Stage {
            over_time: over(sampler, &Phase::ALL, self.began),
            ..self.at_peak(&sampler.peak_snapshot())
        });
    }

    pub(crate) fn stage(&self, reading: &Reading) -> Stage {
        self.stage_of(&reading.devices, reading, true)
    }

    /// Memory at its peak; the process list was read slightly before or after it.
    fn at_peak(&self, peak: &PeakSnapshot) -> Stage {
        self.stage_of(&peak.devices, &peak.processes, true)
    }

    /// Memory of devices, with a process list read at or near the same time. Before the engine is `started`, nothing is
    /// ours.
    fn stage_of(&self, devices: &[Device], processes: &Reading, started: bool) -> Stage {
        let per_gpu: Vec<DeviceUsage> = devices
            .iter()
            .map(|device| self.share(device, processes, started))
            .collect();
        let spread = Spread::from_weighted(devices.iter().map(|device| (device.used, 1)));
        let holder = |tenant: &Tenant| ProcessUsage {
            pid: tenant.pid,
            name: self.name_of(tenant.pid),
            device: tenant.device.clone(),
            used: tenant.used,
            ours: self.is_ours(tenant),
        };
        Stage {
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

    fn name_of(&self, pid: u32) -> Option<String> {
        self.name.unwrap_or(command)(pid)
    }

    /// `None` for a process that is not visible from here and did not exist before the start: it may be ours under
    /// another id.
    fn is_ours(&self, tenant: &Tenant) -> Option<bool> {
        if self.alone || self.ours.contains(&tenant.pid) {
            return Some(true);
        }
        let there = |before: &Reading| before.tenants.iter().any(|other| other.pid == tenant.pid);
        let foreign = self.name_of(tenant.pid).is_some() || self.before.as_ref().is_some_and(there);
        foreign.then_some(false)
    }

    /// Attributes one device's memory.
    fn share(&self, device: &Device, processes: &Reading, started: bool) -> DeviceUsage {
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
        if self.alone {
            return share(Some(device.used), Some(0), Some(Provenance::Measured));
        }
        let here = |reading: &Reading| -> Vec<Tenant> {
            let tenants = reading.tenants.iter().filter(|tenant| tenant.device == device.id);
            tenants.cloned().collect()
        };
        let tenants = here(processes);
        let (ours, rest): (Vec<Tenant>, Vec<Tenant>) = tenants
            .into_iter()
            .partition(|tenant| self.is_ours(tenant) == Some(true));
        let seen = used_on(processes, &device.id).unwrap_or(device.used);
        if !started {
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
        let Some(before) = &self.before else {
            return share(None, None, None);
        };
        let foreign: Vec<Tenant> = rest
            .into_iter()
            .filter(|tenant| self.is_ours(tenant) == Some(false))
            .collect();
        // Memory that no process accounted for before the start belongs to a process whose memory is hidden.
        let others: u64 = foreign.iter().filter_map(|tenant| tenant.used).sum();
        let earlier: u64 = here(before).iter().filter_map(|tenant| tenant.used).sum();
        let unattributed = used_on(before, &device.id).unwrap_or(0).saturating_sub(earlier);
        let ours = device.used.saturating_sub(others).saturating_sub(unattributed);
        share(Some(ours), Some(others.min(device.used)), Some(Provenance::Computed))
    }
}

/// The reading with no processes and no memory in use.
pub(crate) fn emptied(mut reading: Reading) -> Reading {
    reading.tenants.clear();
    reading.devices.iter_mut().for_each(|device| device.used = 0);
    reading
}

/// Memory in these phases since `from`.
pub(crate) fn over(sampler: &Sampler, phases: &[Phase], from: Option<Instant>) -> Option<OverTime> {
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

/// The sum; `None` if the driver hides one of them.
fn total_used(tenants: &[Tenant]) -> Option<u64> {
    tenants.iter().map(|tenant| tenant.used).sum()
}

fn used_on(reading: &Reading, id: &str) -> Option<u64> {
    let device = reading.devices.iter().find(|device| device.id == id)?;
    Some(device.used)
}

/// Attribution of memory, with made-up GPUs and with series recorded on an H200.
#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::telemetry::Series;

    const MIB: u64 = 1 << 20;

    fn reading(used: &[u64], tenants: &[(u32, usize, Option<u64>)]) -> Reading {
        let device = |(index, used): (usize, &u64)| Device {
            id: format!("GPU-{index}"),
            name: "made up".into(),
            used: *used,
            total: 1 << 40,
        };
        let tenant = |&(pid, gpu, used): &(u32, usize, Option<u64>)| Tenant {
            pid,
            device: format!("GPU-{gpu}"),
            used,
        };
        Reading {
            devices: used.iter().enumerate().map(device).collect(),
            tenants: tenants.iter().map(tenant).collect(),
            activity: Vec::new(),
        }
    }

    /// Processes below 100 are visible from here.
    fn name(pid: u32) -> Option<String> {
        (pid < 100).then(|| format!("p{pid}"))
    }

    fn known(ours: &BTreeSet<u32>, before: Option<&Reading>) -> MemoryStages {
        MemoryStages {
            ours: ours.clone(),
            before: before.cloned(),
            name: Some(name),
            ..MemoryStages::default()
        }
    }

    /// Ours, others, unattributed and the provenance, for the first GPU.
    fn shares(stage: &Stage) -> (Option<u64>, Option<u64>, Option<u64>, Option<Provenance>) {
        let share = &stage.per_gpu[0];
        (share.ours, share.others, share.unattributed, share.provenance)
    }

    #[test]
    fn memory_by_process_is_measured() {
        let (ours, before) = (BTreeSet::from([7, 8]), reading(&[20], &[(3, 0, Some(15))]));
        let now = reading(&[200], &[(3, 0, Some(15)), (7, 0, Some(120)), (8, 0, Some(50))]);
        let stage = known(&ours, Some(&before)).stage(&now);
        assert_eq!(
            shares(&stage),
            (Some(170), Some(15), Some(15), Some(Provenance::Measured))
        );
        assert_eq!((stage.ours, stage.others, stage.sum), (Some(170), Some(15), 200));
        let processes: Vec<_> = stage
            .processes
            .iter()
            .map(|holder| (holder.pid, holder.ours, holder.name.as_deref()))
            .collect();
        assert_eq!(
            processes,
            [
                (3, Some(false), Some("p3")),
                (7, Some(true), Some("p7")),
                (8, Some(true), Some("p8"))
            ]
        );
    }

    #[test]
    fn without_process_memory_ours_is_computed_from_the_increase() {
        let (ours, before) = (BTreeSet::from([7]), reading(&[20], &[]));
        let hidden = known(&ours, Some(&before)).stage(&reading(&[200], &[]));
        assert_eq!(
            shares(&hidden),
            (Some(180), Some(0), Some(20), Some(Provenance::Computed))
        );
        let silent = known(&ours, Some(&before)).stage(&reading(&[200], &[(7, 0, None)]));
        assert_eq!(
            shares(&silent),
            (Some(180), Some(0), Some(20), Some(Provenance::Computed))
        );
        // A process id of the host: it may be ours.
        let renamed = known(&ours, Some(&before)).stage(&reading(&[200], &[(4711, 0, Some(175))]));
        assert_eq!(
            shares(&renamed),
            (Some(180), Some(0), Some(20), Some(Provenance::Computed))
        );
        assert_eq!(renamed.processes[0].ours, None);
        let less = known(&ours, Some(&before)).stage(&reading(&[5], &[]));
        assert_eq!(shares(&less).0, Some(0), "never below zero");
    }

    #[test]
    fn other_processes_are_never_ours_even_if_they_grow() {
        let (ours, before) = (BTreeSet::from([7]), reading(&[1020], &[(4711, 0, Some(1000))]));
        // An earlier and a visible process grow; ours is not listed.
        let now = reading(
            &[6020],
            &[(4711, 0, Some(2000)), (5, 0, Some(500)), (4712, 0, Some(3400))],
        );
        let stage = known(&ours, Some(&before)).stage(&now);
        assert_eq!(
            shares(&stage),
            (Some(3500), Some(2500), Some(20), Some(Provenance::Computed))
        );
    }

    #[test]
    fn before_the_start_nothing_is_ours_and_without_a_baseline_nothing_is_guessed() {
        let none = BTreeSet::new();
        let reading = reading(&[600], &[(3, 0, Some(500))]);
        let baseline = known(&none, Some(&reading)).stage_of(&reading.devices, &reading, false);
        assert_eq!(
            shares(&baseline),
            (Some(0), Some(500), Some(100), Some(Provenance::Measured))
        );
        let attached = known(&none, None).stage(&reading);
        assert_eq!(shares(&attached), (None, None, None, None));
        assert_eq!((attached.ours, attached.sum), (None, 600));
    }

    #[test]
    fn at_the_peak_changes_since_the_process_list_are_ours_and_computed() {
        let (ours, before) = (BTreeSet::from([7]), reading(&[20], &[]));
        let mut peak = PeakSnapshot {
            devices: reading(&[250], &[]).devices,
            processes: reading(&[200], &[(7, 0, Some(150)), (3, 0, Some(30))]),
        };
        let stage = known(&ours, Some(&before)).at_peak(&peak);
        assert_eq!(
            shares(&stage),
            (Some(200), Some(30), Some(20), Some(Provenance::Computed))
        );
        peak.processes.devices = peak.devices.clone();
        let exact = known(&ours, Some(&before)).at_peak(&peak);
        assert_eq!(
            shares(&exact),
            (Some(150), Some(30), Some(70), Some(Provenance::Measured))
        );
    }

    #[test]
    fn statistics_cover_all_gpus() {
        let stage = known(&BTreeSet::new(), None).stage(&reading(&[10, 20, 30, 40], &[]));
        assert_eq!((stage.sum, stage.max), (100, 40));
        assert!((stage.mean - 25.0).abs() < 1e-9 && (stage.std - 125_f64.sqrt()).abs() < 1e-9);
    }

    proptest! {
        /// The parts add up and no byte of a foreign process is ours, no matter which numbers the driver hides.
        #[test]
        fn shares_add_up_and_foreign_bytes_are_never_ours(
            held in prop::collection::vec((0_u32..6, 0_usize..2, prop::option::weighted(0.8, 0_u64..1000)), 0..10),
            nobodys in 0_u64..500,
            ours in prop::collection::btree_set(0_u32..6, 0..4),
            idle in 0_u64..500,
            spike in 0_u64..300,
        ) {
            let mut held = held;
            held.sort_unstable();
            held.dedup_by_key(|(pid, gpu, _)| (*pid, *gpu));
            let on = |gpu: usize| held.iter().filter(|tenant| tenant.1 == gpu).filter_map(|tenant| tenant.2).sum::<u64>() + nobodys;
            let before = reading(&[idle, idle], &[]);
            let beside = reading(&[on(0), on(1)], &held);
            let peak = PeakSnapshot { devices: reading(&[on(0) + spike, on(1)], &[]).devices, processes: beside };
            let stage = known(&ours, Some(&before)).at_peak(&peak);
            for (gpu, share) in stage.per_gpu.iter().enumerate() {
                let foreign = held.iter().filter(|(pid, at, _)| *at == gpu && !ours.contains(pid)).filter_map(|tenant| tenant.2).sum::<u64>();
                let (mine, others, rest) = (share.ours.unwrap(), share.others.unwrap(), share.unattributed.unwrap());
                prop_assert_eq!(mine + others + rest, share.used);
                prop_assert_eq!(others, foreign);
                prop_assert!(mine + foreign <= share.used);
            }
        }
    }

    /// A recorded series of `seconds,used_mib,…` with phases beginning at these seconds, and its readings.
    fn recorded(file: &str, phases: &[(f64, Phase)]) -> (Series, Vec<(f64, Reading)>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let (mut series, mut readings) = (Series::default(), Vec::new());
        let mut phases = phases.iter().peekable();
        for line in text.lines().skip(1) {
            let mut fields = line.split(',');
            let seconds: f64 = fields.next().unwrap().parse().unwrap();
            let used: u64 = fields.next().unwrap().parse().unwrap();
            while let Some((_, phase)) = phases.next_if(|(from, _)| *from <= seconds) {
                series.mark(*phase);
            }
            let reading = reading(&[used * MIB], &[]);
            series.push((seconds * 1e6) as u64, &reading);
            readings.push((seconds, reading));
        }
        (series, readings)
    }

    /// Baseline, loaded and peak of a recorded start, in MiB: total and ours.
    fn stages(file: &str, starts: f64, ready: f64, ends: f64) -> [(u64, Option<u64>); 3] {
        let phases = [(starts, Phase::Loading), (ready, Phase::Ready), (ends, Phase::After)];
        let (series, readings) = recorded(file, &phases);
        let at = |moment: f64| &readings.iter().rfind(|(seconds, _)| *seconds <= moment).unwrap().1;
        let (before, none) = (at(starts), BTreeSet::new());
        let here = known(&none, Some(before));
        let baseline = here.stage_of(&before.devices, before, false);
        let loaded = here.stage(at(ready));
        let before_end = series.rows().iter().filter(|row| row.phase != Phase::After);
        let highest = before_end.map(|row| row.total).max().unwrap();
        let peak = PeakSnapshot {
            devices: reading(&[highest], &[]).devices,
            processes: Reading::default(),
        };
        [baseline, loaded, here.at_peak(&peak)].map(|stage| (stage.sum / MIB, stage.ours.map(|ours| ours / MIB)))
    }

    /// Measured at the time: 130,073 MiB in use by vLLM when ready, plus the driver's 614 or 615 MiB.
    #[test]
    fn recorded_starts_have_the_stages_measured_at_the_time() {
        let vllm = stages("vllm-0.24.0-h200/default.memory.csv", 20.0, 81.0, 81.5);
        assert_eq!(
            vllm,
            [(615, Some(0)), (130_687, Some(130_072)), (130_687, Some(130_072))]
        );
        let small = stages("vllm-0.24.0-h200/small.memory.csv", 20.0, 30.7, 64.9);
        assert_eq!(small, [(615, Some(0)), (24_427, Some(23_812)), (24_651, Some(24_036))]);
        let transformers = stages("transformers-5.17.0-h200/serve.memory.csv", 10.0, 15.6, 17.6);
        assert_eq!(
            transformers,
            [(615, Some(0)), (3_249, Some(2_634)), (3_449, Some(2_834))]
        );
    }

    #[test]
    fn the_spread_of_a_recorded_period_matches_its_samples() {
        let (series, readings) = recorded(
            "vllm-0.24.0-h200/small.memory.csv",
            &[(29.0, Phase::Ready), (30.7, Phase::Load), (60.0, Phase::After)],
        );
        let spread = series.spread(&[Phase::Load], 30_700_000, 60_000_000).unwrap();
        let seen: Vec<u64> = readings
            .iter()
            .filter(|(at, _)| (30.7..60.0).contains(at))
            .map(|(_, reading)| reading.used())
            .collect();
        assert_eq!(
            (spread.samples, spread.lowest, spread.highest),
            (seen.len() as u64, 24_427 * MIB, 24_651 * MIB)
        );
        let mean = seen.iter().sum::<u64>() as f64 / seen.len() as f64;
        assert!((spread.mean - mean).abs() < 1.0 && spread.std > 0.0);
    }

    #[test]
    fn a_missing_or_null_number_discards_nothing_else() {
        let file = serde_json::json!({
            "loaded": { "sum": 7, "std": null, "over_time": { "seconds": 2.0, "samples": 3, "mean": null } },
        });
        let loaded = UsageFile::read(&file).usage.loaded.unwrap();
        let over_time = loaded.over_time.unwrap();
        assert_eq!((loaded.sum, loaded.std), (7, 0.0));
        assert_eq!(
            (over_time.seconds, over_time.spread.samples, over_time.spread.mean),
            (2.0, 3, 0.0)
        );
    }
}
