//! Attribution of memory, with made-up GPUs and with series recorded on an H200.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::{Ownership, Stage, UsageFile};
use crate::memory::Provenance;
use crate::telemetry::{Device, PeakSnapshot, Phase, Reading, Series, Tenant};

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

fn ownership<'a>(ours: &'a BTreeSet<u32>, before: Option<&'a Reading>) -> Ownership<'a> {
    Ownership {
        ours,
        started: true,
        alone: false,
        before,
        name: &name,
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
    let stage = Stage::at(&now, &ownership(&ours, Some(&before)));
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
    let hidden = Stage::at(&reading(&[200], &[]), &ownership(&ours, Some(&before)));
    assert_eq!(
        shares(&hidden),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    let silent = Stage::at(&reading(&[200], &[(7, 0, None)]), &ownership(&ours, Some(&before)));
    assert_eq!(
        shares(&silent),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    // A process id of the host: it may be ours.
    let renamed = Stage::at(
        &reading(&[200], &[(4711, 0, Some(175))]),
        &ownership(&ours, Some(&before)),
    );
    assert_eq!(
        shares(&renamed),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    assert_eq!(renamed.processes[0].ours, None);
    let less = Stage::at(&reading(&[5], &[]), &ownership(&ours, Some(&before)));
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
    let stage = Stage::at(&now, &ownership(&ours, Some(&before)));
    assert_eq!(
        shares(&stage),
        (Some(3500), Some(2500), Some(20), Some(Provenance::Computed))
    );
}

#[test]
fn before_the_start_nothing_is_ours_and_without_a_baseline_nothing_is_guessed() {
    let none = BTreeSet::new();
    let reading = reading(&[600], &[(3, 0, Some(500))]);
    let baseline = Stage::at(
        &reading,
        &Ownership {
            started: false,
            ..ownership(&none, Some(&reading))
        },
    );
    assert_eq!(
        shares(&baseline),
        (Some(0), Some(500), Some(100), Some(Provenance::Measured))
    );
    let attached = Stage::at(&reading, &ownership(&none, None));
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
    let stage = Stage::at_peak(&peak, &ownership(&ours, Some(&before)));
    assert_eq!(
        shares(&stage),
        (Some(200), Some(30), Some(20), Some(Provenance::Computed))
    );
    peak.processes.devices = peak.devices.clone();
    let exact = Stage::at_peak(&peak, &ownership(&ours, Some(&before)));
    assert_eq!(
        shares(&exact),
        (Some(150), Some(30), Some(70), Some(Provenance::Measured))
    );
}

#[test]
fn statistics_cover_all_gpus() {
    let stage = Stage::at(&reading(&[10, 20, 30, 40], &[]), &ownership(&BTreeSet::new(), None));
    assert_eq!((stage.sum, stage.max), (100, 40));
    assert!((stage.mean - 25.0).abs() < 1e-9 && (stage.std - 125_f64.sqrt()).abs() < 1e-9);
}

proptest! {
    /// Whatever the driver hides, the parts add up, and no byte of a foreign process is ours.
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
        let stage = Stage::at_peak(&peak, &ownership(&ours, Some(&before)));
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
    let here = ownership(&none, Some(before));
    let baseline = Stage::at(
        before,
        &Ownership {
            started: false,
            ..ownership(&none, Some(before))
        },
    );
    let loaded = Stage::at(at(ready), &here);
    let before_end = series.rows().iter().filter(|row| row.phase != Phase::After);
    let peak = before_end.map(|row| row.total).max();
    let peak = PeakSnapshot {
        devices: reading(&[peak.unwrap()], &[]).devices,
        processes: Reading::default(),
    };
    [baseline, loaded, Stage::at_peak(&peak, &here)].map(|stage| (stage.sum / MIB, stage.ours.map(|ours| ours / MIB)))
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
        (spread.looks, spread.lowest, spread.highest),
        (seen.len() as u64, 24_427 * MIB, 24_651 * MIB)
    );
    let mean = seen.iter().sum::<u64>() as f64 / seen.len() as f64;
    assert!((spread.mean - mean).abs() < 1.0 && spread.std > 0.0);
}

#[test]
fn a_missing_or_null_number_discards_nothing_else() {
    let file = serde_json::json!({
        "loaded": { "sum": 7, "std": null, "over_time": { "seconds": 2.0, "looks": 3, "mean": null } },
    });
    let loaded = UsageFile::read(&file).usage.loaded.unwrap();
    let over_time = loaded.over_time.unwrap();
    assert_eq!((loaded.sum, loaded.std), (7, 0.0));
    assert_eq!(
        (over_time.seconds, over_time.spread.looks, over_time.spread.mean),
        (2.0, 3, 0.0)
    );
}
