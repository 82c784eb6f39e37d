//! Loads: throughput and latency by concurrency or request rate, latency distributions, and requests over time.
//!
//! `sweep` reads loads and groups those that differ only in their level, `curves` draws and tabulates sweeps, `requests`
//! reads the files of single loads.

mod curves;
mod requests;
mod sweep;

use serde::Deserialize;

use requests::LoadFiles;
use sweep::SweepLevel;

use crate::compare::LoadMetric;
use crate::fmt::{list, ms, number};
use crate::report::document::sentence;
use crate::report::plot::Plot;
use crate::report::sections::{Section, Source};
use crate::run::RecordedRun;

pub(super) use sweep::{Sweep, SweepAxis, distinguishing_labels, sweeps};

/// The sections. Missing files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let sweeps = sweeps(source.found);
    let all: Vec<&Sweep> = sweeps.iter().collect();
    let several = sweeps.len() > 1;
    let sections = comparison_section(&all, "loads", "Comparison of loads").into_iter();
    let mut sections: Vec<Section> = sections.collect();
    let mut files = LoadFiles::new(&source.folder);
    for (number, sweep) in (1..).zip(&sweeps) {
        let name = if several {
            format!("load-{number}")
        } else {
            "load".to_owned()
        };
        sections.push(section(sweep, source, &name, &mut files, several));
    }
    missing.extend(files.unfinished(&sweeps));
    missing.extend(files.missing);
    sections
}

/// A section for several sweeps over the same axis; none for fewer than two with curves.
pub(super) fn comparison_section(sweeps: &[&Sweep], name: &str, title: &str) -> Option<Section> {
    let sweeps: Vec<&Sweep> = sweeps.iter().copied().filter(|sweep| sweep.has_curve()).collect();
    let axis = sweeps.first()?.axis;
    if sweeps.len() < 2 || sweeps.iter().any(|sweep| sweep.axis != axis) {
        return None;
    }
    let texts: Vec<String> = sweeps.iter().map(|sweep| key_levels(sweep)).collect();
    let words = texts.join(" ");
    let title_of_curves = "Throughput and latency of all sweeps".to_owned();
    let curves = curves::plot(&sweeps, format!("{name}-curves"), title_of_curves, words.clone());
    let trade = curves::tradeoff(&sweeps, format!("{name}-trade"), words);
    let plots = std::iter::once(curves).chain(trade);
    let section = Section::new(name, title).with(texts).with(plots);
    Some(section.with([curves::sweeps_table(&sweeps)]))
}

/// The section of a sweep or of a single load. One of `several` is compared with the others above.
fn section(sweep: &Sweep, source: &Source, name: &str, files: &mut LoadFiles, several: bool) -> Section {
    let of_sweep = match sweep.name.as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    };
    let mut plots: Vec<Plot> = Vec::new();
    let (title, mut paragraphs, sheet) = match sweep.has_curve() {
        true => {
            let words = paragraphs(sweep);
            let title = format!("Throughput and latency along {}{of_sweep}", sweep.axis.name());
            let name_of_curves = format!("{name}-curves");
            plots.push(curves::plot(&[sweep], name_of_curves, title.clone(), words.join(" ")));
            if !several {
                plots.extend(curves::tradeoff(&[sweep], format!("{name}-trade"), key_levels(sweep)));
            }
            (title, words, curves::sweeps_table(&[sweep]))
        }
        false => {
            let words = single_load(sweep).into_iter().collect();
            (format!("Load{of_sweep}"), words, curves::load_table(sweep))
        }
    };
    paragraphs.extend(slo_text(sweep, source.found));
    plots.extend(files.plots(sweep, name));
    Section::new(name, title).with(paragraphs).with(plots).with([sheet])
}

/// The most important levels, and what the levels say besides the finding, which stands at the top of the page.
fn paragraphs(sweep: &Sweep) -> Vec<String> {
    let notes = sweep.findings.notes.iter().map(|text| sentence(text));
    std::iter::once(key_levels(sweep)).chain(notes).collect()
}

/// Throughput and median latencies at the lowest level, the saturation point and the highest level.
fn key_levels(sweep: &Sweep) -> String {
    let levels = sweep.key_levels().into_iter().filter_map(|level| {
        let median = |(name, latency)| Some(format!("{name} {}", median_text(level, latency)?));
        let latencies = [("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("E2E latency", "e2el_ms")];
        let latencies: Vec<String> = latencies.into_iter().filter_map(median).collect();
        let latencies = match latencies.is_empty() {
            true => String::new(),
            false => format!(", median {}", list(&latencies)),
        };
        let (tokens, at) = (number(level.throughput()?), sweep.level_text(level.at));
        Some(format!("{at}: {tokens} output tokens/s{latencies}"))
    });
    let levels: Vec<String> = levels.collect();
    let name = match sweep.name.as_str() {
        "" => String::new(),
        name => format!("{name}, "),
    };
    sentence(&format!("{name}{}", levels.join("; ")))
}

/// The median of a latency with its 99th percentile, if enough requests support it: `10 ms (p99 20 ms)`.
fn median_text(level: &SweepLevel, latency: &str) -> Option<String> {
    let p99 = LoadMetric::named(&format!("p99_{latency}"))?;
    let supported = level.loads.iter().all(|load| !p99.thin(load));
    let p99 = p99.combined(&level.loads).filter(|_| supported);
    let p99 = p99.map_or_else(String::new, |p99| format!(" (p99 {})", ms(p99)));
    Some(format!("{}{p99}", ms(level.value(&format!("median_{latency}"))?)))
}

fn single_load(sweep: &Sweep) -> Option<String> {
    let level = sweep.levels.first()?;
    let (completed, issued) = (level.value("completed")?, level.value("issued")?);
    let at = match sweep.axis {
        SweepAxis::Other => String::new(),
        _ => format!(" at {}", sweep.level_text(level.at)),
    };
    let tokens = level.throughput();
    let tokens = tokens.map_or_else(String::new, |tokens| format!(": {} output tokens/s", number(tokens)));
    let (completed, issued) = (number(completed), number(issued));
    let mut text = format!("{completed} of {issued} requests{at} completed{tokens}.");
    if let Some(median) = median_text(level, "ttft_ms") {
        text += &format!(" Median TTFT was {median}.");
    }
    if let Some(preemptions) = level.value("preemptions").filter(|count| *count > 0.0) {
        text += &format!(" There were {preemptions} preemptions.");
    }
    Some(text)
}

/// The result of the script `slo`, which searches the largest level that meets an SLO.
#[derive(Deserialize)]
struct SloSearch {
    axis: String,
    /// Required share of good requests.
    attainment: f64,
    meets: Option<f64>,
    fails: Option<f64>,
}

/// The SLO and what the script `slo` found on this sweep; the table has the share of good requests of each level. None
/// without an SLO.
fn slo_text(sweep: &Sweep, found: &RecordedRun) -> Option<String> {
    let mut loads = sweep.levels.iter().flat_map(|level| &level.loads);
    let slo = loads.find_map(|load| load.stats.goodput.as_ref())?.slo;
    let limits = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2E latency", slo.e2el_ms),
    ];
    let limit = |(name, limit): (&str, Option<f64>)| Some(format!("{name} at most {} ms", number(limit?)));
    let limits = list(&limits.into_iter().filter_map(limit).collect::<Vec<_>>());
    let search = found.result().and_then(|result| SloSearch::deserialize(result).ok());
    let known = |at: f64| sweep.levels.iter().any(|level| level.at == at);
    // A search on another engine has other levels.
    let search = search.filter(|search| search.axis == sweep.axis.name());
    let search = search.filter(|search| search.meets.into_iter().chain(search.fails).all(known));
    let result = search.map_or_else(String::new, |search| {
        let level = |at: Option<f64>| at.map(|at| sweep.level_text(at));
        let meets = match level(search.meets) {
            Some(level) => format!("{level} is the largest level shown to reach it"),
            None => "no level was shown to reach it".to_owned(),
        };
        let fails = level(search.fails).map_or_else(String::new, |level| format!("; {level} was shown not to"));
        let required = number(100.0 * search.attainment);
        format!(" Required are {required} % of all requests: {meets}{fails}.")
    });
    Some(format!(
        "A request meets the SLO with {limits}; failed and cut-off requests do not.{result}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sweep::tests::sweep;
    use super::*;
    use crate::load::Summary;
    use crate::load::engine_side::Knee;

    #[test]
    fn levels_come_first_and_then_notes() {
        let answer = |tokens: f64, ttft: f64| {
            let ttft = Summary {
                median: Some(ttft),
                p99: Some(2.0 * ttft),
                ..Summary::default()
            };
            json!({ "output_throughput": tokens, "ttft_ms": ttft })
        };
        let mut sweep = sweep(&[
            (1.0, answer(20.0, 10.0)),
            (32.0, answer(640.0, 40.0)),
            (64.0, answer(641.0, 900.0)),
        ]);
        sweep.findings.finding = "saturates at 32".to_owned();
        sweep.findings.notes = vec!["cheapest at 32".to_owned()];
        sweep.findings.knee = Some(Knee {
            x: 32.0,
            y: 640.0,
            low: 32.0,
            high: 32.0,
            distance: 0.5,
        });
        assert_eq!(
            paragraphs(&sweep),
            [
                "Concurrency 1: 20 output tokens/s, median TTFT 10 ms (p99 20 ms); concurrency 32: 640 output tokens/s, median TTFT \
                 40 ms (p99 80 ms); concurrency 64: 641 output tokens/s, median TTFT 900 ms (p99 1.80 s).",
                "Cheapest at 32.",
            ]
        );
    }
}
