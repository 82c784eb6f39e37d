//! Breakdowns of recorded runs, and of one made up to have every feature.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::{Source, document};
use super::breakdown;
use crate::memory::{BaselineMemory, Breakdown, Component, Footprint, Part, Provenance};
use crate::report::plot::{Entry, Layer, Marks};
use crate::report::{Page, text};
use crate::run::{Folder, RecordedRun};

fn real(run: &str) -> crate::report::sections::Section {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/runs")
        .join(run);
    let document = document(&folder).unwrap();
    document
        .sections
        .into_iter()
        .find(|part| part.name == "breakdown")
        .unwrap()
}

#[test]
fn recorded_breakdown_has_its_limit() {
    let part = real("vllm-breakdown");
    let plot = part.plots()[0];
    assert!(
        plot.words
            .contains("128.06 GiB in use on GPU 0 (NVIDIA H200), 91.6 % of 139.80 GiB"),
        "{}",
        plot.words
    );
    assert!(
        part.paragraphs()[0].starts_with("memory of vllm: KV cache 111.1 GiB of 128.1 GiB used; weights 13.5 GiB; "),
        "{}",
        part.paragraphs()[0]
    );
    let limit = |layer: &Layer| matches!(layer.marks, Marks::Rule { at, .. } if at == 150_109_880_320.0);
    assert!(plot.panels[0].layers.iter().any(limit));
    assert_eq!(plot.panels.len(), 1, "nothing was expected");
    let row = |name: &str| {
        part.sheets()[0]
            .rows
            .iter()
            .find(|row| row[0] == Entry::from(name))
            .unwrap()
    };
    assert_eq!(
        row("weights")[1..4],
        ["13.54".into(), "10.6 %".into(), "engine-reported".into()]
    );
    let text = text(&part.blocks, Page::default());
    assert!(text.contains("no estimate was recorded"), "{text}");
}

#[test]
fn two_gpus_are_two_columns() {
    let part = real("vllm-two-gpus");
    let plot = part.plots()[0];
    assert_eq!(plot.panels[0].x.names, ["GPU 0 (NVIDIA H200)", "GPU 1 (NVIDIA H200)"]);
    assert!(
        part.sheets()[0].columns.contains(&"GPU 1, GiB".to_owned()),
        "{:?}",
        part.sheets()[0].columns
    );
    assert!(
        part.sheets()[0]
            .rows
            .iter()
            .all(|row| row.len() == part.sheets()[0].columns.len())
    );
    assert!(plot.words.contains("beyond one copy"), "{}", plot.words);
}

fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
    Part {
        component,
        bytes,
        provenance: Provenance::Computed,
        source: "made up".into(),
        within,
    }
}

#[test]
fn estimate_is_drawn_with_the_measurement() {
    let parts = vec![
        part(Component::Weights, 15 * GIB, None),
        part(Component::KvPool, 40 * GIB, None),
        part(Component::KvUsed, 3 * GIB, Some(Component::KvPool)),
    ];
    let device = Breakdown::new(Some("a".into()), 54 << 30, parts).unwrap();
    let expected = vec![
        part(Component::Weights, 10 * GIB, None),
        part(Component::KvUsed, 3 * GIB, None),
        part(Component::Activations, GIB, None),
    ];
    let expected = Breakdown::new(None, 14 << 30, expected).unwrap();
    let details = json!({ "estimate": { "all": expected } });
    let footprint = Footprint::new(vec![device], None, details).unwrap();
    let mut found = RecordedRun::default();
    found.breakdowns = vec![("made up".into(), json!(footprint))];
    let source = Source::new(Folder::open(Path::new(".")).unwrap(), &found);
    let mut missing = Vec::new();
    let parts = super::sections(&source, &mut missing);
    assert!(missing.is_empty());
    let plot = parts[0].plots()[0];
    assert_eq!(plot.panels[0].x.names, ["a", "estimate"]);
    let sheet = parts[0].sheets()[0];
    let row = |name: &str| sheet.rows.iter().find(|row| row[0] == Entry::from(name)).unwrap();
    assert_eq!(row("weights")[1..4], ["15.00".into(), "10.00".into(), "+5.00".into()]);
    assert_eq!(row("activations")[1..4], [Entry::None, "1.00".into(), Entry::None]);
    assert!(sheet.rows.iter().all(|row| row.len() == sheet.columns.len()));
    assert!(
        plot.words.contains("the components exceed the total by 1.0 GiB"),
        "{}",
        plot.words
    );
    // The bars of a column are stacked without gaps.
    let mut top = 0.0;
    for layer in &plot.panels[0].layers {
        if let (Marks::Bars { bars }, false) = (&layer.marks, layer.dashed) {
            assert_eq!(bars[0].base, top);
            top = bars[0].value;
        }
    }
}

#[test]
fn unreadable_breakdown_is_reported() {
    let mut found = RecordedRun::default();
    found.breakdowns = vec![("broken".into(), json!({ "all": 1 }))];
    let source = Source::new(Folder::open(Path::new(".")).unwrap(), &found);
    let mut missing = Vec::new();
    assert!(super::sections(&source, &mut missing).is_empty());
    assert!(missing[0].contains("`broken`"), "{missing:?}");
}

const GIB: i64 = 1 << 30;

fn reported(devices: usize) -> Footprint {
    let part = |component: Component, bytes: i64, within: Option<Component>| Part {
        provenance: Provenance::EngineReported,
        source: format!("what the log said of {component}, in a sentence that is longer than one line can be"),
        ..part(component, bytes, within)
    };
    let device = |index| {
        let parts = vec![
            part(Component::Weights, 10 * GIB + GIB / 2, None),
            part(Component::KvPool, 20 * GIB, None),
            part(Component::KvUsed, 5 * GIB, Some(Component::KvPool)),
        ];
        Breakdown::new(Some(format!("GPU-{index}")), 31 << 30, parts).unwrap()
    };
    let copy = part(Component::Weights, 18 * GIB, None);
    Footprint::new(
        (0..devices).map(device).collect(),
        Some(BaselineMemory::Weights(&copy)),
        json!({ "engine": "vllm", "n": 3, "estimate": "none: no config" }),
    )
    .unwrap()
}

#[test]
fn one_device_is_one_column_in_the_terminal() {
    let text = text(&breakdown("vllm", &reported(1), Page::default()), Page::default());
    let (head, rest) = text.split_once("where the figures come from").unwrap();
    assert_eq!(
        head,
        "memory of vllm: KV cache 20.0 GiB of 31.0 GiB used; weights 10.5 GiB; 0.5 GiB\n    unaccounted\n\n\
             \x20                      GiB    share  source\n\
             \x20 weights            10.50   33.9 %  engine-reported\n\
             \x20 KV cache           20.00   64.5 %  engine-reported\n\
             \x20   KV cache in use   5.00        -  engine-reported\n\
             \x20 unaccounted         0.50    1.6 %  computed\n\
             \x20 total used         31.00  100.0 %  measured\n\n"
    );
    assert!(
        rest.ends_with("\n\ndetails\n  engine: vllm\n  estimate: none: no config"),
        "{rest}"
    );
}

#[test]
fn each_device_has_a_column_while_there_is_space() {
    let shown = |devices| text(&breakdown("vllm", &reported(devices), Page::default()), Page::default());
    let two = shown(2);
    for part in [
        "  weights               21.00  10.50  10.50   33.9 %  engine-reported",
        "  beyond one copy",
        "\n[1]  GPU-1",
    ] {
        assert!(two.contains(part), "{part}: {two}");
    }
    let eight = shown(8);
    assert!(eight.contains("lowest  highest"), "{eight}");
    let long = eight.lines().skip(1).find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "{eight}");
}
