//! A file of another tool, as people read it.

use console::Style;
use serde_json::Value;

use super::figure::figure;
use super::table::{table, wrapped};
use super::{Extras, Page, breakdown, summarize};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;
use crate::memory::Footprint;
use crate::memory::compare::Implausible;

/// Cases that are shown whole; of more, a table of the figures that matter most.
const WHOLE: usize = 2;

/// Columns of that table.
const COLUMNS: usize = 6;

/// The figures that matter most, those of memory first.
const FIRST: [&str; 21] = [
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

/// What a file holds, what cannot be first. No line end after the last line.
pub fn subject(subject: &ComparisonInput, page: Page) -> Result<String> {
    let mut parts = vec![heading(subject)];
    for case in &subject.cases {
        parts.extend(gate(case, subject.cases.len() > 1, page));
    }
    if let Some(found) = &subject.boundary
        && !found.points.is_empty()
    {
        parts.push(summarize(&found.rebuild()?, &Extras::default(), page)?);
    }
    if subject.cases.len() <= WHOLE {
        for case in &subject.cases {
            parts.extend(whole(case, subject.simulated, page));
        }
    } else {
        let names = columns(&subject.cases);
        // A case of other figures than the rest, such as a summary, would be a row of nothing.
        let alike = |case: &&Case| case.figures.iter().any(|figure| names.contains(&figure.name.as_str()));
        let (rows, others): (Vec<&Case>, Vec<&Case>) = subject.cases.iter().partition(alike);
        if !rows.is_empty() {
            parts.push(summary(&rows, &names, page));
        }
        for case in others {
            parts.extend(whole(case, subject.simulated, page));
        }
    }
    if !subject.notes.is_empty() {
        parts.push(notes(&subject.notes, page));
    }
    Ok(parts.join("\n\n"))
}

/// What it is, and of what.
pub(super) fn heading(subject: &ComparisonInput) -> String {
    let mut lines = vec![
        format!("{}: {}", subject.title, subject.format),
        subject.holds.to_owned(),
    ];
    let told = [("model", &subject.model), ("engine", &subject.engine)];
    let told = told
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name} {value}")));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        lines.push(told.join(", "));
    }
    lines.join("\n")
}

/// What the reader must know of the figures.
pub fn notes(notes: &[String], page: Page) -> String {
    format!("notes\n{}", lines(notes.iter().map(String::as_str), page))
}

/// What cannot be as a case says, under its name; none where all of it can.
#[must_use]
pub fn implausible(case: &Case, page: Page) -> Option<String> {
    gate(case, true, page)
}

/// The same, with the case's name only where there are several.
pub(super) fn gate(case: &Case, named: bool, page: Page) -> Option<String> {
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

fn whole(case: &Case, simulated: bool, page: Page) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(all) = &case.breakdown {
        let footprint = Footprint {
            all: all.clone(),
            per_gpu: Vec::new(),
            overhead: None,
            details: Value::Null,
        };
        parts.push(breakdown(&case.name, &footprint, simulated, page));
    }
    if !case.figures.is_empty() {
        let row = |one: &crate::compare::Figure| vec![one.name.clone(), figure(one.value, one.unit)];
        let rows: Vec<Vec<String>> = case.figures.iter().map(row).collect();
        parts.push(table(&[&case.name, ""], &rows, page).trim_end().to_owned());
    }
    parts
}

/// The figures that matter most of those that any case has.
fn columns(cases: &[Case]) -> Vec<&'static str> {
    let there = |name: &&&str| cases.iter().any(|case| value(case, name).is_some());
    FIRST.iter().filter(there).take(COLUMNS).copied().collect()
}

fn value(case: &Case, name: &str) -> Option<(f64, Unit)> {
    let known = case.figures.iter().find(|figure| figure.name == name);
    known.map(|known| (known.value, known.unit))
}

/// A row for each case; the figures that are left out are in the JSON.
fn summary(cases: &[&Case], names: &[&str], page: Page) -> String {
    let shown = |value: Option<(f64, Unit)>| value.map_or_else(|| "-".to_owned(), |(value, unit)| figure(value, unit));
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

/// Texts below each other, each wrapped and set in.
#[must_use]
pub fn lines<'a>(texts: impl Iterator<Item = &'a str>, page: Page) -> String {
    let width = page.width.clamp(24, 160);
    texts.map(|text| wrapped(text, width)).collect::<Vec<_>>().join("\n")
}
