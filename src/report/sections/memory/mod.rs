//! Memory over time: each engine start by GPU, with phases, limits and deaths. If there are several starts, only the
//! fullest and the latest that died are drawn, and a table lists all. `start` reads a start from its files and the
//! journal, `chart` draws it.

mod chart;
mod start;

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

pub(super) use chart::memory_top;
pub(super) use start::{Device, devices_of};

use crate::engine::{Stage, UsageFile};
use crate::fmt::{gib_number, rounded};
use crate::report::document::Section;
use crate::report::document::wrapped;
use crate::report::plot::{Entry, Plot, Sheet, max_per_column, sparkline};
use crate::report::sections::source::Source;
use crate::report::{Block, Bytes, Clock, Count, Page};
use crate::run::{Folder, RecordedRun};
use crate::telemetry::SeriesRow;
use chart::{device_peak, plot};
use start::{Start, seconds};

/// Maximum number of columns of all lines together. It keeps the page small for any number of starts and GPUs.
const MAX_COLUMNS: usize = 3000;

/// Maximum number of starts in the terminal, and of columns for each of their sparklines.
const MAX_STARTS: usize = 6;
const MAX_SPARKS: usize = 72;

/// The notice on everything that shows simulated memory.
pub(super) const SIMULATED: &str = "SIMULATED: memory of a simulated engine; no GPU was measured.";

/// The sections. Missing or unreadable files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let names = match start::names(&source.folder) {
        Ok(names) => names,
        Err(fault) => {
            missing.push(format!("{}: memory over time is not shown", fault.message));
            return Vec::new();
        }
    };
    let mut starts: Vec<Start> = names
        .iter()
        .map(|name| Start::read(name, &source.folder, found, missing))
        .collect();
    starts.retain(|start| !start.series.rows().is_empty() && !start.devices.is_empty());
    // By start time; unknown times sort last.
    let began = |start: &Start| start.session.map_or(f64::INFINITY, |session| session.began);
    starts.sort_by(|one, other| began(one).total_cmp(&began(other)));
    // The memory of an attached server cannot be sampled; its answer says so.
    let all_attached = || found.sessions.iter().all(|session| session.what.is_empty());
    let title = if names.is_empty() {
        if !all_attached() {
            missing.push("memory/ has no series: memory over time is not shown".to_owned());
        }
        "Memory by stage"
    } else {
        missing.extend(lost_series(source, &starts));
        "Memory over time"
    };
    let drawn = starts_to_draw(&starts);
    let lines: usize = drawn.iter().map(|&index| starts[index].devices.len()).sum();
    let columns = (MAX_COLUMNS / lines.max(1)).clamp(120, 1000);
    let plots: Vec<Plot> = drawn.iter().map(|&index| plot(&starts[index], columns)).collect();
    let all_starts = (starts.len() > 1).then(|| starts_sheet(&starts));
    let sheets: Vec<Sheet> = all_starts.into_iter().chain(stages_sheet(found)).collect();
    let simulated = (found.manifest.simulated && !starts.is_empty()).then(|| SIMULATED.to_owned());
    let note = (drawn.len() < starts.len()).then(|| {
        let all = starts.len();
        let died = if drawn.len() > 1 {
            " and the latest that died"
        } else {
            ""
        };
        format!("Of {all} starts, the fullest{died} is drawn. The table has all.")
    });
    let paragraphs = simulated.into_iter().chain(summary(&starts)).chain(note);
    vec![Section::new("memory", title).with(paragraphs).with(plots).with(sheets)]
}

/// Says how many engines have no series because the run was killed.
fn lost_series(source: &Source, starts: &[Start]) -> Option<String> {
    // A session without written files has lost its series.
    let mut lost = source
        .found
        .sessions
        .iter()
        .filter(|session| !session.files_written)
        .count();
    if source.found.ends_early {
        // A truncated journal cannot match every series to a session, but those series are not lost.
        let unmatched = starts.iter().filter(|start| start.session.is_none());
        lost = lost.saturating_sub(unmatched.count());
    }
    (lost > 0).then(|| {
        let engines = Count(lost, "engine");
        format!("memory over time is missing for {engines} still running when the run was killed")
    })
}

/// Indices of the starts to draw, ascending: the fullest one, and the latest one that failed to start or died, because
/// it is closest to the limit that was searched for.
fn starts_to_draw(starts: &[Start]) -> Vec<usize> {
    let peak = |start: &Start| (0..start.devices.len()).map(|device| start.peak(device)).max();
    let fullest = (0..starts.len()).max_by_key(|&index| (peak(&starts[index]), Reverse(index)));
    let latest_failed = starts
        .iter()
        .rposition(|start| start.failure().is_some() || start.deaths().next().is_some());
    let mut drawn: Vec<usize> = fullest.into_iter().chain(latest_failed).collect();
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

/// All starts in one paragraph.
fn summary(starts: &[Start]) -> Option<String> {
    let all = starts
        .iter()
        .flat_map(|start| (0..start.devices.len()).map(move |device| (start, device)));
    let share = |(start, device): (&Start, usize)| {
        let bytes = start.peak(device);
        let total = start.devices[device].total;
        (total.map_or(0.0, |total| bytes as f64 / total as f64), bytes)
    };
    let (start, device) = all.max_by(|one, other| {
        let (one, other) = (share(*one), share(*other));
        // On equal peaks, the first start wins.
        one.0
            .total_cmp(&other.0)
            .then(one.1.cmp(&other.1))
            .then(Ordering::Greater)
    })?;
    let mut text = device_peak(start, device);
    if starts.len() > 1 {
        text = format!("{} was the fullest. {text}", start.name);
    }
    let failed = starts.iter().filter(|start| start.failure().is_some()).count();
    let died = starts.iter().filter(|start| start.deaths().next().is_some()).count();
    if failed + died > 0 {
        let starts = Count(starts.len(), "start");
        text += &format!(" Of {starts}, {failed} did not become ready, and {died} died while serving.");
    }
    Some(text)
}

/// A row for each start: its fullest device, and how it ended.
fn starts_sheet(starts: &[Start]) -> Sheet {
    let or_none = |text: String| if text.is_empty() { Entry::None } else { text.into() };
    let rows = starts.iter().map(|start| {
        let fullest = (0..start.devices.len()).max_by_key(|&device| start.peak(device));
        let bytes = fullest.map(|device| start.peak(device));
        let total = fullest.and_then(|device| start.devices[device].total);
        let ended = match (start.failure(), start.session) {
            (Some(cause), _) => format!("did not start: {cause}"),
            (None, _) if start.deaths().next().is_some() => "died".to_owned(),
            (None, Some(session)) if session.what.is_empty() => "left running".to_owned(),
            (None, Some(_)) => "was stopped".to_owned(),
            (None, None) => String::new(),
        };
        let what = start.session.map(|session| session.what.clone()).unwrap_or_default();
        let ready = start.session.and_then(|session| Some(session.ready? - session.began));
        let failed = start.measurements().iter().filter(|measurement| measurement.fails);
        let share = |(bytes, total)| rounded(100.0 * bytes as f64 / total as f64, 1);
        [
            ("start", start.name.as_str().into()),
            ("engine and limits", or_none(what)),
            ("how it ended", or_none(ended)),
            ("ready after, s", ready.map(|seconds| rounded(seconds, 1)).into()),
            ("peak, GiB", bytes.map(|bytes| gib_number(bytes as f64)).into()),
            ("of all, %", bytes.zip(total).map(share).into()),
            ("operations", (start.measurements().len() as f64).into()),
            ("failed", (failed.count() as f64).into()),
        ]
    });
    Sheet::from_rows(rows).titled("All starts")
}

/// Memory by stage of all engines; `None` if no memory was recorded. An engine on several GPUs gets another row with
/// the highest use of a single GPU. If other processes used memory, two more rows show the engine's share and theirs.
pub fn stages_sheet(found: &RecordedRun) -> Option<Sheet> {
    let mut rows = Vec::new();
    for (engine, value) in &found.stages {
        let usage = UsageFile::read(value).usage;
        let stages = usage.stages();
        let row = |name: String, bytes: fn(&Stage) -> Option<u64>| -> Vec<Entry> {
            let gib = |stage: Option<&Stage>| stage.and_then(bytes).map(|bytes| gib_number(bytes as f64));
            let stages = stages.map(|stage| gib(stage).into());
            std::iter::once(name.into()).chain(stages).collect()
        };
        // The file of an engine whose run was killed cannot be read.
        let name = format!("{engine}{}", if value.is_null() { ", cut off" } else { "" });
        let gpus = usage.peak.as_ref().map_or(0, |peak| peak.per_gpu.len());
        if usage.peak.is_some() || value.is_null() {
            rows.push(row(name, |stage| Some(stage.sum)));
        }
        if gpus > 1 {
            rows.push(row(format!("highest of {gpus}"), |stage| Some(stage.max)));
        }
        let mut others = stages.into_iter().flatten().filter_map(|stage| stage.others);
        if others.any(|bytes| bytes > 0) {
            rows.push(row("its own".to_owned(), |stage| stage.ours));
            rows.push(row("of others".to_owned(), |stage| stage.others));
        }
    }
    let headings = ["", "before", "loaded", "warmed up", "peak", "after"];
    (!rows.is_empty()).then(|| Sheet::new(headings, rows).titled("memory in use by stage, GiB"))
}

/// Memory over time for the terminal: a line for each start and device. `None` if no memory was recorded.
pub fn memory(folder: &Folder, found: &RecordedRun, page: Page) -> Option<Block> {
    let names = start::names(folder).ok()?;
    let mut lines = vec!["memory over time, each column the most of its stretch".to_owned()];
    for name in names.iter().take(MAX_STARTS) {
        let mut notes = Vec::new();
        let start = Start::read(name, folder, found, &mut notes);
        let rows = start.series.rows();
        let columns = page.width.saturating_sub(4).clamp(8, MAX_SPARKS);
        for (index, device) in start.devices.iter().enumerate().filter(|_| !rows.is_empty()) {
            let peak = start.peak(index);
            let of_total = device.total.map_or_else(String::new, |total| {
                format!(", {:.0} % of {}", 100.0 * peak as f64 / total as f64, Bytes(total))
            });
            let label = match start.devices.len() {
                1 => name.clone(),
                _ => format!("{name}, {}", device.label),
            };
            let took = Clock(Duration::from_secs_f64(start.end()));
            lines.push(wrapped(
                &format!("{label}: peak {}{of_total}, in {took}", Bytes(peak)),
                page.width,
            ));
            let share = |row: &SeriesRow| (seconds(row.from), row.used[index] as f64 / peak.max(1) as f64);
            let shares: Vec<(f64, f64)> = rows.iter().map(share).collect();
            let heights = max_per_column(&shares, start.end(), columns);
            lines.push(format!("  {}", sparkline(&heights, page)));
        }
        lines.extend(notes.iter().map(|note| wrapped(&format!("({note})"), page.width)));
    }
    let more = names.len().saturating_sub(MAX_STARTS);
    lines.extend((more > 0).then(|| format!("  and {more} more in memory/")));
    (!names.is_empty()).then(|| Block::Sketch(lines.join("\n")))
}

#[cfg(test)]
mod tests {
    //! Memory charts of recorded runs, of damaged ones, and of a very long and wide one.

    use std::fmt::Write as _;
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::{Value, json};

    use super::super::{Document, document};
    use super::chart::spans;
    use super::start::Start;
    use super::{Section, stages_sheet, starts_to_draw};
    use crate::report::plot::{Entry, Marks, Plot, Sheet, Span};
    use crate::run::{EngineSession, RecordedRun};
    use crate::telemetry::{Phase, SeriesRow};

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
            assert!(plot.alt.contains(expected), "{expected}: {}", plot.alt);
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
            if !folder.join("memory").exists() {
                continue;
            }
            let part = memory(&document);
            let missing = document.missing.iter().filter(|note| note.contains("memory"));
            // The only run that was killed while an engine was running.
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
            plot.alt.contains("NVIDIA H200"),
            "the manifest knows the device too: {}",
            plot.alt
        );
    }

    #[test]
    fn eight_gpus_are_lines_of_one_small_panel() {
        let document = copy("vllm-breakdown", |folder| {
            fs::remove_file(folder.join("memory/engine-1.usage.json")).unwrap();
            let mut text = "from_s,to_s,phase,samples,total".to_owned();
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
        let row = |from: u64, to: u64, phase| SeriesRow {
            from: from * 1_000_000,
            to: to * 1_000_000,
            phase,
            samples: 1,
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
        let found = spans(&rows);
        let spans: Vec<_> = found
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
}
