//! A breakdown as a picture: each device's components on top of each other against what the device has, and each component beside its estimate.

use super::Told;
use super::{sheet, words};
use crate::memory::{Breakdown, Component, Part};
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot, Spot, Spots};
use crate::report::story::components::{IN_USE, colour};
use crate::report::story::memory::{gib, rounded, shown};
use crate::unit::Unit;

/// Where less than this share of a device is in use, the picture does not reach up to its end.
const LOW: f64 = 0.25;

/// The picture of a breakdown, the `index`-th of the report.
pub(super) fn plot(told: &Told, index: usize, simulated: bool) -> Plot {
    let mut panels = vec![stacked(told)];
    panels.extend(beside(told));
    let mut caption = "Measured: read from the driver while the engine ran. Engine-reported: the engine's own word. \
                       Computed: follows from other figures. Assumed: taken for granted. The table tells where each figure comes from."
        .to_owned();
    if told.estimate.is_some() {
        caption += " Hatched is what was expected by the model's architecture, before anything was started.";
    }
    if simulated {
        caption.insert_str(
            0,
            "SIMULATED: this is the memory of a model of an engine; no GPU was looked at. ",
        );
    }
    Plot {
        name: format!("breakdown-{}", index + 1),
        title: format!("Where the memory of {} goes", told.name),
        words: words::breakdown(told),
        caption,
        panels,
        slider: None,
        sheet: sheet::sheet(told),
    }
}

/// The parts that lie on top of each other: those within no other one, and more than nothing.
fn on_top(breakdown: &Breakdown) -> impl Iterator<Item = &Part> {
    breakdown
        .parts
        .iter()
        .filter(|part| part.within.is_none() && part.bytes > 0)
}

/// Each device, and what was expected of all of them on average, with the components on top of each other.
fn stacked(told: &Told) -> Panel {
    let devices = &told.footprint.per_gpu;
    let mut columns: Vec<(String, &Breakdown, f64)> = devices
        .iter()
        .zip(&told.devices)
        .map(|(breakdown, device)| (device.named(), breakdown, 1.0))
        .collect();
    let estimated = columns.len();
    if let Some(estimate) = &told.estimate {
        let share = 1.0 / devices.len() as f64;
        let name = if devices.len() > 1 {
            "estimate, each"
        } else {
            "estimate"
        };
        columns.push((name.to_owned(), estimate, share));
    }
    let mut layers = Vec::new();
    let mut spots = Vec::new();
    let mut bases = vec![0.0; columns.len()];
    for component in Component::ALL {
        let mut measured = Vec::new();
        let mut hatched = Vec::new();
        let mut provenance = None;
        for (at, (name, breakdown, scale)) in columns.iter().enumerate() {
            let Some(part) = on_top(breakdown).find(|part| part.component == component) else {
                continue;
            };
            let height = part.bytes as f64 * scale;
            let bar = Bar {
                at: at as f64,
                value: bases[at] + height,
                base: bases[at],
                interval: None,
            };
            if at == estimated {
                hatched.push(bar);
            } else {
                provenance = provenance.max(Some(part.provenance));
                measured.push(bar);
            }
            spots.push(Spot {
                at: (at as f64, bases[at] + height / 2.0),
                entries: vec![
                    component.title().into(),
                    name.as_str().into(),
                    gib_of(height).into(),
                    rounded(100.0 * part.bytes as f64 / breakdown.total.max(1) as f64, 1).into(),
                    part.provenance.to_string().into(),
                    part.source.as_str().into(),
                ],
            });
            bases[at] += height;
        }
        let known = provenance.map(|provenance| format!("{} ({provenance})", component.title()));
        for (bars, hatched, name) in [(measured, false, known.clone()), (hatched, true, None)] {
            if !bars.is_empty() {
                let name = match (name, hatched, &known) {
                    (Some(name), _, _) => name,
                    // What only the estimate knows has a name too.
                    (None, true, None) => format!("{} (estimate)", component.title()),
                    _ => String::new(),
                };
                let colour = colour(component);
                layers.push(Layer::Bars {
                    name,
                    bars,
                    colour,
                    hatched,
                });
            }
        }
    }
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0).then(one.at.1.total_cmp(&other.at.1)));
    let total = told.devices.first().and_then(|device| device.total);
    let alike = told.devices.iter().all(|device| device.total == total);
    let highest = bases.into_iter().fold(1.0, f64::max);
    let limit = total.filter(|&total| alike && highest >= LOW * total as f64);
    if let Some(total) = limit {
        layers.push(Layer::Rule {
            name: format!("all there is: {}", shown(total)),
            at: total as f64,
            upright: false,
            colour: Colour::Limit,
            dashed: false,
            right: false,
        });
    }
    let top = limit.map_or(highest * 1.1, |total| highest.max(total as f64) * 1.04);
    Panel {
        title: String::new(),
        x: Axis {
            names: columns.into_iter().map(|(name, ..)| name).collect(),
            ..Axis::default()
        },
        y: bytes(top),
        layers,
        spots: Spots {
            columns: ["component", "of", "GiB", "share, %", "known", "from"]
                .map(str::to_owned)
                .to_vec(),
            spots,
        },
        ..Panel::default()
    }
}

fn bytes(top: f64) -> Axis {
    Axis {
        label: "memory".to_owned(),
        unit: Unit::Bytes,
        range: Some((0.0, top)),
        ..Axis::default()
    }
}

fn gib_of(bytes: f64) -> f64 {
    gib(bytes.max(0.0) as u64)
}

/// Each component beside its estimate, of all devices together; none without an estimate.
fn beside(told: &Told) -> Option<Panel> {
    let estimate = told.estimate.as_ref()?;
    let all = &told.footprint.all;
    let components: Vec<Component> = Component::ALL
        .into_iter()
        .filter(|component| *component != Component::Unexplained)
        .filter(|component| all.part(*component).is_some() || estimate.part(*component).is_some())
        .collect();
    let bars = |breakdown: &Breakdown, repeats: bool| -> Vec<Bar> {
        let places = components.iter().enumerate();
        let bar = |(at, component): (usize, &Component)| {
            let value = breakdown.part(*component)?.bytes as f64;
            let interval = repeats.then(|| spread(told, *component)).flatten();
            Some(Bar {
                at: at as f64,
                value,
                base: 0.0,
                interval,
            })
        };
        places.filter_map(bar).collect()
    };
    let (measured, expected) = (bars(all, true), bars(estimate, false));
    let value = |bars: &[Bar], at: usize| bars.iter().find(|bar| bar.at == at as f64).map(|bar| bar.value);
    let spots = components.iter().enumerate().map(|(at, component)| {
        let (one, other) = (value(&measured, at), value(&expected, at));
        let difference = one.zip(other).filter(|(_, other)| *other > 0.0);
        let known = all.part(*component).map(|part| part.provenance.to_string());
        Spot {
            at: (at as f64, one.or(other).unwrap_or_default()),
            entries: vec![
                component.title().into(),
                one.map(gib_of).into(),
                known.into(),
                other.map(gib_of).into(),
                difference
                    .map(|(one, other)| rounded(100.0 * (one - other) / other, 1))
                    .into(),
            ],
        }
    });
    let columns = ["component", "this run, GiB", "known", "estimate, GiB", "difference, %"];
    let spots = Spots {
        columns: columns.map(str::to_owned).to_vec(),
        spots: spots.collect(),
    };
    let highest = measured
        .iter()
        .chain(&expected)
        .map(|bar| bar.value)
        .fold(1.0, f64::max);
    let several = told.footprint.per_gpu.len() > 1;
    let layer = |name: &str, bars, hatched| Layer::Bars {
        name: name.to_owned(),
        bars,
        // A component's own colour would say that these are all of it.
        colour: IN_USE,
        hatched,
    };
    Some(Panel {
        title: if several {
            "components, all devices together"
        } else {
            "components"
        }
        .to_owned(),
        x: Axis {
            names: components
                .iter()
                .map(|component| component.title().to_owned())
                .collect(),
            ..Axis::default()
        },
        y: bytes(highest * 1.1),
        layers: vec![layer("this run", measured, false), layer("estimate", expected, true)],
        spots,
        ..Panel::default()
    })
}

/// The lowest and the highest of several repeats, where they differ.
fn spread(told: &Told, component: Component) -> Option<(f64, f64)> {
    let repeats = &told.footprint.details["repeats"][component.name()];
    let (low, high) = (repeats["lowest"].as_f64()?, repeats["highest"].as_f64()?);
    (low < high).then_some((low, high))
}
