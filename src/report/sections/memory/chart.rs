//! The chart of a start: memory by GPU with phases, limits, measurements and deaths, power and utilisation, and the
//! chart in words.

use super::start::{Device, Start, seconds, verdict};
use crate::fmt::{Gib, Unit, gib_number, rounded, slug};
use crate::report::plot::{
    Axis, Colour, Layer, MarkerShape, Marks, Panel, Plot, Span, TooltipPoint, Tooltips, reduced,
};
use crate::run::Measurement;
use crate::telemetry::{DeviceActivity, Phase, SeriesRow};

/// With more devices than this, all are lines in one panel.
const MAX_PANELS: usize = 4;

/// If less than this share of a device was ever in use, the axis does not extend to its capacity.
const MIN_FILL: f64 = 0.25;

/// Maximum number of marks for each kind of measurement.
const MAX_MARKS: usize = 300;

/// A predicate for the measurements of one kind.
type Is = fn(&Measurement) -> bool;

/// The kinds of measurements, with name and marker. Each measurement is marked at its memory peak.
const MEASUREMENTS: [(&str, Colour, MarkerShape, Is); 4] = [
    ("load", Colour::Quiet, MarkerShape::Diamond, |one| one.verdict.is_none()),
    ("inconclusive probe", Colour::Open, MarkerShape::Triangle, |one| {
        !one.fails && one.verdict.as_deref().is_some_and(|verdict| verdict != "ok")
    }),
    ("probe that fits", Colour::Fits, MarkerShape::Circle, |one| {
        !one.fails && one.verdict.as_deref() == Some("ok")
    }),
    ("probe that fails", Colour::Fails, MarkerShape::Cross, |one| one.fails),
];

/// Pauses between requests shorter than this share of a chart are not drawn.
const MIN_SHARE: f64 = 1.0 / 100.0;

/// The chart of a start with samples: a panel for each GPU. Each line is reduced to at most `columns` columns.
pub(super) fn plot(start: &Start, columns: usize) -> Plot {
    let all: Vec<usize> = (0..start.devices.len()).collect();
    let panels: Vec<Panel> = match all.len() {
        ..=MAX_PANELS => all
            .chunks(1)
            .map(|one| panel(start, start.devices[one[0]].named(), one, columns))
            .collect(),
        many => vec![panel(start, format!("{many} devices"), &all, columns)],
    };
    let title = format!("Memory of {} over time", start.name);
    let words = std::iter::once(outcome(start))
        .chain(all.into_iter().map(|device| device_peak(start, device)))
        .chain([sampling_text(start)]);
    let name = format!("memory-{}", slug(&start.name));
    let panels = panels.into_iter().chain(activity(start, columns));
    Plot::new(name, title, panels).with_alt(words.collect::<Vec<_>>().join(" "), sampling_problems(start))
}

/// Power and utilisation of the devices that report them.
fn activity(start: &Start, columns: usize) -> Vec<Panel> {
    let several = start.devices.len() > 1;
    let device_panel = |title: &str, y: Axis, value: fn(&DeviceActivity) -> Option<f64>| {
        let line = |(index, device): (usize, &Device)| {
            let samples = start.activity.iter().flat_map(|sample| {
                let own = sample
                    .devices
                    .iter()
                    .find(|one| one.device == device.id)
                    .and_then(value);
                [(seconds(sample.from), own), (seconds(sample.to), own)]
            });
            let points = reduced(&samples.collect::<Vec<_>>(), columns);
            let name = if several { device.label.as_str() } else { "" };
            let known = points.iter().any(|point| point.1.is_some());
            known.then(|| Layer::line(name, points, colour(start, index)))
        };
        let layers = start.devices.iter().enumerate().filter_map(line);
        let mut panel = Panel::new(title, time_axis(start), y, layers);
        panel.low = true;
        (!panel.layers.is_empty()).then_some(panel)
    };
    let power = device_panel("power", Axis::new("", Unit::Watts), |one| one.power_w);
    let percent = Axis::new("", Unit::Percent).with_range((0.0, 100.0));
    let busy = device_panel("GPU utilisation", percent, |one| one.busy_percent);
    power.into_iter().chain(busy).collect()
}

/// The colour of a device's line. A single device gets a colour that differs from the marks on its line.
fn colour(start: &Start, device: usize) -> Colour {
    match start.devices.len() {
        1 => Colour::Series(4),
        _ => Colour::Series(device),
    }
}

fn time_axis(start: &Start) -> Axis {
    Axis::new("time since the launch", Unit::Seconds).with_range((0.0, start.end()))
}

/// Memory in use on these devices, with their capacity, phases, deaths, probes and loads.
fn panel(start: &Start, title: String, devices: &[usize], columns: usize) -> Panel {
    let (rows, end, first) = (start.series.rows(), start.end(), devices[0]);
    let mut layers: Vec<Layer> = Vec::new();
    layers.push(Layer::new("", Colour::Quiet, Marks::Spans { spans: spans(rows) }));
    layers.extend(devices.iter().map(|&device| {
        let name = match start.devices.len() {
            1 => "in use",
            _ => &start.devices[device].label,
        };
        let line = reduced(&curve(rows, device, end), columns);
        Layer::line(name, line, colour(start, device)).stepped(true)
    }));
    // Limits are drawn once, and only if all devices have the same capacity.
    let total = start.devices[first].total;
    if devices.iter().all(|&device| start.devices[device].total == total) {
        layers.extend(limits(start, devices));
    }
    let mut tooltips = Vec::new();
    for (name, colour, shape, is) in MEASUREMENTS {
        let peaks = peaks(start, devices, is);
        if !peaks.is_empty() {
            let points = peaks.iter().map(|(_, at, bytes)| (*at, *bytes as f64));
            layers.push(Layer::dots(name, points, colour, shape));
        }
        tooltips.extend(peaks.into_iter().map(|(measurement, at, bytes)| {
            let entries = [
                measurement.what.as_str().into(),
                rounded(at, 1).into(),
                gib_number(bytes as f64).into(),
                measurement.verdict.as_ref().map(|_| verdict(measurement)).into(),
            ];
            TooltipPoint::new((at, bytes as f64), entries)
        }));
    }
    layers.extend(deaths(start));
    // The arrow keys step through the tooltips in order of time.
    tooltips.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    let tooltips = Tooltips::new(["what", "at, s", "in use, GiB", "verdict"], tooltips);
    let x = time_axis(start);
    let y = Axis::new("memory in use", Unit::Bytes).with_range((0.0, top(start, devices)));
    Panel::new(title, x, y, layers).with_tooltips(tooltips)
}

/// Memory in use on a device. A sample holds until the next one, unless that is too far away.
fn curve(rows: &[SeriesRow], device: usize, end: f64) -> Vec<(f64, Option<f64>)> {
    let samples: u64 = rows.iter().map(|row| row.samples).sum();
    // Far more than the sampling period, and wide enough to be seen.
    let max_gap = (20.0 * end / samples.max(1) as f64).max(end / 200.0).max(0.5);
    let mut points = Vec::with_capacity(rows.len() + 1);
    for (index, row) in rows.iter().enumerate() {
        let used = Some(row.used[device] as f64);
        points.push((seconds(row.from), used));
        let next = rows.get(index + 1);
        let is_gap = next.is_some_and(|next| seconds(next.from.saturating_sub(row.to)) > max_gap);
        if is_gap || next.is_none() {
            points.push((seconds(row.to), used));
        }
        if is_gap {
            points.push((seconds(row.to), None));
        }
    }
    points
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Baseline => "before",
        Phase::Loading => "loading",
        Phase::Ready => "idle",
        Phase::WarmUp => "warm-up",
        Phase::Load => "load",
        Phase::After => "after",
    }
}

/// The phases as spans. Pauses between requests that are too short to be seen are merged into the phase before them.
pub(super) fn spans(rows: &[SeriesRow]) -> Vec<Span> {
    let end = rows.last().map_or(0, |row| row.to);
    let shortest = seconds(end) * MIN_SHARE;
    // A sample holds until the next one.
    let until = |index: usize| rows.get(index + 1).map_or(end, |next| next.from);
    let mut spans: Vec<Span> = Vec::new();
    let indices: Vec<usize> = (0..rows.len()).collect();
    for group in indices.chunk_by(|a, b| rows[*a].phase == rows[*b].phase) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let (from, to) = (seconds(rows[first].from), seconds(until(last)));
        let phase = rows[first].phase;
        let label = phase_name(phase).to_owned();
        match spans.last_mut() {
            _ if to <= from => {}
            Some(before) if before.label == label => before.to = to,
            Some(before) if phase == Phase::Ready && to - from < shortest => before.to = to,
            _ => spans.push(Span { from, to, label }),
        }
    }
    spans
}

/// The capacity of devices, and the budget set by `memory_fraction`.
fn limits(start: &Start, devices: &[usize]) -> Vec<Layer> {
    let device = &start.devices[devices[0]];
    let limit = |name: String, bytes: u64, dashed: bool| {
        let name = format!("{name}: {}", Gib::from(bytes));
        let rule = Layer::horizontal_rule(name, bytes as f64, Colour::Limit).dashed(dashed);
        (bytes as f64 <= top(start, devices)).then_some(rule)
    };
    let total = device
        .total
        .and_then(|total| limit("capacity".to_owned(), total, false));
    let budget = device
        .budget
        .and_then(|(fraction, bytes)| limit(format!("memory_fraction {fraction}"), bytes, true));
    total.into_iter().chain(budget).collect()
}

/// The upper end of a memory axis: the capacity, to show how much memory was left, or slightly above the peak if
/// the peak is far below the capacity.
pub(in crate::report::sections) fn memory_top(peak: f64, capacity: Option<u64>) -> f64 {
    match capacity.map(|capacity| capacity as f64) {
        Some(capacity) if peak >= MIN_FILL * capacity => capacity.max(peak) * 1.04,
        _ => (peak * 1.2).max(1.0),
    }
}

fn top(start: &Start, devices: &[usize]) -> f64 {
    let peak = devices.iter().map(|&device| start.peak(device)).max();
    let capacity = devices.iter().filter_map(|&device| start.devices[device].total).max();
    memory_top(peak.unwrap_or_default() as f64, capacity)
}

/// Vertical lines at deaths.
fn deaths(start: &Start) -> Vec<Layer> {
    let end = start.end();
    let failed = start
        .failure()
        .zip(start.session.and_then(|session| session.ended))
        .map(|(cause, at)| (start.at(at).unwrap_or(end), format!("did not start: {cause}")));
    let died = start
        .deaths()
        .filter_map(|one| Some((start.at(one.to)?, format!("died: {}", verdict(one)))));
    let all = failed.into_iter().chain(died);
    all.map(|(at, label)| Layer::vertical_rule(label, at.min(end), Colour::Limit))
        .collect()
}

/// The measurements of a kind with time and size of the memory peak during each, at most [`MAX_MARKS`] of them, evenly
/// spaced.
fn peaks<'a>(start: &Start<'a>, devices: &[usize], is: Is) -> Vec<(&'a Measurement, f64, u64)> {
    let all = start.measurements().iter().filter(|measurement| is(measurement));
    let every = all.clone().count().div_ceil(MAX_MARKS).max(1);
    let peak = |one| peak_during(start, devices, one).map(|(at, bytes)| (one, at, bytes));
    all.step_by(every).filter_map(peak).collect()
}

/// Time and size of the memory peak of the fullest of some devices during a measurement.
fn peak_during(start: &Start, devices: &[usize], measurement: &Measurement) -> Option<(f64, u64)> {
    let (from, to) = start.at(measurement.from).zip(start.at(measurement.to))?;
    let rows = start.series.rows();
    // The last sample before it began still applies.
    let begin = rows.partition_point(|row| seconds(row.from) <= from).saturating_sub(1);
    let end = rows.partition_point(|row| seconds(row.from) <= to).max(begin + 1);
    let during = rows.get(begin..end)?;
    let used = |row: &SeriesRow| devices.iter().map(|&device| row.used[device]).max();
    let bytes = during.iter().filter_map(used).max()?;
    let row = during.iter().find(|row| used(row) == Some(bytes))?;
    Some((seconds(row.from).max(from), bytes))
}

/// Says how a start ended: `engine-1 was sampled for 61.7 s.`
fn outcome(start: &Start) -> String {
    let (name, end) = (&start.name, start.end());
    let what = start
        .session
        .map(|session| &session.what)
        .filter(|what| !what.is_empty())
        .map_or_else(String::new, |what| format!(" ({what})"));
    if let Some(cause) = start.failure() {
        return format!("{name}{what} did not start: {cause}; it was sampled for {end:.1} s.");
    }
    let deaths = start
        .deaths()
        .map(|one| format!("; it died during {}: {}", one.what, verdict(one)));
    format!("{name}{what} was sampled for {end:.1} s{}.", deaths.collect::<String>())
}

pub(super) fn device_peak(start: &Start, index: usize) -> String {
    let device = &start.devices[index];
    let bytes = start.peak(index);
    let row = start.series.rows().iter().find(|row| row.used[index] == bytes);
    let mut text = format!("On {} at most {} was in use", device.named(), Gib::from(bytes));
    if let Some(total) = device.total {
        let (share, left) = (100.0 * bytes as f64 / total as f64, total.saturating_sub(bytes));
        text += &format!(", {share:.1} % of {}: {} were left", Gib::from(total), Gib::from(left));
    }
    if let Some(row) = row {
        text += &format!(" (at {:.1} s, {})", seconds(row.from), phase_name(row.phase));
    }
    if let Some((fraction, budget)) = device.budget {
        let word = if bytes > budget { "above" } else { "below" };
        let (distance, budget) = (Gib::from(bytes.abs_diff(budget)), Gib::from(budget));
        text += &format!(". That is {distance} {word} memory_fraction {fraction}, which is {budget}");
    }
    text + "."
}

fn sampling_text(start: &Start) -> String {
    let samples: u64 = start.series.rows().iter().map(|row| row.samples).sum();
    let rate = samples as f64 / start.end().max(1e-3);
    format!("{samples} samples, {rate:.0} per second.")
}

/// Describes skipped and failed samples; empty if there were none.
fn sampling_problems(start: &Start) -> String {
    let sampling = &start.sampling;
    let mut sentences = Vec::new();
    if sampling.lost > 0 {
        let lost = sampling.lost;
        sentences.push(format!(
            "Samples of memory skipped: {lost}, as the machine was busy: a short peak may be missing."
        ));
    }
    if sampling.errors > 0 {
        let why = sampling.last_error.as_deref().unwrap_or("for an unknown reason");
        sentences.push(format!(
            "Samples of memory failed: {}, the last one: {why}.",
            sampling.errors
        ));
    }
    sentences.join(" ")
}
