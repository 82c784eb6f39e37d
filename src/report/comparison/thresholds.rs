//! Evaluates thresholds on the differences between runs. Pure.
//!
//! A relative limit ignores a difference within the uncertainty interval of either run, unless a boundary proves
//! it: a point that fitted before fails now. An absolute limit is compared with the value itself.
//!
//! A boundary is not a sample: what fitted once fits. A lower value is a loss only if a point that fitted fails
//! now; otherwise the search may have tested fewer points. An unfinished run has proven only a part: its values can
//! still change, and a limit applies only if all values that they could still take lie on one side of it.

use serde::Serialize;

use super::rule::Rule;
use super::{ChangedPoint, ComparedMetric, Comparison, EFFORT, UnmatchedMetric, label};
use crate::compare::{Case, ComparisonInput, Direction, Unit};
use crate::experiment::is_negligible;
use crate::fault::{Fault, Result};

/// Why a metric beyond its limit still passes.
const UNPROVEN: &str = "exceeds the limit, but lies within the other run's uncertainty interval";

/// Names that an error message lists.
const LISTED: usize = 8;

/// The thresholds of one comparison.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    /// Thresholds for named metrics.
    pub rules: Vec<Rule>,
    /// Allowed deterioration in per cent of every other metric whose direction is known.
    pub max_regression: Option<f64>,
    /// Whether a metric missing on one side counts as exceeded.
    pub strict: bool,
}

/// The result for one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum Verdict {
    /// Beyond its threshold.
    Exceeded,
    /// Missing on one side, so that its threshold cannot be checked.
    NotCompared,
    /// A run is unfinished, and its final value could lie on either side of the limit.
    NotComparable,
    /// Within its threshold.
    Within,
    /// The difference lies within an uncertainty interval.
    NotSignificant,
    /// A measured difference that is too small to matter.
    Negligible,
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
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Exceeded => "exceeded",
            Self::NotCompared => "not compared",
            Self::NotComparable => "not comparable",
            Self::Within => "within",
            Self::NotSignificant => "not significant",
            Self::Negligible => "negligible",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Other => "other",
            Self::Same => "same",
        }
    }
}

/// One metric in the baseline and in another run, with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Index of the other run; the baseline is 0.
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
    /// Value in the other run.
    pub after: Option<f64>,
    /// `after` minus `before`.
    pub difference: Option<f64>,
    /// The difference in per cent of `before`.
    pub percent: Option<f64>,
    /// Uncertainty intervals of both values.
    pub intervals: [Option<[f64; 2]>; 2],
    /// The threshold as the user wrote it.
    pub threshold: Option<String>,
    /// The limit in the metric's unit: an upper bound if `at_most`, else a lower bound.
    pub limit: Option<f64>,
    /// Whether the limit is an upper bound.
    pub at_most: Option<bool>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, if the numbers alone do not show it.
    pub why: Option<String>,
}

impl Finding {
    /// The verdict with its reason: `not comparable: [2] did not come to its end`.
    #[must_use]
    pub fn verdict_text(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.verdict.words()),
            None => self.verdict.words().to_owned(),
        }
    }
}

/// The verdicts of all metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// Whether any threshold was set.
    pub has_thresholds: bool,
    /// The compared metrics, and those with a threshold that are missing on one side.
    pub findings: Vec<Finding>,
}

impl Evaluation {
    /// The findings with this verdict.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.verdict == verdict)
    }

    /// The findings about thresholds with this verdict.
    pub(super) fn with_threshold(&self, verdict: Verdict) -> impl Iterator<Item = &Finding> {
        self.with_verdict(verdict).filter(|finding| finding.threshold.is_some())
    }
}

impl Thresholds {
    /// Whether any threshold is set.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.rules.is_empty() || self.max_regression.is_some()
    }

    /// Evaluates the thresholds on a comparison.
    ///
    /// # Errors
    ///
    /// `usage` for a threshold on an unknown metric, on one without a worse side, in a wrong unit, or between a
    /// simulated and a measured run.
    pub fn evaluate(&self, comparison: &Comparison, inputs: &[ComparisonInput]) -> Result<Evaluation> {
        if let Some(nothing) = inputs.iter().find(|input| self.any() && input.is_empty()) {
            let how = nothing
                .unfinished
                .as_ref()
                .map_or_else(String::new, |how| format!(" ({how})"));
            return Err(Fault::usage(format!(
                "`{}` has nothing to compare: nothing was measured in it{how}",
                nothing.title
            ))
            .hint(format!("see `profiler show {}`", nothing.title)));
        }
        let first = inputs.first().is_some_and(|first| first.simulated);
        if self.any() && inputs.iter().any(|input| input.simulated != first) {
            return Err(
                Fault::usage("a threshold cannot compare a simulated with a measured run")
                    .hint("compare two simulated or two measured runs, or leave out the thresholds"),
            );
        }
        for rule in &self.rules {
            check_rule(rule, comparison, inputs)?;
        }
        let default = self.max_regression.map(Rule::max_regression).transpose()?;
        let mut evaluation = Evaluation {
            has_thresholds: self.any(),
            findings: Vec::new(),
        };
        let mut compared = false;
        for (finding, proof) in candidates(comparison, inputs) {
            let named = self.rules.iter();
            let mut rules: Vec<&Rule> = named
                .filter(|rule| rule.matches(&finding.case, &finding.name))
                .collect();
            // `--max-regression` reports metrics that disappeared, but not new ones.
            let measures_effort = EFFORT.contains(&finding.name.as_str());
            if rules.is_empty() && finding.before.is_some() && !measures_effort && !is_recommendation(&finding.name) {
                rules.extend(&default);
            }
            let mut held = Vec::new();
            for rule in rules {
                held.extend(apply(rule, &finding, proof, self.strict)?);
            }
            compared |= held
                .iter()
                .any(|held| held.verdict != Verdict::NotCompared || self.strict);
            if held.is_empty() && finding.before.is_some() && finding.after.is_some() {
                held.push(finding);
            }
            evaluation.findings.extend(held);
        }
        if self.rules.is_empty() && self.max_regression.is_some() && !compared {
            return Err(
                Fault::usage("no figure is on both sides: `--max-regression` could never be exceeded")
                    .hint("compare runs with common figures, or leave out `--max-regression`"),
            );
        }
        Ok(evaluation)
    }
}

/// The verdict on one metric of an input without a threshold.
pub(super) fn verdict(
    line: &ComparedMetric,
    subject: usize,
    inputs: &[ComparisonInput],
    changed: &[ChangedPoint],
) -> Verdict {
    let proof = Proof::new(line, subject, inputs, changed);
    let (Some(before), Some(after)) = (line.values[0], line.values[subject]) else {
        return Verdict::NotCompared;
    };
    let rises = after > before;
    let intervals = [line.intervals[0], line.intervals[subject]];
    let confirmed = proof.confirms(rises == (line.better == Some(Direction::Less)));
    match line.better {
        _ if before == after => Verdict::Same,
        _ if proof.unfinished().is_some() => Verdict::NotComparable,
        _ if within_interval(before, after, intervals) && !confirmed => Verdict::NotSignificant,
        _ if !line.proven && is_negligible(before, after, line.unit) => Verdict::Negligible,
        None | Some(Direction::Neutral) => Verdict::Other,
        Some(better) if rises == (better == Direction::More) => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// Every metric of every input but the first, without thresholds: those that several inputs have, then those that only
/// one of two has.
fn candidates<'a>(
    comparison: &'a Comparison,
    inputs: &'a [ComparisonInput],
) -> impl Iterator<Item = (Finding, Proof)> + 'a {
    let lines = comparison.sections.iter().flat_map(|section| {
        let lines = section.lines.iter();
        lines.flat_map(move |line| (1..line.values.len()).map(move |subject| (section.name(), line, subject)))
    });
    let lines = lines.map(|(case, line, subject)| {
        let proof = Proof::new(line, subject, inputs, &comparison.changed_points);
        let (before, after) = (line.values[0], line.values[subject]);
        let verdict = line.verdicts[subject];
        let finding = Finding {
            subject,
            case: case.to_owned(),
            name: line.name.clone(),
            unit: line.unit,
            better: line.better,
            before,
            after,
            difference: before.zip(after).map(|(before, after)| after - before),
            percent: line.percents[subject].filter(|_| before.is_some()),
            intervals: [line.intervals[0], line.intervals[subject]],
            threshold: None,
            limit: None,
            at_most: None,
            why: proof.unfinished().filter(|_| verdict == Verdict::NotComparable),
            verdict,
        };
        (finding, proof)
    });
    // What others share without the baseline is among the lines.
    let lined = |metric: &&UnmatchedMetric| {
        let mut sections = comparison
            .sections
            .iter()
            .filter(|section| section.name() == metric.case);
        !sections.any(|section| section.lines.iter().any(|line| line.name == metric.name))
    };
    let unmatched = comparison.unmatched.iter().filter(lined).map(|metric| {
        let finding = Finding {
            subject: metric.subject,
            case: metric.case.clone(),
            name: metric.name.clone(),
            unit: metric.unit,
            better: Direction::of_metric(&metric.name, metric.unit),
            before: metric.before,
            after: metric.after,
            difference: None,
            percent: None,
            intervals: [None, None],
            threshold: None,
            limit: None,
            at_most: None,
            verdict: Verdict::NotCompared,
            why: None,
        };
        (finding, Proof::default())
    });
    lines.chain(unmatched)
}

/// Recommended points may move along the boundary from search to search, trading one axis for another. Only
/// explicit thresholds apply to them.
pub(super) fn is_recommendation(name: &str) -> bool {
    name.starts_with("recommended ")
}

/// Whether either value lies within the other's interval.
fn within_interval(before: f64, after: f64, [first, other]: [Option<[f64; 2]>; 2]) -> bool {
    let within =
        |value: f64, interval: Option<[f64; 2]>| interval.is_some_and(|[low, high]| low <= value && value <= high);
    within(after, first) || within(before, other)
}

/// Applies a threshold to a metric; `None` if neither the threshold nor the metric has a worse side.
fn apply(rule: &Rule, finding: &Finding, proof: Proof, strict: bool) -> Result<Option<Finding>> {
    let bound = |before| rule.bound(&finding.name, finding.unit, finding.better, before);
    let Some(limit) = bound(finding.before)? else {
        return Ok(None);
    };
    let beyond = |before: Option<f64>, after: f64| {
        bound(before)
            .ok()
            .flatten()
            .is_some_and(|limit| limit.is_exceeded_by(after))
    };
    let needed = finding.after.filter(|_| finding.before.is_some() || !limit.relative);
    let loss = limit.at_most == (finding.better == Some(Direction::Less));
    let (verdict, why) = match (needed, finding.before) {
        (None, _) if strict => (Verdict::Exceeded, None),
        (None, _) => (Verdict::NotCompared, None),
        (Some(after), before) if !proof.decides(before, after, beyond) => {
            let verdict = if strict {
                Verdict::Exceeded
            } else {
                Verdict::NotComparable
            };
            (verdict, proof.unfinished())
        }
        (Some(after), Some(before))
            if limit.relative
                && before != after
                && within_interval(before, after, finding.intervals)
                && !(limit.is_exceeded_by(after) && proof.confirms(loss)) =>
        {
            let why = limit.is_exceeded_by(after).then(|| UNPROVEN.to_owned());
            (Verdict::NotSignificant, why)
        }
        (Some(after), _) if limit.is_exceeded_by(after) => (Verdict::Exceeded, None),
        (Some(_), _) => (Verdict::Within, None),
    };
    Ok(Some(Finding {
        threshold: Some(rule.text.clone()),
        limit: (!limit.relative || finding.before.is_some()).then_some(limit.value),
        at_most: Some(limit.at_most),
        verdict,
        why,
        ..finding.clone()
    }))
}

/// Rejects a threshold on an unknown metric, or on one without a worse side.
fn check_rule(rule: &Rule, comparison: &Comparison, inputs: &[ComparisonInput]) -> Result<()> {
    let lines = comparison.sections.iter().flat_map(|section| {
        let lines = section.lines.iter();
        lines.map(|line| (section.name(), line.name.as_str(), line.better))
    });
    let unmatched = comparison.unmatched.iter();
    let unmatched = unmatched.map(|metric| {
        (
            metric.case.as_str(),
            metric.name.as_str(),
            Direction::of_metric(&metric.name, metric.unit),
        )
    });
    let all: Vec<(&str, &str, Option<Direction>)> = lines.chain(unmatched).collect();
    let on: Vec<_> = all.iter().filter(|(case, name, _)| rule.matches(case, name)).collect();
    if on.is_empty() {
        let mut cases = inputs.iter().flat_map(|input| &input.cases);
        let thin = |case: &Case| {
            let mut figures = case.figures.iter().filter(|figure| figure.thin);
            figures.any(|figure| rule.matches(&case.name, &figure.name))
        };
        if cases.any(thin) {
            return Err(Fault::usage(format!(
                "`{}`: `{}` is thin: too few independent requests support it",
                rule.text,
                rule.name()
            ))
            .hint("measure more requests, or set the limit on a lower percentile or the mean"));
        }
        return Err(
            Fault::usage(format!("`{}`: there is no figure `{}`", rule.text, rule.name()))
                .hint(nearest_names(rule, &all)),
        );
    }
    // A pattern may match several metrics, of which at least one must be possible.
    if let [(_, _, better)] = on[..] {
        rule.check(*better)?;
    }
    let side = |better: Option<Direction>| matches!(better, Some(Direction::More | Direction::Less));
    if !rule.has_side() && !on.iter().any(|(_, _, better)| side(*better)) {
        return Err(Fault::usage(format!(
            "`{}`: it is unknown whether a higher or a lower `{}` is worse",
            rule.text, on[0].1
        ))
        .hint("write `<=` or `>=`, or a limit with a sign"));
    }
    Ok(())
}

/// The most similar names, for an error hint.
fn nearest_names(rule: &Rule, all: &[(&str, &str, Option<Direction>)]) -> String {
    let wanted = rule.name();
    let figure = wanted.rsplit('/').next().unwrap_or(wanted);
    let mut names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "nothing that is compared has figures".to_owned();
    }
    if names.contains(&figure) {
        let mut cases: Vec<&str> = all
            .iter()
            .filter(|(_, name, _)| *name == figure)
            .map(|(case, _, _)| *case)
            .collect();
        cases.dedup();
        cases.truncate(LISTED);
        return format!("`{figure}` is a figure of: {}", cases.join(", "));
    }
    names.sort_by_key(|name| {
        let holds = name.contains(figure) || figure.contains(name);
        (!holds, strsim::damerau_levenshtein(figure, name))
    });
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("the nearest are: {}{more}", names.join(", "))
}

/// Larger than any metric, but small enough that percentages of it stay finite.
const UNBOUNDED: f64 = 1e300;

/// What is known about a boundary metric beyond its value.
#[derive(Clone, Copy, Debug, Default)]
struct Proof {
    /// Whether a point that fitted in the baseline fails in the other input.
    newly_fails: bool,
    /// Whether a point that failed in the baseline fits in the other input.
    newly_fits: bool,
    /// For the baseline and the other input: the range of possible final values of an unfinished run.
    ranges: [Option<[f64; 2]>; 2],
    /// Index of the other input.
    subject: usize,
}

impl Proof {
    /// The default for metrics that were measured.
    fn new(line: &ComparedMetric, subject: usize, inputs: &[ComparisonInput], changed: &[ChangedPoint]) -> Self {
        if !line.proven {
            return Self::default();
        }
        let changed = |fits: bool| changed.iter().any(|one| one.subject == subject && one.fits == fits);
        let range = |index: usize| {
            inputs.get(index).filter(|one| one.unfinished.is_some())?;
            let (value, interval) = (line.values[index]?, line.intervals[index]);
            // Counts and fitting values grow during a search. On an axis where large values are easier, they
            // shrink.
            Some(
                if line.better == Some(Direction::Less) && !line.name.starts_with("newly ") {
                    [interval.map_or(-UNBOUNDED, |[low, _]| low), value]
                } else {
                    [value, interval.map_or(UNBOUNDED, |[_, high]| high)]
                },
            )
        };
        Self {
            newly_fails: changed(false),
            newly_fits: changed(true),
            ranges: [range(0), range(subject)],
            subject,
        }
    }

    /// Whether changed points confirm a loss, or else a gain.
    fn confirms(self, loss: bool) -> bool {
        if loss { self.newly_fails } else { self.newly_fits }
    }

    /// Names the unfinished inputs; `None` if both are finished.
    fn unfinished(self) -> Option<String> {
        let [first, other] = self.ranges;
        let who = match (first.is_some(), other.is_some()) {
            (false, false) => return None,
            (true, false) => label(0),
            (false, true) => label(self.subject),
            (true, true) => format!("{} and {}", label(0), label(self.subject)),
        };
        Some(format!(
            "{who} did not come to {} end",
            if who.contains("and") { "their" } else { "its" }
        ))
    }

    /// Whether all values that both inputs could still take lie on the same side of the limit.
    fn decides(self, before: Option<f64>, after: f64, beyond: impl Fn(Option<f64>, f64) -> bool) -> bool {
        let befores = match self.ranges[0] {
            Some(range) => range.map(Some).to_vec(),
            None => vec![before],
        };
        let afters = self.ranges[1].map_or_else(|| vec![after], |range| range.to_vec());
        let mut sides = befores
            .iter()
            .flat_map(|before| afters.iter().map(|after| beyond(*before, *after)));
        let first = sides.next();
        sides.all(|side| Some(side) == first)
    }
}
