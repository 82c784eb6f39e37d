//! A sweep in sentences, and the warnings of its loads, grouped by kind.

use super::sweep::{Latency, Sweep, SweepAxis, SweepLevel};
use crate::load::Summary;
use crate::load::engine_side::{Knee, SweepFindings};
use crate::report::sections::format::{list, ms, number};
use crate::report::{WarningGroup, group_warnings};
use crate::warning::Warning;

/// Paragraphs: the finding and its notes, latencies, late requests.
pub(super) fn paragraphs(sweep: &Sweep, findings: &SweepFindings) -> Vec<String> {
    let notes = findings.notes.iter();
    let found = std::iter::once(&findings.finding)
        .chain(notes)
        .filter(|text| !text.is_empty());
    let found = found.map(|text| sentence(text));
    let more = [latencies(sweep, findings.knee), late_requests(sweep)];
    found.chain(more.into_iter().flatten()).collect()
}

/// A text as a sentence: a capital first, a full stop at the end.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).chain(['.']).collect()
}

/// `at concurrency 64`, `at 2 requests/s`.
fn at_level(level: f64, axis: SweepAxis) -> String {
    format!("at {}", axis.level_text(&number(level)))
}

/// The highest percentile that a level supports, with its name.
fn tail(level: &SweepLevel, latency: Latency) -> Option<(&'static str, f64)> {
    type Percentile = fn(&Summary) -> Option<f64>;
    let percentiles: [(&str, Percentile); 3] = [
        ("p99", |one| one.p99.filter(|_| !one.thin.p99)),
        ("p95", |one| one.p95.filter(|_| !one.thin.p95)),
        ("p90", |one| one.p90.filter(|_| !one.thin.p90)),
    ];
    percentiles
        .into_iter()
        .find_map(|(name, of)| Some((name, level.mean(|load| of(latency(load)))?)))
}

/// Medians at the lowest level, the saturation point and the highest level.
fn latencies(sweep: &Sweep, knee: Option<Knee>) -> Option<String> {
    let (first, last) = (sweep.levels.first()?, sweep.levels.last()?);
    let knee = knee.and_then(|knee| sweep.levels.iter().find(|level| level.at == knee.x));
    let mut chosen: Vec<&SweepLevel> = vec![first];
    chosen.extend(knee.filter(|level| level.at != first.at && level.at != last.at));
    chosen.push(last);
    let kinds: [(&str, Latency); 3] = [
        ("Median TTFT is", |load| &load.stats.latencies.ttft_ms),
        ("median TPOT", |load| &load.stats.latencies.tpot_ms),
        ("median E2E latency", |load| &load.stats.latencies.e2el_ms),
    ];
    let sentences = kinds.into_iter().filter_map(|(what, latency)| {
        let each = chosen.iter().filter_map(|level| {
            let median = level.mean(|load| latency(load).median)?;
            let tail = tail(level, latency);
            let tail = tail.map_or_else(String::new, |(name, time)| format!(" ({name} {})", ms(time)));
            Some(format!("{}{tail} {}", ms(median), at_level(level.at, sweep.axis)))
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("{what} {}", list(&each)))
    });
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| format!("{}.", sentences.join("; ")))
}

/// How much TTFT grows if counted from when requests were due. They were sent late because the client was late or
/// concurrency was limited.
fn late_requests(sweep: &Sweep) -> Option<String> {
    let waited = sweep.levels.iter().filter_map(|level| {
        let sent = level.mean(|load| load.stats.latencies.ttft_ms.median)?;
        let due = level.mean(|load| load.stats.response.ttft_ms.median)?;
        (due > 1.05 * sent && sweep.axis == SweepAxis::Rate).then_some((level.at, due))
    });
    let (worst, due) = waited.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Some requests were sent late: counted from when they were due, median TTFT {} is {}.",
        at_level(worst, sweep.axis),
        ms(due)
    ))
}

pub(super) fn single_load(level: &SweepLevel, axis: SweepAxis) -> Option<String> {
    let load = level.loads.first()?;
    let asked = if axis == SweepAxis::Other {
        String::new()
    } else {
        format!(" {}", at_level(level.at, axis))
    };
    let tokens = level
        .mean(|load| load.stats.rates.output_throughput)
        .map(|tokens| format!(": {} output tokens/s", number(tokens)));
    let mut sentences = vec![format!(
        "{} of {} requests{asked} completed{}.",
        number(level.sum(|load| Some(load.stats.completed))?),
        number(level.sum(|load| Some(load.stats.issued))?),
        tokens.unwrap_or_default()
    )];
    if let Some(median) = load.stats.latencies.ttft_ms.median {
        let tail = tail(level, |load| &load.stats.latencies.ttft_ms);
        let tail = tail.map_or_else(String::new, |(name, time)| format!(" ({name}: {})", ms(time)));
        sentences.push(format!("Median TTFT was {}{tail}.", ms(median)));
    }
    if let Some(preemptions) = load.engine.preemptions.filter(|count| *count > 0) {
        sentences.push(format!("There were {preemptions} preemptions."));
    }
    Some(sentences.join(" "))
}

pub(super) fn warnings(sweep: &Sweep) -> Vec<String> {
    let by_level = sweep.levels.iter().flat_map(|level| {
        level
            .loads
            .iter()
            .flat_map(|load| load.stats.warnings.iter().map(|warning| (level.at, warning)))
    });
    let by_level: Vec<(f64, &Warning)> = by_level.collect();
    let all: Vec<Warning> = by_level.iter().map(|(_, warning)| (*warning).clone()).collect();
    let sentence = |one: WarningGroup| {
        let mut levels: Vec<f64> = by_level
            .iter()
            .filter(|(_, warning)| one.messages.contains(&warning.message))
            .map(|(at, _)| *at)
            .collect();
        levels.dedup();
        let levels: Vec<String> = levels.into_iter().map(number).collect();
        match sweep.levels.len() {
            1 => one.sentence(),
            _ => format!("at {}: {}", sweep.axis.level_text(&list(&levels)), one.sentence()),
        }
    };
    group_warnings(&all, &[]).into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::{SweepAxis, SweepLevel};
    use super::*;
    use crate::load::LoadAnswer;

    fn level(at: f64, tokens: f64, first: f64, preemptions: u64) -> SweepLevel {
        let latency = |median| Summary {
            median: Some(median),
            p90: Some(2.0 * median),
            ..Summary::default()
        };
        SweepLevel {
            at,
            loads: vec![LoadAnswer::read(&json!({
                "output_throughput": tokens, "ttft_ms": latency(first), "preemptions": preemptions
            }))],
        }
    }

    #[test]
    fn the_finding_comes_first_and_then_latencies() {
        let levels = vec![
            level(1.0, 20.0, 10.0, 0),
            level(32.0, 640.0, 40.0, 0),
            level(64.0, 641.0, 900.0, 5),
        ];
        let sweep = Sweep {
            name: String::new(),
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels,
        };
        let knee = Knee {
            x: 32.0,
            y: 640.0,
            low: 32.0,
            high: 32.0,
            distance: 0.5,
        };
        let findings = SweepFindings {
            finding: "saturates at 32".to_owned(),
            knee: Some(knee),
            ..SweepFindings::default()
        };
        assert_eq!(
            super::paragraphs(&sweep, &findings),
            [
                "Saturates at 32.",
                "Median TTFT is 10 ms (p90 20 ms) at concurrency 1, 40 ms (p90 80 ms) at concurrency 32 and 900 ms (p90 1.80 s) at \
                 concurrency 64.",
            ]
        );
    }

    #[test]
    fn warnings_are_grouped_by_kind() {
        let level = |at: f64, warnings: &[&str]| SweepLevel {
            at,
            loads: vec![LoadAnswer::read(&json!({ "warnings": warnings }))],
        };
        let levels = vec![
            level(1.0, &["the client waited 3 ms: figures are too high"]),
            level(
                8.0,
                &[
                    "the client waited 28.5 ms: figures are too high",
                    "2 of 60 requests failed: reset",
                ],
            ),
        ];
        let mut sweep = Sweep {
            name: String::new(),
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels,
        };
        assert_eq!(
            warnings(&sweep),
            [
                "at concurrency 1 and 8: the client waited 3 ms: figures are too high (one of 2 such warnings)",
                "at concurrency 8: 2 of 60 requests failed: reset"
            ]
        );
        sweep.levels.truncate(1);
        assert_eq!(warnings(&sweep), ["the client waited 3 ms: figures are too high"]);
    }
}
