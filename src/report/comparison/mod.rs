//! Compares runs and files of other tools with a baseline, the first of them.
//!
//! `boundary_metrics` compares boundaries. `rule` parses a threshold, `thresholds` evaluates them. `tables` makes sentences
//! and tables of the result, `layout` orders them.

mod boundary_metrics;
mod layout;
mod rule;
mod tables;
mod thresholds;

use std::collections::BTreeSet;

pub use boundary_metrics::ChangedPoint;
pub use layout::{comparison_markdown, comparison_sections, completeness_warnings};
pub use rule::Rule;
use serde::Serialize;
pub(super) use tables::{differences, findings};
pub use thresholds::{Evaluation, Finding, Thresholds, Verdict};

use crate::compare::{Case, ComparisonInput, Direction, Unit};
use crate::fault::Result;
use crate::fmt::relative;

/// Metrics that describe the effort of measuring. `--max-regression` skips these.
const EFFORT: [&str; 5] = ["points", "runs", "samples", "timeline_samples", "sampled_for"];

/// Better and worse metrics that a finding names.
pub(super) const MAX_NAMED: usize = 3;

/// A comparison of several inputs with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The boundary, and each case of the baseline that others have too.
    pub sections: Vec<ComparedCase>,
    /// Cases without a counterpart.
    pub notes: Vec<String>,
    /// Metrics that only the baseline or only another input has.
    pub unmatched: Vec<UnmatchedMetric>,
    /// Differences of setup between the baseline and each other input.
    pub differences: Vec<SetupDifference>,
    /// Points that fit in the baseline and fail in another input, or the reverse: at most a few hundred of each
    /// kind.
    pub changed_points: Vec<ChangedPoint>,
    /// Whether the baseline's recommended point still fits, in sentences.
    pub advice: Vec<String>,
    /// Inputs whose search asked another question than the baseline's, so that nothing is judged.
    pub not_judged: Vec<NotJudged>,
}

/// The limits of two searches that answer different questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotJudged {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The limit that the baseline found.
    pub before: String,
    /// The limit that the other input found.
    pub after: String,
}

/// One case or boundary that several inputs have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCase {
    /// Its name in each input; `None` where it is missing.
    pub names: Vec<Option<String>>,
    /// The metrics that at least two inputs have.
    pub lines: Vec<ComparedMetric>,
}

/// One metric of several inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedMetric {
    /// The metric.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better; `None` if unknown.
    pub better: Option<Direction>,
    /// Its value in each input.
    pub values: Vec<Option<f64>>,
    /// Difference from the baseline in per cent, for each input.
    pub percents: Vec<Option<f64>>,
    /// Interval of each value: 95 % confidence, or, for a boundary, from proven to fit to proven to fail.
    pub intervals: Vec<Option<[f64; 2]>>,
    /// Whether a boundary proves it, rather than a measurement.
    pub proven: bool,
    /// The verdict on each input without thresholds; the baseline's is `same`.
    pub verdicts: Vec<Verdict>,
}

/// A metric that only one of two inputs has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnmatchedMetric {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The case's name, or `boundary`.
    pub case: String,
    /// The metric.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Value in the baseline.
    pub before: Option<f64>,
    /// Value in the other input.
    pub after: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
struct MetricValue {
    name: String,
    unit: Unit,
    value: f64,
    interval: Option<[f64; 2]>,
    better: Option<Direction>,
    proven: bool,
}

impl MetricValue {
    fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        let name = name.into();
        Self {
            better: Direction::of_metric(&name, unit),
            name,
            unit,
            value,
            interval: None,
            proven: false,
        }
    }
}

impl ComparedCase {
    /// The name of the case, or `boundary`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.iter().flatten().next().map_or("", String::as_str)
    }
}

impl Comparison {
    /// Compares inputs with the first.
    pub fn new(inputs: &[ComparisonInput]) -> Result<Self> {
        let limits = boundary_metrics::boundary_metrics(inputs)?;
        let mut comparison = Self {
            notes: limits.notes,
            differences: setup_differences(inputs),
            changed_points: limits.changed_points,
            advice: limits.advice,
            not_judged: limits.not_judged,
            ..Self::default()
        };
        comparison.add(limits.names, &limits.figures);
        let Some((first, others)) = inputs.split_first() else {
            return Ok(comparison);
        };
        let mut matched: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); others.len()];
        for case in &first.cases {
            let mut partners = vec![Some(case)];
            for (other, matched) in others.iter().zip(&mut matched) {
                let index = matching_case(case, &first.cases, &other.cases);
                matched.extend(index);
                partners.push(index.map(|index| &other.cases[index]));
            }
            if partners.iter().flatten().count() == 1 {
                comparison.notes.push(format!("only {} has {}", first.title, case.name));
            }
            let figures: Vec<Vec<MetricValue>> = partners
                .iter()
                .map(|case| case.map_or_else(Vec::new, metrics_of))
                .collect();
            comparison.add(
                partners.iter().map(|case| case.map(|case| case.name.clone())).collect(),
                &figures,
            );
        }
        for (index, (other, matched)) in others.iter().zip(&matched).enumerate() {
            let alone = other
                .cases
                .iter()
                .enumerate()
                .filter(|(index, _)| !matched.contains(index));
            for (_, case) in alone {
                comparison.notes.push(format!("only {} has {}", other.title, case.name));
                comparison
                    .unmatched
                    .extend(metrics_of(case).into_iter().map(|one| UnmatchedMetric {
                        subject: index + 1,
                        case: case.name.clone(),
                        name: one.name,
                        unit: one.unit,
                        before: None,
                        after: Some(one.value),
                    }));
            }
        }
        for line in comparison.sections.iter_mut().flat_map(|section| &mut section.lines) {
            let of = |subject| thresholds::verdict(line, subject, inputs, &comparison.changed_points);
            line.verdicts = (0..inputs.len()).map(of).collect();
        }
        for section in &mut comparison.sections {
            ignore_moves_along_the_boundary(section);
        }
        Ok(comparison)
    }

    /// Names of selected metrics that differ from the baseline by more than `percent`. A zero baseline counts
    /// as exceeded by any non-zero value.
    #[must_use]
    pub fn beyond(&self, percent: f64, selected: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for section in &self.sections {
            let eligible =
                |line: &&ComparedMetric| !EFFORT.contains(&line.name.as_str()) && !line.name.starts_with("std_");
            for line in section
                .lines
                .iter()
                .filter(eligible)
                .filter(|line| selected(&line.name))
            {
                for (value, percents) in line.values.iter().zip(&line.percents).skip(1) {
                    let zero = line.values[0] == Some(0.0) && value.is_some_and(|value| value != 0.0);
                    if percents.is_some_and(|percents| percents.abs() > percent) || zero {
                        found.push(
                            format!("{} of {} {}", line.name, section.name(), relative(*percents))
                                .trim_end()
                                .to_owned(),
                        );
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, names: Vec<Option<String>>, figures: &[Vec<MetricValue>]) {
        let case = names.iter().flatten().next().cloned().unwrap_or_default();
        let mut lines: Vec<ComparedMetric> = Vec::new();
        for one in figures.iter().flatten() {
            if lines.iter().any(|line| line.name == one.name) {
                continue;
            }
            let same: Vec<Option<&MetricValue>> = figures
                .iter()
                .map(|figures| {
                    figures
                        .iter()
                        .find(|other| other.name == one.name && other.unit == one.unit)
                })
                .collect();
            let values: Vec<Option<f64>> = same.iter().map(|one| one.map(|one| one.value)).collect();
            let unmatched = values.iter().enumerate().skip(1);
            let unmatched = unmatched.filter(|(_, value)| value.is_some() != values[0].is_some());
            self.unmatched.extend(unmatched.map(|(subject, value)| UnmatchedMetric {
                subject,
                case: case.clone(),
                name: one.name.clone(),
                unit: one.unit,
                before: values[0],
                after: *value,
            }));
            if values.iter().flatten().count() < 2 {
                continue;
            }
            let percents = |value: &Option<f64>| {
                let (value, first) = (value.as_ref()?, values[0].filter(|first| *first != 0.0)?);
                Some(100.0 * (value - first) / first.abs())
            };
            lines.push(ComparedMetric {
                name: one.name.clone(),
                unit: one.unit,
                better: one.better,
                proven: one.proven,
                percents: values.iter().map(percents).collect(),
                intervals: same.iter().map(|one| one.and_then(|one| one.interval)).collect(),
                verdicts: Vec::new(),
                values,
            });
        }
        if !lines.is_empty() {
            self.sections.push(ComparedCase { names, lines });
        }
    }
}

/// Where a recommended point gives up one axis for another, neither is better or worse.
fn ignore_moves_along_the_boundary(section: &mut ComparedCase) {
    let mut lines: Vec<&mut ComparedMetric> = section.lines.iter_mut().collect();
    lines.retain(|line| thresholds::is_recommendation(&line.name));
    let subjects = lines.first().map_or(0, |line| line.verdicts.len());
    for subject in 0..subjects {
        let any = |verdict: Verdict| lines.iter().any(|line| line.verdicts[subject] == verdict);
        if any(Verdict::Better) && any(Verdict::Worse) {
            lines
                .iter_mut()
                .for_each(|line| line.verdicts[subject] = Verdict::Other);
        }
    }
}

/// The memory components of a case, then its other metrics.
fn metrics_of(case: &Case) -> Vec<MetricValue> {
    let mut metrics = Vec::new();
    if let Some(breakdown) = &case.breakdown {
        let bytes = |name: &str, bytes: i64| MetricValue::new(name, Unit::Bytes, bytes as f64);
        let parts = breakdown.parts.iter();
        metrics.extend(parts.map(|part| bytes(part.component.name(), part.bytes)));
        metrics.push(bytes("physical", i64::try_from(breakdown.total).unwrap_or(i64::MAX)));
    }
    // Nothing is concluded from a thin percentile.
    let figures = case.figures.iter().filter(|one| !one.thin);
    metrics.extend(figures.map(|one| MetricValue {
        interval: one.interval,
        ..MetricValue::new(&one.name, one.unit, one.value)
    }));
    metrics
}

/// Index of the case to compare with `case`: one of the same name; else the only one whose coordinates do not
/// contradict; else the only one, if both inputs have exactly one case.
pub fn matching_case(case: &Case, own: &[Case], others: &[Case]) -> Option<usize> {
    if let Some(same) = others.iter().position(|other| other.name == case.name) {
        return Some(same);
    }
    let coordinates = |case: &Case| -> BTreeSet<String> { case.name.split_whitespace().map(str::to_owned).collect() };
    let mine = coordinates(case);
    let agree = |other: &Case| {
        let other = coordinates(other);
        (mine.is_subset(&other) || other.is_subset(&mine)) && mine.iter().all(|part| part.contains('='))
    };
    let mut agreeing = (0..others.len()).filter(|index| agree(&others[*index]));
    match (agreeing.next(), agreeing.next()) {
        (Some(one), None) => Some(one),
        _ => (own.len() == 1 && others.len() == 1).then_some(0),
    }
}

/// The finding about each input but the first.
#[must_use]
pub fn comparison_findings(comparison: &Comparison, inputs: usize) -> Vec<String> {
    findings(comparison, &(0..inputs).map(label).collect::<Vec<_>>(), MAX_NAMED)
}

/// An input's label in tables: `[1]`.
fn label(index: usize) -> String {
    format!("[{}]", index + 1)
}

/// Properties whose difference is stated before any metric.
const IMPORTANT: [&str; 5] = [
    "model",
    "GPU",
    "memory of the GPUs, bytes",
    "engine",
    "simulated profile",
];

/// Properties that differ from run to run and explain no difference; listed last.
const INCIDENTAL: [&str; 3] = ["machine", "seed", "profiler"];

/// A property in which two inputs differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetupDifference {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The property: `model`, `GPU`, `parameter input`.
    pub name: String,
    /// Value in the baseline.
    pub before: String,
    /// Value in the other input.
    pub after: String,
    /// Whether the difference makes the metrics hard to compare.
    pub first: bool,
}

impl SetupDifference {
    /// `different GPU: A, B in [2]`.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "different {}: {}, {} in {}",
            self.name,
            self.before,
            self.after,
            label(self.subject)
        )
    }
}

/// Setup differences between the baseline and each run, most important first. A property recorded by only one
/// run is skipped, except parameters.
fn setup_differences(inputs: &[ComparisonInput]) -> Vec<SetupDifference> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, other) in others.iter().enumerate() {
        for name in names(first, other) {
            let (before, after) = (property(first, name), property(other, name));
            let optional = name.starts_with("parameter ") && !first.setup.is_empty() && !other.setup.is_empty();
            let (before, after) = match (before, after) {
                (Some(before), Some(after)) => (before, after),
                (before, after) if optional => (before.unwrap_or("none"), after.unwrap_or("none")),
                _ => continue,
            };
            if before != after {
                found.push(SetupDifference {
                    subject: index + 1,
                    name: name.to_owned(),
                    before: before.to_owned(),
                    after: after.to_owned(),
                    first: IMPORTANT.contains(&name),
                });
            }
        }
    }
    found
}

fn names<'a>(first: &'a ComparisonInput, other: &'a ComparisonInput) -> Vec<&'a str> {
    let rest = first.setup.keys().chain(other.setup.keys()).map(String::as_str);
    let mut rest: Vec<&str> = rest.filter(|name| !IMPORTANT.contains(name)).collect();
    rest.sort_unstable_by_key(|name| (INCIDENTAL.contains(name), *name));
    rest.dedup();
    IMPORTANT.into_iter().chain(rest).collect()
}

/// The value of a property.
fn property<'a>(input: &'a ComparisonInput, name: &str) -> Option<&'a str> {
    match name {
        "model" => input.model.as_deref(),
        "engine" => input.engine.as_deref(),
        name => input.setup.get(name).map(String::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_meet_by_what_both_tell() {
        let cases = |names: &[&str]| -> Vec<Case> { names.iter().map(|name| Case::new(*name)).collect() };
        let ours = cases(&["concurrency=4 input=512 output=64", "concurrency=8 input=512 output=64"]);
        let theirs = cases(&["concurrency=8", "concurrency=16"]);
        assert_eq!(matching_case(&ours[0], &ours, &theirs), None);
        assert_eq!(matching_case(&ours[1], &ours, &theirs), Some(0));
        assert_eq!(
            matching_case(&ours[0], &ours[..1], &theirs[..1]),
            Some(0),
            "the only one beside the only one"
        );
        let twice = cases(&["concurrency=4 dtype=a", "concurrency=4 dtype=b"]);
        let one = cases(&["concurrency=4", "x"]);
        assert_eq!(matching_case(&one[0], &one, &twice), None, "either could be meant");
    }
}
