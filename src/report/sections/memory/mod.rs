//! Memory over time: each engine start by GPU, with phases, limits and deaths. Of many starts, some are drawn, and a
//! table lists all.

mod chart;
mod device;
mod phases;
mod stack;
mod start;
#[cfg(test)]
mod tests;
mod text;

pub(super) use device::{Device, IN_USE, colour, devices};
use start::Start;

use crate::memory::Footprint;
use crate::report::sections::{Section, Source};

/// Columns of all lines together, to keep the page small whatever the number of starts and GPUs.
const MAX_COLUMNS: usize = 9000;

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
    if files.is_empty() {
        if !found.sessions.is_empty() {
            let note = "memory/ has no series: memory over time and peaks by phase are not shown";
            missing.push(note.to_owned());
        }
        return stage_section(source).into_iter().collect();
    }
    let mut starts: Vec<Start> = files.iter().map(|files| Start::read(files, source, missing)).collect();
    let has_samples = |start: &Start| !start.series.rows().is_empty() && !start.devices.is_empty();
    starts.retain(has_samples);
    // By start time, as far as it is known.
    starts.sort_by(|one, other| {
        let began = |start: &Start| start.life.map_or(f64::INFINITY, |life| life.began);
        began(one).total_cmp(&began(other))
    });
    report_lost_series(source, &starts, missing);
    let footprints = found.breakdowns.iter();
    let footprints = footprints.filter_map(|(_, value)| serde_json::from_value::<Footprint>(value.clone()).ok());
    let footprints: Vec<Footprint> = footprints.collect();
    let chosen = starts_to_draw(&starts);
    let lines: usize = chosen.iter().map(|&index| 3 * starts[index].devices.len()).sum();
    let columns = (MAX_COLUMNS / lines.max(1)).clamp(120, 1000);
    let mut section = Section {
        name: "memory".to_owned(),
        title: "Memory over time".to_owned(),
        paragraphs: text::summary(&starts).into_iter().collect(),
        ..Section::default()
    };
    if found.manifest.simulated {
        section.paragraphs.insert(
            0,
            "SIMULATED: memory of a simulated engine; no GPU was measured.".to_owned(),
        );
    }
    for index in &chosen {
        let start = &starts[*index];
        let peaks = phases::phase_peaks(start.series.rows());
        let plot = chart::plot(start, &peaks, &footprints, columns, found.manifest.simulated);
        section.plots.push(plot);
    }
    if chosen.len() < starts.len() {
        section.paragraphs.push(format!(
            "{} of {} starts are drawn: the first, the last, the fullest, and the latest that died. The table has all.",
            chosen.len(),
            starts.len()
        ));
    }
    if starts.len() > 1 {
        section.sheets.push(text::starts_sheet(&starts));
    }
    section.sheets.extend(text::stages_sheet(&found.stages));
    if section.plots.is_empty() && section.sheets.is_empty() {
        return Vec::new();
    }
    vec![section]
}

/// Memory by stage alone, for runs without series.
fn stage_section(source: &Source) -> Option<Section> {
    Some(Section {
        name: "memory".to_owned(),
        title: "Memory by stage".to_owned(),
        sheets: vec![text::stages_sheet(&source.found.stages)?],
        ..Section::default()
    })
}

/// Reports engines whose series were never written because the run was killed.
fn report_lost_series(source: &Source, starts: &[Start], missing: &mut Vec<String>) {
    let read = |life: &&crate::run::EngineSession| {
        starts
            .iter()
            .any(|start| start.life.is_some_and(|own| std::ptr::eq(own, *life)))
    };
    let lost = source
        .found
        .sessions
        .iter()
        .filter(|life| !life.files_written && !read(life))
        .count();
    // A truncated journal cannot assign series to engines, but the series exist.
    let unmatched = starts
        .iter()
        .filter(|start| start.life.is_none_or(|life| !life.files_written))
        .count();
    let lost = match source.found.ends_early {
        true => lost.saturating_sub(unmatched),
        false => lost,
    };
    if lost > 0 {
        let (engines, were) = if lost == 1 {
            ("engine", "was")
        } else {
            ("engines", "were")
        };
        missing.push(format!(
            "memory over time is missing for {lost} {engines} that {were} running when the run was killed"
        ));
    }
}

/// Maximum number of starts drawn.
const MAX_DRAWN: usize = 6;

/// Indices of the starts to draw, ascending.
fn starts_to_draw(starts: &[Start]) -> Vec<usize> {
    if starts.len() <= MAX_DRAWN {
        return (0..starts.len()).collect();
    }
    let died = |start: &Start| start.failure().is_some() || start.deaths().next().is_some();
    let peak = |start: &Start| {
        let devices = 0..start.devices.len();
        devices.map(|device| start.peak(device)).max()
    };
    let fullest = (0..starts.len()).max_by_key(|&index| (peak(&starts[index]), std::cmp::Reverse(index)));
    let mut indices = vec![0, starts.len() - 1];
    indices.extend(fullest);
    // The latest deaths are nearest to the limit that was searched for.
    indices.extend((0..starts.len()).rev().filter(|&index| died(&starts[index])));
    let mut drawn = Vec::new();
    for index in indices {
        if drawn.len() < MAX_DRAWN && !drawn.contains(&index) {
            drawn.push(index);
        }
    }
    drawn.sort_unstable();
    drawn
}
