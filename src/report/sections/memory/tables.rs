//! Tables of memory over time: phases of a start, all starts, and stages.

use serde_json::Value;

use super::chart::highest;
use super::marks::{gib, rounded};
use super::phases::{PhasePeak, phase_name};
use super::start::Start;
use crate::report::plot::{Entry, Sheet};
use crate::report::stages::STAGES;

fn headings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The peak of each device in each phase of a start.
pub(super) fn phases(start: &Start, peaks: &[PhasePeak]) -> Sheet {
    let several = start.devices.len() > 1;
    let mut rows = Vec::new();
    for peak in peaks {
        for (device, &(bytes, at)) in start.devices.iter().zip(&peak.highest) {
            let mut row: Vec<Entry> = vec![phase_name(peak.phase).into()];
            row.extend(several.then(|| device.label.as_str().into()));
            row.extend([
                gib(bytes).into(),
                device.total.map(|total| percent(bytes, total)).into(),
            ]);
            row.extend([
                rounded(at, 1).into(),
                rounded(peak.seconds, 1).into(),
                (peak.looks as f64).into(),
            ]);
            rows.push(row);
        }
    }
    let mut columns = vec!["phase"];
    columns.extend(several.then_some("device"));
    columns.extend(["peak, GiB", "of all, %", "first at, s", "lasted, s", "samples"]);
    Sheet {
        title: String::new(),
        columns: headings(&columns),
        rows,
    }
}

fn percent(bytes: u64, total: u64) -> f64 {
    rounded(100.0 * bytes as f64 / total as f64, 1)
}

/// A row for each start, with its fullest device and its end.
pub(super) fn starts(starts: &[Start]) -> Sheet {
    let row = |start: &Start| -> Vec<Entry> {
        let rows = start.series.rows();
        let fullest = (0..start.devices.len()).max_by_key(|&device| highest(rows, device));
        let bytes = fullest.map(|device| highest(rows, device));
        let total = fullest.and_then(|device| start.devices[device].total);
        let operations = start.life.map_or(&[][..], |life| &life.measurements);
        let failed = operations.iter().filter(|operations| operations.fails).count();
        let ready = start.life.and_then(|life| Some(life.ready? - life.began));
        let ended = match (start.failure(), start.deaths().count()) {
            (Some(cause), _) => format!("did not start: {cause}"),
            (None, 0) => match start.life {
                Some(life) if life.what.is_empty() => "went on".to_owned(),
                Some(_) => "was stopped".to_owned(),
                None => String::new(),
            },
            (None, _) => "died".to_owned(),
        };
        let what = start.life.map(|life| life.what.as_str()).unwrap_or_default();
        let counts = [operations.len() as f64, failed as f64];
        vec![
            start.name.as_str().into(),
            or_none(what),
            or_none(&ended),
            ready.map(|seconds| rounded(seconds, 1)).into(),
            rounded(start.end(), 1).into(),
            bytes.map(gib).into(),
            bytes.zip(total).map(|(bytes, total)| percent(bytes, total)).into(),
            counts[0].into(),
            counts[1].into(),
        ]
    };
    Sheet {
        title: "All starts".to_owned(),
        columns: headings(&[
            "start",
            "engine and limits",
            "how it ended",
            "ready after, s",
            "sampled, s",
            "peak, GiB",
            "of all, %",
            "operations",
            "failed",
        ]),
        rows: starts.iter().map(row).collect(),
    }
}

fn or_none(text: &str) -> Entry {
    if text.is_empty() { Entry::None } else { text.into() }
}

/// Memory of each engine by stage: total, its own, other processes', and of the fullest device.
pub(super) fn stages(engines: &[(String, Value)]) -> Option<Sheet> {
    let mut rows = Vec::new();
    for (engine, usage) in engines.iter().filter(|(_, usage)| !usage["peak"].is_null()) {
        let devices = usage["peak"]["per_gpu"].as_array().map_or(0, Vec::len);
        let mut lines = vec![(engine.clone(), "sum")];
        if devices > 1 {
            lines.push((format!("{engine}, fullest of {devices}"), "max"));
        }
        lines.extend([
            (format!("{engine}, its own"), "ours"),
            (format!("{engine}, of others"), "others"),
        ]);
        for (name, key) in lines {
            let figures = STAGES.map(|(stage, _)| usage[stage][key].as_u64());
            if key == "others" && figures.iter().flatten().all(|&bytes| bytes == 0) {
                continue;
            }
            if figures.iter().all(Option::is_none) {
                continue;
            }
            let figures = figures.into_iter().map(|bytes| bytes.map(gib).into());
            rows.push(std::iter::once(name.into()).chain(figures).collect());
        }
    }
    let columns = STAGES.map(|(_, title)| format!("{title}, GiB"));
    (!rows.is_empty()).then(|| Sheet {
        title: "Memory by the stages of each engine's life".to_owned(),
        columns: std::iter::once(String::new()).chain(columns).collect(),
        rows,
    })
}
