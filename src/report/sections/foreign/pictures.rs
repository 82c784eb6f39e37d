//! Charts of a file of another tool: throughput and latency by concurrency, or the latencies of one level, memory by
//! component, memory of CUDA graphs, and values over time.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::{Case, ComparisonInput};
use crate::fmt::{Unit, slug, with_unit};
use crate::memory::Component;
use crate::report::plot::{Axis, Bar, Colour, Layer, MarkerShape, Panel, Plot, reduced};
use crate::report::sections::breakdowns;

/// More bars than this are not drawn: the table has them.
const MAX_BARS: usize = 24;

/// Most points of a line over time.
const MAX_POINTS: usize = 1000;

/// Metrics over concurrency: the panel's title, and the names of the metric, of which the first that is known counts.
const CURVES: [(&str, &[&str]); 4] = [
    (
        "output throughput",
        &["output_throughput", "total_token_throughput", "request_throughput"],
    ),
    ("time to first token (TTFT), mean", &["mean_ttft_ms"]),
    ("time per output token (TPOT), mean", &["mean_tpot_ms"]),
    ("end-to-end latency (E2E), mean", &["mean_e2el_ms", "mean_latency_ms"]),
];

/// Latencies of a file with one level, and their statistics, as parts of the metrics' names.
const LATENCIES: [(&str, &str); 5] = [
    ("time to first token (TTFT)", "ttft_ms"),
    ("time per output token (TPOT)", "tpot_ms"),
    ("inter-token latency (ITL)", "itl_ms"),
    ("end-to-end latency (E2E)", "e2el_ms"),
    ("latency", "latency_ms"),
];
const STATISTICS: [&str; 5] = ["mean", "median", "p90", "p95", "p99"];

/// Memory of a TensorRT-LLM engine: torch's, or in a file of this program, which has no counters of torch, the device's.
const GRAPHS: [(&str, &str); 3] = [
    ("reserved after the start", "reserved_after"),
    ("allocated after the start", "allocated_after"),
    ("beside the KV cache", "memory_beside_kv"),
];

pub(super) fn all(input: &ComparisonInput) -> Vec<Plot> {
    let by_level = curves(input).or_else(|| latencies(input));
    [by_level, components(input), graphs(input), over_time(input)]
        .into_iter()
        .flatten()
        .collect()
}

/// The figure of a case under the first name that is known.
fn value<'a>(case: &'a Case, names: &[&str]) -> Option<(f64, Unit, &'a str)> {
    let metric = names.iter().find_map(|name| case.figure(name))?;
    Some((metric.value, metric.unit, &metric.name))
}

/// A line for each setting other than the concurrency; none for fewer than two levels.
fn curves(input: &ComparisonInput) -> Option<Plot> {
    let mut lines: BTreeMap<String, Vec<(u64, &Case)>> = BTreeMap::new();
    for case in &input.cases {
        let Some(concurrency) = case.facts.concurrency else {
            continue;
        };
        let others = case
            .name
            .split_whitespace()
            .filter(|part| !part.starts_with("concurrency=") && !part.starts_with("batch="));
        lines
            .entry(others.collect::<Vec<_>>().join(" "))
            .or_default()
            .push((concurrency, case));
    }
    let levels: BTreeSet<u64> = lines.values().flatten().map(|(level, _)| *level).collect();
    if levels.len() < 2 {
        return None;
    }
    let panels = CURVES.into_iter().filter_map(|(title, names)| {
        let first = input.cases.iter().find_map(|case| value(case, names))?;
        let layers = lines.iter().enumerate().map(|(index, (name, cases))| {
            let mut points: Vec<(f64, Option<f64>)> = cases
                .iter()
                .map(|(level, case)| (*level as f64, value(case, names).map(|(value, ..)| value)))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let name = if lines.len() > 1 { name.as_str() } else { "" };
            Layer::line(name, points, Colour::Series(index)).with_markers(MarkerShape::series(index))
        });
        Some(Panel::new(
            title,
            Axis::new("concurrent requests", Unit::Count),
            Axis::new("", first.1),
            layers.collect::<Vec<_>>(),
        ))
    });
    let highest = input
        .cases
        .iter()
        .filter_map(|case| Some((value(case, CURVES[0].1)?, case)));
    let words = highest
        .max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0))
        .map_or_else(String::new, |((most, unit, name), case)| {
            format!("The highest {name} is {}, at {}.", with_unit(most, unit), case.name)
        });
    let plot = Plot::new(
        "curves",
        "Throughput and latency by concurrency",
        panels.collect::<Vec<_>>(),
    );
    (!plot.panels.is_empty()).then(|| plot.with_alt(words, ""))
}

/// Bars of the statistics of each latency, of a file with a single case.
fn latencies(input: &ComparisonInput) -> Option<Plot> {
    let [case] = input.cases.as_slice() else { return None };
    let panels = LATENCIES.into_iter().filter_map(|(title, metric)| {
        let known = STATISTICS.into_iter().filter_map(|statistic| {
            let figure = case.figure(&format!("{statistic}_{metric}"))?;
            Some((statistic, figure.value, figure.unit))
        });
        let known: Vec<(&str, f64, Unit)> = known.collect();
        let bars: Vec<Bar> = known
            .iter()
            .enumerate()
            .map(|(at, (_, value, _))| Bar::new(at, *value))
            .collect();
        let axis = Axis::categories(known.iter().map(|(statistic, ..)| (*statistic).to_owned()));
        Some(Panel::new(
            title,
            axis,
            Axis::new("", known.first()?.2),
            [Layer::bars("", bars, Colour::Series(0))],
        ))
    });
    let panels: Vec<Panel> = panels.collect();
    let is_known = |statistic: &&str| {
        let has = |(_, metric): (&str, &str)| case.figure(&format!("{statistic}_{metric}")).is_some();
        LATENCIES.into_iter().any(has)
    };
    let known: Vec<&str> = STATISTICS.into_iter().filter(is_known).collect();
    let words = format!("Of {}: {}.", case.name, known.join(", "));
    (!panels.is_empty()).then(|| Plot::new("latencies", "Latency", panels).with_alt(words, ""))
}

/// Says that not all cases are drawn; empty if they are.
fn first_of(cases: usize) -> String {
    if cases > MAX_BARS {
        format!("The first {MAX_BARS} of {cases}. ")
    } else {
        String::new()
    }
}

/// The parts of each case with a breakdown, stacked.
fn components(input: &ComparisonInput) -> Option<Plot> {
    let mut cases: Vec<_> = input
        .cases
        .iter()
        .filter_map(|case| Some((case, case.breakdown.as_ref()?)))
        .collect();
    let drawn = first_of(cases.len());
    cases.truncate(MAX_BARS);
    let mut tops = vec![0.0; cases.len()];
    let layers = Component::ALL.into_iter().filter_map(|component| {
        let bars = cases.iter().enumerate().filter_map(|(at, (_, all))| {
            let part = all
                .part(component)
                .filter(|part| part.within.is_none() && part.bytes > 0)?;
            let base = tops[at];
            tops[at] += part.bytes as f64;
            Some(Bar {
                base,
                ..Bar::new(at, tops[at])
            })
        });
        let bars: Vec<Bar> = bars.collect();
        (!bars.is_empty()).then(|| Layer::bars(component.title(), bars, breakdowns::colour(component)))
    });
    let layers: Vec<Layer> = layers.collect();
    let names = cases.iter().map(|(case, _)| case.name.clone());
    let panel = Panel::new("", Axis::categories(names), Axis::new("", Unit::Bytes), layers);
    let words = cases
        .iter()
        .map(|(case, all)| format!("{}: {} in use.", case.name, with_unit(all.total as f64, Unit::Bytes)));
    let words = format!("{drawn}{}", words.collect::<Vec<_>>().join(" "));
    (!cases.is_empty()).then(|| {
        Plot::new("components", "Memory by component", [panel])
            .with_alt(words, "The table says where each figure comes from.")
    })
}

/// Bars of the memory, and of the graphs, of each experiment.
fn graphs(input: &ComparisonInput) -> Option<Plot> {
    let names = GRAPHS.map(|(_, name)| name);
    let of = |case: &Case| value(case, &names).map(|(bytes, unit, _)| with_unit(bytes, unit));
    let mut cases: Vec<&Case> = input.cases.iter().filter(|case| of(case).is_some()).collect();
    let drawn = first_of(cases.len());
    cases.truncate(MAX_BARS);
    let axis = || Axis::categories(cases.iter().map(|case| case.name.clone()));
    let bars = |name: &str| -> Vec<Bar> {
        let of_case = |(at, case): (usize, &&Case)| Some(Bar::new(at, case.figure(name)?.value));
        cases.iter().enumerate().filter_map(of_case).collect()
    };
    let layers = GRAPHS
        .into_iter()
        .enumerate()
        .map(|(index, (title, name))| (title, bars(name), Colour::Series(index)))
        .filter(|(_, bars, _)| !bars.is_empty())
        .map(|(title, bars, colour)| Layer::bars(title, bars, colour));
    let memory = Panel::new("memory", axis(), Axis::new("", Unit::Bytes), layers.collect::<Vec<_>>());
    let counted = bars("cuda_graphs");
    let count = (!counted.is_empty()).then(|| {
        Panel::new(
            "CUDA graphs",
            axis(),
            Axis::new("", Unit::Count),
            [Layer::bars("", counted, Colour::Series(2))],
        )
    });
    let words = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}.", case.name, of(case)?)));
    let words = format!("{drawn}{}", words.collect::<Vec<_>>().join(" "));
    let panels = std::iter::once(memory).chain(count);
    (!cases.is_empty())
        .then(|| Plot::new("graphs", "Memory and CUDA graphs of each experiment", panels).with_alt(words, ""))
}

/// A panel for each series.
fn over_time(input: &ComparisonInput) -> Option<Plot> {
    let panels = input.series.iter().enumerate().map(|(index, series)| {
        let points: Vec<(f64, Option<f64>)> = series.points.iter().map(|(at, value)| (*at, Some(*value))).collect();
        let line = Layer::line("", reduced(&points, MAX_POINTS), Colour::Series(index));
        Panel::new(
            series.name.as_str(),
            Axis::new("time", Unit::Seconds),
            Axis::new("", series.unit),
            [line],
        )
    });
    let words = input.series.iter().filter_map(|series| {
        let highest = series.points.iter().map(|(_, value)| *value).max_by(f64::total_cmp)?;
        Some(format!("{}: at most {}.", series.name, with_unit(highest, series.unit)))
    });
    let words = words.collect::<Vec<_>>().join(" ");
    let name = slug(input.series.first()?.name.as_str());
    Some(Plot::new(name, "Over time", panels).with_alt(words, ""))
}
