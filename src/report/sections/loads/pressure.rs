//! Engine load by level: running and waiting requests, KV cache use, preemptions.

use super::super::format::{number, tenths};
use super::shared::{finding_marks, level_axis, percent_axis, sweep_panel, zero_based_axis};
use super::sweep::{Sweep, SweepLevel};
use crate::load::LoadAnswer;
use crate::load::engine_side::GaugeStats;
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot, Sheet};
use crate::unit::Unit;

type Gauge = fn(&LoadAnswer) -> Option<GaugeStats>;

/// The chart; none if the engine reports no metrics.
pub(super) fn plot(sweep: &Sweep, findings: &SweepFindings, name: String) -> Option<Plot> {
    let panels: Vec<Panel> = [requests(sweep, findings), cache(sweep, findings), preemptions(sweep)]
        .into_iter()
        .flatten()
        .collect();
    if panels.is_empty() {
        return None;
    }
    Some(Plot {
        name,
        title: "Engine load".to_owned(),
        words: alt_text(sweep),
        caption: "Lines are means over the measured time, shades reach to the highest value seen.".to_owned(),
        panels,
        sheet: sheet(sweep),
        ..Plot::default()
    })
}

fn gauge(sweep: &Sweep, name: &str, gauge: Gauge, factor: f64, colour: Colour) -> Vec<Layer> {
    let mean = |level: &SweepLevel| Some(level.mean(|load| Some(gauge(load)?.mean))? * factor);
    let max = |level: &SweepLevel| Some(level.mean(|load| Some(gauge(load)?.max))? * factor);
    let points = sweep.points(mean);
    if points.iter().all(|point| point.1.is_none()) {
        return Vec::new();
    }
    let shade = sweep
        .levels
        .iter()
        .filter_map(|level| Some((level.at, mean(level)?, max(level)?)));
    vec![
        Layer::ribbon("", shade, colour),
        Layer::line(name, points, colour).with_markers(),
    ]
}

/// The maxima of these gauges by level.
fn top(sweep: &Sweep, gauges: &[Gauge]) -> impl Iterator<Item = f64> {
    let levels = sweep.levels.iter();
    levels.flat_map(|level| {
        gauges
            .iter()
            .filter_map(|gauge| level.mean(|load| Some(gauge(load)?.max)))
    })
}

fn requests(sweep: &Sweep, findings: &SweepFindings) -> Option<Panel> {
    let gauges: [Gauge; 2] = [|load| load.engine.running, |load| load.engine.waiting];
    let mut layers = gauge(sweep, "running", gauges[0], 1.0, Colour::Series(0));
    layers.extend(gauge(sweep, "waiting in the engine", gauges[1], 1.0, Colour::Series(1)));
    (!layers.is_empty()).then(|| {
        sweep_panel(
            "requests",
            &[sweep],
            zero_based_axis("", Unit::Count, top(sweep, &gauges)),
            finding_marks(findings, true).into_iter().chain(layers).collect(),
            |level| level.mean(|load| Some(load.engine.running?.mean)),
        )
    })
}

fn cache(sweep: &Sweep, findings: &SweepFindings) -> Option<Panel> {
    let layers = gauge(
        sweep,
        "KV cache used",
        |load| load.engine.kv_usage,
        100.0,
        Colour::Series(2),
    );
    (!layers.is_empty()).then(|| {
        sweep_panel(
            "KV cache used",
            &[sweep],
            percent_axis(""),
            finding_marks(findings, false).into_iter().chain(layers).collect(),
            |level| Some(100.0 * level.mean(|load| Some(load.engine.kv_usage?.mean))?),
        )
    })
}

/// Preemptions as bars; none if there were none.
fn preemptions(sweep: &Sweep) -> Option<Panel> {
    let counts: Vec<Option<f64>> = sweep
        .levels
        .iter()
        .map(|level| level.sum(|load| load.engine.preemptions))
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
            label: level_axis(&[sweep]).label,
            names: sweep.levels.iter().map(|level| number(level.at)).collect(),
            ..Axis::default()
        },
        y: zero_based_axis("", Unit::Count, counts.iter().flatten().copied()),
        layers: vec![Layer::bars("", bars, Colour::Limit)],
        ..Panel::default()
    })
}

fn alt_text(sweep: &Sweep) -> String {
    let usage = |level: &SweepLevel| level.mean(|load| Some(load.engine.kv_usage?.max));
    let mut sentences = Vec::new();
    let fullest = sweep
        .levels
        .iter()
        .filter_map(|level| Some((level, usage(level)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((level, usage)) = fullest {
        sentences.push(format!(
            "The KV cache was used to {} % at most, at {}.",
            tenths(100.0 * usage),
            sweep.level_text(level.at)
        ));
    }
    let waits = sweep.levels.iter().find(|level| {
        level
            .mean(|load| Some(load.engine.waiting?.mean))
            .is_some_and(|mean| mean >= 1.0)
    });
    if let Some(level) = waits {
        sentences.push(format!(
            "From {} on, at least one request waited in the engine on average.",
            sweep.level_text(level.at)
        ));
    }
    let preempted = sweep.levels.iter().find(|level| {
        level
            .sum(|load| load.engine.preemptions)
            .is_some_and(|count| count > 0.0)
    });
    sentences.push(match preempted {
        Some(level) => format!("Sequences were preempted from {} on.", sweep.level_text(level.at)),
        None if sweep
            .levels
            .iter()
            .all(|level| level.sum(|load| load.engine.preemptions).is_some()) =>
        {
            "Nothing was preempted.".to_owned()
        }
        None => String::new(),
    });
    sentences.retain(|text| !text.is_empty());
    sentences.join(" ")
}

fn sheet(sweep: &Sweep) -> Sheet {
    let gauges: [(&str, &str, Gauge, f64); 3] = [
        ("running, mean", "running, max", |load| load.engine.running, 1.0),
        ("waiting, mean", "waiting, max", |load| load.engine.waiting, 1.0),
        (
            "KV cache used, %, mean",
            "KV cache used, %, max",
            |load| load.engine.kv_usage,
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
            .chain([level.sum(|load| load.engine.preemptions).into()])
            .collect()
    });
    Sheet::new(
        std::iter::once(sweep.axis.name()).chain(columns).chain(["preemptions"]),
        rows,
    )
}
