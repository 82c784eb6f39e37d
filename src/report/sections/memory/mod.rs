//! Memory over time: each engine start by GPU, with phases, limits and deaths. Of many starts, some are drawn, and a
//! table lists all.
//!
//! `start` reads a start from its files and the journal, `phases` divides its series, `stack` says what its memory
//! consists of, and `chart` draws it.

mod chart;
mod phases;
mod stack;
mod start;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};

pub(super) use stack::{IN_USE, colour};
pub(super) use start::{Device, devices_of};

use crate::memory::Footprint;
use crate::report::Count;
use crate::report::memory::stages_sheet;
use crate::report::plot::{Entry, Plot, Sheet};
use crate::report::sections::format::{gib, gib_text, rounded};
use crate::report::sections::{Section, Source};
use start::Start;

/// Columns of all lines together, to keep the page small whatever the number of starts and GPUs.
const MAX_COLUMNS: usize = 9000;

/// Maximum number of starts drawn.
const MAX_DRAWN: usize = 6;

/// Said first of simulated memory.
pub(super) const SIMULATED: &str = "SIMULATED: memory of a simulated engine; no GPU was measured.";

/// The sections. Missing or unreadable files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let files = match start::files(&source.folder) {
        Ok(files) => files,
        Err(fault) => {
            missing.push(format!("{}: memory over time is not shown", fault.message));
            return Vec::new();
        }
    };
    let mut starts: Vec<Start> = files.iter().map(|files| Start::read(files, source, missing)).collect();
    starts.retain(|start| !start.series.rows().is_empty() && !start.devices.is_empty());
    // By start time, as far as it is known.
    let began = |start: &Start| start.session.map_or(f64::INFINITY, |session| session.began);
    starts.sort_by(|one, other| began(one).total_cmp(&began(other)));
    match files.is_empty() {
        false => missing.extend(lost_series(source, &starts)),
        true if found.sessions.is_empty() => {}
        true => missing.push("memory/ has no series: memory over time and peaks by phase are not shown".to_owned()),
    }
    let all_starts = (starts.len() > 1).then(|| starts_sheet(&starts));
    let drawn = starts_to_draw(&starts);
    let title = match files.is_empty() {
        true => "Memory by stage",
        false => "Memory over time",
    };
    let plots = plots(&starts, &drawn, source);
    let sheets: Vec<Sheet> = all_starts.into_iter().chain(stages_sheet(&found.stages)).collect();
    if plots.is_empty() && sheets.is_empty() {
        return Vec::new();
    }
    let paragraphs = paragraphs(&starts, drawn.len(), found.manifest.simulated);
    vec![
        Section::new("memory", title)
            .with_figures(paragraphs, plots)
            .with(sheets),
    ]
}

fn paragraphs(starts: &[Start], drawn: usize, simulated: bool) -> Vec<String> {
    if starts.is_empty() {
        return Vec::new();
    }
    let note = (drawn < starts.len()).then(|| {
        format!(
            "{drawn} of {} starts are drawn: the first, the last, the fullest, and the latest that died. The table has all.",
            starts.len()
        )
    });
    let simulated = simulated.then(|| SIMULATED.to_owned());
    simulated.into_iter().chain(summary(starts)).chain(note).collect()
}

/// The charts of these starts.
fn plots(starts: &[Start], drawn: &[usize], source: &Source) -> Vec<Plot> {
    let footprints = source.found.breakdowns.iter();
    let footprints = footprints.filter_map(|(_, value)| serde_json::from_value::<Footprint>(value.clone()).ok());
    let footprints: Vec<Footprint> = footprints.collect();
    let simulated = source.found.manifest.simulated;
    let lines: usize = drawn.iter().map(|&index| 3 * starts[index].devices.len()).sum();
    let columns = (MAX_COLUMNS / lines.max(1)).clamp(120, 1000);
    let plots = drawn
        .iter()
        .map(|&index| chart::plot(&starts[index], &footprints, columns, simulated));
    plots.collect()
}

/// Says how many engines have no series because the run was killed.
fn lost_series(source: &Source, starts: &[Start]) -> Option<String> {
    let is_read = |number: usize| {
        let session = &source.found.sessions[number];
        starts
            .iter()
            .any(|start| start.session.is_some_and(|own| std::ptr::eq(own, session)))
    };
    let sessions = source.found.sessions.iter().enumerate();
    let mut lost = sessions
        .filter(|(number, session)| !session.files_written && !is_read(*number))
        .count();
    if source.found.ends_early {
        // A truncated journal cannot assign series to engines, but the series exist.
        let unmatched = starts.iter();
        let unmatched = unmatched.filter(|start| start.session.is_none_or(|session| !session.files_written));
        lost = lost.saturating_sub(unmatched.count());
    }
    let (engines, were) = if lost == 1 {
        ("engine", "was")
    } else {
        ("engines", "were")
    };
    (lost > 0).then(|| {
        format!("memory over time is missing for {lost} {engines} that {were} running when the run was killed")
    })
}

/// Indices of the starts to draw, ascending.
fn starts_to_draw(starts: &[Start]) -> Vec<usize> {
    if starts.len() <= MAX_DRAWN {
        return (0..starts.len()).collect();
    }
    let peak = |start: &Start| (0..start.devices.len()).map(|device| start.peak(device)).max();
    let fullest = (0..starts.len()).max_by_key(|&index| (peak(&starts[index]), Reverse(index)));
    // The latest deaths are nearest to the limit that was searched for.
    let died = |index: &usize| starts[*index].failure().is_some() || starts[*index].deaths().next().is_some();
    let latest_died = (0..starts.len()).rev().filter(died);
    let mut drawn = Vec::new();
    for index in [0, starts.len() - 1].into_iter().chain(fullest).chain(latest_died) {
        if drawn.len() < MAX_DRAWN && !drawn.contains(&index) {
            drawn.push(index);
        }
    }
    drawn.sort_unstable();
    drawn
}

/// All starts in one paragraph.
fn summary(starts: &[Start]) -> Option<String> {
    let all = starts.iter().flat_map(|start| {
        let devices = start.devices.iter().enumerate();
        devices.map(move |(index, device)| (start, device, start.peak(index)))
    });
    let share = |device: &Device, bytes: u64| device.total.map_or(0.0, |total| bytes as f64 / total as f64);
    let (start, device, bytes) = all.max_by(|one, other| {
        let shares = share(one.1, one.2).total_cmp(&share(other.1, other.2));
        // Of equal peaks, the first start.
        shares.then(one.2.cmp(&other.2)).then(Ordering::Greater)
    })?;
    let mut text = format!("The fullest device was {}: {}", device.named(), gib_text(bytes));
    if let Some(total) = device.total {
        text += &format!(" of {} ({:.1} %)", gib_text(total), 100.0 * share(device, bytes));
    }
    if starts.len() > 1 {
        text += &format!(", in {}", start.name);
    }
    text += ".";
    let failed = starts.iter().filter(|start| start.failure().is_some()).count();
    let died = starts.iter().filter(|start| start.deaths().next().is_some()).count();
    if starts.len() > 1 || failed + died > 0 {
        let starts = Count(starts.len(), "start");
        text += &format!(" Of {starts}, {failed} did not become ready, and {died} died while serving.");
    }
    Some(text)
}

fn percent(bytes: u64, total: u64) -> f64 {
    rounded(100.0 * bytes as f64 / total as f64, 1)
}

/// A row for each start, with its fullest device and its end.
fn starts_sheet(starts: &[Start]) -> Sheet {
    let or_none = |text: String| if text.is_empty() { Entry::None } else { text.into() };
    let rows = starts.iter().map(|start| {
        let fullest = (0..start.devices.len()).max_by_key(|&device| start.peak(device));
        let bytes = fullest.map(|device| start.peak(device));
        let total = fullest.and_then(|device| start.devices[device].total);
        let ended = match (start.failure(), start.session) {
            (Some(cause), _) => format!("did not start: {cause}"),
            (None, _) if start.deaths().next().is_some() => "died".to_owned(),
            (None, Some(session)) if session.what.is_empty() => "went on".to_owned(),
            (None, Some(_)) => "was stopped".to_owned(),
            (None, None) => String::new(),
        };
        let what = start.session.map(|session| session.what.clone()).unwrap_or_default();
        let ready = start.session.and_then(|session| Some(session.ready? - session.began));
        let failed = start.measurements().iter().filter(|measurement| measurement.fails);
        vec![
            start.name.as_str().into(),
            or_none(what),
            or_none(ended),
            ready.map(|seconds| rounded(seconds, 1)).into(),
            rounded(start.end(), 1).into(),
            bytes.map(gib).into(),
            bytes.zip(total).map(|(bytes, total)| percent(bytes, total)).into(),
            (start.measurements().len() as f64).into(),
            (failed.count() as f64).into(),
        ]
    });
    let columns = [
        "start",
        "engine and limits",
        "how it ended",
        "ready after, s",
        "sampled, s",
        "peak, GiB",
        "of all, %",
        "operations",
        "failed",
    ];
    Sheet::new(columns, rows).titled("All starts")
}
