//! Several sweeps in one chart: engines of one run, or several runs.

use super::super::format::number;
use super::shared::{sweep_panel, sweeps_table, value_axis, zero_based_axis};
use super::sweep::{LoadValue, Sweep, SweepAxis, SweepLevel};
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Colour, Layer, Panel, Plot, Shape};
use crate::unit::Unit;

const LATENCIES: [(&str, LoadValue); 3] = [
    ("median TTFT", |load| load.stats.latencies.ttft_ms.median),
    ("median TPOT", |load| load.stats.latencies.tpot_ms.median),
    ("median E2E latency", |load| load.stats.latencies.e2el_ms.median),
];

/// The curves of sweeps over the same axis; none for fewer than two.
pub(in crate::report::sections) fn plot(sweeps: &[(&Sweep, &SweepFindings)], name: String) -> Option<Plot> {
    let all: Vec<&Sweep> = sweeps.iter().map(|(sweep, _)| *sweep).collect();
    let axis = all.first()?.axis;
    if all.len() < 2 || axis == SweepAxis::Other || all.iter().any(|sweep| sweep.axis != axis) {
        return None;
    }
    let mut panels = vec![throughput(sweeps, &all)];
    panels.extend(
        LATENCIES
            .iter()
            .filter_map(|(label, figure)| latency(&all, label, *figure)),
    );
    Some(Plot {
        name,
        title: "Throughput and latency of all sweeps".to_owned(),
        words: alt_text(&all),
        caption: "Diamonds are saturation points.".to_owned(),
        panels,
        sheet: sweeps_table(&all),
        ..Plot::default()
    })
}

fn colour(index: usize) -> Colour {
    Colour::series(index)
}

fn line(name: &str, points: Vec<(f64, Option<f64>)>, index: usize) -> Layer {
    Layer::line(name, points, colour(index)).with_markers()
}

fn throughput(sweeps: &[(&Sweep, &SweepFindings)], all: &[&Sweep]) -> Panel {
    let mut layers = Vec::new();
    for (index, sweep) in all.iter().enumerate() {
        let ranges = sweep.repeat_ranges();
        if !ranges.is_empty() {
            layers.push(Layer::ribbon("", ranges, colour(index)));
        }
        layers.push(line(
            &sweep.name,
            sweep
                .throughput()
                .into_iter()
                .map(|(at, tokens)| (at, Some(tokens)))
                .collect(),
            index,
        ));
    }
    let knees: Vec<(f64, f64)> = sweeps
        .iter()
        .filter_map(|(_, findings)| findings.knee.map(|knee| (knee.x, knee.y)))
        .collect();
    if !knees.is_empty() {
        layers.push(Layer::dots(
            "saturation point",
            knees,
            Colour::Recommended,
            Shape::Diamond,
        ));
    }
    let means = all.iter().flat_map(|sweep| sweep.throughput()).map(|point| point.1);
    let repeats = all
        .iter()
        .flat_map(|sweep| sweep.levels.iter().filter_map(SweepLevel::repeat_range));
    let highest = means.chain(repeats.map(|range| range.1));
    sweep_panel(
        "output throughput",
        all,
        zero_based_axis("", Unit::TokensPerSecond, highest),
        layers,
        |level| level.mean(|load| load.stats.rates.output_throughput),
    )
}

fn latency(all: &[&Sweep], label: &str, figure: LoadValue) -> Option<Panel> {
    let value = |level: &SweepLevel| level.mean(figure).filter(|ms| *ms > 0.0);
    let curves: Vec<Vec<(f64, Option<f64>)>> = all.iter().map(|sweep| sweep.points(value)).collect();
    let known: Vec<f64> = curves.iter().flatten().filter_map(|point| point.1).collect();
    (!known.is_empty()).then(|| {
        sweep_panel(
            label,
            all,
            value_axis("", Unit::Milliseconds, known.into_iter()),
            all.iter()
                .zip(curves)
                .enumerate()
                .map(|(index, (_, points))| line("", points, index))
                .collect(),
            value,
        )
    })
}

/// The best throughput of each sweep, the highest first.
fn alt_text(sweeps: &[&Sweep]) -> String {
    let mut best: Vec<(&Sweep, f64, f64)> = sweeps
        .iter()
        .filter_map(|sweep| {
            let best = sweep
                .throughput()
                .into_iter()
                .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
            Some((*sweep, best.0, best.1))
        })
        .collect();
    best.sort_by(|a, b| b.2.total_cmp(&a.2));
    let sentences = best.iter().map(|(sweep, at, tokens)| {
        format!(
            "{}: at most {} output tokens/s, at {}.",
            sweep.name,
            number(*tokens),
            sweep.level_text(*at)
        )
    });
    sentences.collect::<Vec<_>>().join(" ")
}
