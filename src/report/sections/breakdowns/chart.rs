//! Charts of a breakdown: components stacked by device, and each component against its estimate.

use super::BreakdownView;
use crate::memory::{Breakdown, Component};
use crate::report::Bytes;
use crate::report::plot::{Axis, Bar, Colour, Layer, Note, Panel, Plot, TooltipPoint, Tooltips};
use crate::report::sections::format::{gib, gib_text, rounded};
use crate::report::sections::memory::{IN_USE, SIMULATED, colour};
use crate::unit::Unit;

/// If less than this share of a device is in use, the axis does not extend to its capacity.
const MIN_FILL: f64 = 0.25;

/// The share of a stack from which a component is labelled: a label of a thin part would hide its neighbours.
const MIN_LABELLED: f64 = 0.03;

/// The chart of the breakdown with number `index` on the page.
pub(super) fn plot(view: &BreakdownView, index: usize, simulated: bool) -> Plot {
    let mut caption = if simulated {
        format!("{SIMULATED} ")
    } else {
        String::new()
    };
    caption += "Measured: read from the driver while the engine ran. Engine-reported: from the engine's log or metrics. \
                Computed: derived from other numbers. Assumed: a default. The table has the details.";
    if view.estimate.is_some() {
        caption += " Hatched bars were expected from the model's architecture, before anything was started.";
    }
    let title = format!("Where the memory of {} goes", view.name);
    let panels = std::iter::once(stacked_panel(view)).chain(estimate_panel(view));
    Plot::new(format!("breakdown-{}", index + 1), title, panels).with_words(super::alt_text(view), caption)
}

/// A stack of components for each device, and one for the estimate (the average over devices).
fn stacked_panel(view: &BreakdownView) -> Panel {
    let measured = view.footprint.per_gpu.iter().zip(&view.devices);
    let mut columns: Vec<(String, &Breakdown, f64)> = measured
        .map(|(breakdown, device)| (device.named(), breakdown, 1.0))
        .collect();
    let estimated = columns.len();
    if let Some(estimate) = &view.estimate {
        let name = if estimated > 1 { "estimate, each" } else { "estimate" };
        columns.push((name.to_owned(), estimate, 1.0 / estimated as f64));
    }
    let mut layers = Vec::new();
    let mut spots = Vec::new();
    let mut notes = Vec::new();
    let mut tops = vec![0.0; columns.len()];
    for component in Component::ALL {
        let title = component.title();
        let (mut measured, mut hatched) = (Vec::new(), Vec::new());
        let mut provenance = None;
        for (at, (name, breakdown, scale)) in columns.iter().enumerate() {
            // Stacked are parts that lie within no other.
            let part = breakdown
                .part(component)
                .filter(|part| part.within.is_none() && part.bytes > 0);
            let Some(part) = part else { continue };
            let bytes = part.bytes as f64;
            let base = tops[at];
            tops[at] += bytes * scale;
            let bar = Bar {
                base,
                ..Bar::new(at, tops[at])
            };
            match at == estimated {
                true => hatched.push(bar),
                false => {
                    provenance = provenance.max(Some(part.provenance));
                    measured.push(bar);
                }
            }
            let middle = (at as f64, base + bytes * scale / 2.0);
            let entries = [
                title.into(),
                name.as_str().into(),
                gib_of(bytes * scale).into(),
                rounded(100.0 * bytes / breakdown.total.max(1) as f64, 1).into(),
                part.provenance.to_string().into(),
                part.source.as_str().into(),
            ];
            spots.push(TooltipPoint::new(middle, entries));
            if bytes >= MIN_LABELLED * breakdown.total as f64 {
                notes.push(Note::new(middle, format!("{title} {}", Bytes((bytes * scale) as u64))));
            }
        }
        let of_estimate = match &provenance {
            Some(_) => String::new(),
            // A component that only the estimate has.
            None => format!("{title} (estimate)"),
        };
        let known = provenance.map(|provenance| format!("{title} ({provenance})"));
        for (name, bars, is_hatched) in [
            (known.unwrap_or_default(), measured, false),
            (of_estimate, hatched, true),
        ] {
            if !bars.is_empty() {
                layers.push(Layer::bars(name, bars, colour(component)).hatched(is_hatched));
            }
        }
    }
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0).then(one.at.1.total_cmp(&other.at.1)));
    let highest = tops.into_iter().fold(1.0, f64::max);
    let total = view.devices.first().and_then(|device| device.total);
    let limit = total.filter(|&total| {
        let same_total = view.devices.iter().all(|device| device.total == Some(total));
        same_total && highest >= MIN_FILL * total as f64
    });
    layers
        .extend(limit.map(|total| {
            Layer::horizontal_rule(format!("capacity: {}", gib_text(total)), total as f64, Colour::Limit)
        }));
    let top = limit.map_or(highest * 1.1, |total| highest.max(total as f64) * 1.04);
    let x = Axis::categories(columns.into_iter().map(|(name, ..)| name));
    let columns = ["component", "of", "GiB", "share, %", "source", "details"];
    Panel::new("", x, memory_axis(top), layers)
        .with_tooltips(Tooltips::new(columns, spots))
        .with_notes(notes)
}

fn memory_axis(top: f64) -> Axis {
    Axis::new("memory", Unit::Bytes).with_range((0.0, top))
}

fn gib_of(bytes: f64) -> f64 {
    gib(bytes.max(0.0) as u64)
}

/// Each component against its estimate, over all devices; none without an estimate.
fn estimate_panel(view: &BreakdownView) -> Option<Panel> {
    let estimate = view.estimate.as_ref()?;
    let all = &view.footprint.all;
    let bytes = |breakdown: &Breakdown, component| Some(breakdown.part(component)?.bytes as f64);
    let mut components = Component::ALL.to_vec();
    components.retain(|component| {
        let known = bytes(all, *component).or_else(|| bytes(estimate, *component));
        *component != Component::Unexplained && known.is_some()
    });
    let places = || components.iter().copied().enumerate();
    let measured = places().filter_map(|(at, component)| {
        Some(Bar {
            interval: repeat_range(view, component),
            ..Bar::new(at, bytes(all, component)?)
        })
    });
    let expected = places().filter_map(|(at, component)| Some(Bar::new(at, bytes(estimate, component)?)));
    let (measured, expected): (Vec<Bar>, Vec<Bar>) = (measured.collect(), expected.collect());
    let tooltips = places().map(|(at, component)| {
        let (one, other) = (bytes(all, component), bytes(estimate, component));
        let difference = one.zip(other).filter(|(_, other)| *other > 0.0);
        let entries = [
            component.title().into(),
            one.map(gib_of).into(),
            all.part(component).map(|part| part.provenance.to_string()).into(),
            other.map(gib_of).into(),
            difference
                .map(|(one, other)| rounded(100.0 * (one - other) / other, 1))
                .into(),
        ];
        TooltipPoint::new((at as f64, one.or(other).unwrap_or_default()), entries)
    });
    let columns = ["component", "this run, GiB", "source", "estimate, GiB", "difference, %"];
    let tooltips = Tooltips::new(columns, tooltips);
    let highest = measured
        .iter()
        .chain(&expected)
        .map(|bar| bar.value)
        .fold(1.0, f64::max);
    let title = match view.footprint.per_gpu.len() > 1 {
        true => "components, all devices together",
        false => "components",
    };
    let x = Axis::categories(components.iter().map(|component| component.title().to_owned()));
    let layers = [
        // Bars of different components share a colour, so it must be none of theirs.
        Layer::bars("this run", measured, IN_USE),
        Layer::bars("estimate", expected, IN_USE).hatched(true),
    ];
    Some(Panel::new(title, x, memory_axis(highest * 1.1), layers).with_tooltips(tooltips))
}

/// The range of repeated measurements.
fn repeat_range(view: &BreakdownView, component: Component) -> Option<(f64, f64)> {
    let repeats = &view.footprint.details["repeats"][component.name()];
    let (low, high) = (repeats["lowest"].as_f64()?, repeats["highest"].as_f64()?);
    (low < high).then_some((low, high))
}
