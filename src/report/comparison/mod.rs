//! Compares runs and other tools' files with a baseline, which is the first input.
//!
//! A [`Finding`] is one metric in the baseline and in one other input. `boundaries` compares boundaries as metrics,
//! `setup` compares the setups of the inputs, `thresholds` parses and evaluates thresholds, and `layout` turns the
//! result into sentences and tables.

mod boundaries;
mod finding;
mod layout;
mod setup;
mod thresholds;

use std::collections::BTreeSet;

pub use finding::{ChangedPoint, Comparison, Finding, MetricVerdict};
pub(super) use layout::{MAIN_METRICS, change_phrase, decimals, findings, setup_table};
pub use layout::{
    comparison_findings, comparison_markdown, comparison_sections, completeness_warnings, implausible, threshold_blocks,
};
pub use setup::SetupDifference;
pub use thresholds::{Rule, Thresholds};

use self::finding::{MetricValue, Proof, is_recommendation};
use self::setup::setup_differences;
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;

impl Comparison {
    /// A comparison of two inputs from its findings alone.
    pub fn from_findings(findings: impl IntoIterator<Item = Finding>) -> Self {
        Self {
            findings: findings.into_iter().collect(),
            inputs: 2,
            ..Self::default()
        }
    }

    /// Compares inputs with the first.
    pub fn new(inputs: &[ComparisonInput]) -> Result<Self> {
        let mut comparison = Self {
            inputs: inputs.len(),
            setup_differences: setup_differences(inputs),
            ..Self::default()
        };
        let boundaries = boundaries::compare(&mut comparison, inputs)?;
        comparison.add("boundary", true, &boundaries, inputs);
        for case in matched_cases(inputs) {
            let mut having = case
                .iter()
                .zip(inputs)
                .filter_map(|(case, input)| Some(((*case)?, input)));
            let Some((first, input)) = having.next() else { continue };
            let name = &first.name;
            if having.next().is_none() {
                comparison.notes.push(format!("only {} has {name}", input.title));
            }
            let metrics: Vec<_> = case.iter().map(|case| case.map_or_else(Vec::new, metrics_of)).collect();
            comparison.add(name, false, &metrics, inputs);
            let figures = case.iter().flatten().flat_map(|case| &case.figures);
            let thin = figures.filter(|figure| figure.thin);
            comparison
                .thin
                .extend(thin.map(|figure| (name.clone(), figure.name.clone())));
        }
        comparison.ignore_moves_along_the_boundary();
        Ok(comparison)
    }

    /// Adds a finding about each metric of a case for each input but the first. `metrics` has the metrics of each
    /// input; if `proven`, a boundary proves them, except the number of its points.
    fn add(&mut self, case: &str, proven: bool, metrics: &[Vec<MetricValue>], inputs: &[ComparisonInput]) {
        let mut seen = BTreeSet::new();
        for one in metrics.iter().flatten().filter(|one| seen.insert(&one.name)) {
            let metric_of = |index: usize| {
                metrics[index]
                    .iter()
                    .find(|other| other.name == one.name && other.unit == one.unit)
            };
            for subject in 1..inputs.len() {
                let (before, after) = (metric_of(0), metric_of(subject));
                if before.is_none() && after.is_none() {
                    continue;
                }
                let value = |metric: Option<&MetricValue>| metric.map(|metric| metric.value);
                let range = |metric: Option<&MetricValue>, input: &ComparisonInput| {
                    input.unfinished.as_ref().and(metric).map(boundaries::possible_values)
                };
                let changed = |fits| {
                    self.changed_points
                        .iter()
                        .any(|point| point.subject == subject && point.fits == fits)
                };
                let proof = Proof {
                    newly_fails: changed(false),
                    newly_fits: changed(true),
                    ranges: [range(before, &inputs[0]), range(after, &inputs[subject])],
                };
                let finding = Finding {
                    subject,
                    better: one.better,
                    intervals: [before, after].map(|metric| metric.and_then(|metric| metric.interval)),
                    proof: (proven && one.name != "points").then_some(proof),
                    ..Finding::new(case, &one.name, one.unit, value(before), value(after))
                };
                self.findings.push(finding.judged());
            }
        }
    }

    /// A recommended point that trades one axis for another is neither better nor worse.
    fn ignore_moves_along_the_boundary(&mut self) {
        for subject in 1..self.inputs {
            let findings = self.findings.iter_mut();
            let moved: Vec<&mut Finding> = findings
                .filter(|finding| finding.subject == subject && is_recommendation(&finding.name))
                .collect();
            let any = |verdict| moved.iter().any(|finding| finding.verdict == verdict);
            if any(MetricVerdict::Better) && any(MetricVerdict::Worse) {
                moved
                    .into_iter()
                    .for_each(|finding| finding.verdict = MetricVerdict::Other);
            }
        }
    }
}

/// The cases to compare, each with its counterpart in every input: first the baseline's cases, then cases that only
/// another input has.
fn matched_cases(inputs: &[ComparisonInput]) -> Vec<Vec<Option<&Case>>> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let of_first = first.cases.iter().map(|case| {
        let partners = others
            .iter()
            .map(|other| matching_case(case, &first.cases, &other.cases));
        std::iter::once(Some(case)).chain(partners).collect()
    });
    let mut matched: Vec<Vec<Option<&Case>>> = of_first.collect();
    for (index, input) in inputs.iter().enumerate().skip(1) {
        for case in &input.cases {
            let is_it = |all: &Vec<Option<&Case>>| all[index].is_some_and(|own| std::ptr::eq(own, case));
            if !matched.iter().any(is_it) {
                matched.push((0..inputs.len()).map(|at| (at == index).then_some(case)).collect());
            }
        }
    }
    matched
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
    let figures = case.figures.iter().filter(|one| !one.thin);
    metrics.extend(figures.map(|one| MetricValue {
        interval: one.interval,
        ..MetricValue::new(&one.name, one.unit, one.value)
    }));
    metrics
}

/// The case to compare with `case`: the one with the same name; else the only one without contradicting coordinates;
/// else the only one, if both inputs have exactly one case.
pub fn matching_case<'a>(case: &Case, own: &[Case], others: &'a [Case]) -> Option<&'a Case> {
    if let Some(same) = others.iter().find(|other| other.name == case.name) {
        return Some(same);
    }
    let coordinates = |case: &Case| -> BTreeSet<String> { case.name.split_whitespace().map(str::to_owned).collect() };
    let mine = coordinates(case);
    let agree = |other: &&Case| {
        let other = coordinates(other);
        (mine.is_subset(&other) || other.is_subset(&mine)) && mine.iter().all(|part| part.contains('='))
    };
    let mut agreeing = others.iter().filter(agree);
    match (agreeing.next(), agreeing.next(), own, others) {
        (Some(one), None, ..) => Some(one),
        (_, _, [_], [only]) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_matched_by_the_coordinates_that_both_name() {
        let cases = |names: &[&str]| -> Vec<Case> { names.iter().map(|name| Case::new(*name)).collect() };
        let matching = |case: &Case, own: &[Case], others: &[Case]| {
            matching_case(case, own, others).map(|found| found.name.clone())
        };
        let ours = cases(&["concurrency=4 input=512 output=64", "concurrency=8 input=512 output=64"]);
        let theirs = cases(&["concurrency=8", "concurrency=16"]);
        assert_eq!(matching(&ours[0], &ours, &theirs), None);
        assert_eq!(matching(&ours[1], &ours, &theirs).as_deref(), Some("concurrency=8"));
        assert_eq!(
            matching(&ours[0], &ours[..1], &theirs[..1]).as_deref(),
            Some("concurrency=8"),
            "the only case of each"
        );
        let twice = cases(&["concurrency=4 dtype=a", "concurrency=4 dtype=b"]);
        let one = cases(&["concurrency=4", "x"]);
        assert_eq!(matching(&one[0], &one, &twice), None, "either could be meant");
    }
}
