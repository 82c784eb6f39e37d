//! Text of a file written by another tool, for `profiler show`.

use console::Style;
use serde_json::Value;

use super::table::{table, wrapped};
use super::{Extras, Page, SIMULATED, breakdown, summarize};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;
use crate::fmt::with_unit;
use crate::memory::Footprint;
use crate::memory::compare::Implausible;

/// With more cases than this, one table shows only the main metrics.
const MAX_FULL_CASES: usize = 2;

const MAX_COLUMNS: usize = 6;

/// The main metrics in order of importance, memory first.
const MAIN_METRICS: [&str; 21] = [
    "total_measured",
    "model_weights",
    "kv_cache_pool",
    "kv_cache_used",
    "activations",
    "framework_overhead",
    "max_allocated_after",
    "reserved_after",
    "reserved_added",
    "cuda_graphs",
    "start_time",
    "peak_memory",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_e2el_ms",
    "p99_e2el_ms",
    "mean_latency_ms",
    "failed",
];

/// The content of a file; implausible values first. No trailing newline.
pub fn comparison_input(input: &ComparisonInput, page: Page) -> Result<String> {
    let mut parts = vec![heading(input)];
    parts.extend(input.simulated.then(|| SIMULATED.to_owned()));
    for case in &input.cases {
        parts.extend(implausible_section(case, input.cases.len() > 1, page));
    }
    if let Some(found) = &input.boundary
        && !found.points.is_empty()
    {
        parts.push(summarize(&found.rebuild()?, &Extras::default(), page)?);
    }
    if input.cases.len() <= MAX_FULL_CASES {
        for case in &input.cases {
            parts.extend(case_tables(case, page));
        }
    } else {
        let names = columns(&input.cases);
        // A case with other metrics than the rest, such as a summary, would be an empty row.
        let has_main_metric = |case: &&Case| case.figures.iter().any(|figure| names.contains(&figure.name.as_str()));
        let (rows, others): (Vec<&Case>, Vec<&Case>) = input.cases.iter().partition(has_main_metric);
        if !rows.is_empty() {
            parts.push(summary(&rows, &names, page));
        }
        for case in others {
            parts.extend(case_tables(case, page));
        }
    }
    if !input.notes.is_empty() {
        parts.push(notes_section(&input.notes, page));
    }
    Ok(parts.join("\n\n"))
}

/// Title, format, model and engine.
pub(super) fn heading(input: &ComparisonInput) -> String {
    let mut lines = vec![format!("{}: {}", input.title, input.format), input.holds.to_owned()];
    let properties = [("model", &input.model), ("engine", &input.engine)];
    let properties = properties
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name} {value}")));
    let properties: Vec<String> = properties.collect();
    if !properties.is_empty() {
        lines.push(properties.join(", "));
    }
    lines.join("\n")
}

/// A section of notes.
pub fn notes_section(notes: &[String], page: Page) -> String {
    format!("notes\n{}", lines(notes.iter().map(String::as_str), page))
}

/// The implausible values of a case under its name; `None` if there are none.
#[must_use]
pub fn implausible(case: &Case, page: Page) -> Option<String> {
    implausible_section(case, true, page)
}

/// The same; the case's name is optional.
pub(super) fn implausible_section(case: &Case, named: bool, page: Page) -> Option<String> {
    if case.implausible.is_empty() {
        return None;
    }
    let of = if named {
        format!(" ({})", case.name)
    } else {
        String::new()
    };
    let line = |found: &Implausible| format!("{}: {}", found.name, found.text);
    let found: Vec<String> = case.implausible.iter().map(line).collect();
    let title = page.paint(&format!("implausible{of}"), Style::new().red().bold());
    Some(format!("{title}\n{}", lines(found.iter().map(String::as_str), page)))
}

fn case_tables(case: &Case, page: Page) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(all) = &case.breakdown {
        let footprint = Footprint {
            all: all.clone(),
            per_gpu: Vec::new(),
            overhead: None,
            details: Value::Null,
        };
        parts.push(breakdown(&case.name, &footprint, page));
    }
    if !case.figures.is_empty() {
        let row = |one: &crate::compare::Metric| vec![one.name.clone(), with_unit(one.value, one.unit)];
        let rows: Vec<Vec<String>> = case.figures.iter().map(row).collect();
        parts.push(table(&[&case.name, ""], &rows, page).trim_end().to_owned());
    }
    parts
}

/// The main metrics that at least one case has.
fn columns(cases: &[Case]) -> Vec<&'static str> {
    let there = |name: &&&str| cases.iter().any(|case| value(case, name).is_some());
    MAIN_METRICS.iter().filter(there).take(MAX_COLUMNS).copied().collect()
}

fn value(case: &Case, name: &str) -> Option<(f64, Unit)> {
    let metric = case.figures.iter().find(|figure| figure.name == name);
    metric.map(|metric| (metric.value, metric.unit))
}

/// One row per case; the metrics left out are in the JSON.
fn summary(cases: &[&Case], names: &[&str], page: Page) -> String {
    let shown =
        |value: Option<(f64, Unit)>| value.map_or_else(|| "-".to_owned(), |(value, unit)| with_unit(value, unit));
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let figures = names.iter().map(|name| shown(value(case, name)));
            std::iter::once(case.name.clone()).chain(figures).collect()
        })
        .collect();
    let headings: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
    format!("{}\n  more figures of each with --json", table(&headings, &rows, page))
}

/// One indented, wrapped paragraph per text.
#[must_use]
pub fn lines<'a>(texts: impl Iterator<Item = &'a str>, page: Page) -> String {
    let width = page.width.clamp(24, 160);
    texts.map(|text| wrapped(text, width)).collect::<Vec<_>>().join("\n")
}
