//! The curves of a sweep: throughput, TTFT, ITL with TPOT, and E2E latency by level.

use super::shared::{finding_marks, sweep_panel, value_axis, zero_based_axis};
use super::sweep::{Latency, Sweep, SweepAxis, SweepLevel};
use crate::load::Summary;
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Colour, Layer, Panel, Plot, Scale, Shape};
use crate::unit::Unit;

/// Fixed colours for throughput and latency in all panels.
const THROUGHPUT: Colour = Colour::Series(0);
const LATENCY: Colour = Colour::Series(1);
const TPOT: Colour = Colour::Series(2);

const ITL_TITLE: &str = "inter-token latency (ITL), and TPOT";

pub(super) fn plot(sweep: &Sweep, findings: &SweepFindings, name: String, title: String, words: String) -> Plot {
    let mut panels = vec![throughput(sweep, findings)];
    let latencies: [(&str, Latency); 3] = [
        ("time to first token (TTFT)", |load| &load.stats.latencies.ttft_ms),
        (ITL_TITLE, |load| &load.stats.latencies.itl_ms),
        ("end-to-end latency (E2E)", |load| &load.stats.latencies.e2el_ms),
    ];
    for (index, (label, latency)) in latencies.into_iter().enumerate() {
        panels.extend(panel(sweep, findings, label, latency, index == 1));
    }
    let gaps = panels.iter().find(|panel| panel.title == ITL_TITLE);
    let logarithmic = gaps.is_some_and(|panel| panel.y.scale == Scale::Log);
    Plot {
        name,
        title,
        words,
        caption: caption(sweep, logarithmic),
        panels,
        ..Plot::default()
    }
}

fn caption(sweep: &Sweep, logarithmic: bool) -> String {
    let mut sentences = vec![
        "The line is the median, the shades reach to the 90th and the 99th percentile, thin ones included; the table marks those with ~.",
    ];
    if sweep.levels.iter().any(|level| level.repeat_range().is_some()) {
        sentences.push("Levels measured several times are drawn at their mean, with the range of the repeats.");
    }
    let together = |level: &SweepLevel| level.mean(|load| load.stats.latencies.itl_ms.median) == Some(0.0);
    if logarithmic && sweep.levels.iter().any(together) {
        sentences.push("Tokens that arrive together have an ITL of zero, which has no place on a logarithmic scale.");
    }
    if sweep.axis == SweepAxis::Rate {
        sentences.push("Times count from when a request was sent.");
    }
    sentences.join(" ")
}

fn throughput(sweep: &Sweep, findings: &SweepFindings) -> Panel {
    let points = sweep.throughput();
    let mut layers = finding_marks(findings, true);
    let ranges = sweep.repeat_ranges();
    let highest = points
        .iter()
        .map(|point| point.1)
        .chain(ranges.iter().map(|range| range.2));
    let y = zero_based_axis("", Unit::TokensPerSecond, highest);
    if !ranges.is_empty() {
        layers.push(ribbon("range of repeats", ranges, THROUGHPUT));
    }
    layers.push(
        Layer::line(
            "output throughput",
            points.into_iter().map(|(at, tokens)| (at, Some(tokens))),
            THROUGHPUT,
        )
        .with_markers(),
    );
    sweep_panel("output throughput", &[sweep], y, layers, |level| {
        level.mean(|load| load.stats.rates.output_throughput)
    })
}

/// A latency with its percentiles; none if no level has a median. `tpot` adds the time per output token.
fn panel(sweep: &Sweep, findings: &SweepFindings, label: &str, latency: Latency, tpot: bool) -> Option<Panel> {
    let curve =
        |percentile: fn(&Summary) -> Option<f64>| sweep.points(|level| level.mean(|load| percentile(latency(load))));
    let (mut p50, mut p90, mut p99) = (curve(|one| one.median), curve(|one| one.p90), curve(|one| one.p99));
    let mut each: Vec<(f64, Option<f64>)> = if tpot {
        sweep.points(|level| level.mean(|load| load.stats.latencies.tpot_ms.median))
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
    let y = value_axis("", Unit::Milliseconds, all.filter(|ms| *ms > 0.0));
    if y.scale == Scale::Log {
        // Zero has no place on a logarithmic axis.
        for point in [&mut p50, &mut p90, &mut p99, &mut each].into_iter().flatten() {
            point.1 = point.1.filter(|ms| *ms > 0.0);
        }
    }
    let mut layers = finding_marks(findings, false);
    // The narrower band lies over the wider one and appears darker.
    layers.extend(percentile_bands("median to p99", &p50, &p99));
    layers.extend(percentile_bands("median to p90", &p50, &p90));
    layers.extend(percentile_dots("p90", &p90, Shape::Ring));
    layers.extend(percentile_dots("p99", &p99, Shape::Cross));
    let line = |name: &str, points, colour, dashed| Layer::line(name, points, colour).with_markers().dashed(dashed);
    let any = |points: &[(f64, Option<f64>)]| points.iter().any(|point| point.1.is_some());
    if any(&each) {
        layers.push(line("median TPOT", each, TPOT, true));
    }
    let median = p50.clone();
    if any(&p50) {
        let name = if tpot { "median ITL" } else { "median" };
        layers.push(line(name, p50, LATENCY, false));
    }
    Some(sweep_panel(label, &[sweep], y, layers, |level| {
        median.iter().find(|point| point.0 == level.at)?.1
    }))
}

/// Bands between two percentiles, wherever both are known at neighbouring levels.
fn percentile_bands(name: &str, low: &[(f64, Option<f64>)], high: &[(f64, Option<f64>)]) -> Vec<Layer> {
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

/// Markers of a percentile, so that isolated values are visible.
fn percentile_dots(name: &str, points: &[(f64, Option<f64>)], shape: Shape) -> Option<Layer> {
    let points: Vec<(f64, f64)> = points.iter().filter_map(|(at, ms)| Some((*at, (*ms)?))).collect();
    (!points.is_empty()).then(|| Layer::dots(name, points, LATENCY, shape))
}

fn ribbon(name: &str, points: Vec<(f64, f64, f64)>, colour: Colour) -> Layer {
    Layer::ribbon(name, points, colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_end_where_a_percentile_is_unknown() {
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
        let layers = percentile_bands("p90 to p99", &low, &high);
        let pieces: Vec<(&str, usize)> = layers
            .iter()
            .map(|layer| match layer {
                Layer::Ribbon { name, points, .. } => (name.as_str(), points.len()),
                _ => ("", 0),
            })
            .collect();
        assert_eq!(pieces, [("p90 to p99", 2), ("", 2)]);
        let alone = [(1.0, Some(2.0)), (2.0, None)];
        assert!(percentile_bands("x", &alone, &alone).is_empty());
    }
}
