//! What an operator trades: throughput against latency, level by level.

use super::axes::{figures, from_zero};
use super::figures::spots;
use super::findings::Findings;
use super::load::Load;
use super::say::{ms, number};
use super::sweep::{Along, Point, Sweep};
use crate::report::plot::{Colour, Entry, Layer, Note, Panel, Plot, Shape, Sheet};
use crate::unit::Unit;

/// A latency of a load.
type Latency = fn(&Load) -> Option<f64>;

/// The latencies that throughput is held against.
const AGAINST: [(&str, Latency); 2] = [
    ("median time to first token", |load| load.ttft.p50),
    ("median time per output token", |load| load.tpot.p50),
];

/// Throughput against latency of one sweep or of several; nothing where no level has both.
pub(in crate::report::story) fn plot(sweeps: &[(&Sweep, &Findings)], name: String) -> Option<Plot> {
    let panels: Vec<Panel> = AGAINST
        .iter()
        .filter_map(|(label, latency)| panel(sweeps, label, *latency))
        .collect();
    if panels.is_empty() {
        return None;
    }
    let words = sweeps
        .iter()
        .filter_map(|(sweep, findings)| told(sweep, findings))
        .collect::<Vec<_>>()
        .join(" ");
    Some(Plot {
        name,
        title: "Throughput against latency".to_owned(),
        words,
        caption: caption(sweeps),
        panels,
        sheet: Sheet {
            title: String::new(),
            columns: vec![
                "level".into(),
                "output tokens/s".into(),
                "median TTFT, ms".into(),
                "median TPOT, ms".into(),
            ],
            rows: sweeps
                .iter()
                .flat_map(|(sweep, _)| sweep.levels.iter().map(|level| row(sweep, level, sweeps.len() > 1)))
                .collect(),
        },
        ..Plot::default()
    })
}

fn caption(sweeps: &[(&Sweep, &Findings)]) -> String {
    let of = match sweeps.first().map(|(sweep, _)| sweep.along) {
        Some(Along::Concurrency) => ", with how many requests were under way at once beside it",
        Some(Along::Rate) => ", with the requests that arrived in a second beside it",
        _ => "",
    };
    format!(
        "Each mark is a level{of}, in their order along the line: up is more throughput, left is faster for each user."
    )
}

fn row(sweep: &Sweep, level: &Point, several: bool) -> Vec<Entry> {
    let name = if several {
        format!("{}, ", sweep.name)
    } else {
        String::new()
    };
    vec![
        format!("{name}{}{}", number(level.at), sweep.along.behind()).into(),
        level.mean(|load| load.output_throughput).into(),
        level.mean(|load| load.ttft.p50).into(),
        level.mean(|load| load.tpot.p50).into(),
    ]
}

fn panel(sweeps: &[(&Sweep, &Findings)], label: &str, latency: Latency) -> Option<Panel> {
    let place = |level: &Point| {
        Some((
            level.mean(latency).filter(|ms| *ms > 0.0)?,
            level.mean(|load| load.output_throughput)?,
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
        layers.push(Layer::Line {
            name: sweep.name.clone(),
            points: points.iter().map(|(x, y)| (*x, Some(*y))).collect(),
            colour: Colour::Series(u8::try_from(index).unwrap_or(u8::MAX)),
            dashed: false,
            steps: false,
            dots: true,
            right: false,
        });
        let knee = findings
            .knee
            .and_then(|knee| sweep.levels.iter().find(|level| level.at == knee.x));
        knees.extend(knee.and_then(place));
    }
    if !knees.is_empty() {
        layers.push(Layer::Dots {
            name: "knee".to_owned(),
            points: knees,
            colour: Colour::Recommended,
            shape: Shape::Diamond,
        });
    }
    let sweeps: Vec<&Sweep> = sweeps.iter().map(|(sweep, _)| *sweep).collect();
    (!all.is_empty()).then(|| Panel {
        title: String::new(),
        x: figures(label, Unit::Milliseconds, all.iter().map(|place| place.0)),
        y: from_zero(
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

/// The ends of the bargain.
fn told(sweep: &Sweep, findings: &Findings) -> Option<String> {
    let side = |level: &Point| {
        let tokens = level.mean(|load| load.output_throughput)?;
        let first = level
            .mean(|load| load.ttft.p50)
            .map(|time| format!("a first token after {}", ms(time)));
        let each = level
            .mean(|load| load.tpot.p50)
            .map(|time| format!("{} a token", ms(time)));
        let times: Vec<String> = first.into_iter().chain(each).collect();
        let at = format!("{}{}", number(level.at), sweep.along.behind());
        Some(format!(
            "{} tokens/s at {at}, with {} in the median",
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
        .filter_map(side)
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

    #[test]
    fn every_level_is_named_beside_its_point() {
        let level = |at: f64, ms: f64, tokens: f64| {
            let ttft = json!({
                "n": 9, "mean": ms, "median": ms, "std": null, "p50": ms, "p90": null, "p95": null, "p99": null, "p99_9": null, "ci": {},
            });
            let loads = vec![Load::of(&json!({ "output_throughput": tokens, "ttft_ms": ttft }))];
            Point { at, loads }
        };
        let sweep = Sweep {
            name: String::new(),
            along: Along::Concurrency,
            common: serde_json::Map::new(),
            levels: vec![
                level(1.0, 18.0, 202.0),
                level(8.0, 91.0, 1386.0),
                level(64.0, 463.0, 5179.0),
            ],
        };
        let plot = plot(&[(&sweep, &Findings::default())], "trade".to_owned()).unwrap();
        let notes = &plot.panels[0].notes;
        let labels: Vec<&str> = notes.iter().map(|note| note.label.as_str()).collect();
        assert_eq!((labels, notes[1].at), (vec!["1", "8", "64"], (91.0, 1386.0)));
        assert!(plot.caption.contains("at once beside it"), "{}", plot.caption);
    }
}
