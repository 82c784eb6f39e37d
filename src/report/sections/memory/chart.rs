//! The chart of a start: a panel for each GPU with memory over time, phases, limits, deaths and failed probes; below,
//! power and utilisation; the same in words, and the phases as a table.

use super::phases::{PhasePeak, max_gap, phase_name, phase_peaks, sampling, spans};
use super::stack::{IN_USE, Point, stack};
use super::start::{Device, Start, seconds, verdict};
use super::{SIMULATED, percent};
use crate::memory::Footprint;
use crate::report::plot::{
    Axis, Colour, Entry, Layer, Moment, Panel, Plot, Shape, Sheet, TooltipPoint, Tooltips, reduced,
};
use crate::report::sections::format::{anchor, gib, gib_text, rounded};
use crate::run::Measurement;
use crate::telemetry::{ActivitySample, DeviceActivity, Row};
use crate::unit::Unit;

/// With more devices than this, all are lines in one panel, and their mean utilisation is drawn.
const MAX_PANELS: usize = 4;
/// If less than this share of a device was ever in use, the axis does not extend to its capacity.
const MIN_FILL: f64 = 0.25;
/// Maximum number of marks of one kind; the table has all.
const MAX_MARKS: usize = 300;

/// The chart of a start with samples. Each line is reduced to at most `columns` columns.
pub(super) fn plot(start: &Start, footprints: &[Footprint], columns: usize, simulated: bool) -> Plot {
    let rows = start.series.rows();
    let peaks = phase_peaks(rows);
    let end = start.end();
    let (phases, left_out) = spans(rows);
    let phases = start.phased.then_some(Layer::Spans { spans: phases });
    let line = |device: usize| reduced(&curve(rows, device, end), columns);
    let panel = |title: String, layers: Vec<Layer>, devices: &[usize]| {
        let fullest = devices.iter().copied().max_by_key(|&device| start.peak(device));
        let x = Axis::new("time since the launch", Unit::Seconds).with_range((0.0, end));
        let y = Axis::new("memory in use", Unit::Bytes).with_range((0.0, top(start, devices)));
        let layers = phases.iter().cloned().chain(layers).chain(deaths(start));
        Panel::new(title, x, y, layers).with_tooltips(tooltips(start, fullest.unwrap_or(0), &peaks))
    };
    let mut captions: Vec<&str> = Vec::new();
    let mut panels = Vec::new();
    let all: Vec<usize> = (0..start.devices.len()).collect();
    if all.len() <= MAX_PANELS {
        for &device in &all {
            let line = line(device);
            let (layers, caption) = stack(start, device, footprints, &line).unzip();
            captions.extend(caption);
            let mut layers: Vec<Layer> = layers.unwrap_or_default();
            layers.push(Layer::line("in use", line, IN_USE).stepped(true));
            layers.extend(limits(start, device));
            layers.extend(failures(start, device));
            panels.push(panel(start.devices[device].named(), layers, &[device]));
        }
    } else {
        let lines = start.devices.iter().enumerate();
        let lines =
            lines.map(|(device, one)| Layer::line(&*one.label, line(device), Colour::series(device)).stepped(true));
        let mut layers: Vec<Layer> = lines.collect();
        // Draw a limit that all devices share once.
        if start
            .devices
            .iter()
            .all(|device| device.total == start.devices[0].total)
        {
            layers.extend(limits(start, 0));
        }
        panels.push(panel(format!("{} devices", all.len()), layers, &all));
    }
    panels.extend(activity_panel(start, end, columns));
    if left_out {
        captions.push("Pauses between requests that are too short to be seen are not drawn; the table counts them.");
    }
    captions.dedup();
    let captions: Vec<&str> = simulated.then_some(SIMULATED).into_iter().chain(captions).collect();
    let title = format!("Memory of {} over time", start.name);
    Plot::new(format!("memory-{}", anchor(&start.name)), title, panels)
        .with_words(alt_text(start, &peaks), captions.join(" "))
        .with_sheet(phases_sheet(start, &peaks))
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
    let visible = top(start, &[device]);
    let device = &start.devices[device];
    let total = device
        .total
        .map(|total| (format!("capacity: {}", gib_text(total)), total, false));
    let budget = device.budget.map(|(fraction, bytes)| {
        let name = format!("memory_fraction {fraction}: {}", gib_text(bytes));
        (name, bytes, true)
    });
    let limits = total
        .into_iter()
        .chain(budget)
        .filter(|limit| limit.1 as f64 <= visible);
    limits
        .map(|(name, bytes, dashed)| Layer::horizontal_rule(name, bytes as f64, Colour::Limit).dashed(dashed))
        .collect()
}

/// The upper end of the axis: the device's capacity, to show how close memory came; or a bit above the peak, if that is
/// far below.
fn top(start: &Start, devices: &[usize]) -> f64 {
    let peak = devices.iter().map(|&device| start.peak(device)).max();
    let peak = peak.unwrap_or_default() as f64;
    let total = devices.iter().filter_map(|&device| start.devices[device].total).max();
    match total.map(|total| total as f64) {
        Some(total) if peak >= MIN_FILL * total => total.max(peak) * 1.04,
        _ => (peak * 1.2).max(1.0),
    }
}

/// Vertical lines at deaths.
fn deaths(start: &Start) -> Option<Layer> {
    let end = start.end();
    let failed = start.failure().zip(start.session.and_then(|session| session.ended));
    let failed = failed.map(|(cause, at)| (start.at(at).unwrap_or(end), format!("did not start: {cause}")));
    let died = start
        .deaths()
        .filter_map(|measurement| Some((start.at(measurement.to)?, format!("died: {}", verdict(measurement)))));
    let moments = failed
        .into_iter()
        .chain(died)
        .map(|(at, label)| Moment { at: at.min(end), label });
    let moments: Vec<Moment> = moments.collect();
    let colour = Colour::Limit;
    (!moments.is_empty()).then_some(Layer::Moments { moments, colour })
}

/// The probes and loads that failed, or those that did not, at most [`MAX_MARKS`] of them, evenly spaced.
fn measurements<'a>(start: &Start<'a>, fails: bool) -> Vec<&'a Measurement> {
    let all = start
        .measurements()
        .iter()
        .filter(|measurement| measurement.fails == fails);
    let every = all.clone().count().div_ceil(MAX_MARKS).max(1);
    all.step_by(every).collect()
}

/// A cross at the memory peak during each failed probe.
fn failures(start: &Start, device: usize) -> Option<Layer> {
    let failed = measurements(start, true).into_iter();
    let points = failed.filter_map(|measurement| peak_during(start, device, measurement));
    let points: Vec<(f64, f64)> = points.map(|(at, bytes)| (at, bytes as f64)).collect();
    (!points.is_empty()).then(|| Layer::dots("failing probe", points, Colour::Fails, Shape::Cross))
}

/// Time and size of a device's memory peak during a measurement.
fn peak_during(start: &Start, device: usize, measurement: &Measurement) -> Option<(f64, u64)> {
    let (from, to) = start.at(measurement.from).zip(start.at(measurement.to))?;
    let rows = start.series.rows();
    // The last sample before it began still applies.
    let begin = rows.partition_point(|row| seconds(row.from) <= from).saturating_sub(1);
    let end = rows.partition_point(|row| seconds(row.from) <= to).max(begin + 1);
    let rows = rows.get(begin..end)?;
    let bytes = rows.iter().map(|row| row.used[device]).max()?;
    let row = rows.iter().find(|row| row.used[device] == bytes)?;
    Some((seconds(row.from).max(from), bytes))
}

/// Tooltips for phase peaks and measurements, in the order of time.
fn tooltips(start: &Start, device: usize, peaks: &[PhasePeak]) -> Tooltips {
    let total = start.devices[device].total;
    let spot = |what: String, (at, bytes): (f64, u64), verdict: Entry| {
        let share = total.map(|total| percent(bytes, total));
        let entries = [
            what.into(),
            rounded(at, 1).into(),
            gib(bytes).into(),
            share.into(),
            verdict,
        ];
        TooltipPoint::new((at, bytes as f64), entries)
    };
    let of_phases = peaks.iter().map(|peak| {
        let (bytes, at) = peak.highest[device];
        spot(
            format!("peak while {}", phase_name(peak.phase)),
            (at, bytes),
            Entry::None,
        )
    });
    let both = measurements(start, true).into_iter().chain(measurements(start, false));
    let measured = both.filter_map(|measurement| {
        let verdict = measurement.verdict.as_ref().map(|_| verdict(measurement));
        Some(spot(
            measurement.what.clone(),
            peak_during(start, device, measurement)?,
            verdict.into(),
        ))
    });
    let mut spots: Vec<TooltipPoint> = of_phases.chain(measured).collect();
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    Tooltips::new(["what", "at, s", "in use, GiB", "of all, %", "verdict"], spots)
}

/// Power and utilisation; none if no driver reported anything.
fn activity_panel(start: &Start, end: f64, columns: usize) -> Option<Panel> {
    type Value = fn(&DeviceActivity) -> Option<f64>;
    let devices = &start.devices;
    let several = devices.len() > 1;
    let line = |name: String, colour, right, value: &dyn Fn(&ActivitySample) -> Option<f64>| {
        let points = start
            .activity
            .iter()
            .map(|sample| (seconds(sample.from), value(sample)));
        let points: Vec<Point> = points.collect();
        let known = points.iter().any(|point| point.1.is_some());
        known.then(|| {
            Layer::line(name, reduced(&points, columns), colour)
                .dashed(right)
                .on_right_axis(right)
        })
    };
    let lines = |what: &str, first: usize, right: bool, value: Value| -> Vec<Layer> {
        let lines = devices.iter().enumerate().filter_map(|(index, device)| {
            let name = if several {
                format!("{what}, {}", device.label)
            } else {
                what.to_owned()
            };
            let colour = Colour::series(if several { index } else { first });
            line(name, colour, right, &|sample| {
                value(sample.devices.iter().find(|one| one.device == device.id)?)
            })
        });
        lines.collect()
    };
    let mut layers = lines("power", 0, false, |device| device.power_w);
    let has_power = !layers.is_empty();
    let busy = match devices.len() > MAX_PANELS {
        true => line("busy, mean of all".to_owned(), Colour::Quiet, has_power, &|sample| {
            let known: Vec<f64> = sample.devices.iter().filter_map(|device| device.busy_percent).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
        .into_iter()
        .collect(),
        false => lines("busy", 1, has_power, |device| device.busy_percent),
    };
    let share = Axis::new("busy", Unit::Percent).with_range((0.0, 100.0));
    let power = start
        .activity
        .iter()
        .flat_map(|sample| &sample.devices)
        .filter_map(|device| device.power_w);
    let watts = Axis::new("power", Unit::Watts).with_range((0.0, power.fold(1.0, f64::max) * 1.1));
    let x = Axis::new("time", Unit::Seconds).with_range((0.0, end));
    let (y, right) = match (has_power, busy.is_empty()) {
        (false, _) => (share, None),
        (true, true) => (watts, None),
        (true, false) => (watts, Some(share)),
    };
    layers.extend(busy);
    (!layers.is_empty()).then(|| Panel {
        right,
        ..Panel::new("", x, y, layers)
    })
}

/// The chart in words.
fn alt_text(start: &Start, peaks: &[PhasePeak]) -> String {
    let mut sentences = vec![outcome(start)];
    for (index, device) in start.devices.iter().enumerate() {
        sentences.push(device_peak(device, index, peaks));
        if start.devices.len() == 1 && start.phased {
            let phases = peaks.iter().map(|peak| {
                let (bytes, at) = peak.highest[index];
                format!("{} {} at {at:.1} s", phase_name(peak.phase), gib_text(bytes))
            });
            sentences.push(format!("Peaks by phase: {}.", phases.collect::<Vec<_>>().join(", ")));
        }
    }
    sentences.push(sampling_text(start));
    sentences.join(" ")
}

/// How it ended: `engine-1 was sampled for 61.7 s.`
fn outcome(start: &Start) -> String {
    let (name, end) = (&start.name, start.end());
    let what = start
        .session
        .map(|session| session.what.as_str())
        .filter(|what| !what.is_empty());
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    if let Some(cause) = start.failure() {
        return format!("{name}{what} did not start: {cause}; it was sampled for {end:.1} s.");
    }
    let deaths = start.deaths();
    let deaths = deaths.map(|one| format!("; it died during {}: {}", one.what, verdict(one)));
    format!("{name}{what} was sampled for {end:.1} s{}.", deaths.collect::<String>())
}

fn device_peak(device: &Device, index: usize, peaks: &[PhasePeak]) -> String {
    let all = peaks.iter().map(|peak| (peak.highest[index], peak.phase));
    // Of equal peaks, the earliest.
    let highest = all.max_by(|(one, _), (other, _)| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let Some(((bytes, at), phase)) = highest else {
        return format!("{} was not sampled.", device.named());
    };
    let mut text = format!("On {} at most {} was in use", device.named(), gib_text(bytes));
    if let Some(total) = device.total {
        let (share, left) = (100.0 * bytes as f64 / total as f64, total.saturating_sub(bytes));
        text += &format!(", {share:.1} % of {}: {} were left", gib_text(total), gib_text(left));
    }
    text += &format!(" (at {at:.1} s, {}).", phase_name(phase));
    if let Some((fraction, budget)) = device.budget {
        let word = if bytes > budget { "above" } else { "below" };
        let (distance, budget) = (gib_text(bytes.abs_diff(budget)), gib_text(budget));
        text += &format!(" That is {distance} {word} memory_fraction {fraction}, which is {budget}.");
    }
    text
}

fn sampling_text(start: &Start) -> String {
    let sampled = sampling(start.series.rows());
    let longest = match sampled.longest {
        short if short < 1.0 => format!("{:.0} ms", short * 1000.0),
        long => format!("{long:.1} s"),
    };
    let mut text = format!(
        "{} samples, {:.0} per second; at most {longest} between two of them",
        sampled.samples, sampled.rate
    );
    if start.sampling.lost > 0 {
        text += &format!("; {} were lost", start.sampling.lost);
    }
    if start.sampling.errors > 0 {
        let why = start.sampling.last_error.as_deref().unwrap_or("for an unknown reason");
        text += &format!("; {} failed, the last one: {why}", start.sampling.errors);
    }
    text + "."
}

/// The peak of each device in each phase of a start.
fn phases_sheet(start: &Start, peaks: &[PhasePeak]) -> Sheet {
    let several = start.devices.len() > 1;
    let rows = peaks.iter().flat_map(|peak| {
        start
            .devices
            .iter()
            .zip(&peak.highest)
            .map(move |(device, &(bytes, at))| {
                let mut row: Vec<Entry> = vec![phase_name(peak.phase).into()];
                row.extend(several.then(|| device.label.as_str().into()));
                row.extend([
                    gib(bytes).into(),
                    device.total.map(|total| percent(bytes, total)).into(),
                ]);
                row.extend([rounded(at, 1), rounded(peak.seconds, 1), peak.samples as f64].map(Entry::from));
                row
            })
    });
    let columns = ["phase"].into_iter().chain(several.then_some("device"));
    Sheet::new(
        columns.chain(["peak, GiB", "of all, %", "first at, s", "lasted, s", "samples"]),
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::super::start::Device;
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
            activity: (0..9).map(moment).collect(),
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
