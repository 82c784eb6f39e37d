//! Compares runs and files of other tools with a baseline, the first of them.
//!
//! A [`Finding`] is one metric in the baseline and in one other input. `boundaries` compares boundaries as metrics.
//! `thresholds` parses and evaluates thresholds. `layout` makes sentences, tables and their order of the result.

mod boundaries;
mod layout;
mod thresholds;

use std::collections::BTreeSet;

pub use boundaries::ChangedPoint;
pub(super) use layout::{MAIN_METRICS, change_phrase, decimals, findings, setup_table};
pub use layout::{
    comparison_findings, comparison_markdown, comparison_sections, completeness_warnings, threshold_blocks,
};
use serde::Serialize;
pub use thresholds::{Rule, Thresholds};

use crate::compare::{Case, ComparisonInput, Direction, Unit};
use crate::experiment::is_negligible;
use crate::fault::Result;
use crate::fmt::list;

/// Metrics that describe the effort of measuring. Only thresholds that name them apply.
const EFFORT: [&str; 3] = ["points", "runs", "timeline_samples"];

/// Better and worse metrics that a finding names.
const MAX_NAMED: usize = 3;

/// A comparison of several inputs with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Every metric of the boundary and of each case, in every input but the first. Ordered by case, metric and input.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// Cases without a counterpart, and what else must be known.
    pub notes: Vec<String>,
    /// Differences of setup between the baseline and each other input.
    pub setup_differences: Vec<SetupDifference>,
    /// Points that fit in the baseline and fail in another input, or the reverse: at most a few hundred of each
    /// kind.
    pub changed_points: Vec<ChangedPoint>,
    /// Whether the baseline's recommended point still fits, in sentences.
    pub advice: Vec<String>,
    /// Inputs whose search had another question than the baseline's, so that nothing is judged.
    pub not_judged: Vec<NotJudged>,
    /// Number of inputs.
    #[serde(skip)]
    inputs: usize,
    /// Case and name of percentiles that too few requests support: nothing is concluded from them.
    #[serde(skip)]
    thin: Vec<(String, String)>,
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

/// What is concluded about one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum Verdict {
    /// Beyond its threshold.
    Exceeded,
    /// Missing on one side, or a run is unfinished and its final value could change the verdict.
    NotCompared,
    /// The difference lies within an uncertainty interval, or is too small to matter.
    NotSignificant,
    /// Within its threshold.
    Within,
    /// Worse, without a threshold.
    Worse,
    /// Better, without a threshold.
    Better,
    /// Changed, and the metric has no better direction.
    Other,
    /// Unchanged.
    Same,
}

impl From<Verdict> for &'static str {
    fn from(verdict: Verdict) -> Self {
        verdict.words()
    }
}

impl Verdict {
    /// The name, as in JSON.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exceeded => "exceeded",
            Self::NotCompared => "not compared",
            Self::NotSignificant => "not significant",
            Self::Within => "within",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Other => "other",
            Self::Same => "same",
        }
    }
}

/// One metric in the baseline and in another input, with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The case's name, or `boundary`.
    pub case: String,
    /// The metric.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better; `None` if unknown.
    pub better: Option<Direction>,
    /// Value in the baseline.
    pub before: Option<f64>,
    /// Value in the other input.
    pub after: Option<f64>,
    /// The difference in per cent of `before`.
    pub percent: Option<f64>,
    /// Interval of each value: 95 % confidence, or, for a boundary, from proven to fit to proven to fail.
    pub intervals: [Option<[f64; 2]>; 2],
    /// The threshold as the user wrote it.
    pub threshold: Option<String>,
    /// The lowest and the highest value that it allows, in the metric's unit.
    pub allowed: [Option<f64>; 2],
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, if the numbers alone do not show it.
    pub why: Option<String>,
    /// What a boundary proves beyond the values; `None` for what was measured.
    #[serde(skip)]
    proof: Option<Proof>,
}

/// What boundaries prove about a metric beyond its values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Proof {
    /// Whether a point that fitted in the baseline fails in the other input.
    newly_fails: bool,
    /// Whether a point that failed in the baseline fits in the other input.
    newly_fits: bool,
    /// For the baseline and the other input: the range of possible final values of an unfinished run.
    ranges: [Option<[f64; 2]>; 2],
}

/// One metric of one input.
#[derive(Clone, Debug, PartialEq)]
struct MetricValue {
    name: String,
    unit: Unit,
    value: f64,
    interval: Option<[f64; 2]>,
    better: Option<Direction>,
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
        }
    }
}

impl Finding {
    /// A measured metric of which no direction is better.
    pub fn new(case: &str, name: &str, unit: Unit, before: Option<f64>, after: Option<f64>) -> Self {
        let change = before.zip(after).filter(|(before, _)| *before != 0.0);
        Self {
            subject: 1,
            case: case.to_owned(),
            name: name.to_owned(),
            unit,
            better: None,
            before,
            after,
            percent: change.map(|(before, after)| 100.0 * (after - before) / before.abs()),
            intervals: [None, None],
            threshold: None,
            allowed: [None, None],
            verdict: Verdict::NotCompared,
            why: None,
            proof: None,
        }
        .judged()
    }

    /// The finding with its verdict without thresholds.
    fn judged(mut self) -> Self {
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return self;
        };
        let rises = after > before;
        let confirmed = self.confirms(rises);
        self.verdict = match self.better {
            _ if before == after => Verdict::Same,
            _ if self.unfinished().is_some() => {
                self.why = self.unfinished();
                Verdict::NotCompared
            }
            _ if self.within_interval() && !confirmed => Verdict::NotSignificant,
            _ if self.proof.is_none() && is_negligible(before, after, self.unit) => Verdict::NotSignificant,
            None | Some(Direction::Neutral) => Verdict::Other,
            Some(better) if rises == (better == Direction::More) => Verdict::Better,
            Some(_) => Verdict::Worse,
        };
        self
    }

    /// Whether points with opposite verdicts confirm that the value has risen, or else fallen.
    fn confirms(&self, rises: bool) -> bool {
        let loss = rises == (self.better == Some(Direction::Less));
        self.proof
            .is_some_and(|proof| if loss { proof.newly_fails } else { proof.newly_fits })
    }

    /// Whether either value lies within the other's interval.
    fn within_interval(&self) -> bool {
        let within = |value: Option<f64>, interval: Option<[f64; 2]>| {
            let both = value.zip(interval);
            both.is_some_and(|(value, [low, high])| low <= value && value <= high)
        };
        within(self.after, self.intervals[0]) || within(self.before, self.intervals[1])
    }

    /// Names the unfinished inputs whose value can still change; `None` if there are none.
    fn unfinished(&self) -> Option<String> {
        let [first, other] = self.proof?.ranges;
        let mut unfinished: Vec<String> = first.iter().map(|_| label(0)).collect();
        unfinished.extend(other.iter().map(|_| label(self.subject)));
        let end = if unfinished.len() == 1 { "its end" } else { "their end" };
        (!unfinished.is_empty()).then(|| format!("{} did not come to {end}", list(&unfinished)))
    }

    /// The verdict with its reason: `not compared: [2] did not come to its end`.
    pub fn verdict_text(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.verdict.words()),
            None => self.verdict.words().to_owned(),
        }
    }

    /// The metric, by how much it changed, and its threshold, for a message.
    pub fn summary(&self) -> String {
        let change = match (self.before.and(self.after), self.percent) {
            (None, _) => " is not on both sides".to_owned(),
            (_, Some(percent)) => format!(" {percent:+.1} %"),
            _ => String::new(),
        };
        let why = self.why.as_ref().filter(|_| self.verdict == Verdict::Exceeded);
        let why = why.map_or_else(String::new, |why| format!(" not compared, {why}"));
        let threshold = self.threshold.as_deref().unwrap_or_default();
        format!("{} of {}{change}{why} ({threshold})", self.name, self.case)
    }
}

impl Comparison {
    /// A comparison of two inputs of which only the findings are known.
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
            let having = case.iter();
            let mut having = having.zip(inputs).filter_map(|(case, input)| Some(((*case)?, input)));
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

    /// Adds a finding about each metric of a case and each input but the first. `metrics` are those of each input, of a
    /// boundary `proven` by it. The number of its points is a count and proves nothing.
    fn add(&mut self, case: &str, proven: bool, metrics: &[Vec<MetricValue>], inputs: &[ComparisonInput]) {
        let mut seen = BTreeSet::new();
        for one in metrics.iter().flatten().filter(|one| seen.insert(&one.name)) {
            let of = |index: usize| {
                let mut own = metrics[index].iter();
                own.find(|other| other.name == one.name && other.unit == one.unit)
            };
            for subject in 1..inputs.len() {
                let (before, after) = (of(0), of(subject));
                if before.is_none() && after.is_none() {
                    continue;
                }
                let value = |metric: Option<&MetricValue>| metric.map(|metric| metric.value);
                let range = |metric: Option<&MetricValue>, input: &ComparisonInput| {
                    input.unfinished.as_ref().and(metric).map(boundaries::possible_values)
                };
                let changed = |fits| {
                    let mut changed = self.changed_points.iter();
                    changed.any(|point| point.subject == subject && point.fits == fits)
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

    /// Where a recommended point gives up one axis for another, neither is better or worse.
    fn ignore_moves_along_the_boundary(&mut self) {
        for subject in 1..self.inputs {
            let findings = self.findings.iter_mut();
            let moved = findings.filter(|finding| finding.subject == subject && is_recommendation(&finding.name));
            let moved: Vec<&mut Finding> = moved.collect();
            let any = |verdict| moved.iter().any(|finding| finding.verdict == verdict);
            if any(Verdict::Better) && any(Verdict::Worse) {
                moved.into_iter().for_each(|finding| finding.verdict = Verdict::Other);
            }
        }
    }
}

/// Recommended points may move along the boundary from search to search, trading one axis for another. Only
/// thresholds that name them apply.
fn is_recommendation(name: &str) -> bool {
    name.starts_with("recommended ")
}

/// The cases to compare, each as every input has it: those of the baseline, then those that only another input has.
fn matched_cases(inputs: &[ComparisonInput]) -> Vec<Vec<Option<&Case>>> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let of_first = first.cases.iter().map(|case| {
        let partners = others.iter();
        let partners = partners.map(|other| matching_case(case, &first.cases, &other.cases));
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

/// The case to compare with `case`: one of the same name; else the only one whose coordinates do not contradict; else
/// the only one, if both inputs have exactly one case.
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

/// An input's label in tables: `[1]`.
fn label(index: usize) -> String {
    format!("[{}]", index + 1)
}

/// Properties whose difference is stated before any metric.
const IMPORTANT: [&str; 5] = ["model", "GPU", "memory of the GPUs", "engine", "simulated profile"];

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
    pub important: bool,
}

/// Setup differences between the baseline and each run, most important first. A property recorded by only one
/// run is skipped, except parameters.
fn setup_differences(inputs: &[ComparisonInput]) -> Vec<SetupDifference> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, other) in others.iter().enumerate() {
        let rest = first.setup.keys().chain(other.setup.keys()).map(String::as_str);
        let mut rest: Vec<&str> = rest.filter(|name| !IMPORTANT.contains(name)).collect();
        rest.sort_unstable_by_key(|name| (INCIDENTAL.contains(name), *name));
        rest.dedup();
        for name in IMPORTANT.into_iter().chain(rest) {
            let (before, after) = (property(first, name), property(other, name));
            let optional = name.starts_with("parameter ") && !first.setup.is_empty() && !other.setup.is_empty();
            if before == after || !(optional || before.is_some() && after.is_some()) {
                continue;
            }
            let [before, after] = [before, after].map(|value| value.unwrap_or("none").to_owned());
            found.push(SetupDifference {
                subject: index + 1,
                name: name.to_owned(),
                before,
                after,
                important: IMPORTANT.contains(&name),
            });
        }
    }
    found
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
