//! The chart of a start: a panel for each GPU with memory over time, phases, limits, deaths and failed probes; below,
//! power and utilisation.

use crate::memory::Footprint;
use crate::report::plot::{Axis, Colour, Entry, Layer, Moment, Panel, Plot, Shape, TooltipPoint, Tooltips, reduced};
use crate::report::sections::format::{anchor, gib, gib_text, rounded};
use crate::report::sections::memory::device::IN_USE;
use crate::report::sections::memory::phases::{PhasePeak, max_gap, phase_name, spans};
use crate::report::sections::memory::stack::{Point, stack};
use crate::report::sections::memory::start::{Start, seconds, verdict};
use crate::report::sections::memory::text;
use crate::run::Measurement;
use crate::telemetry::{ActivitySample, DeviceActivity, Row};
use crate::unit::Unit;

/// With more devices than this, all are lines in one panel.
const MAX_PANELS: usize = 4;
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
    if start.devices.len() <= MAX_PANELS {
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
            .max_by_key(|&device| start.peak(device))
            .unwrap_or(0);
        panels.push(Panel {
            title: format!("{} devices", all.len()),
            layers,
            spots: spots(start, fullest, peaks),
            ..frame(end, top(start, &all))
        });
    }
    panels.extend(activity_panel(start, end, columns));
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
        sheet: text::phases_sheet(start, peaks),
    }
}

fn frame(end: f64, top: f64) -> Panel {
    Panel {
        x: Axis::new("time since the launch", Unit::Seconds).with_range((0.0, end)),
        y: Axis::new("memory in use", Unit::Bytes).with_range((0.0, top)),
        ..Panel::default()
    }
}

fn usage_line(name: &str, points: Vec<Point>, colour: Colour) -> Layer {
    Layer::line(name, points, colour).stepped(true)
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
    let rule =
        |name: String, bytes: u64, dashed| Layer::horizontal_rule(name, bytes as f64, Colour::Limit).dashed(dashed);
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

/// The upper end of the axis: the device's capacity, to show how close memory came; or a bit above the peak, if that is
/// far below.
fn top(start: &Start, devices: &[usize]) -> f64 {
    let peak = devices
        .iter()
        .map(|&device| start.peak(device))
        .max()
        .unwrap_or_default() as f64;
    let total = devices.iter().filter_map(|&device| start.devices[device].total).max();
    match total.map(|total| total as f64) {
        Some(total) if peak >= MIN_FILL * total => total.max(peak) * 1.04,
        _ => (peak * 1.2).max(1.0),
    }
}

/// Maximum number of marks of one kind; the table has all.
const MAX_MARKS: usize = 300;

/// Vertical lines at deaths.
fn deaths(start: &Start) -> Option<Layer> {
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
fn failures(start: &Start, device: usize) -> Option<Layer> {
    let places = thinned(operation(start).filter(|operation| operation.fails).collect());
    let points: Vec<(f64, f64)> = places
        .iter()
        .filter_map(|operation| peak_during(start, device, operation))
        .map(|(at, bytes)| (at, bytes as f64))
        .collect();
    (!points.is_empty()).then(|| Layer::dots("failing probe", points, Colour::Fails, Shape::Cross))
}

/// Tooltips for phase peaks and operations, in the order of time.
fn spots(start: &Start, device: usize, peaks: &[PhasePeak]) -> Tooltips {
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
    Tooltips::new(["what", "at, s", "in use, GiB", "of all, %", "verdict"], spots)
}

fn operation<'a>(start: &Start<'a>) -> impl Iterator<Item = &'a Measurement> {
    start.life.map_or(&[][..], |life| &life.measurements).iter()
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

/// With more devices than this, their mean utilisation is drawn.
const MAX_DEVICE_LINES: usize = 4;

/// The panel; none if no driver reported anything.
fn activity_panel(start: &Start, end: f64, columns: usize) -> Option<Panel> {
    let devices = &start.devices;
    let power = |doing: &DeviceActivity| doing.power_w;
    let busy = |doing: &DeviceActivity| doing.busy_percent;
    let several = devices.len() > 1;
    let named = |what: &str, label: &str| {
        if several {
            format!("{what}, {label}")
        } else {
            what.to_owned()
        }
    };
    let mut layers = Vec::new();
    for (device, index) in devices.iter().zip(0_u8..) {
        let drawn = points(&start.moments, columns, |moment| of(moment, &device.id, power));
        layers.extend(line(named("power", &device.label), drawn, Colour::Series(index), false));
    }
    let has_power = !layers.is_empty();
    if devices.len() > MAX_DEVICE_LINES {
        let mean = |moment: &ActivitySample| {
            let known: Vec<f64> = moment.devices.iter().filter_map(busy).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let drawn = points(&start.moments, columns, mean);
        layers.extend(line("busy, mean of all".to_owned(), drawn, Colour::Quiet, has_power));
    } else {
        for (device, index) in devices.iter().zip(0_u8..) {
            let drawn = points(&start.moments, columns, |moment| of(moment, &device.id, busy));
            layers.extend(line(
                named("busy", &device.label),
                drawn,
                Colour::Series(if several { index } else { 1 }),
                has_power,
            ));
        }
    }
    let axis = |label: &str, unit, range| Axis::new(label, unit).with_range(range);
    let share = || axis("busy", Unit::Percent, Some((0.0, 100.0)));
    (!layers.is_empty()).then(|| Panel {
        x: axis("time", Unit::Seconds, Some((0.0, end))),
        y: if has_power {
            axis("power", Unit::Watts, Some((0.0, highest_power(&layers) * 1.1)))
        } else {
            share()
        },
        right: (has_power && layers.iter().any(is_right)).then(share),
        layers,
        ..Panel::default()
    })
}

fn of(moment: &ActivitySample, id: &str, value: fn(&DeviceActivity) -> Option<f64>) -> Option<f64> {
    moment.devices.iter().find(|doing| doing.device == id).and_then(value)
}

fn points(
    moments: &[ActivitySample],
    columns: usize,
    value: impl Fn(&ActivitySample) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    let all: Vec<_> = moments
        .iter()
        .map(|moment| (seconds(moment.from), value(moment)))
        .collect();
    reduced(&all, columns)
}

fn line(name: String, points: Vec<(f64, Option<f64>)>, colour: Colour, right: bool) -> Option<Layer> {
    points
        .iter()
        .any(|point| point.1.is_some())
        .then_some(Layer::line(name, points, colour).dashed(right).on_right_axis(right))
}

fn is_right(layer: &Layer) -> bool {
    matches!(layer, Layer::Line { right: true, .. })
}

/// The highest power; at least 1 W, so that there is a scale.
fn highest_power(layers: &[Layer]) -> f64 {
    let values = layers.iter().flat_map(|layer| match layer {
        Layer::Line {
            points, right: false, ..
        } => points.as_slice(),
        _ => &[],
    });
    values.filter_map(|point| point.1).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::*;
    use crate::telemetry::Phase;

    fn start(devices: usize, power: Option<f64>, busy: Option<f64>) -> Start<'static> {
        let ids: Vec<String> = (0..devices).map(|index| format!("g{index}")).collect();
        let doing = |id: &String| DeviceActivity {
            device: id.clone(),
            power_w: power,
            busy_percent: busy,
        };
        let moment = |at| ActivitySample {
            from: at,
            to: at,
            phase: Phase::Load,
            looks: 1,
            devices: ids.iter().map(doing).collect(),
        };
        let device = |id: &String| Device {
            id: id.clone(),
            label: id.to_uppercase(),
            ..Device::default()
        };
        Start {
            devices: ids.iter().map(device).collect(),
            moments: (0..9).map(moment).collect(),
            ..Start::default()
        }
    }

    #[test]
    fn unreported_metrics_are_not_drawn() {
        assert_eq!(activity_panel(&start(1, None, None), 9.0, 10), None);
        let panel = activity_panel(&start(1, None, Some(50.0)), 9.0, 10).unwrap();
        assert_eq!(
            (panel.y.unit, panel.right, panel.layers.len()),
            (Unit::Percent, None, 1)
        );
    }

    #[test]
    fn mean_of_many_devices_is_drawn() {
        let names = |devices| -> Vec<String> {
            let panel = activity_panel(&start(devices, Some(70.0), Some(50.0)), 9.0, 10).unwrap();
            assert_eq!(panel.right.unwrap().unit, Unit::Percent);
            let name = |layer: &Layer| match layer {
                Layer::Line { name, .. } => name.clone(),
                _ => String::new(),
            };
            panel.layers.iter().map(name).collect()
        };
        assert_eq!(names(1), ["power", "busy"]);
        assert_eq!(names(2), ["power, G0", "power, G1", "busy, G0", "busy, G1"]);
        assert_eq!(names(8).len(), 9);
    }
}
