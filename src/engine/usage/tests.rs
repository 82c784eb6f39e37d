//! How memory is shared out, on made-up GPUs and on series that were recorded on an H200.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::stage::{Parties, Stage};
use crate::memory::Provenance;
use crate::telemetry::{Crest, Device, Phase, Reading, Series, Tenant};

const MIB: u64 = 1 << 20;

fn look(used: &[u64], tenants: &[(u32, usize, Option<u64>)]) -> Reading {
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

/// Processes below 100 can be seen from here.
fn name(pid: u32) -> Option<String> {
    (pid < 100).then(|| format!("p{pid}"))
}

fn parties<'a>(ours: &'a BTreeSet<u32>, before: Option<&'a Reading>) -> Parties<'a> {
    Parties {
        ours,
        started: true,
        alone: false,
        before,
        name: &name,
    }
}

/// Ours, others, unattributed, and where that comes from, of the one GPU.
fn shares(stage: &Stage) -> (Option<u64>, Option<u64>, Option<u64>, Option<Provenance>) {
    let share = &stage.per_gpu[0];
    (share.ours, share.others, share.unattributed, share.provenance)
}

#[test]
fn what_the_driver_tells_by_process_is_measured() {
    let (ours, before) = (BTreeSet::from([7, 8]), look(&[20], &[(3, 0, Some(15))]));
    let now = look(&[200], &[(3, 0, Some(15)), (7, 0, Some(120)), (8, 0, Some(50))]);
    let stage = Stage::at(&now, &parties(&ours, Some(&before)));
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
fn where_the_driver_names_no_process_ours_is_what_came_on_top_and_called_computed() {
    let (ours, before) = (BTreeSet::from([7]), look(&[20], &[]));
    let hidden = Stage::at(&look(&[200], &[]), &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&hidden),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    let silent = Stage::at(&look(&[200], &[(7, 0, None)]), &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&silent),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    // As the host numbers it: it may be ours, and nobody here can know.
    let renamed = Stage::at(&look(&[200], &[(4711, 0, Some(175))]), &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&renamed),
        (Some(180), Some(0), Some(20), Some(Provenance::Computed))
    );
    assert_eq!(renamed.processes[0].ours, None);
    let less = Stage::at(&look(&[5], &[]), &parties(&ours, Some(&before)));
    assert_eq!(shares(&less).0, Some(0), "never below zero");
}

#[test]
fn other_tenants_are_never_ours_though_they_grow_after_the_baseline() {
    let (ours, before) = (BTreeSet::from([7]), look(&[1020], &[(4711, 0, Some(1000))]));
    // One that was there before and one that can be seen grow; ours is not told.
    let now = look(
        &[6020],
        &[(4711, 0, Some(2000)), (5, 0, Some(500)), (4712, 0, Some(3400))],
    );
    let stage = Stage::at(&now, &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&stage),
        (Some(3500), Some(2500), Some(20), Some(Provenance::Computed))
    );
}

#[test]
fn before_the_start_nothing_is_ours_and_without_a_baseline_nothing_is_guessed() {
    let none = BTreeSet::new();
    let look = look(&[600], &[(3, 0, Some(500))]);
    let baseline = Stage::at(
        &look,
        &Parties {
            started: false,
            ..parties(&none, Some(&look))
        },
    );
    assert_eq!(
        shares(&baseline),
        (Some(0), Some(500), Some(100), Some(Provenance::Measured))
    );
    let attached = Stage::at(&look, &parties(&none, None));
    assert_eq!(shares(&attached), (None, None, None, None));
    assert_eq!((attached.ours, attached.sum), (None, 600));
}

#[test]
fn at_the_peak_what_changed_since_the_processes_were_looked_at_is_ours_and_called_computed() {
    let (ours, before) = (BTreeSet::from([7]), look(&[20], &[]));
    let mut crest = Crest {
        devices: look(&[250], &[]).devices,
        beside: look(&[200], &[(7, 0, Some(150)), (3, 0, Some(30))]),
    };
    let stage = Stage::at_crest(&crest, &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&stage),
        (Some(200), Some(30), Some(20), Some(Provenance::Computed))
    );
    crest.beside.devices = crest.devices.clone();
    let exact = Stage::at_crest(&crest, &parties(&ours, Some(&before)));
    assert_eq!(
        shares(&exact),
        (Some(150), Some(30), Some(70), Some(Provenance::Measured))
    );
}

#[test]
fn figures_over_gpus_are_those_of_all_of_them() {
    let stage = Stage::at(&look(&[10, 20, 30, 40], &[]), &parties(&BTreeSet::new(), None));
    assert_eq!((stage.sum, stage.max), (100, 40));
    assert!((stage.mean - 25.0).abs() < 1e-9 && (stage.std - 125_f64.sqrt()).abs() < 1e-9);
}

proptest! {
    /// Whatever the driver tells or hides: the shares add up, and no byte of a process that is known to be foreign is ours.
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
        let before = look(&[idle, idle], &[]);
        let beside = look(&[on(0), on(1)], &held);
        let crest = Crest { devices: look(&[on(0) + spike, on(1)], &[]).devices, beside };
        let stage = Stage::at_crest(&crest, &parties(&ours, Some(&before)));
        for (gpu, share) in stage.per_gpu.iter().enumerate() {
            let foreign = held.iter().filter(|(pid, at, _)| *at == gpu && !ours.contains(pid)).filter_map(|tenant| tenant.2).sum::<u64>();
            let (mine, others, rest) = (share.ours.unwrap(), share.others.unwrap(), share.unattributed.unwrap());
            prop_assert_eq!(mine + others + rest, share.used);
            prop_assert_eq!(others, foreign);
            prop_assert!(mine + foreign <= share.used);
        }
    }
}

/// A series of `seconds,used_mib,…` as it was recorded, with a phase from each of these seconds on; and its looks.
fn recorded(file: &str, phases: &[(f64, Phase)]) -> (Series, Vec<(f64, Reading)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let (mut series, mut looks) = (Series::default(), Vec::new());
    let mut phases = phases.iter().peekable();
    for line in text.lines().skip(1) {
        let mut fields = line.split(',');
        let seconds: f64 = fields.next().unwrap().parse().unwrap();
        let used: u64 = fields.next().unwrap().parse().unwrap();
        while let Some((_, phase)) = phases.next_if(|(from, _)| *from <= seconds) {
            series.mark(*phase);
        }
        let reading = look(&[used * MIB], &[]);
        series.push((seconds * 1e6) as u64, &reading);
        looks.push((seconds, reading));
    }
    (series, looks)
}

/// The stages of a recorded start, in MiB: baseline, loaded, peak, each by everybody and ours.
fn stages(file: &str, starts: f64, ready: f64, ends: f64) -> [(u64, Option<u64>); 3] {
    let phases = [(starts, Phase::Loading), (ready, Phase::Ready), (ends, Phase::After)];
    let (series, looks) = recorded(file, &phases);
    let at = |moment: f64| &looks.iter().rfind(|(seconds, _)| *seconds <= moment).unwrap().1;
    let (before, none) = (at(starts), BTreeSet::new());
    let here = parties(&none, Some(before));
    let baseline = Stage::at(
        before,
        &Parties {
            started: false,
            ..parties(&none, Some(before))
        },
    );
    let loaded = Stage::at(at(ready), &here);
    let peak = series
        .peaks()
        .into_iter()
        .filter(|(phase, _)| *phase != Phase::After)
        .map(|(_, peak)| peak.total)
        .max();
    let crest = Crest {
        devices: look(&[peak.unwrap()], &[]).devices,
        beside: Reading::default(),
    };
    [baseline, loaded, Stage::at_crest(&crest, &here)].map(|stage| (stage.sum / MIB, stage.ours.map(|ours| ours / MIB)))
}

/// What was seen at the time: 130,073 MiB in use by vLLM when ready, beyond the driver's 614 or 615 MiB.
#[test]
fn recorded_starts_have_the_stages_that_were_seen_at_the_time() {
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

/// The stretch between two phases spreads as its looks do.
#[test]
fn a_recorded_stretch_spreads_as_its_looks_do() {
    let (series, looks) = recorded(
        "vllm-0.24.0-h200/small.memory.csv",
        &[(29.0, Phase::Ready), (30.7, Phase::Load), (60.0, Phase::After)],
    );
    let spread = series.spread(&[Phase::Load], 30_700_000, 60_000_000).unwrap();
    let seen: Vec<u64> = looks
        .iter()
        .filter(|(at, _)| (30.7..60.0).contains(at))
        .map(|(_, look)| look.used())
        .collect();
    assert_eq!(
        (spread.looks, spread.lowest, spread.highest),
        (seen.len() as u64, 24_427 * MIB, 24_651 * MIB)
    );
    let mean = seen.iter().sum::<u64>() as f64 / seen.len() as f64;
    assert!((spread.mean - mean).abs() < 1.0 && spread.std > 0.0);
}
