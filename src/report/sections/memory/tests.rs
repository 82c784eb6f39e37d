//! Memory charts of recorded runs, of damaged ones, and of a very long and wide one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::{Document, document};
use super::start::Start;
use super::{Section, spans, stages_sheet, starts_to_draw};
use crate::report::plot::{Entry, Marks, Plot, Sheet, Span};
use crate::run::{EngineSession, RecordedRun};
use crate::telemetry::{Phase, Row};

fn runs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs")
}

fn memory(document: &Document) -> &Section {
    document.sections.iter().find(|part| part.name == "memory").unwrap()
}

fn line(plot: &Plot, panel: usize) -> Vec<(f64, Option<f64>)> {
    let lines = plot.panels[panel].layers.iter().filter_map(|layer| match &layer.marks {
        Marks::Line { points, .. } => Some(points.clone()),
        _ => None,
    });
    lines.into_iter().next().unwrap()
}

fn phases(plot: &Plot) -> Vec<Span> {
    let spans = plot.panels[0].layers.iter().find_map(|layer| match &layer.marks {
        Marks::Spans { spans } => Some(spans.clone()),
        _ => None,
    });
    spans.unwrap()
}

#[test]
fn recorded_start_has_peak_limit_and_phases() {
    let document = document(&runs().join("vllm-breakdown")).unwrap();
    assert_eq!(document.missing, Vec::<String>::new());
    let plot = memory(&document).plots()[0];
    let most = line(plot, 0).iter().filter_map(|point| point.1).fold(0.0, f64::max);
    assert_eq!(most, 137_500_622_848.0, "no peak is lost");
    for expected in [
        "On GPU 0 (NVIDIA H200) at most 128.06 GiB was in use, 91.6 % of 139.80 GiB: 11.74 GiB were left",
        "above memory_fraction 0.9",
        "(at 54.7 s, warm-up)",
        "12320 samples, 200 per second",
    ] {
        assert!(plot.words.contains(expected), "{expected}: {}", plot.words);
    }
    assert!(
        plot.caption.starts_with("Samples of memory skipped: 32"),
        "{}",
        plot.caption
    );
    let labels: Vec<String> = phases(plot).into_iter().map(|span| span.label).collect();
    assert_eq!(labels, ["loading", "warm-up", "load"].map(str::to_owned));
    let titles: Vec<&str> = plot.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["GPU 0 (NVIDIA H200)", "power", "GPU utilisation"]);
    let watts = line(plot, 1)
        .into_iter()
        .filter_map(|point| point.1)
        .fold(0.0, f64::max);
    assert!((100.0..1000.0).contains(&watts), "{watts}");
    assert!(plot.panels[1].low && !plot.panels[0].low);
}

#[test]
fn a_start_that_failed_is_marked() {
    let document = document(&runs().join("vllm-longest")).unwrap();
    let part = memory(&document);
    assert_eq!(part.plots().len(), 2);
    let died = part.plots()[0].panels[0]
        .layers
        .iter()
        .find_map(|layer| match layer.marks {
            Marks::Rule { at, .. } if layer.name == "did not start: memory" => Some(at),
            _ => None,
        });
    assert!((45.0..46.0).contains(&died.unwrap()), "{died:?}");
    assert!(
        part.paragraphs()[0].contains("Of 2 starts, 1 did not become ready, and 0 died"),
        "{:?}",
        part.paragraphs()
    );
    assert_eq!(part.sheets()[0].rows.len(), 2);
    assert_eq!(part.sheets()[1].title, "memory in use by stage, GiB");
}

#[test]
fn every_recorded_run_is_complete() {
    for run in fs::read_dir(runs()).unwrap() {
        let folder = run.unwrap().path();
        let document = document(&folder).unwrap();
        let part = memory(&document);
        let missing = document.missing.iter().filter(|note| note.contains("memory"));
        // The one run that was killed while an engine ran.
        let of_a_kill = if folder.ends_with("vllm-tensor-parallel") { 1 } else { 0 };
        assert_eq!(missing.count(), of_a_kill, "{folder:?}: {:?}", document.missing);
        for plot in part.plots() {
            for panel in &plot.panels {
                let spots = &panel.spots;
                assert!(spots.spots.iter().all(|spot| spot.entries.len() == spots.columns.len()));
            }
        }
    }
}

fn copy(run: &str, change: impl Fn(&Path)) -> Document {
    let temp = tempfile::tempdir().unwrap();
    let from = runs().join(run);
    for name in ["manifest.json", "journal.jsonl", "result.json"] {
        fs::copy(from.join(name), temp.path().join(name)).unwrap();
    }
    fs::create_dir(temp.path().join("memory")).unwrap();
    for file in fs::read_dir(from.join("memory")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), temp.path().join("memory").join(file.file_name())).unwrap();
    }
    change(temp.path());
    document(temp.path()).unwrap()
}

#[test]
fn damaged_files_are_reported_and_the_rest_is_shown() {
    let without = copy("vllm-breakdown", |folder| {
        fs::remove_dir_all(folder.join("memory")).unwrap()
    });
    assert!(
        without.missing.join(" ").contains("memory/ has no series"),
        "{:?}",
        without.missing
    );
    assert!(without.sections.iter().all(|part| part.name != "memory"));

    let torn = copy("vllm-breakdown", |folder| {
        let path = folder.join("memory/engine-1.csv");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        fs::write(folder.join("memory/engine-1.usage.json"), "{").unwrap();
    });
    let missing = torn.missing.join("; ");
    assert!(
        missing.contains("memory/engine-1.csv: the last line is incomplete"),
        "{missing}"
    );
    let plot = memory(&torn).plots()[0];
    assert!(
        plot.words.contains("NVIDIA H200"),
        "the manifest knows the device too: {}",
        plot.words
    );
}

#[test]
fn eight_gpus_are_lines_of_one_small_panel() {
    let document = copy("vllm-breakdown", |folder| {
        fs::remove_file(folder.join("memory/engine-1.usage.json")).unwrap();
        let mut text = "from_s,to_s,phase,looks,total".to_owned();
        (0..8).for_each(|gpu| write!(text, ",gpu{gpu}").unwrap());
        for look in 0..60_000_u64 {
            let at = look as f64 / 100.0;
            write!(text, "\n{at:.6},{at:.6},load,1,0").unwrap();
            (0..8).for_each(|gpu| {
                write!(
                    text,
                    ",{}",
                    if look == 31_234 + gpu {
                        9_999_999
                    } else {
                        look * 7919 % 1_000_003
                    }
                )
                .unwrap()
            });
        }
        fs::write(folder.join("memory/engine-1.csv"), text + "\n").unwrap();
    });
    let plot = memory(&document).plots()[0];
    let lines: Vec<_> = plot.panels[0]
        .layers
        .iter()
        .filter_map(|layer| match &layer.marks {
            Marks::Line { points, .. } => Some(points),
            _ => None,
        })
        .collect();
    assert_eq!(lines.len(), 8);
    for points in lines {
        assert!(points.len() < 2000, "{}", points.len());
        assert_eq!(
            points.iter().filter_map(|point| point.1).fold(0.0, f64::max),
            9_999_999.0
        );
    }
}

#[test]
fn of_many_starts_the_fullest_and_the_latest_that_died_are_drawn() {
    let failed = EngineSession {
        failure: json!({ "cause": "memory" }),
        ..EngineSession::default()
    };
    let start = |index: usize| Start {
        session: [3, 5, 20, 23].contains(&index).then_some(&failed),
        ..Start::default()
    };
    let many: Vec<Start> = (0..40).map(start).collect();
    assert_eq!(starts_to_draw(&many), [0, 23]);
    assert_eq!(starts_to_draw(&many[..3]), [0]);
    assert_eq!(starts_to_draw(&[]), Vec::<usize>::new());
}

#[test]
fn pauses_too_short_to_be_seen_are_merged() {
    let row = |from: u64, to: u64, phase| Row {
        from: from * 1_000_000,
        to: to * 1_000_000,
        phase,
        looks: 1,
        total: 0,
        used: vec![0],
    };
    let rows = [
        row(0, 20, Phase::Loading),
        row(21, 400, Phase::Load),
        row(401, 401, Phase::Ready),
        row(402, 800, Phase::Load),
        row(801, 905, Phase::Ready),
    ];
    let spans = spans(&rows);
    let spans: Vec<_> = spans
        .iter()
        .map(|span| (span.label.as_str(), span.from, span.to))
        .collect();
    assert_eq!(
        spans,
        [("loading", 0.0, 21.0), ("load", 21.0, 801.0), ("idle", 801.0, 905.0)]
    );
}

fn stages(engines: Vec<(&str, Value)>) -> Option<Sheet> {
    let mut found = RecordedRun::default();
    let engines = engines.into_iter().map(|(name, usage)| (name.to_owned(), usage));
    found.stages.extend(engines);
    stages_sheet(&found)
}

#[test]
fn stages_that_were_not_reached_are_left_open() {
    let gib = |gib: u64| json!({ "sum": gib << 30, "others": 0, "per_gpu": [{}] });
    let usage = json!({ "baseline": gib(1), "loaded": gib(18), "warmed": null, "peak": gib(19), "after": null });
    let unseen = ("engine-2", json!({ "peak": null }));
    let sheet = stages(vec![("engine-1", usage), unseen.clone()]).unwrap();
    let none = Entry::None;
    let row = [
        "engine-1".into(),
        "1.00".into(),
        "18.00".into(),
        none.clone(),
        "19.00".into(),
        none,
    ];
    assert_eq!(sheet.rows, [row.to_vec()]);
    assert_eq!(stages(vec![unseen]), None);
    let cut_off = stages(vec![("engine-1", Value::Null)]).unwrap();
    assert_eq!(cut_off.rows[0][0], "engine-1, cut off".into());
}

#[test]
fn several_gpus_have_the_fullest_and_others_a_line() {
    let peak = json!({ "sum": 30_u64 << 30, "max": 20_u64 << 30, "others": 1_u64 << 30, "per_gpu": [{}, {}] });
    let sheet = stages(vec![("engine-1", json!({ "peak": peak }))]).unwrap();
    let names: Vec<&Entry> = sheet.rows.iter().map(|row| &row[0]).collect();
    let expected = ["engine-1", "highest of 2", "its own", "of others"];
    assert_eq!(names, expected.map(Entry::from).iter().collect::<Vec<_>>());
    assert_eq!(sheet.rows[1][4], "20.00".into());
}
