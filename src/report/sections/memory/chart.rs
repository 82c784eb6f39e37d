//! The chart of a start: a panel for each GPU with memory over time, phases, limits and deaths; below, power and
//! utilisation.

use super::marks::{deaths, failures, gib_text, spots};
use super::phases::{PhasePeak, max_gap, spans};
use super::stack::{Point, stack};
use super::start::{Start, seconds};
use super::{activity, tables, text};
use crate::memory::Footprint;
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, reduced};
use crate::report::sections::components::IN_USE;
use crate::telemetry::Row;
use crate::unit::Unit;

/// With more devices than this, all are lines in one panel.
pub(super) const PANELS: usize = 4;
/// If less than this share of a device was ever in use, the axis does not extend to its capacity.
const MIN_FILL: f64 = 0.25;

/// The chart of a start with samples. Each line is reduced to at most `columns` columns.
pub(super) fn plot(
    start: &Start,
    peaks: &[PhasePeak],
    footprints: &[Footprint],
    columns: usize,
    simulated: bool,
) -> Plot {
    let rows = start.series.rows();
    let end = start.end();
    let (phases, left_out) = spans(rows);
    let phases = start.phased.then_some(Layer::Spans { spans: phases });
    let mut captions: Vec<&str> = Vec::new();
    let mut panels = Vec::new();
    if start.devices.len() <= PANELS {
        for device in 0..start.devices.len() {
            let line = reduced(&curve(rows, device, end), columns);
            let (stacked, caption) = stack(start, device, footprints, &line);
            captions.extend(caption);
            let mut layers: Vec<Layer> = phases.iter().cloned().chain(stacked).collect();
            layers.push(usage_line("in use", line, IN_USE));
            layers.extend(limits(start, device));
            layers.extend(failures(start, device));
            layers.extend(deaths(start));
            panels.push(Panel {
                title: start.devices[device].named(),
                layers,
                spots: spots(start, device, peaks),
                ..frame(end, top(start, &[device]))
            });
        }
    } else {
        let all: Vec<usize> = (0..start.devices.len()).collect();
        let mut layers: Vec<Layer> = phases.into_iter().collect();
        layers.extend(all.iter().zip(0_u8..).map(|(&device, index)| {
            let line = reduced(&curve(rows, device, end), columns);
            usage_line(&start.devices[device].label, line, Colour::Series(index))
        }));
        // Draw a limit that all devices share once.
        let same_total = |device: &usize| start.devices[*device].total == start.devices[0].total;
        if all.iter().all(same_total) {
            layers.extend(limits(start, 0));
        }
        layers.extend(deaths(start));
        let fullest = all
            .iter()
            .copied()
            .max_by_key(|&device| highest(rows, device))
            .unwrap_or(0);
        panels.push(Panel {
            title: format!("{} devices", all.len()),
            layers,
            spots: spots(start, fullest, peaks),
            ..frame(end, top(start, &all))
        });
    }
    panels.extend(activity::panel(start, end, columns));
    if left_out {
        captions.push("Pauses between requests that are too short to be seen are not drawn; the table counts them.");
    }
    captions.dedup();
    if simulated {
        captions.insert(0, "SIMULATED: memory of a simulated engine; no GPU was measured.");
    }
    Plot {
        name: format!("memory-{}", anchor(&start.name)),
        title: format!("Memory of {} over time", start.name),
        words: text::alt_text(start, peaks),
        caption: captions.join(" "),
        panels,
        slider: None,
        sheet: tables::phases(start, peaks),
    }
}

/// A name as an anchor: `a-z`, `0-9` and `-`.
fn anchor(name: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

fn frame(end: f64, top: f64) -> Panel {
    Panel {
        x: Axis {
            label: "time since the launch".to_owned(),
            unit: Unit::Seconds,
            range: Some((0.0, end)),
            ..Axis::default()
        },
        y: Axis {
            label: "memory in use".to_owned(),
            unit: Unit::Bytes,
            range: Some((0.0, top)),
            ..Axis::default()
        },
        ..Panel::default()
    }
}

fn usage_line(name: &str, points: Vec<Point>, colour: Colour) -> Layer {
    Layer::Line {
        name: name.to_owned(),
        points,
        colour,
        dashed: false,
        steps: true,
        dots: false,
        right: false,
    }
}

/// Memory in use on a device. A sample holds until the next one, unless that is too far away.
fn curve(rows: &[Row], device: usize, end: f64) -> Vec<Point> {
    let max_gap_s = max_gap(rows, end);
    let mut points = Vec::with_capacity(rows.len() + 1);
    for (index, row) in rows.iter().enumerate() {
        let used = Some(row.used[device] as f64);
        points.push((seconds(row.from), used));
        let next = rows.get(index + 1);
        let is_gap = next.is_some_and(|next| seconds(next.from.saturating_sub(row.to)) > max_gap_s);
        if is_gap || next.is_none() {
            points.push((seconds(row.to), used));
        }
        if is_gap {
            points.push((seconds(row.to), None));
        }
    }
    points
}

/// The device's capacity, and the budget set by `memory_fraction`.
fn limits(start: &Start, device: usize) -> Vec<Layer> {
    let chosen = &start.devices[device];
    let visible = top(start, &[device]);
    let rule = |name: String, bytes: u64, dashed| Layer::Rule {
        name,
        at: bytes as f64,
        upright: false,
        colour: Colour::Limit,
        dashed,
        right: false,
    };
    let total = chosen
        .total
        .map(|total| rule(format!("capacity: {}", gib_text(total)), total, false));
    let budget = chosen.budget.map(|(fraction, bytes)| {
        let name = format!("memory_fraction {fraction}: {}", gib_text(bytes));
        rule(name, bytes, true)
    });
    let drawn = |layer: &Layer| matches!(layer, Layer::Rule { at, .. } if *at <= visible);
    total.into_iter().chain(budget).filter(drawn).collect()
}

/// The peak of a device.
pub(super) fn highest(rows: &[Row], device: usize) -> u64 {
    rows.iter().map(|row| row.used[device]).max().unwrap_or_default()
}

/// The upper end of the axis: the device's capacity, to show how close memory came; or a bit above the peak, if that is
/// far below.
fn top(start: &Start, devices: &[usize]) -> f64 {
    let rows = start.series.rows();
    let peak = devices
        .iter()
        .map(|&device| highest(rows, device))
        .max()
        .unwrap_or_default() as f64;
    let total = devices.iter().filter_map(|&device| start.devices[device].total).max();
    match total.map(|total| total as f64) {
        Some(total) if peak >= MIN_FILL * total => total.max(peak) * 1.04,
        _ => (peak * 1.2).max(1.0),
    }
}
