//! What is read back is what was written, however the file was broken.

use std::path::PathBuf;

use proptest::prelude::*;

use super::super::{activity_records, process_records, text, write};
use super::*;
use crate::telemetry::{Activity, Device, Phase, Reading, SlowSamples};

fn reading(ids: &[String], used: &[u64]) -> Reading {
    let device = |(id, &used): (&String, &u64)| Device {
        id: id.clone(),
        name: "x".into(),
        used,
        total: 1 << 40,
    };
    Reading {
        devices: ids.iter().zip(used).map(device).collect(),
        tenants: ids
            .iter()
            .zip(used)
            .map(|(id, &used)| Tenant {
                pid: 7,
                device: id.clone(),
                used: (used % 5 > 0).then_some(used),
            })
            .collect(),
        activity: ids
            .iter()
            .zip(used)
            .map(|(id, &used)| Activity {
                device: id.clone(),
                power_mw: (used % 3 > 0).then_some(used % 700_000),
                busy_percent: (used % 4 > 0).then_some(used % 101),
            })
            .collect(),
    }
}

proptest! {
    #[test]
    fn round_trip(
        ids in prop::collection::btree_set("[a-z,\"/ -]{1,12}", 1..4),
        looks in prop::collection::vec((0_usize..6, 0_u64..1 << 37, 0_u64..3, 0_u64..5_000_000), 1..60),
    ) {
        // Header names are trimmed, so an id must not begin or end with a space.
        let ids: Vec<String> = ids.iter().map(|id| format!("g{id}.")).collect();
        let (mut series, mut slow, mut at) = (Series::default(), SlowSamples::default(), 0);
        for (phase, used, others, after) in looks {
            let used: Vec<u64> = (0..ids.len() as u64).map(|index| if index == 0 { used } else { others }).collect();
            series.mark(Phase::ALL[phase]);
            series.push(at, &reading(&ids, &used));
            slow.push(at, Phase::ALL[phase], &reading(&ids, &used));
            at += after;
        }
        let mut written = Vec::new();
        write(&mut written, &series).unwrap();
        let file = read_series(&written);
        prop_assert!(file.notes.is_empty() && file.has_phases, "{:?}", file.notes);
        prop_assert_eq!(file.data.rows(), series.rows());
        let read: Vec<String> = file.data.devices().iter().map(|device| device.id.clone()).collect();
        prop_assert_eq!(read, ids);
        prop_assert_eq!(file.data.peaks(), series.peaks());

        prop_assert_eq!(read_activity(&text(activity_records(slow.activity()))).data, slow.activity());
        prop_assert_eq!(read_processes(&text(process_records(slow.processes()))).data, slow.processes());
    }

    /// Wherever the file is truncated: no panic, no invented values, and a note about the loss.
    #[test]
    fn truncated_file_gives_complete_lines(at in 0_usize..130) {
        let text = "from_s,to_s,phase,looks,total,a,b\n0.000000,1.000000,loading,3,30,10,20\n1.010000,2.500000,ready,4,500,200,300\n3.000000,3.000000,after,1,0,0,0\n";
        let cut = &text[..at.min(text.len())];
        let file = read_series(cut.as_bytes());
        let whole = read_series(text.as_bytes());
        let lines = cut.matches('\n').count();
        prop_assert_eq!(file.data.rows(), &whole.data.rows()[..lines.saturating_sub(1)]);
        prop_assert_eq!(file.notes.is_empty(), cut.ends_with('\n') && lines > 1, "{:?}", file.notes);
    }
}

#[test]
fn valid_lines_of_a_broken_file_are_used() {
    let text = "from_s,to_ms,phase,looks,total_mib,a\n\
                0.0,7,baseline,1,9,5\n1.0,7,dreaming,2,9,6\n0.5,7,loading,1,9,7\n2.0,7,loading,1,9,12 MiB\n3.0,7,loading\n4.0,7,load,9,9,8\n";
    let file = read_series(text.as_bytes());
    let rows: Vec<_> = file
        .data
        .rows()
        .iter()
        .map(|row| (row.from, row.to, row.phase, row.total))
        .collect();
    assert_eq!(
        rows,
        [
            (0, 0, Phase::Baseline, 5),
            (1_000_000, 1_000_000, Phase::Baseline, 6),
            (4_000_000, 4_000_000, Phase::Load, 8)
        ]
    );
    let notes = file.notes.join("; ");
    for expected in [
        "unknown column `to_ms`",
        "unknown column `total_mib`",
        "no column `to_s`",
        "no column `total`",
        "3 lines skipped; the first, line 4: its time goes backwards",
        "unknown phase `dreaming`",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
    for (text, expected) in [
        ("", "empty"),
        ("from_s,to_s", "header is incomplete"),
        ("a,b\n1,2\n", "no time column"),
        ("from_s,to_s,looks,total,a\n", "no usable line"),
    ] {
        let file = read_series(text.as_bytes());
        assert!(file.data.rows().is_empty() && !file.has_phases, "{text}");
        assert!(file.notes.join("; ").contains(expected), "{text}: {:?}", file.notes);
    }
    assert!(read_processes(b"from_s,to_s,pid\n1,2,3\n").notes[1].contains("no column `device`"));
}

#[test]
fn files_of_real_runs_are_complete() {
    let runs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
    let mut files = 0;
    for run in std::fs::read_dir(runs).unwrap() {
        for file in std::fs::read_dir(run.unwrap().path().join("memory")).unwrap() {
            let path = file.unwrap().path();
            let name = path.to_str().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let lines = || String::from_utf8_lossy(&bytes).lines().count() - 1;
            let (rows, notes) = if name.contains(".activity") {
                let file = read_activity(&bytes);
                (file.data.len(), file.notes)
            } else if name.contains(".processes") {
                let file = read_processes(&bytes);
                (file.data.len(), file.notes)
            } else if name.ends_with(".csv") {
                let file = read_series(&bytes);
                (file.data.rows().len(), file.notes)
            } else {
                continue;
            };
            assert_eq!((rows, notes), (lines(), Vec::new()), "{name}");
            files += 1;
        }
    }
    assert!(files > 30, "{files}");
}
