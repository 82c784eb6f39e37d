//! Events on the time axis of a start: deaths, failed probes and phase peaks, as marks and as tooltips.

use super::phases::{PhasePeak, phase_name};
use super::start::{Start, seconds};
use crate::memory::compare::Gib;
use crate::report::plot::{Colour, Entry, Layer, Moment, Shape, TooltipPoint, Tooltips};
use crate::run::Measurement;

/// Maximum number of marks of one kind; the table has all.
const MAX_MARKS: usize = 300;

/// Vertical lines at deaths.
pub(super) fn deaths(start: &Start) -> Option<Layer> {
    let mut moments = Vec::new();
    if let Some((cause, at)) = start.failure().zip(start.life.and_then(|life| life.ended)) {
        let at = start.at(at).unwrap_or_else(|| start.end()).min(start.end());
        let label = format!("did not start: {cause}");
        moments.push(Moment { at, label });
    }
    for operation in start.deaths() {
        let Some(at) = start.at(operation.to) else { continue };
        let label = format!("died: {}", verdict(operation));
        moments.push(Moment {
            at: at.min(start.end()),
            label,
        });
    }
    let colour = Colour::Limit;
    (!moments.is_empty()).then_some(Layer::Moments { moments, colour })
}

/// A cross at the memory peak during each failed probe.
pub(super) fn failures(start: &Start, device: usize) -> Option<Layer> {
    let places = thinned(operation(start).filter(|operation| operation.fails).collect());
    let points: Vec<(f64, f64)> = places
        .iter()
        .filter_map(|operation| peak_during(start, device, operation))
        .map(|(at, bytes)| (at, bytes as f64))
        .collect();
    (!points.is_empty()).then(|| Layer::Dots {
        name: "failing probe".to_owned(),
        points,
        colour: Colour::Fails,
        shape: Shape::Cross,
    })
}

/// Tooltips for phase peaks and operations, in the order of time.
pub(super) fn spots(start: &Start, device: usize, peaks: &[PhasePeak]) -> Tooltips {
    let total = start.devices[device].total;
    let spot = |what: String, at: f64, bytes: u64, verdict: Entry| TooltipPoint {
        at: (at, bytes as f64),
        entries: vec![
            what.into(),
            rounded(at, 1).into(),
            gib(bytes).into(),
            total
                .map(|total| rounded(100.0 * bytes as f64 / total as f64, 1))
                .into(),
            verdict,
        ],
    };
    let phase_spots = peaks.iter().map(|peak| {
        let (bytes, at) = peak.highest[device];
        spot(format!("peak while {}", phase_name(peak.phase)), at, bytes, Entry::None)
    });
    let (fails, rest): (Vec<&Measurement>, Vec<&Measurement>) = operation(start).partition(|operation| operation.fails);
    let failed = thinned(fails).into_iter().chain(thinned(rest)).filter_map(|operation| {
        let (at, bytes) = peak_during(start, device, operation)?;
        let verdict = operation.verdict.as_ref().map(|_| verdict(operation));
        Some(spot(operation.what.clone(), at, bytes, verdict.into()))
    });
    let mut spots: Vec<TooltipPoint> = phase_spots.chain(failed).collect();
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    Tooltips {
        columns: ["what", "at, s", "in use, GiB", "of all, %", "verdict"]
            .map(str::to_owned)
            .to_vec(),
        spots,
    }
}

fn operation<'a>(start: &Start<'a>) -> impl Iterator<Item = &'a Measurement> {
    start.life.map_or(&[][..], |life| &life.measurements).iter()
}

/// A verdict with its cause: `oom (cuda)`.
pub(super) fn verdict(operation: &Measurement) -> String {
    let verdict = operation.verdict.as_deref().unwrap_or("no verdict");
    match &operation.cause {
        Some(cause) => format!("{verdict} ({cause})"),
        None => verdict.to_owned(),
    }
}

/// Time and size of a device's memory peak during an operation.
fn peak_during(start: &Start, device: usize, operation: &Measurement) -> Option<(f64, u64)> {
    let (from, to) = start.at(operation.from).zip(start.at(operation.to))?;
    let rows = start.series.rows();
    // The last sample before it began still applies.
    let begin = rows.partition_point(|row| seconds(row.from) <= from).saturating_sub(1);
    let end = rows.partition_point(|row| seconds(row.from) <= to).max(begin + 1);
    let rows = rows.get(begin..end)?;
    let bytes = rows.iter().map(|row| row.used[device]).max()?;
    let row = rows.iter().find(|row| row.used[device] == bytes)?;
    Some((seconds(row.from).max(from), bytes))
}

/// At most [`MAX_MARKS`] elements, evenly spaced.
fn thinned<T>(all: Vec<T>) -> Vec<T> {
    let every = all.len().div_ceil(MAX_MARKS).max(1);
    all.into_iter().step_by(every).collect()
}

pub(in crate::report::sections) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// GiB rounded for tables.
pub(in crate::report::sections) fn gib(bytes: u64) -> f64 {
    let gib = bytes as f64 / f64::from(1 << 30);
    rounded(gib, if gib < 0.1 { 4 } else { 2 })
}

pub(in crate::report::sections) fn gib_text(bytes: u64) -> String {
    Gib(i64::try_from(bytes).unwrap_or(i64::MAX)).to_string()
}
