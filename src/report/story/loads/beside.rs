//! Several sweeps in one picture: engines of one run, or runs beside each other.

use super::axes::{figures, from_zero, levels};
use super::figures::{spots, together};
use super::findings::Findings;
use super::load::Load;
use super::say::number;
use super::sweep::{Along, Point, Sweep};
use crate::report::plot::{Colour, Layer, Panel, Plot, Shape};
use crate::unit::Unit;

/// A figure of a load.
type Figure = fn(&Load) -> Option<f64>;

const LATENCIES: [(&str, Figure); 3] = [
    ("median time to first token", |load| load.ttft.p50),
    ("median time per output token", |load| load.tpot.p50),
    ("median whole time of a request", |load| load.e2el.p50),
];

/// The curves of these sweeps, which go along the same and have names; nothing for fewer than two.
pub(in crate::report::story) fn plot(sweeps: &[(&Sweep, &Findings)], name: String) -> Option<Plot> {
    let only: Vec<&Sweep> = sweeps.iter().map(|(sweep, _)| *sweep).collect();
    let along = only.first()?.along;
    if only.len() < 2 || along == Along::Nothing || only.iter().any(|sweep| sweep.along != along) {
        return None;
    }
    let mut panels = vec![throughput(sweeps, &only)];
    panels.extend(
        LATENCIES
            .iter()
            .filter_map(|(label, figure)| latency(&only, label, *figure)),
    );
    Some(Plot {
        name,
        title: "Throughput and latency of all".to_owned(),
        words: words(&only),
        caption: "Diamonds are knees.".to_owned(),
        panels,
        sheet: together(&only),
        ..Plot::default()
    })
}

fn colour(index: usize) -> Colour {
    Colour::Series(u8::try_from(index).unwrap_or(u8::MAX))
}

fn line(name: &str, points: Vec<(f64, Option<f64>)>, index: usize) -> Layer {
    Layer::Line {
        name: name.to_owned(),
        points,
        colour: colour(index),
        dashed: false,
        steps: false,
        dots: true,
        right: false,
    }
}

fn throughput(sweeps: &[(&Sweep, &Findings)], only: &[&Sweep]) -> Panel {
    let mut layers = Vec::new();
    for (index, sweep) in only.iter().enumerate() {
        let apart: Vec<(f64, f64, f64)> = sweep
            .levels
            .iter()
            .filter_map(|level| level.apart().map(|(low, high)| (level.at, low, high)))
            .collect();
        if !apart.is_empty() {
            layers.push(Layer::Ribbon {
                name: String::new(),
                points: apart,
                colour: colour(index),
                solid: false,
                steps: false,
                right: false,
            });
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
        layers.push(Layer::Dots {
            name: "knee".to_owned(),
            points: knees,
            colour: Colour::Recommended,
            shape: Shape::Diamond,
        });
    }
    let means = only.iter().flat_map(|sweep| sweep.throughput()).map(|point| point.1);
    let repeats = only
        .iter()
        .flat_map(|sweep| sweep.levels.iter().filter_map(Point::apart));
    let highest = means.chain(repeats.map(|range| range.1));
    Panel {
        title: "output throughput".to_owned(),
        x: levels(only),
        y: from_zero("", Unit::TokensPerSecond, highest),
        layers,
        spots: spots(only, |level| {
            Some((level.at, level.mean(|load| load.output_throughput)?))
        }),
        ..Panel::default()
    }
}

fn latency(only: &[&Sweep], label: &str, figure: Figure) -> Option<Panel> {
    let value = |level: &Point| level.mean(figure).filter(|ms| *ms > 0.0);
    let curves: Vec<Vec<(f64, Option<f64>)>> = only
        .iter()
        .map(|sweep| sweep.levels.iter().map(|level| (level.at, value(level))).collect())
        .collect();
    let known: Vec<f64> = curves.iter().flatten().filter_map(|point| point.1).collect();
    (!known.is_empty()).then(|| Panel {
        title: label.to_owned(),
        x: levels(only),
        y: figures("", Unit::Milliseconds, known.into_iter()),
        layers: only
            .iter()
            .zip(curves)
            .enumerate()
            .map(|(index, (_, points))| line("", points, index))
            .collect(),
        spots: spots(only, |level| Some((level.at, value(level)?))),
        ..Panel::default()
    })
}

/// The best of each, the best of all first.
fn words(sweeps: &[&Sweep]) -> String {
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
    let told = best.iter().map(|(sweep, at, tokens)| {
        format!(
            "{}: {} output tokens/s at most, at {}{}.",
            sweep.name,
            number(*tokens),
            number(*at),
            sweep.along.behind()
        )
    });
    told.collect::<Vec<_>>().join(" ")
}
