//! What a device's memory consists of over time: by component once the engine serves, or by process if other processes
//! hold some.

use super::start::{Start, seconds};
use crate::engine::ProcessUsage;
use crate::memory::{Breakdown, Component, Footprint, Part, Provenance};
use crate::report::plot::{Colour, Layer};
use crate::telemetry::{Phase, ProcessMemory, Row};

/// Other processes with less than this together are ignored.
const MIN_FOREIGN: u64 = 64 << 20;
/// Seconds for which a sample of processes holds. They are sampled ten times a second, now and then late.
const MAX_SAMPLE_AGE: f64 = 0.25;

/// What an engine holds from start to end, from bottom to top.
const PERMANENT: [Component; 5] = [
    Component::OtherTenants,
    Component::RuntimeContext,
    Component::Weights,
    Component::CudaGraphs,
    Component::KvPool,
];

const BY_PROCESS: &str = "The areas are memory by process as the driver reports it, sampled less often than the total.";
const WITH_ACTIVATIONS: &str = "The areas are what the engine holds permanently once it is ready; before that, components are unknown. \
                                Above them are activations (at their size of the peak) and unaccounted memory.";
const WITHOUT_ACTIVATIONS: &str = "The areas are what the engine holds permanently once it is ready; before that, components are unknown. \
                                   Above them is temporary and unaccounted memory.";

/// Colour of the total-memory line; not used by any component.
pub(in crate::report::sections) const IN_USE: Colour = Colour::Series(4);

pub(in crate::report::sections) fn colour(component: Component) -> Colour {
    match component {
        Component::Weights => Colour::Series(0),
        Component::KvPool => Colour::Series(1),
        Component::KvUsed => Colour::Series(2),
        Component::Activations => Colour::Series(3),
        Component::CudaGraphs => Colour::Series(7),
        Component::RuntimeContext => Colour::Series(5),
        Component::OtherTenants => Colour::Series(6),
        Component::Unexplained => Colour::Open,
    }
}

/// A layer of the stack, with its bytes at a time.
struct StackLayer<'a> {
    name: String,
    colour: Colour,
    bytes: Box<dyn Fn(f64) -> u64 + 'a>,
}

/// A point of the line above the stack: seconds, and bytes if sampled.
pub(super) type Point = (f64, Option<f64>);

/// The layers below a device's line and a caption for them; none if the components are unknown.
pub(super) fn stack(
    start: &Start,
    device: usize,
    footprints: &[Footprint],
    line: &[Point],
) -> Option<(Vec<Layer>, &'static str)> {
    let id = &start.devices[device].id;
    if foreign_bytes(start, id) >= MIN_FOREIGN {
        let always = (0.0, f64::INFINITY);
        return Some((
            layers(&processes(start, id), "of no known process", always, line),
            BY_PROCESS,
        ));
    }
    let serving = serving_period(start.series.rows())?;
    // A breakdown of exactly this peak; one of another start does not apply.
    let peak = start.peak(device);
    let mut breakdowns = footprints.iter().flat_map(|footprint| &footprint.per_gpu);
    let breakdown = breakdowns.find(|one| one.device.as_deref() == Some(id) && one.total == peak);
    if let Some(breakdown) = breakdown.filter(|breakdown| breakdown.part(Component::KvPool).is_some()) {
        let held = components(breakdown, &[&PERMANENT[..], &[Component::Activations]].concat());
        let rest = match breakdown.part(Component::Unexplained) {
            Some(Part {
                component, provenance, ..
            }) => format!("{} ({provenance})", component.title()),
            None => Component::Unexplained.title().to_owned(),
        };
        return Some((layers(&held, &rest, serving, line), WITH_ACTIVATIONS));
    }
    let held = match breakdown {
        Some(breakdown) => components(breakdown, &PERMANENT),
        None if start.devices.len() == 1 => reported(start),
        None => Vec::new(),
    };
    // Without a pool, KV cache is allocated and freed with the requests.
    let rest = match held.iter().any(|layer| layer.colour == colour(Component::KvPool)) {
        true => "activations and the rest",
        false => "KV cache, activations and the rest",
    };
    (!held.is_empty()).then(|| (layers(&held, rest, serving, line), WITHOUT_ACTIVATIONS))
}

/// From when to when the engine served, in seconds.
fn serving_period(rows: &[Row]) -> Option<(f64, f64)> {
    let serves = |row: &&Row| matches!(row.phase, Phase::Ready | Phase::WarmUp | Phase::Load);
    let ready = rows.iter().find(serves)?;
    let after = rows.iter().find(|row| row.phase == Phase::After);
    Some((
        seconds(ready.from),
        after.map_or(f64::INFINITY, |row| seconds(row.from)),
    ))
}

/// The given components of a breakdown, in this order.
fn components(breakdown: &Breakdown, wanted: &[Component]) -> Vec<StackLayer<'static>> {
    let parts = wanted.iter().filter_map(|component| breakdown.part(*component));
    parts
        .filter(|part| part.within.is_none() && part.bytes > 0)
        .map(|part| permanent(part.component, part.provenance, part.bytes.unsigned_abs()))
        .collect()
}

/// Components from the engine's log, for an engine on a single device; none if only the KV cache is known, because the
/// weights would appear as activations.
fn reported(start: &Start) -> Vec<StackLayer<'static>> {
    let facts = &start.facts;
    let bytes = [
        None,
        facts.context_bytes,
        facts.weights_bytes,
        facts.graphs_bytes,
        facts.kv_bytes,
    ];
    let known = PERMANENT.into_iter().zip(bytes);
    let known = known.filter_map(|(component, bytes)| Some((component, bytes.filter(|bytes| *bytes > 0.0)?)));
    match facts.weights_bytes {
        Some(weights) if weights > 0.0 => known
            .map(|(component, bytes)| permanent(component, Provenance::EngineReported, bytes as u64))
            .collect(),
        _ => Vec::new(),
    }
}

fn permanent(component: Component, provenance: Provenance, bytes: u64) -> StackLayer<'static> {
    StackLayer {
        name: format!("{} ({provenance})", component.title()),
        colour: colour(component),
        bytes: Box::new(move |_| bytes),
    }
}

fn peak_processes<'a>(start: &'a Start) -> &'a [ProcessUsage] {
    start.usage.peak.as_ref().map_or(&[], |peak| &peak.processes)
}

/// What other processes held of a device at the peak.
fn foreign_bytes(start: &Start, id: &str) -> u64 {
    let others = peak_processes(start)
        .iter()
        .filter(|process| process.device == id && process.ours == Some(false));
    others.filter_map(|process| process.used).sum()
}

/// The processes on a device, the engine's first.
fn processes<'a>(start: &'a Start, id: &str) -> Vec<StackLayer<'a>> {
    let here = || start.processes.iter().filter(|process| process.tenant.device == id);
    let listed = |pid: u32| peak_processes(start).iter().find(|process| process.pid == pid);
    let ours = |pid: u32| listed(pid).and_then(|process| process.ours);
    let mut pids: Vec<u32> = here().map(|process| process.tenant.pid).collect();
    pids.sort_by_key(|&pid| (ours(pid) != Some(true), pid));
    pids.dedup();
    let layer = |(index, pid): (usize, u32)| {
        let name = listed(pid)
            .and_then(|process| process.name.as_deref())
            .unwrap_or("process");
        let whose = match ours(pid) {
            Some(true) => ", the engine's",
            Some(false) => ", not the engine's",
            None => "",
        };
        let own: Vec<&ProcessMemory> = here().filter(|process| process.tenant.pid == pid).collect();
        StackLayer {
            name: format!("{name} {pid}{whose}"),
            colour: Colour::series(index),
            bytes: Box::new(move |at| bytes_at(&own, at)),
        }
    };
    pids.into_iter().enumerate().map(layer).collect()
}

/// What a process held at a time, from its newest sample.
fn bytes_at(samples: &[&ProcessMemory], at: f64) -> u64 {
    let next = samples.partition_point(|sample| seconds(sample.from) <= at);
    let newest = next.checked_sub(1).and_then(|last| samples.get(last));
    newest
        .filter(|sample| at <= seconds(sample.to) + MAX_SAMPLE_AGE)
        .and_then(|sample| sample.tenant.used)
        .unwrap_or_default()
}

/// The areas of the layers in a period, topped by what remains below the line; before the period, one area for all.
fn layers(held: &[StackLayer], rest: &str, (from, to): (f64, f64), line: &[Point]) -> Vec<Layer> {
    let mut areas: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); held.len() + 1];
    let mut before = Vec::new();
    for &(at, used) in line.iter().filter(|point| point.0 < to) {
        let used = used.unwrap_or_default();
        if at < from {
            push_merged(&mut before, (at, 0.0, used));
            continue;
        }
        if let Some(&(last, low, high)) = before.last()
            && areas[0].is_empty()
            && last < at
        {
            push_merged(&mut before, (at, low, high));
        }
        let mut low = 0.0;
        for (layer, ribbon) in held.iter().zip(&mut areas) {
            let high = used.min(low + (layer.bytes)(at) as f64);
            push_merged(ribbon, (at, low, high));
            low = high;
        }
        push_merged(&mut areas[held.len()], (at, low, used));
    }
    // The last sample holds until the end of the period.
    if line.iter().any(|point| point.0 >= to) {
        let open = if areas[0].is_empty() {
            std::slice::from_mut(&mut before)
        } else {
            areas.as_mut_slice()
        };
        for ribbon in open {
            if let Some(&(_, low, high)) = ribbon.last() {
                push_merged(ribbon, (to, low, high));
            }
        }
    }
    let ribbon = |name: String, points, colour| Layer::ribbon(name, points, colour).opaque().stepped(true);
    let mut layers = Vec::new();
    if !before.is_empty() {
        layers.push(ribbon(String::new(), before, Colour::Quiet));
    }
    let named = held.iter().map(|layer| (layer.name.clone(), layer.colour));
    let named = named
        .chain([(rest.to_owned(), colour(Component::Unexplained))])
        .zip(areas);
    layers.extend(
        named
            .filter(|(_, points)| points.iter().any(|point| point.2 > point.1))
            .map(|((name, colour), points)| ribbon(name, points, colour)),
    );
    layers
}

/// Adds a point. If its values equal those of the last two, it replaces the last.
fn push_merged(points: &mut Vec<(f64, f64, f64)>, point: (f64, f64, f64)) {
    let same = |other: &(f64, f64, f64)| (other.1, other.2) == (point.1, point.2);
    match points.as_mut_slice() {
        [.., one, two] if same(one) && same(two) => *two = point,
        _ => points.push(point),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting_bytes(bytes: u64) -> StackLayer<'static> {
        permanent(Component::Weights, Provenance::Measured, bytes)
    }

    fn points(layer: &Layer) -> &[(f64, f64, f64)] {
        match layer {
            Layer::Ribbon { points, .. } => points,
            _ => &[],
        }
    }

    #[test]
    fn areas_begin_when_the_engine_serves_and_never_rise_above_the_line() {
        let line: Vec<Point> = [
            (0.0, 5.0),
            (1.0, 40.0),
            (2.0, 50.0),
            (3.0, 60.0),
            (4.0, 60.0),
            (5.0, 10.0),
            (6.0, 0.0),
        ]
        .map(|(at, used)| (at, Some(used)))
        .to_vec();
        let drawn = layers(&[lasting_bytes(30), lasting_bytes(15)], "rest", (2.0, 6.0), &line);
        assert_eq!(
            points(&drawn[0]),
            [(0.0, 0.0, 5.0), (1.0, 0.0, 40.0), (2.0, 0.0, 40.0)],
            "until it was ready"
        );
        assert_eq!(
            points(&drawn[1]),
            [(2.0, 0.0, 30.0), (4.0, 0.0, 30.0), (5.0, 0.0, 10.0), (6.0, 0.0, 10.0)],
            "until it ended"
        );
        assert_eq!(
            points(&drawn[2]),
            [
                (2.0, 30.0, 45.0),
                (4.0, 30.0, 45.0),
                (5.0, 10.0, 10.0),
                (6.0, 10.0, 10.0)
            ]
        );
        let top = points(&drawn[3]);
        assert_eq!((top[0], top[1]), ((2.0, 45.0, 50.0), (3.0, 45.0, 60.0)));
    }

    #[test]
    fn process_holds_its_newest_sample() {
        let holding = |from: u64, to: u64, used| ProcessMemory {
            from: from * 1_000_000,
            to: to * 1_000_000,
            looks: 1,
            tenant: crate::telemetry::Tenant {
                pid: 1,
                device: "a".into(),
                used: Some(used),
            },
        };
        let rows = [holding(1, 2, 10), holding(2, 4, 20)];
        let held: Vec<&ProcessMemory> = rows.iter().collect();
        let at = |at| bytes_at(&held, at);
        assert_eq!(
            (at(0.5), at(1.5), at(3.0), at(4.2), at(5.0)),
            (0, 10, 20, 20, 0),
            "gone after its last look"
        );
    }
}
