//! Evaluates thresholds on the findings of a comparison. Pure.
//!
//! A relative limit ignores a difference within the uncertainty interval of either run, unless a boundary proves
//! it: a point that fitted before fails now. An absolute limit is compared with the value itself.
//!
//! A boundary is not a sample: what fitted once fits. A lower value is a loss only if a point that fitted fails
//! now; otherwise the search may have tested fewer points. An unfinished run has proven only a part: its values can
//! still change, and a limit applies only if all values that they could still take lie on one side of it.

use super::rule::{Rule, exceeds};
use super::{Comparison, EFFORT, Finding, Verdict, is_recommendation};
use crate::compare::{ComparisonInput, Direction};
use crate::fault::{Fault, Result};

/// Why a metric beyond its limit still passes.
const UNPROVEN: &str = "exceeds the limit, but lies within the other run's uncertainty interval";

/// Names that an error message lists.
const LISTED: usize = 8;

/// The thresholds of one comparison.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    /// One for each threshold of the command line. One for `*` applies to every metric that no other names.
    pub rules: Vec<Rule>,
    /// Whether a metric that cannot be compared counts as exceeded.
    pub strict: bool,
}

impl Thresholds {
    /// Fails if the inputs cannot be held to thresholds: one was not measured, or some are simulated and others not.
    ///
    /// # Errors
    ///
    /// `usage` with the reason.
    pub fn check_inputs(&self, inputs: &[ComparisonInput]) -> Result<()> {
        if self.rules.is_empty() {
            return Ok(());
        }
        if let Some(nothing) = inputs.iter().find(|input| input.is_empty()) {
            let (title, how) = (&nothing.title, nothing.unfinished.as_ref());
            let how = how.map_or_else(String::new, |how| format!(" ({how})"));
            return Err(Fault::usage(format!(
                "`{title}` has nothing to compare: nothing was measured in it{how}"
            ))
            .hint(format!("see `profiler show {title}`")));
        }
        if inputs.iter().any(|input| input.simulated != inputs[0].simulated) {
            return Err(
                Fault::usage("a threshold cannot compare a simulated with a measured run")
                    .hint("compare two simulated or two measured runs, or leave out the thresholds"),
            );
        }
        Ok(())
    }

    /// The findings of a comparison, those with thresholds once for each threshold.
    ///
    /// # Errors
    ///
    /// `usage` for a threshold on an unknown metric, on one without a worse side, or in a wrong unit.
    pub fn evaluate(&self, comparison: &Comparison) -> Result<Vec<Finding>> {
        let (general, named): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_general());
        for rule in &named {
            check(rule, comparison)?;
        }
        let mut all = Vec::new();
        for finding in &comparison.findings {
            let mut rules = named.clone();
            rules.retain(|rule| rule.matches(&finding.case, &finding.name));
            // Metrics that are new, too.
            let by_name_only = finding.before.is_none()
                || EFFORT.contains(&finding.name.as_str())
                || finding.name.starts_with("std_")
                || is_recommendation(&finding.name);
            if rules.is_empty() && !by_name_only {
                rules.clone_from(&general);
            }
            let mut held = Vec::new();
            for rule in rules {
                held.extend(self.apply(rule, finding)?);
            }
            if held.is_empty() {
                held.push(finding.clone());
            }
            all.append(&mut held);
        }
        let held = |one: &Finding| one.threshold.is_some() && (self.strict || one.before.and(one.after).is_some());
        if let ([], [rule, ..]) = (&named[..], &general[..])
            && !all.iter().any(held)
        {
            let message = format!("no figure is on both sides: `{}` could never be exceeded", rule.text);
            return Err(Fault::usage(message).hint("compare what has common figures, or leave out the threshold"));
        }
        Ok(all)
    }

    /// Applies a threshold to a metric; `None` if neither has a worse side.
    fn apply(&self, rule: &Rule, finding: &Finding) -> Result<Option<Finding>> {
        let bound = |before| rule.bound(&finding.name, finding.unit, finding.better, before);
        let Some(limits) = bound(finding.before)? else {
            return Ok(None);
        };
        let undecided = match self.strict {
            true => Verdict::Exceeded,
            false => Verdict::NotCompared,
        };
        let is_exceeded = |before, after| {
            let limits = bound(before).ok().flatten();
            limits.is_some_and(|limits| exceeds(limits, after))
        };
        let after = finding.after.filter(|_| finding.before.is_some() || !rule.relative);
        let (verdict, why) = match after {
            None => (undecided, None),
            Some(after) if !is_decided(finding, after, is_exceeded) => (undecided, finding.unfinished()),
            Some(after) if !exceeds(limits, after) => (Verdict::Within, None),
            Some(after) => {
                let confirmed = finding.confirms(after > limits[1]);
                match rule.relative && finding.within_interval() && !confirmed {
                    true => (Verdict::NotSignificant, Some(UNPROVEN.to_owned())),
                    false => (Verdict::Exceeded, None),
                }
            }
        };
        let known = !rule.relative || finding.before.is_some();
        Ok(Some(Finding {
            threshold: Some(rule.text.clone()),
            allowed: limits.map(|limit| Some(limit).filter(|limit| known && limit.is_finite())),
            verdict,
            why,
            ..finding.clone()
        }))
    }
}

/// Whether all values that both inputs could still take lie on the same side of the limit.
fn is_decided(finding: &Finding, after: f64, is_exceeded: impl Fn(Option<f64>, f64) -> bool) -> bool {
    let [befores, afters] = finding.proof.unwrap_or_default().ranges;
    let befores = befores.map_or_else(|| vec![finding.before], |range| range.map(Some).to_vec());
    let afters = afters.map_or_else(|| vec![after], |range| range.to_vec());
    let sides = befores
        .iter()
        .flat_map(|before| afters.iter().map(|after| is_exceeded(*before, *after)));
    let exceeded = sides.filter(|exceeded| *exceeded).count();
    exceeded == 0 || exceeded == befores.len() * afters.len()
}

/// Rejects a threshold on an unknown metric, or on one without a worse side.
fn check(rule: &Rule, comparison: &Comparison) -> Result<()> {
    let refuse = |why: String, hint: String| Err(Fault::usage(format!("`{}`: {why}", rule.text)).hint(hint));
    let mut matched = comparison
        .findings
        .iter()
        .filter(|one| rule.matches(&one.case, &one.name))
        .peekable();
    let Some(first) = matched.peek() else {
        let name = &rule.name;
        if comparison.thin.iter().any(|(case, name)| rule.matches(case, name)) {
            let hint = "measure more requests, or set the limit on a lower percentile or the mean";
            let why = format!("`{name}` is thin: too few independent requests support it");
            return refuse(why, hint.to_owned());
        }
        return refuse(
            format!("there is no figure `{name}`"),
            nearest_names(name, &comparison.findings),
        );
    };
    let name = &first.name;
    let mut directions: Vec<Option<Direction>> = matched.map(|finding| finding.better).collect();
    directions.dedup();
    // A pattern may match several metrics, of which at least one must be possible.
    if let [better] = directions[..] {
        rule.check(better)?;
    }
    if directions.iter().all(|better| !rule.has_side(*better)) {
        return refuse(
            format!("it is unknown whether a higher or a lower `{name}` is worse"),
            "write `<=` or `>=`, or a limit with a sign".to_owned(),
        );
    }
    Ok(())
}

/// The names most similar to an unknown one, for an error hint.
fn nearest_names(wanted: &str, findings: &[Finding]) -> String {
    let figure = wanted.rsplit('/').next().unwrap_or(wanted);
    let in_cases: Vec<&str> = findings
        .iter()
        .filter(|one| one.name == figure)
        .map(|one| one.case.as_str())
        .collect();
    let (what, mut names) = match in_cases.is_empty() {
        true => (
            "the nearest are".to_owned(),
            findings.iter().map(|one| one.name.as_str()).collect(),
        ),
        false => (format!("`{figure}` is a figure of"), in_cases),
    };
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| {
        let holds = name.contains(figure) || figure.contains(name);
        (!holds, strsim::damerau_levenshtein(figure, name))
    });
    match names.len() {
        0 => "nothing that is compared has figures".to_owned(),
        all if all <= LISTED => format!("{what}: {}", names.join(", ")),
        all => format!("{what}: {} and {} more", names[..LISTED].join(", "), all - LISTED),
    }
}
