//! Charts of a breakdown: components stacked by device, and each component against its estimate.

use super::BreakdownView;
use crate::memory::{Breakdown, Component, Part};
use crate::report::Bytes;
use crate::report::plot::{Axis, Bar, Colour, Layer, Note, Panel, Plot, TooltipPoint, Tooltips};
use crate::report::sections::format::{gib, gib_text, rounded};
use crate::report::sections::memory::{IN_USE, colour};
use crate::unit::Unit;

/// If less than this share of a device is in use, the axis does not extend to its capacity.
const MIN_FILL: f64 = 0.25;

/// The share of a stack from which a component is labelled.
const MIN_LABELLED: f64 = 0.03;

/// The chart of the breakdown with number `index` on the page.
pub(super) fn plot(view: &BreakdownView, index: usize, simulated: bool) -> Plot {
    let mut panels = vec![stacked_panel(view)];
    panels.extend(estimate_panel(view));
    let mut caption =
        "Measured: read from the driver while the engine ran. Engine-reported: from the engine's log or metrics. \
                       Computed: derived from other numbers. Assumed: a default. The table has the details."
            .to_owned();
    if view.estimate.is_some() {
        caption += " Hatched bars were expected from the model's architecture, before anything was started.";
    }
    if simulated {
        caption.insert_str(0, "SIMULATED: memory of a simulated engine; no GPU was measured. ");
    }
    Plot {
        name: format!("breakdown-{}", index + 1),
        title: format!("Where the memory of {} goes", view.name),
        words: super::alt_text(view),
        caption,
        panels,
        ..Plot::default()
    }
}

/// Parts that are stacked: not within another part, and not empty.
fn stacked_parts(breakdown: &Breakdown) -> impl Iterator<Item = &Part> {
    breakdown
        .parts
        .iter()
        .filter(|part| part.within.is_none() && part.bytes > 0)
}

/// A stack of components for each device, and one for the estimate (the average over devices).
fn stacked_panel(view: &BreakdownView) -> Panel {
    let devices = &view.footprint.per_gpu;
    let mut columns: Vec<(String, &Breakdown, f64)> = devices
        .iter()
        .zip(&view.devices)
        .map(|(breakdown, device)| (device.named(), breakdown, 1.0))
        .collect();
    let estimated = columns.len();
    if let Some(estimate) = &view.estimate {
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
    let mut notes = Vec::new();
    let mut bases = vec![0.0; columns.len()];
    for component in Component::ALL {
        let mut measured = Vec::new();
        let mut hatched = Vec::new();
        let mut provenance = None;
        for (at, (name, breakdown, scale)) in columns.iter().enumerate() {
            let Some(part) = stacked_parts(breakdown).find(|part| part.component == component) else {
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
            spots.push(TooltipPoint {
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
            // A label of a thin part would hide its neighbours.
            if part.bytes as f64 >= MIN_LABELLED * breakdown.total as f64 {
                notes.push(Note {
                    at: (at as f64, bases[at] + height / 2.0),
                    label: format!("{} {}", component.title(), Bytes(height as u64)),
                });
            }
            bases[at] += height;
        }
        let known = provenance.map(|provenance| format!("{} ({provenance})", component.title()));
        for (bars, hatched, name) in [(measured, false, known.clone()), (hatched, true, None)] {
            if !bars.is_empty() {
                let name = match (name, hatched, &known) {
                    (Some(name), _, _) => name,
                    // Components that only the estimate has.
                    (None, true, None) => format!("{} (estimate)", component.title()),
                    _ => String::new(),
                };
                let colour = colour(component);
                layers.push(Layer::bars(name, bars, colour).hatched(hatched));
            }
        }
    }
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0).then(one.at.1.total_cmp(&other.at.1)));
    let total = view.devices.first().and_then(|device| device.total);
    let same_total = view.devices.iter().all(|device| device.total == total);
    let highest = bases.into_iter().fold(1.0, f64::max);
    let limit = total.filter(|&total| same_total && highest >= MIN_FILL * total as f64);
    if let Some(total) = limit {
        layers.push(Layer::horizontal_rule(
            format!("capacity: {}", gib_text(total)),
            total as f64,
            Colour::Limit,
        ));
    }
    let top = limit.map_or(highest * 1.1, |total| highest.max(total as f64) * 1.04);
    Panel {
        title: String::new(),
        x: Axis::categories(columns.into_iter().map(|(name, ..)| name)),
        y: bytes(top),
        layers,
        spots: Tooltips::new(["component", "of", "GiB", "share, %", "source", "details"], spots),
        notes,
        ..Panel::default()
    }
}

fn bytes(top: f64) -> Axis {
    Axis::new("memory", Unit::Bytes).with_range((0.0, top))
}

fn gib_of(bytes: f64) -> f64 {
    gib(bytes.max(0.0) as u64)
}

/// Each component against its estimate, over all devices; none without an estimate.
fn estimate_panel(view: &BreakdownView) -> Option<Panel> {
    let estimate = view.estimate.as_ref()?;
    let all = &view.footprint.all;
    let components: Vec<Component> = Component::ALL
        .into_iter()
        .filter(|component| *component != Component::Unexplained)
        .filter(|component| all.part(*component).is_some() || estimate.part(*component).is_some())
        .collect();
    let bars = |breakdown: &Breakdown, repeats: bool| -> Vec<Bar> {
        let places = components.iter().enumerate();
        let bar = |(at, component): (usize, &Component)| {
            let value = breakdown.part(*component)?.bytes as f64;
            let interval = repeats.then(|| repeat_range(view, *component)).flatten();
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
        TooltipPoint {
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
    let columns = ["component", "this run, GiB", "source", "estimate, GiB", "difference, %"];
    let spots = Tooltips::new(columns, spots);
    let highest = measured
        .iter()
        .chain(&expected)
        .map(|bar| bar.value)
        .fold(1.0, f64::max);
    let several = view.footprint.per_gpu.len() > 1;
    // Bars of different components share a colour, so it must be none of theirs.
    let layer = |name: &str, bars, hatched| Layer::bars(name, bars, IN_USE).hatched(hatched);
    Some(Panel {
        title: if several {
            "components, all devices together"
        } else {
            "components"
        }
        .to_owned(),
        x: Axis::categories(components.iter().map(|component| component.title().to_owned())),
        y: bytes(highest * 1.1),
        layers: vec![layer("this run", measured, false), layer("estimate", expected, true)],
        spots,
        ..Panel::default()
    })
}

/// The range of repeated measurements.
fn repeat_range(view: &BreakdownView, component: Component) -> Option<(f64, f64)> {
    let repeats = &view.footprint.details["repeats"][component.name()];
    let (low, high) = (repeats["lowest"].as_f64()?, repeats["highest"].as_f64()?);
    (low < high).then_some((low, high))
}
