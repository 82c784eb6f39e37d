//! The main figures of loads: throughput and latency by level, of one sweep or several, and throughput against latency.

use super::panel::{
    Column, finding_marks, knee_marks, level_table, sweep_panel, sweeps_table, tooltips, value_axis, zero_based_axis,
};
use super::sweep::{E2EL, ITL, Latency, Sweep, SweepAxis, SweepLevel, TPOT, TTFT};
use crate::load::Summary;
use crate::report::plot::{Axis, Colour, Layer, Note, Panel, Plot, Scale, Shape};
use crate::report::sections::format::{ms, number};
use crate::unit::Unit;

/// The colours of latencies. Throughput has the first of the series.
const LATENCY: Colour = Colour::Series(1);
const SECOND_LATENCY: Colour = Colour::Series(2);

type Points = Vec<(f64, Option<f64>)>;

/// One sweep: output throughput, TTFT, ITL with TPOT, and E2E latency.
pub(super) fn plot(sweep: &Sweep, name: String, title: String, words: String) -> Plot {
    let latencies = [
        latency_fan(sweep, "time to first token (TTFT)", ("median", TTFT), None),
        latency_fan(
            sweep,
            "inter-token latency (ITL), and TPOT",
            ("median ITL", ITL),
            Some(("median TPOT", TPOT)),
        ),
        latency_fan(sweep, "end-to-end latency (E2E)", ("median", E2EL), None),
    ];
    let itl_scale = latencies[1].as_ref().map(|panel| panel.y.scale);
    let mut panels = vec![throughput(&[sweep])];
    panels.extend(latencies.into_iter().flatten());
    Plot::new(name, title, panels).with_words(words, caption(sweep, itl_scale == Some(Scale::Log)))
}

fn caption(sweep: &Sweep, log_itl: bool) -> String {
    let mut sentences = vec![
        "The line is the median, the shades reach to the 90th and the 99th percentile, thin ones included; the table marks those with ~.",
    ];
    if sweep.levels.iter().any(|level| level.repeat_range().is_some()) {
        sentences.push("Levels measured several times are drawn at their mean, with the range of the repeats.");
    }
    if log_itl && sweep.levels.iter().any(|level| level.median(ITL) == Some(0.0)) {
        sentences.push("Tokens that arrive together have an ITL of zero, which has no place on a logarithmic scale.");
    }
    if sweep.axis == SweepAxis::Rate {
        sentences.push("Times count from when a request was sent.");
    }
    sentences.join(" ")
}

/// Several sweeps over the same axis: output throughput and median latencies; none for fewer than two.
pub(super) fn comparison(sweeps: &[&Sweep], name: String) -> Option<Plot> {
    let axis = sweeps.first()?.axis;
    if sweeps.len() < 2 || axis == SweepAxis::Other || sweeps.iter().any(|sweep| sweep.axis != axis) {
        return None;
    }
    let medians = [
        ("median TTFT", TTFT),
        ("median TPOT", TPOT),
        ("median E2E latency", E2EL),
    ];
    let medians = medians.into_iter().filter_map(|(title, latency)| {
        let value = |level: &SweepLevel| level.median(latency).filter(|ms| *ms > 0.0);
        let curves: Vec<Points> = sweeps.iter().map(|sweep| sweep.points(value)).collect();
        let y = latency_axis(curves.iter().flatten())?;
        let line = |(index, points)| Layer::line("", points, Colour::series(index)).with_markers();
        let layers = curves.into_iter().enumerate().map(line).collect();
        Some(sweep_panel(title, sweeps, y, layers, value))
    });
    let panels = std::iter::once(throughput(sweeps)).chain(medians);
    let plot = Plot::new(name, "Throughput and latency of all sweeps", panels)
        .with_words(highest_throughputs(sweeps), "Diamonds are saturation points.")
        .with_sheet(sweeps_table(sweeps));
    Some(plot)
}

/// The best throughput of each sweep, the highest first.
fn highest_throughputs(sweeps: &[&Sweep]) -> String {
    let highest = sweeps.iter().filter_map(|sweep| {
        let known = sweep.known(SweepLevel::throughput).into_iter();
        let (level, tokens) = known.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        Some((sweep, level.at, tokens))
    });
    let mut highest: Vec<(&&Sweep, f64, f64)> = highest.collect();
    highest.sort_by(|a, b| b.2.total_cmp(&a.2));
    let sentences = highest.into_iter().map(|(sweep, at, tokens)| {
        let (tokens, at) = (number(tokens), sweep.level_text(at));
        format!("{}: at most {tokens} output tokens/s, at {at}.", sweep.name)
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// Output throughput with the range of repeats. A single sweep has lines at its findings, several have diamonds at
/// their saturation points.
fn throughput(sweeps: &[&Sweep]) -> Panel {
    let single = (sweeps.len() == 1).then(|| sweeps[0]);
    let mut layers = single.map_or_else(Vec::new, |sweep| finding_marks(sweep, true));
    let mut highest = Vec::new();
    for (index, sweep) in sweeps.iter().enumerate() {
        let (range, line) = match single {
            Some(_) => ("range of repeats", "output throughput"),
            None => ("", sweep.name.as_str()),
        };
        let ranges = sweep.levels.iter().filter_map(|level| {
            let (low, high) = level.repeat_range()?;
            Some((level.at, low, high))
        });
        let ranges: Vec<(f64, f64, f64)> = ranges.collect();
        let points = sweep.known(SweepLevel::throughput).into_iter();
        let points: Points = points.map(|(level, tokens)| (level.at, Some(tokens))).collect();
        highest.extend(points.iter().filter_map(|point| point.1));
        highest.extend(ranges.iter().map(|range| range.2));
        if !ranges.is_empty() {
            layers.push(Layer::ribbon(range, ranges, Colour::series(index)));
        }
        layers.push(Layer::line(line, points, Colour::series(index)).with_markers());
    }
    if single.is_none() {
        let knees = sweeps.iter().filter_map(|sweep| sweep.findings.knee);
        layers.extend(knee_marks(knees.map(|knee| (knee.x, knee.y)).collect()));
    }
    let y = zero_based_axis("", Unit::TokensPerSecond, highest);
    sweep_panel("output throughput", sweeps, y, layers, SweepLevel::throughput)
}

/// The axis of latencies; none if none is above zero.
fn latency_axis<'a>(points: impl Iterator<Item = &'a (f64, Option<f64>)>) -> Option<Axis> {
    let known: Vec<f64> = points.filter_map(|point| point.1).filter(|ms| *ms > 0.0).collect();
    (!known.is_empty()).then(|| value_axis("", Unit::Milliseconds, known.into_iter()))
}

/// A latency with its percentiles, and the median of a `second` one; none if no median is known.
fn latency_fan(
    sweep: &Sweep,
    title: &str,
    (median, latency): (&str, Latency),
    second: Option<(&str, Latency)>,
) -> Option<Panel> {
    let medians = |latency: Latency| sweep.points(|level| level.median(latency));
    let percentiles = |of: fn(&Summary) -> Option<f64>| sweep.points(|level| level.mean(|load| of(latency(load))));
    let (mut p50, mut p90, mut p99) = (medians(latency), percentiles(|one| one.p90), percentiles(|one| one.p99));
    let (second, mut second_p50) = second.map_or(("", Points::new()), |(name, latency)| (name, medians(latency)));
    latency_axis(p50.iter().chain(&second_p50))?;
    let y = latency_axis([&p50, &p90, &p99, &second_p50].into_iter().flatten())?;
    if y.scale == Scale::Log {
        // Zero has no place on a logarithmic axis.
        for point in [&mut p50, &mut p90, &mut p99, &mut second_p50].into_iter().flatten() {
            point.1 = point.1.filter(|ms| *ms > 0.0);
        }
    }
    let mut layers = finding_marks(sweep, false);
    // The narrower band lies over the wider one and appears darker.
    layers.extend(bands("median to p99", &p50, &p99));
    layers.extend(bands("median to p90", &p50, &p90));
    // Markers, so that isolated values are visible.
    for (name, points, shape) in [("p90", &p90, Shape::Ring), ("p99", &p99, Shape::Cross)] {
        let points: Vec<(f64, f64)> = points.iter().filter_map(|(at, ms)| Some((*at, (*ms)?))).collect();
        if !points.is_empty() {
            layers.push(Layer::dots(name, points, LATENCY, shape));
        }
    }
    for (name, points, colour) in [(second, &second_p50, SECOND_LATENCY), (median, &p50, LATENCY)] {
        if points.iter().any(|point| point.1.is_some()) {
            let line = Layer::line(name, points.clone(), colour).with_markers();
            layers.push(line.dashed(colour == SECOND_LATENCY));
        }
    }
    let value = |level: &SweepLevel| p50.iter().find(|point| point.0 == level.at)?.1;
    Some(sweep_panel(title, &[sweep], y, layers, value))
}

/// Bands between two percentiles, wherever both are known at neighbouring levels.
fn bands(name: &str, low: &Points, high: &Points) -> Vec<Layer> {
    type Point = (f64, f64, f64);
    let pairs = low.iter().zip(high);
    let both: Vec<Option<Point>> = pairs.map(|(low, high)| Some((low.0, low.1?, high.1?))).collect();
    let pieces = both.split(Option::is_none).filter(|piece| piece.len() > 1);
    let band = |(index, piece): (usize, &[Option<Point>])| {
        let name = if index == 0 { name } else { "" };
        Layer::ribbon(name, piece.iter().flatten().copied(), LATENCY)
    };
    pieces.enumerate().map(band).collect()
}

/// Throughput against latency, of one sweep or several; none if no sweep has two levels with both values.
pub(super) fn tradeoff(sweeps: &[&Sweep], name: String) -> Option<Plot> {
    let panels = [("median TTFT", TTFT), ("median TPOT", TPOT)];
    let panels = panels
        .into_iter()
        .filter_map(|(label, latency)| tradeoff_panel(sweeps, label, latency));
    let labelled = match sweeps.first()?.axis {
        SweepAxis::Concurrency => ", labelled with its concurrency",
        SweepAxis::Rate => ", labelled with its request rate",
        SweepAxis::Other => "",
    };
    let caption =
        format!("Each mark is a level{labelled}. Up is more throughput, left is lower latency for each user.");
    let words: Vec<String> = sweeps.iter().map(|sweep| tradeoff_text(sweep)).collect();
    let columns = Column::named(&["output_throughput", "median_ttft_ms", "median_tpot_ms"]);
    let plot = Plot::new(name, "Throughput against latency", panels)
        .with_words(words.join(" "), caption)
        .with_sheet(level_table(sweeps, columns));
    Some(plot).filter(|plot| !plot.panels.is_empty())
}

fn tradeoff_panel(sweeps: &[&Sweep], label: &str, latency: Latency) -> Option<Panel> {
    let place = |level: &SweepLevel| Some((level.median(latency).filter(|ms| *ms > 0.0)?, level.throughput()?));
    let mut layers = Vec::new();
    let (mut notes, mut knees) = (Vec::new(), Vec::new());
    for (index, sweep) in sweeps.iter().enumerate() {
        let own = sweep.levels.iter();
        let own: Vec<Note> = own
            .filter_map(|level| Some(Note::new(place(level)?, number(level.at))))
            .collect();
        if own.len() < 2 {
            continue;
        }
        let points = own.iter().map(|note| (note.at.0, Some(note.at.1)));
        layers.push(Layer::line(sweep.name.clone(), points, Colour::series(index)).with_markers());
        notes.extend(own);
        knees.extend(sweep.knee().and_then(place));
    }
    if layers.is_empty() {
        return None;
    }
    layers.extend(knee_marks(knees));
    let (latencies, tokens): (Vec<f64>, Vec<f64>) = notes.iter().map(|note| note.at).unzip();
    let x = value_axis(label, Unit::Milliseconds, latencies.into_iter());
    let y = zero_based_axis("output throughput", Unit::TokensPerSecond, tokens);
    let panel = Panel::new("", x, y, layers).with_tooltips(tooltips(sweeps, place));
    Some(panel.with_notes(notes))
}

/// Throughput and latency at the ends and at the knee.
fn tradeoff_text(sweep: &Sweep) -> String {
    let levels = sweep.key_levels().into_iter().filter_map(|level| {
        let latencies = [("TTFT", TTFT), ("TPOT", TPOT)].into_iter();
        let latencies = latencies.filter_map(|(name, latency)| Some(format!("{name} {}", ms(level.median(latency)?))));
        let (tokens, at) = (number(level.throughput()?), sweep.level_text(level.at));
        let latencies: Vec<String> = latencies.collect();
        Some(format!(
            "{tokens} tokens/s at {at}, with median {}",
            latencies.join(" and ")
        ))
    });
    let levels: Vec<String> = levels.collect();
    let name = if sweep.name.is_empty() {
        String::new()
    } else {
        format!("{}: ", sweep.name)
    };
    format!("{name}{}.", levels.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::tests::sweep;
    use super::*;

    #[test]
    fn bands_end_where_a_percentile_is_unknown() {
        let curve =
            |values: [Option<f64>; 5]| -> Points { [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().zip(values).collect() };
        let low = curve([1.0, 1.0, 1.0, 2.0, 2.0].map(Some));
        let high = curve([Some(2.0), Some(2.0), None, Some(3.0), Some(4.0)]);
        let first = [(1.0, 1.0, 2.0), (2.0, 1.0, 2.0)];
        let second = [(8.0, 2.0, 3.0), (16.0, 2.0, 4.0)];
        assert_eq!(
            bands("p90 to p99", &low, &high),
            [
                Layer::ribbon("p90 to p99", first, LATENCY),
                Layer::ribbon("", second, LATENCY)
            ]
        );
        let alone = vec![(1.0, Some(2.0)), (2.0, None)];
        assert!(bands("x", &alone, &alone).is_empty());
    }

    #[test]
    fn every_point_of_the_tradeoff_is_labelled_with_its_level() {
        let level = |at: f64, ms: f64, tokens: f64| {
            let answer = json!({ "output_throughput": tokens, "ttft_ms": { "n": 9, "median": ms, "ci": {} } });
            (at, answer)
        };
        let sweep = sweep(&[
            level(1.0, 18.0, 202.0),
            level(8.0, 91.0, 1386.0),
            level(64.0, 463.0, 5179.0),
        ]);
        let plot = tradeoff(&[&sweep], "trade".to_owned()).unwrap();
        let notes = &plot.panels[0].notes;
        let labels: Vec<&str> = notes.iter().map(|note| note.label.as_str()).collect();
        assert_eq!((labels, notes[1].at), (vec!["1", "8", "64"], (91.0, 1386.0)));
        assert!(
            plot.caption.contains("labelled with its concurrency"),
            "{}",
            plot.caption
        );
    }
}
