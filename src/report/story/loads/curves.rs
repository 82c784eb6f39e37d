//! A sweep as curves: throughput, time to first token, time between tokens, and the whole time, each along its levels.

use super::axes::{figures, from_zero, levels, marks};
use super::figures::{sheet, spots};
use super::findings::Findings;
use super::load::Load;
use super::sweep::{Along, Point, Sweep};
use crate::load::Summary;
use crate::report::plot::{Colour, Layer, Panel, Plot, Scale, Shape};
use crate::unit::Unit;

/// Throughput is one colour everywhere, latency another.
const THROUGHPUT: Colour = Colour::Series(0);
const LATENCY: Colour = Colour::Series(1);
const TPOT: Colour = Colour::Series(2);

const GAPS: &str = "time between tokens: gaps of all requests, and TPOT";

/// A latency of a load.
type Latency = fn(&Load) -> &Summary;

/// The picture of a sweep of several levels.
pub(super) fn plot(sweep: &Sweep, findings: &Findings, name: String, title: String, words: String) -> Plot {
    let mut panels = vec![throughput(sweep, findings)];
    let latencies: [(&str, Latency); 3] = [
        ("time to first token", |load| &load.ttft),
        (GAPS, |load| &load.itl),
        ("whole time of a request", |load| &load.e2el),
    ];
    for (index, (label, latency)) in latencies.into_iter().enumerate() {
        panels.extend(panel(sweep, findings, label, latency, index == 1));
    }
    let gaps = panels.iter().find(|panel| panel.title == GAPS);
    let logarithmic = gaps.is_some_and(|panel| panel.y.scale == Scale::Log);
    Plot {
        name,
        title,
        words,
        caption: caption(sweep, logarithmic),
        panels,
        sheet: sheet(sweep),
        ..Plot::default()
    }
}

fn caption(sweep: &Sweep, logarithmic: bool) -> String {
    let unsupported = sweep
        .levels
        .iter()
        .any(|level| level.mean(|load| load.ttft.p99).is_none());
    let mut told = vec!["The line is the median, the shades reach to the 90th and the 99th percentile."];
    if unsupported {
        told.push("Where a shade is missing, the requests of that level are too few for the percentile.");
    }
    if sweep.levels.iter().any(|level| level.apart().is_some()) {
        told.push("Levels that were measured several times stand at their mean, with the range of the repeats.");
    }
    let together = |level: &Point| level.mean(|load| load.itl.p50) == Some(0.0);
    if logarithmic && sweep.levels.iter().any(together) {
        told.push("Tokens that come together have a gap of nothing, which has no place on a logarithmic scale.");
    }
    if sweep.along == Along::Rate {
        told.push("Times count from when a request was sent.");
    }
    told.join(" ")
}

fn throughput(sweep: &Sweep, findings: &Findings) -> Panel {
    let points = sweep.throughput();
    let mut layers = marks(findings, true);
    let apart = sweep
        .levels
        .iter()
        .filter_map(|level| level.apart().map(|(low, high)| (level.at, low, high)));
    let apart: Vec<(f64, f64, f64)> = apart.collect();
    let highest = points
        .iter()
        .map(|point| point.1)
        .chain(apart.iter().map(|range| range.2));
    let y = from_zero("", Unit::TokensPerSecond, highest);
    if !apart.is_empty() {
        layers.push(ribbon("range of repeats", apart, THROUGHPUT));
    }
    layers.push(Layer::Line {
        name: "output throughput".to_owned(),
        points: points.into_iter().map(|(at, tokens)| (at, Some(tokens))).collect(),
        colour: THROUGHPUT,
        dashed: false,
        steps: false,
        dots: true,
        right: false,
    });
    Panel {
        title: "output throughput".to_owned(),
        x: levels(&[sweep]),
        y,
        layers,
        spots: spots(&[sweep], |level| {
            Some((level.at, level.mean(|load| load.output_throughput)?))
        }),
        ..Panel::default()
    }
}

/// One latency with its percentiles; nothing where no level has a median. `tpot`: with the time per token beside it.
fn panel(sweep: &Sweep, findings: &Findings, label: &str, latency: Latency, tpot: bool) -> Option<Panel> {
    let along = |percentile: fn(&Summary) -> Option<f64>| -> Vec<(f64, Option<f64>)> {
        let figure = |level: &Point| level.mean(|load| percentile(latency(load)));
        sweep.levels.iter().map(|level| (level.at, figure(level))).collect()
    };
    let (mut p50, mut p90, mut p99) = (along(|one| one.p50), along(|one| one.p90), along(|one| one.p99));
    let mut each: Vec<(f64, Option<f64>)> = if tpot {
        let tpot = |level: &Point| level.mean(|load| load.tpot.p50);
        sweep.levels.iter().map(|level| (level.at, tpot(level))).collect()
    } else {
        Vec::new()
    };
    let known = |points: &[(f64, Option<f64>)]| points.iter().filter_map(|point| point.1).any(|ms| ms > 0.0);
    if !known(&p50) && !known(&each) {
        return None;
    }
    let all = [&p50, &p90, &p99, &each]
        .into_iter()
        .flatten()
        .filter_map(|point| point.1);
    let y = figures("", Unit::Milliseconds, all.filter(|ms| *ms > 0.0));
    if y.scale == Scale::Log {
        // Nothing has no place there.
        for point in [&mut p50, &mut p90, &mut p99, &mut each].into_iter().flatten() {
            point.1 = point.1.filter(|ms| *ms > 0.0);
        }
    }
    let mut layers = marks(findings, false);
    // The one lies over the other, and is darker.
    layers.extend(between("median to p99", &p50, &p99));
    layers.extend(between("median to p90", &p50, &p90));
    layers.extend(single("p90", &p90, Shape::Ring));
    layers.extend(single("p99", &p99, Shape::Cross));
    let line = |name: &str, points, colour, dashed| Layer::Line {
        name: name.to_owned(),
        points,
        colour,
        dashed,
        steps: false,
        dots: true,
        right: false,
    };
    let any = |points: &[(f64, Option<f64>)]| points.iter().any(|point| point.1.is_some());
    if any(&each) {
        layers.push(line("median of TPOT", each, TPOT, true));
    }
    let median = p50.clone();
    if any(&p50) {
        let name = if tpot { "median of gaps" } else { "median" };
        layers.push(line(name, p50, LATENCY, false));
    }
    Some(Panel {
        title: label.to_owned(),
        x: levels(&[sweep]),
        y,
        layers,
        spots: spots(&[sweep], |level| {
            let here = median.iter().find(|point| point.0 == level.at)?;
            Some((level.at, here.1?))
        }),
        ..Panel::default()
    })
}

/// Shades between two percentiles wherever both are known at neighbouring levels.
fn between(name: &str, low: &[(f64, Option<f64>)], high: &[(f64, Option<f64>)]) -> Vec<Layer> {
    let both: Vec<Option<(f64, f64, f64)>> = low
        .iter()
        .zip(high)
        .map(|(low, high)| Some((low.0, low.1?, high.1?)))
        .collect();
    let pieces = both.split(Option::is_none).filter(|piece| piece.len() > 1);
    let pieces = pieces.enumerate().map(|(index, piece)| {
        let name = if index == 0 { name } else { "" };
        ribbon(name, piece.iter().flatten().copied().collect(), LATENCY)
    });
    pieces.collect()
}

/// The places of a percentile, so that one without neighbours is seen too.
fn single(name: &str, points: &[(f64, Option<f64>)], shape: Shape) -> Option<Layer> {
    let points: Vec<(f64, f64)> = points.iter().filter_map(|(at, ms)| Some((*at, (*ms)?))).collect();
    (!points.is_empty()).then(|| Layer::Dots {
        name: name.to_owned(),
        points,
        colour: LATENCY,
        shape,
    })
}

fn ribbon(name: &str, points: Vec<(f64, f64, f64)>, colour: Colour) -> Layer {
    Layer::Ribbon {
        name: name.to_owned(),
        points,
        colour,
        solid: false,
        steps: false,
        right: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_end_where_a_percentile_is_unknown() {
        let low = [
            (1.0, Some(1.0)),
            (2.0, Some(1.0)),
            (4.0, Some(1.0)),
            (8.0, Some(2.0)),
            (16.0, Some(2.0)),
        ];
        let high = [
            (1.0, Some(2.0)),
            (2.0, Some(2.0)),
            (4.0, None),
            (8.0, Some(3.0)),
            (16.0, Some(4.0)),
        ];
        let layers = between("p90 to p99", &low, &high);
        let pieces: Vec<(&str, usize)> = layers
            .iter()
            .map(|layer| match layer {
                Layer::Ribbon { name, points, .. } => (name.as_str(), points.len()),
                _ => ("", 0),
            })
            .collect();
        assert_eq!(pieces, [("p90 to p99", 2), ("", 2)]);
        let alone = [(1.0, Some(2.0)), (2.0, None)];
        assert!(between("x", &alone, &alone).is_empty());
    }
}
