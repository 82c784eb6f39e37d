//! The trade-off between throughput and latency, by level.

use super::super::format::{ms, number};
use super::shared::{spots, value_axis, zero_based_axis};
use super::sweep::{LoadValue, Sweep, SweepAxis, SweepLevel};
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Colour, Entry, Layer, Note, Panel, Plot, Shape, Sheet};
use crate::unit::Unit;

/// Latencies on the horizontal axis.
const LATENCIES: [(&str, LoadValue); 2] = [
    ("median TTFT", |load| load.stats.latencies.ttft_ms.median),
    ("median TPOT", |load| load.stats.latencies.tpot_ms.median),
];

/// The chart of one or several sweeps; none if no level has both values.
pub(in crate::report::sections) fn plot(sweeps: &[(&Sweep, &SweepFindings)], name: String) -> Option<Plot> {
    let panels: Vec<Panel> = LATENCIES
        .iter()
        .filter_map(|(label, latency)| panel(sweeps, label, *latency))
        .collect();
    if panels.is_empty() {
        return None;
    }
    let words = sweeps
        .iter()
        .filter_map(|(sweep, findings)| sentence(sweep, findings))
        .collect::<Vec<_>>()
        .join(" ");
    Some(Plot {
        name,
        title: "Throughput against latency".to_owned(),
        words,
        caption: caption(sweeps),
        panels,
        sheet: Sheet::new(
            ["level", "output tokens/s", "median TTFT, ms", "median TPOT, ms"],
            sweeps
                .iter()
                .flat_map(|(sweep, _)| sweep.levels.iter().map(|level| row(sweep, level, sweeps.len() > 1))),
        ),
        ..Plot::default()
    })
}

fn caption(sweeps: &[(&Sweep, &SweepFindings)]) -> String {
    let of = match sweeps.first().map(|(sweep, _)| sweep.axis) {
        Some(SweepAxis::Concurrency) => ", labelled with its concurrency",
        Some(SweepAxis::Rate) => ", labelled with its request rate",
        _ => "",
    };
    format!("Each mark is a level{of}. Up is more throughput, left is lower latency for each user.")
}

fn row(sweep: &Sweep, level: &SweepLevel, several: bool) -> Vec<Entry> {
    let name = if several {
        format!("{}, ", sweep.name)
    } else {
        String::new()
    };
    vec![
        format!("{name}{}", sweep.level_text(level.at)).into(),
        level.mean(|load| load.stats.rates.output_throughput).into(),
        level.mean(|load| load.stats.latencies.ttft_ms.median).into(),
        level.mean(|load| load.stats.latencies.tpot_ms.median).into(),
    ]
}

fn panel(sweeps: &[(&Sweep, &SweepFindings)], label: &str, latency: LoadValue) -> Option<Panel> {
    let place = |level: &SweepLevel| {
        Some((
            level.mean(latency).filter(|ms| *ms > 0.0)?,
            level.mean(|load| load.stats.rates.output_throughput)?,
        ))
    };
    let mut layers = Vec::new();
    let mut all: Vec<(f64, f64)> = Vec::new();
    let mut notes = Vec::new();
    let mut knees: Vec<(f64, f64)> = Vec::new();
    for (index, (sweep, findings)) in sweeps.iter().enumerate() {
        let points: Vec<(f64, f64)> = sweep.levels.iter().filter_map(place).collect();
        if points.len() < 2 {
            continue;
        }
        all.extend(&points);
        notes.extend(sweep.levels.iter().filter_map(|level| {
            let label = number(level.at);
            Some(Note {
                at: place(level)?,
                label,
            })
        }));
        layers.push(
            Layer::line(
                sweep.name.clone(),
                points.iter().map(|(x, y)| (*x, Some(*y))),
                Colour::series(index),
            )
            .with_markers(),
        );
        let knee = findings
            .knee
            .and_then(|knee| sweep.levels.iter().find(|level| level.at == knee.x));
        knees.extend(knee.and_then(place));
    }
    if !knees.is_empty() {
        layers.push(Layer::dots(
            "saturation point",
            knees,
            Colour::Recommended,
            Shape::Diamond,
        ));
    }
    let sweeps: Vec<&Sweep> = sweeps.iter().map(|(sweep, _)| *sweep).collect();
    (!all.is_empty()).then(|| Panel {
        title: String::new(),
        x: value_axis(label, Unit::Milliseconds, all.iter().map(|place| place.0)),
        y: zero_based_axis(
            "output throughput",
            Unit::TokensPerSecond,
            all.iter().map(|place| place.1),
        ),
        layers,
        spots: spots(&sweeps, place),
        notes,
        ..Panel::default()
    })
}

/// Throughput and latency at the ends and at the knee.
fn sentence(sweep: &Sweep, findings: &SweepFindings) -> Option<String> {
    let level_text = |level: &SweepLevel| {
        let tokens = level.mean(|load| load.stats.rates.output_throughput)?;
        let first = level
            .mean(|load| load.stats.latencies.ttft_ms.median)
            .map(|time| format!("TTFT {}", ms(time)));
        let each = level
            .mean(|load| load.stats.latencies.tpot_ms.median)
            .map(|time| format!("TPOT {}", ms(time)));
        let times: Vec<String> = first.into_iter().chain(each).collect();
        let at = sweep.level_text(level.at);
        Some(format!(
            "{} tokens/s at {at}, with median {}",
            number(tokens),
            times.join(" and ")
        ))
    };
    let (first, last) = (sweep.levels.first()?, sweep.levels.last()?);
    let knee = findings
        .knee
        .and_then(|knee| sweep.levels.iter().find(|level| level.at == knee.x));
    let knee = knee.filter(|level| level.at != first.at && level.at != last.at);
    let all: Vec<String> = [Some(first), knee, Some(last)]
        .into_iter()
        .flatten()
        .filter_map(level_text)
        .collect();
    let name = if sweep.name.is_empty() {
        String::new()
    } else {
        format!("{}: ", sweep.name)
    };
    Some(format!("{name}{}.", all.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::load::LoadAnswer;

    #[test]
    fn every_point_is_labelled_with_its_level() {
        let level = |at: f64, ms: f64, tokens: f64| {
            let ttft = json!({
                "n": 9, "mean": ms, "median": ms, "std": null, "p50": ms, "p90": null, "p95": null, "p99": null, "p99_9": null, "ci": {},
            });
            let loads = vec![LoadAnswer::read(
                &json!({ "output_throughput": tokens, "ttft_ms": ttft }),
            )];
            SweepLevel { at, loads }
        };
        let sweep = Sweep {
            name: String::new(),
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels: vec![
                level(1.0, 18.0, 202.0),
                level(8.0, 91.0, 1386.0),
                level(64.0, 463.0, 5179.0),
            ],
        };
        let plot = plot(&[(&sweep, &SweepFindings::default())], "trade".to_owned()).unwrap();
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
