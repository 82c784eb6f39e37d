//! How full the engine was at each level: requests that ran and waited, the KV cache, preemptions.

use super::axes::{from_zero, levels, marks};
use super::figures::spots;
use super::findings::Findings;
use super::load::Load;
use super::say::{number, tenths};
use super::sweep::{Point, Sweep};
use crate::load::joined::Level;
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot, Sheet};
use crate::unit::Unit;

/// A gauge of a load.
type Gauge = fn(&Load) -> Option<Level>;

/// The picture; nothing of an engine that tells nothing of itself.
pub(super) fn plot(sweep: &Sweep, findings: &Findings, name: String) -> Option<Plot> {
    let panels: Vec<Panel> = [requests(sweep, findings), cache(sweep, findings), preemptions(sweep)]
        .into_iter()
        .flatten()
        .collect();
    if panels.is_empty() {
        return None;
    }
    Some(Plot {
        name,
        title: "How full the engine was".to_owned(),
        words: words(sweep),
        caption: "Lines are means over the measured time, shades reach to the highest value seen.".to_owned(),
        panels,
        sheet: sheet(sweep),
        ..Plot::default()
    })
}

fn gauge(sweep: &Sweep, name: &str, gauge: Gauge, factor: f64, colour: Colour) -> Vec<Layer> {
    let mean = |level: &Point| Some(level.mean(|load| Some(gauge(load)?.mean))? * factor);
    let max = |level: &Point| Some(level.mean(|load| Some(gauge(load)?.max))? * factor);
    let points: Vec<(f64, Option<f64>)> = sweep.levels.iter().map(|level| (level.at, mean(level))).collect();
    if points.iter().all(|point| point.1.is_none()) {
        return Vec::new();
    }
    let shade = sweep
        .levels
        .iter()
        .filter_map(|level| Some((level.at, mean(level)?, max(level)?)));
    vec![
        Layer::Ribbon {
            name: String::new(),
            points: shade.collect(),
            colour,
            solid: false,
            steps: false,
            right: false,
        },
        Layer::Line {
            name: name.to_owned(),
            points,
            colour,
            dashed: false,
            steps: false,
            dots: true,
            right: false,
        },
    ]
}

/// The highest that these gauges saw at each level.
fn top(sweep: &Sweep, gauges: &[Gauge]) -> impl Iterator<Item = f64> {
    let levels = sweep.levels.iter();
    levels.flat_map(|level| {
        gauges
            .iter()
            .filter_map(|gauge| level.mean(|load| Some(gauge(load)?.max)))
    })
}

fn requests(sweep: &Sweep, findings: &Findings) -> Option<Panel> {
    let gauges: [Gauge; 2] = [|load| load.running, |load| load.waiting];
    let mut layers = gauge(sweep, "running", gauges[0], 1.0, Colour::Series(0));
    layers.extend(gauge(sweep, "waiting in the engine", gauges[1], 1.0, Colour::Series(1)));
    (!layers.is_empty()).then(|| Panel {
        title: "requests".to_owned(),
        x: levels(&[sweep]),
        y: from_zero("", Unit::Count, top(sweep, &gauges)),
        layers: marks(findings, true).into_iter().chain(layers).collect(),
        spots: spots(&[sweep], |level| {
            Some((level.at, level.mean(|load| Some(load.running?.mean))?))
        }),
        ..Panel::default()
    })
}

fn cache(sweep: &Sweep, findings: &Findings) -> Option<Panel> {
    let layers = gauge(sweep, "KV cache used", |load| load.kv_usage, 100.0, Colour::Series(2));
    (!layers.is_empty()).then(|| Panel {
        title: "KV cache used".to_owned(),
        x: levels(&[sweep]),
        y: Axis {
            unit: Unit::Percent,
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        layers: marks(findings, false).into_iter().chain(layers).collect(),
        spots: spots(&[sweep], |level| {
            Some((level.at, 100.0 * level.mean(|load| Some(load.kv_usage?.mean))?))
        }),
        ..Panel::default()
    })
}

/// Preemptions as bars; nothing where there were none.
fn preemptions(sweep: &Sweep) -> Option<Panel> {
    let counts: Vec<Option<f64>> = sweep
        .levels
        .iter()
        .map(|level| level.sum(|load| load.preemptions))
        .collect();
    if counts.iter().flatten().all(|count| *count == 0.0) {
        return None;
    }
    let places = (0_u32..).map(f64::from);
    let bars = places.zip(&counts).filter_map(|(at, count)| {
        Some(Bar {
            at,
            value: (*count)?,
            ..Bar::default()
        })
    });
    Some(Panel {
        title: "preemptions".to_owned(),
        x: Axis {
            label: levels(&[sweep]).label,
            names: sweep.levels.iter().map(|level| number(level.at)).collect(),
            ..Axis::default()
        },
        y: from_zero("", Unit::Count, counts.iter().flatten().copied()),
        layers: vec![Layer::Bars {
            name: String::new(),
            bars: bars.collect(),
            colour: Colour::Limit,
            hatched: false,
        }],
        ..Panel::default()
    })
}

fn words(sweep: &Sweep) -> String {
    let behind = sweep.along.behind();
    let usage = |level: &Point| level.mean(|load| Some(load.kv_usage?.max));
    let mut told = Vec::new();
    let fullest = sweep
        .levels
        .iter()
        .filter_map(|level| Some((level, usage(level)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((level, usage)) = fullest {
        told.push(format!(
            "The KV cache was used to {} % at most, at {}{behind}.",
            tenths(100.0 * usage),
            number(level.at)
        ));
    }
    let waits = sweep.levels.iter().find(|level| {
        level
            .mean(|load| Some(load.waiting?.mean))
            .is_some_and(|mean| mean >= 1.0)
    });
    if let Some(level) = waits {
        told.push(format!(
            "From {}{behind} on, a request or more waited in the engine on average.",
            number(level.at)
        ));
    }
    let preempted = sweep
        .levels
        .iter()
        .find(|level| level.sum(|load| load.preemptions).is_some_and(|count| count > 0.0));
    told.push(match preempted {
        Some(level) => format!("Sequences were preempted from {}{behind} on.", number(level.at)),
        None if sweep
            .levels
            .iter()
            .all(|level| level.sum(|load| load.preemptions).is_some()) =>
        {
            "Nothing was preempted.".to_owned()
        }
        None => String::new(),
    });
    told.retain(|text| !text.is_empty());
    told.join(" ")
}

fn sheet(sweep: &Sweep) -> Sheet {
    let gauges: [(&str, &str, Gauge, f64); 3] = [
        ("running, mean", "running, most", |load| load.running, 1.0),
        ("waiting, mean", "waiting, most", |load| load.waiting, 1.0),
        (
            "KV cache used, %, mean",
            "KV cache used, %, most",
            |load| load.kv_usage,
            100.0,
        ),
    ];
    let columns = gauges.iter().flat_map(|one| [one.0, one.1]);
    let rows = sweep.levels.iter().map(|level| {
        let figures = gauges.iter().flat_map(|(_, _, gauge, factor)| {
            let mean = level.mean(|load| Some(gauge(load)?.mean * factor));
            let most = level.mean(|load| Some(gauge(load)?.max * factor));
            [mean.into(), most.into()]
        });
        let head = std::iter::once(level.at.into());
        head.chain(figures)
            .chain([level.sum(|load| load.preemptions).into()])
            .collect()
    });
    Sheet {
        title: String::new(),
        columns: std::iter::once(sweep.along.word())
            .chain(columns)
            .chain(["preemptions"])
            .map(str::to_owned)
            .collect(),
        rows: rows.collect(),
    }
}
