//! Loads: throughput and latency by concurrency or request rate, latency distributions, and requests over time.
//!
//! `sweep` reads loads and groups those that differ only in their level, `requests` reads the files of single loads.

mod requests;
mod sweep;
mod trials;

use serde::Deserialize;

use requests::LoadFiles;
use sweep::SweepLevel;

use crate::compare::LoadMetric;
use crate::fmt::{Unit, list, ms, number};
use crate::load::engine_side::Onset;
use crate::report::document::Section;
use crate::report::document::sentence;
use crate::report::plot::{Axis, Colour, Entry, Layer, MarkerShape, Panel, Plot, Scale, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::source::{Source, numbered};
use crate::run::RecordedRun;

pub use trials::trials_sheet;

pub(super) use sweep::{Sweep, SweepAxis, distinguishing_labels, extend, number_alike, sweeps};

/// The sections. Missing files are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let sweeps = sweeps(source.found);
    let all: Vec<&Sweep> = sweeps.iter().collect();
    let several = sweeps.len() > 1;
    let mut sections: Vec<Section> = comparison_section(&all, "loads", "Comparison of loads")
        .into_iter()
        .collect();
    let mut files = LoadFiles::new(&source.folder);
    for (number, sweep) in (1..).zip(&sweeps) {
        let name = numbered("load", number, several);
        sections.push(section(sweep, source, &name, &mut files, several));
    }
    sections.push(Section::new("starts", "Loads of each start").with(trials_sheet(source.found)));
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
    let curves = curves_plot(&sweeps, format!("{name}-curves"), title_of_curves, words.clone(), None);
    let trade = tradeoff(&sweeps, format!("{name}-trade"), words);
    let plots = std::iter::once(curves).chain(trade);
    let section = Section::new(name, title).with(texts).with(plots);
    Some(section.with([sweeps_table(&sweeps)]))
}

/// The section of a sweep or of a single load. With `several` sweeps, the comparison above has the tradeoff chart.
fn section(sweep: &Sweep, source: &Source, name: &str, files: &mut LoadFiles, several: bool) -> Section {
    let of_sweep = match sweep.name.as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    };
    let mut plots: Vec<Plot> = Vec::new();
    let (title, mut paragraphs, sheet) = if sweep.has_curve() {
        let words = paragraphs(sweep);
        let title = format!("Throughput and latency along {}{of_sweep}", sweep.axis.name());
        let name_of_curves = format!("{name}-curves");
        let required = slo_search(sweep, source.found).map(|search| search.attainment);
        plots.push(curves_plot(
            &[sweep],
            name_of_curves,
            title.clone(),
            words.join(" "),
            required,
        ));
        if !several {
            plots.extend(tradeoff(&[sweep], format!("{name}-trade"), key_levels(sweep)));
        }
        (title, words, sweeps_table(&[sweep]))
    } else {
        let words = single_load(sweep).into_iter().collect();
        (format!("Load{of_sweep}"), words, load_table(sweep))
    };
    paragraphs.extend(slo_text(sweep, source.found));
    plots.extend(files.plots(sweep, name));
    let found = findings_table(sweep);
    Section::new(name, title)
        .with(paragraphs)
        .with(found)
        .with(plots)
        .with([sheet])
}

/// The findings of a sweep, a row for each; none without a curve.
fn findings_table(sweep: &Sweep) -> Option<Sheet> {
    let rows = sweep.findings.rows.iter().map(|row| {
        [
            ("finding", row.finding.as_str().into()),
            (sweep.axis.name(), row.at.into()),
            ("output tokens/s", row.output_throughput.into()),
            ("mean TTFT, ms", row.mean_ttft_ms.into()),
            ("why", row.why.as_str().into()),
        ]
    });
    (rows.len() > 0).then(|| Sheet::from_rows(rows).filled())
}

/// The key levels and the notes of a sweep. Its finding is at the top of the page.
fn paragraphs(sweep: &Sweep) -> Vec<String> {
    let notes = sweep.findings.notes.iter().map(|text| sentence(text));
    std::iter::once(key_levels(sweep)).chain(notes).collect()
}

/// Throughput and median latencies at the lowest level, the saturation point and the highest level.
fn key_levels(sweep: &Sweep) -> String {
    let levels: Vec<String> = sweep
        .key_levels()
        .into_iter()
        .filter_map(|level| {
            let median = |(name, latency)| Some(format!("{name} {}", median_text(level, latency)?));
            let latencies: Vec<String> = [("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("E2E latency", "e2el_ms")]
                .into_iter()
                .filter_map(median)
                .collect();
            let (tokens, at) = (number(level.throughput()?), sweep.level_text(level.at));
            let throughput = format!("{at}: {tokens} output tokens/s");
            Some(if latencies.is_empty() {
                throughput
            } else {
                format!("{throughput}, median {}", list(&latencies))
            })
        })
        .collect();
    let name = match sweep.name.as_str() {
        "" => String::new(),
        name => format!("{name}, "),
    };
    sentence(&format!("{name}{}", levels.join("; ")))
}

/// The median of a latency with its 99th percentile, if enough requests support it: `10 ms (p99 20 ms)`.
fn median_text(level: &SweepLevel, latency: &str) -> Option<String> {
    let metric = LoadMetric::named(&format!("p99_{latency}"))?;
    let supported = level.loads.iter().all(|load| !metric.thin(load));
    let p99 = metric
        .combined(&level.loads)
        .filter(|_| supported)
        .map_or_else(String::new, |p99| format!(" (p99 {})", ms(p99)));
    Some(format!("{}{p99}", ms(level.value(&format!("median_{latency}"))?)))
}

fn single_load(sweep: &Sweep) -> Option<String> {
    let level = sweep.levels.first()?;
    let (completed, issued) = (level.value("completed")?, level.value("issued")?);
    let at = match sweep.axis {
        SweepAxis::Other => String::new(),
        _ => format!(" at {}", sweep.level_text(level.at)),
    };
    let tokens = level
        .throughput()
        .map_or_else(String::new, |tokens| format!(": {} output tokens/s", number(tokens)));
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

/// The result of the script `slo`, if its levels are those of this sweep.
fn slo_search(sweep: &Sweep, found: &RecordedRun) -> Option<SloSearch> {
    let known = |at: f64| sweep.levels.iter().any(|level| level.at == at);
    let search = SloSearch::deserialize(found.result()?).ok()?;
    // A search on another engine has other levels.
    let is_of_sweep = search.axis == sweep.axis.name() && search.meets.into_iter().chain(search.fails).all(known);
    is_of_sweep.then_some(search)
}

/// The SLO, and the result of the script `slo` for this sweep; the table has the share of good requests at each level.
/// None without an SLO.
fn slo_text(sweep: &Sweep, found: &RecordedRun) -> Option<String> {
    let slo = sweep.slo()?;
    let limits: Vec<String> = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2E latency", slo.e2el_ms),
    ]
    .into_iter()
    .filter_map(|(name, limit)| Some(format!("{name} at most {} ms", number(limit?))))
    .collect();
    let result = slo_search(sweep, found).map_or_else(String::new, |search| {
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
        "A request meets the SLO with {}; failed and cut-off requests do not.{result}",
        list(&limits)
    ))
}

/// An axis is logarithmic if its largest value is at least this many times its smallest.
const LOG_LEVEL_RATIO: f64 = 8.0;
const LOG_VALUE_RATIO: f64 = 20.0;

/// The latencies of a figure: the title of the panel, and the metric's name without its statistic.
const LATENCIES: [(&str, &str); 3] = [
    ("time to first token (TTFT)", "ttft_ms"),
    ("time per output token (TPOT)", "tpot_ms"),
    ("end-to-end latency (E2E)", "e2el_ms"),
];

/// The statistics of a latency that are drawn for a single sweep, with their markers.
const STATISTICS: [(&str, MarkerShape); 3] = [
    ("median", MarkerShape::Circle),
    ("p90", MarkerShape::Ring),
    ("p99", MarkerShape::Cross),
];

/// The metrics of a tooltip, which has little room.
const TOOLTIP: &str = "failed request_throughput output_throughput median_ttft_ms p99_ttft_ms median_tpot_ms p99_tpot_ms \
                       median_e2el_ms p99_e2el_ms kv_usage waiting preemptions";

/// Output throughput, TTFT, TPOT and E2E latency over the levels. A single sweep is drawn with percentiles, the marks
/// of its findings and its SLO, first the share of requests that meet it and the share that is `required`; of several
/// sweeps, only medians are drawn.
fn curves_plot(sweeps: &[&Sweep], name: String, title: String, words: String, required: Option<f64>) -> Plot {
    let single = sweeps.len() == 1;
    let statistics = if single { &STATISTICS[..] } else { &STATISTICS[..1] };
    let latencies = LATENCIES.into_iter().filter_map(|(title, latency)| {
        let metrics: Vec<String> = statistics.iter().map(|(one, _)| format!("{one}_{latency}")).collect();
        let prefix = if single { "" } else { "median " };
        panel(sweeps, &format!("{prefix}{title}"), Unit::Milliseconds, &metrics)
    });
    let metric = ["output_throughput".to_owned()];
    let throughput = panel(sweeps, "output throughput", Unit::TokensPerSecond, &metric);
    // Only with a price.
    let cost = panel(
        sweeps,
        "cost of a million output tokens, $",
        Unit::Count,
        &["cost_output".to_owned()],
    );
    let mut caption = if single {
        "Percentiles that too few requests support are drawn too; the table marks them with ~.".to_owned()
    } else {
        "Diamonds are saturation points.".to_owned()
    };
    if sweeps.iter().any(|sweep| sweep.axis == SweepAxis::Rate) {
        caption += " Times count from when a request was sent.";
    }
    let attainment = sweeps
        .first()
        .filter(|_| single)
        .and_then(|sweep| attainment_panel(sweep, required));
    let panels = attainment.into_iter().chain(throughput).chain(latencies).chain(cost);
    Plot::new(name, title, panels).with_alt(words, caption)
}

/// The share of requests that meet the SLO, by level; none without an SLO.
fn attainment_panel(sweep: &Sweep, required: Option<f64>) -> Option<Panel> {
    let share = |level: &SweepLevel| Some(100.0 * level.value("good_share")?);
    let points = sweep.points(share);
    points.iter().find_map(|point| point.1)?;
    let line = Layer::line("", points, Colour::Series(STATISTICS.len() + 1)).with_markers(MarkerShape::Circle);
    let rule = required.map(|required| {
        let percent = 100.0 * required;
        Layer::horizontal_rule(format!("required: {} %", number(percent)), percent, Colour::Limit).dashed(true)
    });
    let y = Axis::new("", Unit::Percent).with_range(Some((0.0, 106.0)));
    let layers = std::iter::once(line).chain(rule).collect::<Vec<_>>();
    let tooltips = tooltips(&[sweep], |level| Some((level.at, share(level)?)));
    Some(Panel::new("requests that meet the SLO", level_axis(&[sweep]), y, layers).with_tooltips(tooltips))
}

/// A panel with a line for each metric of each sweep; none if nothing is known.
fn panel(sweeps: &[&Sweep], title: &str, unit: Unit, metrics: &[String]) -> Option<Panel> {
    let single = sweeps.len() == 1;
    let is_latency = unit == Unit::Milliseconds;
    // A logarithmic axis cannot show zero, and a latency of zero is no measurement.
    let value = |level: &SweepLevel, metric: &str| level.value(metric).filter(|value| !is_latency || *value > 0.0);
    let (mut layers, mut all) = (Vec::new(), Vec::new());
    for (index, sweep) in sweeps.iter().enumerate() {
        if single {
            layers.extend(finding_marks(sweep, !is_latency));
        }
        for (at, metric) in metrics.iter().enumerate() {
            let points = sweep.points(|level| value(level, metric));
            all.extend(points.iter().filter_map(|point| point.1));
            let name = if single && is_latency {
                STATISTICS[at].0.to_owned()
            } else if single || is_latency {
                // The panel's title says it, or the legend that all panels share.
                String::new()
            } else {
                sweep.name.clone()
            };
            // Throughput gets a colour that no statistic in the legend has.
            let series = if single && !is_latency {
                STATISTICS.len()
            } else {
                index + at
            };
            let marker = if single {
                STATISTICS[at].1
            } else {
                MarkerShape::series(index)
            };
            let line = Layer::line(name, points, Colour::Series(series));
            layers.push(line.with_markers(marker).dashed(at > 0));
        }
    }
    let latency = metrics[0].split_once('_').map_or("", |(_, latency)| latency);
    let limit = sweeps
        .first()
        .filter(|_| single)
        .and_then(|sweep| sweep.slo()?.limit(latency));
    if let Some(limit) = limit.filter(|_| !all.is_empty()) {
        all.push(limit);
        layers.push(Layer::horizontal_rule("SLO", limit, Colour::Limit).dashed(true));
    }
    if !single && !is_latency {
        let knees = sweeps.iter().filter_map(|sweep| sweep.findings.knee);
        layers.extend(knee_marks(knees.map(|knee| (knee.x, knee.y)).collect()));
    }
    let y = if is_latency {
        value_axis("", unit, &all)
    } else {
        zero_based_axis("", unit, &all)
    };
    let tooltips = tooltips(sweeps, |level| Some((level.at, value(level, &metrics[0])?)));
    (!all.is_empty()).then(|| Panel::new(title, level_axis(sweeps), y, layers).with_tooltips(tooltips))
}

/// The axis of the sweep's levels; logarithmic if they span a wide range, as doubling levels do.
fn level_axis(sweeps: &[&Sweep]) -> Axis {
    let (label, unit) = match sweeps.first().map(|sweep| sweep.axis) {
        Some(SweepAxis::Rate) => ("request rate", Unit::RequestsPerSecond),
        _ => ("concurrent requests", Unit::Count),
    };
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels).map(|level| level.at);
    Axis::new(label, unit).with_scale(scale(&levels.collect::<Vec<_>>(), LOG_LEVEL_RATIO))
}

/// An axis of values; logarithmic if they span a wide range, and otherwise from zero.
fn value_axis(label: &str, unit: Unit, values: &[f64]) -> Axis {
    match scale(values, LOG_VALUE_RATIO) {
        Scale::Linear => zero_based_axis(label, unit, values),
        wide => Axis::new(label, unit).with_scale(wide),
    }
}

fn zero_based_axis(label: &str, unit: Unit, values: &[f64]) -> Axis {
    let top = values.iter().copied().fold(0.0, f64::max);
    Axis::new(label, unit).with_range((top > 0.0).then_some((0.0, 1.06 * top)))
}

fn scale(values: &[f64], wide: f64) -> Scale {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low > 0.0 && high >= wide * low {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Vertical lines at the saturation point and at the onset of preemption and queueing; `named` adds their labels.
fn finding_marks(sweep: &Sweep, named: bool) -> Vec<Layer> {
    let findings = &sweep.findings;
    let onset = |onset: &Option<Onset>| onset.as_ref().map(|onset| onset.first_with);
    let found = [
        (
            findings.knee.map(|knee| knee.x),
            "saturation point",
            Colour::Recommended,
        ),
        (onset(&findings.preemption), "preemption", Colour::Limit),
        (onset(&findings.queue), "queue grows", Colour::Limit),
    ];
    let mut marks: Vec<(f64, String, Colour)> = Vec::new();
    for (at, what, colour) in found
        .into_iter()
        .filter_map(|(at, what, colour)| Some((at?, what, colour)))
    {
        match marks.iter_mut().find(|mark| mark.0 == at) {
            Some(mark) => (mark.1, mark.2) = (format!("{}, {what}", mark.1), colour),
            None => marks.push((at, format!("{what}: {}", number(at)), colour)),
        }
    }
    let line = |(at, label, colour): (f64, String, Colour)| {
        let label = if named { label } else { String::new() };
        Layer::vertical_rule(label, at, colour).dashed(colour == Colour::Limit)
    };
    marks.into_iter().map(line).collect()
}

/// Diamonds at these saturation points; none if there are none.
fn knee_marks(points: Vec<(f64, f64)>) -> Option<Layer> {
    (!points.is_empty()).then(|| Layer::dots("saturation point", points, Colour::Recommended, MarkerShape::Diamond))
}

/// Throughput against latency, of one sweep or several; none if no sweep has two levels with both values.
fn tradeoff(sweeps: &[&Sweep], name: String, words: String) -> Option<Plot> {
    let panels = [("median TTFT", "median_ttft_ms"), ("median TPOT", "median_tpot_ms")]
        .into_iter()
        .filter_map(|(label, latency)| tradeoff_panel(sweeps, label, latency));
    let level = if sweeps.first()?.axis == SweepAxis::Rate {
        "request rate"
    } else {
        "concurrency"
    };
    let caption = format!(
        "Each mark is a level, labelled with its {level}. Up is more throughput, left is lower latency for each user."
    );
    let plot = Plot::new(name, "Throughput against latency", panels).with_alt(words, caption);
    (!plot.panels.is_empty()).then_some(plot)
}

fn tradeoff_panel(sweeps: &[&Sweep], label: &str, latency: &str) -> Option<Panel> {
    let place = |level: &SweepLevel| Some((level.value(latency).filter(|ms| *ms > 0.0)?, level.throughput()?));
    let (mut layers, mut notes, mut knees) = (Vec::new(), Vec::new(), Vec::new());
    for (index, sweep) in sweeps.iter().enumerate() {
        let label = |level: &SweepLevel| Some((place(level)?, number(level.at)));
        let own: Vec<((f64, f64), String)> = sweep.levels.iter().filter_map(label).collect();
        if own.len() < 2 {
            continue;
        }
        let points = own.iter().map(|((x, y), _)| (*x, Some(*y)));
        layers.push(
            Layer::line(sweep.name.clone(), points, Colour::Series(index)).with_markers(MarkerShape::series(index)),
        );
        notes.extend(own);
        knees.extend(sweep.knee().and_then(place));
    }
    if layers.is_empty() {
        return None;
    }
    layers.extend(knee_marks(knees));
    let (latencies, tokens): (Vec<f64>, Vec<f64>) = notes.iter().map(|(at, _)| *at).unzip();
    let x = value_axis(label, Unit::Milliseconds, &latencies);
    let y = zero_based_axis("output throughput", Unit::TokensPerSecond, &tokens);
    let panel = Panel::new("", x, y, layers).with_tooltips(tooltips(sweeps, place));
    Some(panel.with_notes(notes))
}

/// A row for each level of each sweep with these metrics, without empty columns; the sweep's name comes first if there
/// are several.
fn level_table<'a>(sweeps: &[&Sweep], metrics: impl IntoIterator<Item = &'a LoadMetric>) -> Sheet {
    let several = sweeps.len() > 1;
    let mut headings: Vec<String> = several.then(String::new).into_iter().collect();
    headings.push(sweeps.first().map_or("", |sweep| sweep.axis.name()).to_owned());
    let levels: Vec<(&Sweep, &SweepLevel)> = sweeps
        .iter()
        .flat_map(|sweep| sweep.levels.iter().map(move |level| (*sweep, level)))
        .collect();
    let head = |(sweep, level): &(&Sweep, &SweepLevel)| {
        let name = several.then(|| Entry::from(sweep.name.as_str()));
        name.into_iter().chain([level.at.into()]).collect()
    };
    let mut rows: Vec<Vec<Entry>> = levels.iter().map(head).collect();
    for metric in metrics {
        let entries: Vec<Entry> = levels.iter().map(|(_, level)| entry(level, metric)).collect();
        let is_rare = metric.name == "cut_off";
        let says_nothing = |entry: &Entry| *entry == Entry::None || is_rare && *entry == "0".into();
        if !entries.iter().all(says_nothing) {
            headings.push(metric.heading.clone());
            rows.iter_mut().zip(entries).for_each(|(row, entry)| row.push(entry));
        }
    }
    Sheet::new(headings, rows)
}

/// A metric of a level. Percentiles that too few requests support are marked with `~`.
fn entry(level: &SweepLevel, metric: &LoadMetric) -> Entry {
    let thin = level.loads.iter().any(|load| metric.thin(load));
    let value = level
        .value(&metric.name)
        .map(|value| format!("{}{}", if thin { "~" } else { "" }, number(value * metric.scale())));
    value.into()
}

/// A row for each level of each sweep, with every metric that was measured.
fn sweeps_table(sweeps: &[&Sweep]) -> Sheet {
    level_table(sweeps, LoadMetric::all())
}

/// The metrics of a single load in two columns.
fn load_table(sweep: &Sweep) -> Sheet {
    let Sheet { columns, rows, .. } = sweeps_table(&[sweep]);
    let values = rows.into_iter().next().unwrap_or_default();
    let rows = columns.into_iter().zip(values).skip(1);
    Sheet::new(["metric", "value"], rows.map(|(name, value)| vec![name.into(), value]))
}

/// Tooltips at the points that `at` returns; levels without a point have no tooltip.
fn tooltips(sweeps: &[&Sweep], at: impl Fn(&SweepLevel) -> Option<(f64, f64)>) -> Tooltips {
    let sheet = level_table(sweeps, TOOLTIP.split(' ').filter_map(LoadMetric::named));
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels).zip(sheet.rows);
    let points = levels.filter_map(|(level, entries)| Some(TooltipPoint::new(at(level)?, entries)));
    Tooltips::new(sheet.columns, points)
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
        sweep.findings.notes = vec!["no preemptions at any level".to_owned()];
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
                "No preemptions at any level.",
            ]
        );
    }
}

#[cfg(test)]
mod curve_tests {
    use serde_json::json;

    use super::sweep::tests::sweep;
    use super::*;
    use crate::load::LoadAnswer;
    use crate::load::engine_side::{Knee, onset};

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
        let plot = tradeoff(&[&sweep], "trade".to_owned(), String::new()).unwrap();
        let notes = &plot.panels[0].notes;
        let labels: Vec<&str> = notes.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!((labels, notes[1].0), (vec!["1", "8", "64"], (91.0, 1386.0)));
        assert!(
            plot.caption.contains("labelled with its concurrency"),
            "{}",
            plot.caption
        );
    }

    #[test]
    fn marks_at_one_level_are_merged() {
        let mut sweep = sweep(&[]);
        assert!(finding_marks(&sweep, true).is_empty());
        sweep.findings.knee = Some(Knee {
            x: 16.0,
            y: 1.0,
            low: 8.0,
            high: 16.0,
            distance: 0.5,
        });
        sweep.findings.preemption = onset(&[(8.0, false), (16.0, true)]);
        let label = "saturation point: 16, preemption";
        assert_eq!(
            finding_marks(&sweep, true),
            [Layer::vertical_rule(label, 16.0, Colour::Limit).dashed(true)]
        );
    }

    /// A sweep of two levels; the second one was measured twice.
    fn repeated(name: &str) -> Sweep {
        let load = |tokens: f64| json!({ "issued": 20, "output_throughput": tokens });
        let mut sweep = sweep(&[(1.0, load(10.0)), (8.0, load(70.0))]);
        sweep.levels[1].loads.push(LoadAnswer::read(&load(90.0)));
        sweep.name = name.to_owned();
        sweep
    }

    #[test]
    fn table_has_filled_columns_summed_counts_and_marks_thin_percentiles() {
        let mut sweep = repeated("a");
        let ttft = &mut sweep.levels[0].loads[0].stats.latencies.ttft_ms;
        (ttft.p95, ttft.thin.p95) = (Some(410.4), true);
        let sheet = sweeps_table(&[&sweep]);
        let cell = |row: usize, name: &str| {
            sheet.rows[row][sheet.columns.iter().position(|column| column == name).unwrap()].clone()
        };
        assert_eq!(sheet.columns[..2], ["concurrency", "requests"]);
        let empty = |name: &String| name.contains("TPOT") || name == "cut off";
        assert!(!sheet.columns.iter().any(empty), "{:?}", sheet.columns);
        let names = ["requests", "output tokens/s", "p95 TTFT, ms"];
        assert_eq!(
            names.map(|name| cell(0, name)),
            ["20".into(), "10".into(), "~410".into()]
        );
        assert_eq!(names.map(|name| cell(1, name)), ["40".into(), "80".into(), Entry::None]);
        let one = load_table(&sweep);
        assert_eq!(one.columns, ["metric", "value"]);
        assert_eq!(one.rows[0], ["requests".into(), "20".into()]);
    }

    #[test]
    fn several_sweeps_have_names_and_tooltips() {
        let known = TOOLTIP.split(' ').all(|name| LoadMetric::named(name).is_some());
        assert!(known, "every name is that of a metric");
        let sweeps = [repeated("a"), repeated("b")];
        let tooltips = tooltips(&[&sweeps[0], &sweeps[1]], |level| Some((level.at, level.throughput()?)));
        assert_eq!((tooltips.spots.len(), tooltips.columns[1].as_str()), (4, "concurrency"));
        let last = &tooltips.spots[3];
        assert_eq!((last.at, &last.entries[0]), ((8.0, 80.0), &Entry::from("b")));
    }
}
