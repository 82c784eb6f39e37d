//! Memory over time: each engine's life, GPU by GPU, with its phases, its limit and its deaths.

mod activity;
mod chosen;
mod crests;
mod device;
mod files;
mod marks;
mod picture;
mod sheets;
mod stack;
mod start;
#[cfg(test)]
mod tests;
mod words;

use super::{Part, Source};
use crate::memory::Footprint;
pub(super) use device::{Device, devices};
pub(super) use marks::{gib, rounded, shown};
use start::Start;

/// Columns of all lines together: as many as leave the page small, however many starts and GPUs there are.
const COLUMNS: usize = 9000;

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
    let found = source.found;
    let files = match files::files(&source.folder) {
        Ok(files) => files,
        Err(fault) => {
            missing.push(format!("{}: no memory over time is told", fault.message));
            return Vec::new();
        }
    };
    if files.is_empty() {
        if !found.lives.is_empty() {
            let note = "memory/ has no series: neither memory over time nor its peaks by phase are told";
            missing.push(note.to_owned());
        }
        return stages(source).into_iter().collect();
    }
    let mut starts: Vec<Start> = files.iter().map(|files| Start::read(files, source, missing)).collect();
    let seen = |start: &Start| !start.series.rows().is_empty() && !start.devices.is_empty();
    starts.retain(seen);
    // In the order in which they were started, as far as that is known.
    starts.sort_by(|one, other| {
        let began = |start: &Start| start.life.map_or(f64::INFINITY, |life| life.began);
        began(one).total_cmp(&began(other))
    });
    unwritten(source, &starts, missing);
    let footprints = found.breakdowns.iter();
    let footprints = footprints.filter_map(|(_, value)| serde_json::from_value::<Footprint>(value.clone()).ok());
    let footprints: Vec<Footprint> = footprints.collect();
    let chosen = chosen::chosen(&starts);
    let lines: usize = chosen.iter().map(|&index| 3 * starts[index].devices.len()).sum();
    let columns = (COLUMNS / lines.max(1)).clamp(120, 1000);
    let mut part = Part {
        name: "memory".to_owned(),
        title: "Memory over time".to_owned(),
        paragraphs: words::together(&starts).into_iter().collect(),
        ..Part::default()
    };
    if found.manifest.simulated {
        part.paragraphs.insert(
            0,
            "SIMULATED: the memory of a model of an engine; no GPU was looked at.".to_owned(),
        );
    }
    for index in &chosen {
        let start = &starts[*index];
        let crests = crests::crests(start.series.rows());
        let plot = picture::plot(start, &crests, &footprints, columns, found.manifest.simulated);
        part.plots.push(plot);
    }
    if chosen.len() < starts.len() {
        part.paragraphs.push(format!(
            "{} of {} starts are drawn: the first, the last, the fullest, and the latest that died. The table has all.",
            chosen.len(),
            starts.len()
        ));
    }
    if starts.len() > 1 {
        part.sheets.push(sheets::starts(&starts));
    }
    part.sheets.extend(sheets::stages(&found.stages));
    if part.plots.is_empty() && part.sheets.is_empty() {
        return Vec::new();
    }
    vec![part]
}

/// The stages alone, where no series is there.
fn stages(source: &Source) -> Option<Part> {
    Some(Part {
        name: "memory".to_owned(),
        title: "Memory by stage".to_owned(),
        sheets: vec![sheets::stages(&source.found.stages)?],
        ..Part::default()
    })
}

/// Tells of engines whose series was never written: the run was killed while they ran.
fn unwritten(source: &Source, starts: &[Start], missing: &mut Vec<String>) {
    let read = |life: &&crate::run::Life| {
        starts
            .iter()
            .any(|start| start.life.is_some_and(|own| std::ptr::eq(own, *life)))
    };
    let lost = source
        .found
        .lives
        .iter()
        .filter(|life| !life.kept && !read(life))
        .count();
    // A journal that lost its end does not tell which series is whose; the series are there nevertheless.
    let unclaimed = starts
        .iter()
        .filter(|start| start.life.is_none_or(|life| !life.kept))
        .count();
    let lost = match source.found.ends_early {
        true => lost.saturating_sub(unclaimed),
        false => lost,
    };
    if lost > 0 {
        let (engines, were) = if lost == 1 {
            ("engine", "was")
        } else {
            ("engines", "were")
        };
        missing.push(format!(
            "the memory of {lost} {engines} that {were} running when the run was cut off was never written: it is not told"
        ));
    }
}
