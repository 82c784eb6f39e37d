//! Loads: throughput and latency by concurrency or request rate, latency distributions, and engine metrics over time.
//!
//! `sweep` reads loads and groups those that differ only in their level. `curves` and `levels` draw sweeps with what
//! `panel` has for all; `files` reads the files of single loads, for `distribution` and `timeline`.

mod curves;
mod distribution;
mod files;
mod levels;
mod panel;
mod sweep;
mod timeline;

use files::LoadFiles;
use sweep::{E2EL, Latency, SweepLevel, TPOT, TTFT};

use crate::load::{LoadAnswer, Summary};
use crate::report::group_warnings;
use crate::report::plot::Plot;
use crate::report::sections::format::{list, ms, number};
use crate::report::sections::{Section, Source};
use crate::warning::Warning;

pub(super) use sweep::{Sweep, SweepAxis, distinguishing_labels, sweeps};

/// The sections. Missing files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let sweeps = sweeps(source.found);
    let all: Vec<&Sweep> = sweeps.iter().collect();
    let several = sweeps.len() > 1;
    let title = if several { "Comparison of loads" } else { "Loads" };
    let mut sections: Vec<Section> = comparison_section(&all, "loads", title).into_iter().collect();
    let mut files = LoadFiles::new(&source.folder);
    for (index, sweep) in sweeps.iter().enumerate() {
        let name = if several {
            format!("load-{}", index + 1)
        } else {
            "load".to_owned()
        };
        sections.push(section(sweep, source, &name, &mut files, several));
    }
    missing.extend(files.missing());
    missing.extend(files.unfinished(&sweeps));
    sections
}

/// A section for several sweeps; none for fewer than two with curves.
pub(super) fn comparison_section(sweeps: &[&Sweep], name: &str, title: &str) -> Option<Section> {
    let sweeps: Vec<&Sweep> = sweeps.iter().copied().filter(|sweep| sweep.has_curve()).collect();
    let curves = curves::comparison(&sweeps, format!("{name}-curves"))?;
    let words = curves.words.clone();
    let plots = std::iter::once(curves).chain(curves::tradeoff(&sweeps, format!("{name}-trade")));
    Some(Section::new(name, title).with_figures(vec![words], plots.collect()))
}

/// The section of a sweep or of a single load. If there are `several`, the timeline of only one level is drawn.
fn section(sweep: &Sweep, source: &Source, name: &str, files: &mut LoadFiles, several: bool) -> Section {
    let of_sweep = if sweep.name.is_empty() {
        String::new()
    } else {
        format!(" of {}", sweep.name)
    };
    let plot_name = |what: &str| format!("{name}-{what}");
    let mut plots: Vec<Plot> = Vec::new();
    let (title, mut paragraphs, sheet) = if sweep.has_curve() {
        let words = paragraphs(sweep);
        let title = format!("Throughput and latency along {}{of_sweep}", sweep.axis.name());
        plots.push(curves::plot(sweep, plot_name("curves"), title.clone(), words.join(" ")));
        if !several {
            plots.extend(curves::tradeoff(&[sweep], plot_name("trade")));
        }
        plots.extend(levels::slo_plot(sweep, source.found, plot_name("limits")));
        plots.extend(levels::engine_plot(sweep, plot_name("engine")));
        plots.extend(levels::cost_plot(sweep, plot_name("cost")));
        (title, words, panel::sweeps_table(&[sweep]))
    } else {
        let words = single_load(sweep).into_iter().collect();
        (format!("Load{of_sweep}"), words, panel::load_table(sweep))
    };
    paragraphs.extend(warnings(sweep).into_iter().map(|warning| format!("Caution, {warning}")));
    let (of_files, note) = files.plots(sweep, name, if several { 1 } else { 3 });
    paragraphs.extend(note);
    plots.extend(of_files);
    Section::new(name, title).with_figures(paragraphs, plots).with([sheet])
}

/// Paragraphs: the finding and its notes, latencies, late requests.
fn paragraphs(sweep: &Sweep) -> Vec<String> {
    let findings = std::iter::once(&sweep.findings.finding).chain(&sweep.findings.notes);
    let findings = findings.filter(|text| !text.is_empty()).map(|text| sentence(text));
    findings.chain(latencies(sweep)).chain(late_requests(sweep)).collect()
}

/// A text as a sentence: a capital first, a full stop at the end.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).chain(['.']).collect()
}

/// The median of a latency with the highest percentile that the level supports: `10 ms (p90 20 ms)`.
fn median_text(level: &SweepLevel, latency: Latency) -> Option<String> {
    type Percentile = fn(&Summary) -> Option<f64>;
    let percentiles: [(&str, Percentile); 3] = [
        ("p99", |one| one.p99.filter(|_| !one.thin.p99)),
        ("p95", |one| one.p95.filter(|_| !one.thin.p95)),
        ("p90", |one| one.p90.filter(|_| !one.thin.p90)),
    ];
    let highest = percentiles.into_iter().find_map(|(name, percentile)| {
        let time = level.mean(|load| percentile(latency(load)))?;
        Some(format!(" ({name} {})", ms(time)))
    });
    Some(format!("{}{}", ms(level.median(latency)?), highest.unwrap_or_default()))
}

/// Medians at the lowest level, the saturation point and the highest level.
fn latencies(sweep: &Sweep) -> Option<String> {
    let kinds = [
        ("Median TTFT is", TTFT),
        ("median TPOT", TPOT),
        ("median E2E latency", E2EL),
    ];
    let sentences = kinds.into_iter().filter_map(|(what, latency)| {
        let levels = sweep.key_levels().into_iter();
        let each = levels.filter_map(|level| {
            let median = median_text(level, latency)?;
            Some(format!("{median} at {}", sweep.level_text(level.at)))
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
    if sweep.axis != SweepAxis::Rate {
        return None;
    }
    let due = sweep.known(|level| level.median(|load| &load.stats.response.ttft_ms));
    let late = due
        .into_iter()
        .filter(|(level, due)| level.median(TTFT).is_some_and(|sent| *due > 1.05 * sent));
    let (worst, due) = late.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Some requests were sent late: counted from when they were due, median TTFT at {} is {}.",
        sweep.level_text(worst.at),
        ms(due)
    ))
}

fn single_load(sweep: &Sweep) -> Option<String> {
    let level = sweep.levels.first()?;
    let count = |count: fn(&LoadAnswer) -> u64| Some(number(level.sum(|load| Some(count(load)))?));
    let (completed, issued) = (count(|load| load.stats.completed)?, count(|load| load.stats.issued)?);
    let at = match sweep.axis {
        SweepAxis::Other => String::new(),
        _ => format!(" at {}", sweep.level_text(level.at)),
    };
    let tokens = level
        .throughput()
        .map(|tokens| format!(": {} output tokens/s", number(tokens)));
    let mut text = format!(
        "{completed} of {issued} requests{at} completed{}.",
        tokens.unwrap_or_default()
    );
    if let Some(median) = median_text(level, TTFT) {
        text += &format!(" Median TTFT was {median}.");
    }
    if let Some(preemptions) = level.sum(|load| load.engine.preemptions).filter(|count| *count > 0.0) {
        text += &format!(" There were {preemptions} preemptions.");
    }
    Some(text)
}

/// The warnings of the loads by kind, with the levels that have them.
fn warnings(sweep: &Sweep) -> Vec<String> {
    let by_level = sweep.levels.iter().flat_map(|level| {
        let warnings = level.loads.iter().flat_map(|load| &load.stats.warnings);
        warnings.map(|warning| (level.at, warning))
    });
    let by_level: Vec<(f64, &Warning)> = by_level.collect();
    let all: Vec<Warning> = by_level.iter().map(|(_, warning)| (*warning).clone()).collect();
    let groups = group_warnings(&all, &[]).into_iter().map(|group| {
        let own = by_level
            .iter()
            .filter(|(_, warning)| group.messages.contains(&warning.message));
        let mut levels: Vec<String> = own.map(|(at, _)| number(*at)).collect();
        levels.dedup();
        match sweep.levels.len() {
            1 => group.sentence(),
            _ => format!("at {}: {}", sweep.axis.level_text(&list(&levels)), group.sentence()),
        }
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sweep::tests::sweep;
    use super::*;
    use crate::load::engine_side::Knee;

    #[test]
    fn the_finding_comes_first_and_then_latencies() {
        let answer = |tokens: f64, ttft: f64| {
            let ttft = Summary {
                median: Some(ttft),
                p90: Some(2.0 * ttft),
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
                "Saturates at 32.",
                "Median TTFT is 10 ms (p90 20 ms) at concurrency 1, 40 ms (p90 80 ms) at concurrency 32 and 900 ms (p90 1.80 s) at \
                 concurrency 64.",
            ]
        );
    }

    #[test]
    fn warnings_are_grouped_by_kind() {
        let first = "the client waited 3 ms: figures are too high";
        let second = "the client waited 28.5 ms: figures are too high";
        let mut sweep = sweep(&[
            (1.0, json!({ "warnings": [first] })),
            (8.0, json!({ "warnings": [second, "2 of 60 requests failed: reset"] })),
        ]);
        assert_eq!(
            warnings(&sweep),
            [
                "at concurrency 1 and 8: the client waited 3 ms: figures are too high (one of 2 such warnings)",
                "at concurrency 8: 2 of 60 requests failed: reset"
            ]
        );
        sweep.levels.truncate(1);
        assert_eq!(warnings(&sweep), [first]);
    }
}
