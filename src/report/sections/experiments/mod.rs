//! Experiments: the finding, differences between settings with intervals and noise, and every start.

mod forest;
mod starts;

use crate::compare::read_experiment;
use crate::experiment::Experiment;
use crate::fmt::metric_label;
use crate::report::experiment::{derived, failure_reasons, findings, successful_starts, tables};
use crate::report::sections::format::{GIB, list, number, tenths};
use crate::report::sections::{Section, Source};
use crate::unit::Unit;

/// The sections. Unreadable experiments are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let several = source.found.experiments.len() > 1;
    let read = experiments(source, missing);
    read.iter()
        .enumerate()
        .map(|(index, (_, found))| {
            let name = if several {
                format!("experiment-{}", index + 1)
            } else {
                "experiment".to_owned()
            };
            section(found, name)
        })
        .collect()
}

/// The experiments with their names; damaged ones are reported in `missing`.
pub(super) fn experiments(source: &Source, missing: &mut Vec<String>) -> Vec<(String, Experiment)> {
    let mut read = Vec::new();
    for (name, value) in &source.found.experiments {
        match read_experiment(value) {
            Ok(found) => read.push((name.clone(), found)),
            Err(_) => missing.push(format!("skipped experiment `{name}`: cannot be read")),
        }
    }
    read
}

fn section(found: &Experiment, name: String) -> Section {
    let measured = &found.measured;
    let mut paragraphs: Vec<String> = findings(found).into_iter().map(|finding| finding + ".").collect();
    paragraphs.extend(found.conclusions.iter().cloned());
    let starts = measured.settings.iter().enumerate();
    let starts: Vec<String> = starts
        .map(|(index, setting)| format!("{} of {}", successful_starts(found, index), setting.name))
        .collect();
    let workload = match measured.asked.as_str() {
        "" => String::new(),
        asked => format!(" Workload: {asked}."),
    };
    paragraphs.push(format!("Successful starts: {}.{workload}", list(&starts)));
    paragraphs.extend(
        failure_reasons(found)
            .into_iter()
            .map(|why| format!("A start failed: {why}")),
    );
    let plots = [
        forest::plot(found, format!("{name}-differences")),
        starts::plot(found, format!("{name}-starts")),
    ];
    Section {
        title: format!("Experiment: {}", measured.name),
        paragraphs,
        plots: plots.into_iter().flatten().collect(),
        sheets: tables(found).into_iter().chain(derived(found)).collect(),
        name,
        ..Section::default()
    }
}

/// The factor and the unit in which tables show a value.
pub(in crate::report::sections) fn scaled(unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::Bytes => (1.0 / GIB, "GiB"),
        Unit::Tokens => (1.0, "tokens"),
        Unit::TokensPerSecond => (1.0, "tokens/s"),
        Unit::RequestsPerSecond => (1.0, "requests/s"),
        Unit::Seconds => (1.0, "s"),
        Unit::Milliseconds => (1.0, "ms"),
        Unit::Percent => (1.0, "%"),
        Unit::Watts => (1.0, "W"),
        Unit::Celsius => (1.0, "°C"),
        Unit::Count => (1.0, ""),
    }
}

pub(in crate::report::sections) fn with_unit(value: f64, unit: Unit) -> String {
    let (factor, unit) = scaled(unit);
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{space}{unit}", number(value * factor))
}

/// `+1,567.2 %`.
fn percent(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", tenths(percent.abs()))
}
