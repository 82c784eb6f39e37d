//! Thresholds held against what changed. Pure: the same figures and thresholds give the same verdicts.
//!
//! A change against the first is no regression where either figure lies within the interval of the other: then no difference was seen. But where a boundary has proven less
//! and something that fitted fails now, the difference was seen. A limit on the figure itself is held against the figure as it is.

use serde::Serialize;

use super::proof::Proof;
use super::rule::Rule;
use super::{Beside, EFFORT, Line};
use crate::compare::{ComparisonInput, Direction, Unit};
use crate::fault::{Fault, Result};

/// What lets a figure pass although it is beyond its limit.
const UNPROVEN: &str = "beyond the limit as far as was looked, but within what is known of the other";

/// Names that a fault lists.
const LISTED: usize = 8;

/// What the user wants held.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    /// Each on the figures of a name.
    pub rules: Vec<Rule>,
    /// Hundredths that every other figure with a known direction may be worse.
    pub most: Option<f64>,
    /// Whether a figure that one side lacks counts as exceeded.
    pub strict: bool,
}

/// What is said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Beyond its threshold.
    #[serde(rename = "exceeded")]
    Exceeded,
    /// One side lacks it, so that its threshold says nothing.
    #[serde(rename = "not compared")]
    NotCompared,
    /// A run did not come to its end, and what it would have proven could lie on either side of the limit.
    #[serde(rename = "not comparable")]
    NotComparable,
    /// Within its threshold.
    #[serde(rename = "within")]
    Within,
    /// One lies within the interval of the other.
    #[serde(rename = "no difference seen")]
    NoDifferenceSeen,
    /// No threshold is on it, and it is worse.
    #[serde(rename = "worse")]
    Worse,
    /// The same the other way.
    #[serde(rename = "better")]
    Better,
    /// Something else, of which nobody can say whether it is better.
    #[serde(rename = "other")]
    Other,
    /// Not changed.
    #[serde(rename = "same")]
    Same,
}

impl Verdict {
    /// The words, as in JSON.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Exceeded => "exceeded",
            Self::NotCompared => "not compared",
            Self::NotComparable => "not comparable",
            Self::Within => "within",
            Self::NoDifferenceSeen => "no difference seen",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Other => "other",
            Self::Same => "same",
        }
    }
}

/// A figure of the first and of another, and what is said of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The other subject's index; the first is 0.
    pub subject: usize,
    /// The case or boundary.
    pub case: String,
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way it is better; none where nobody said.
    pub better: Option<Direction>,
    /// Its value in the first.
    pub before: Option<f64>,
    /// Its value in the other.
    pub after: Option<f64>,
    /// The second less the first.
    pub difference: Option<f64>,
    /// The same in hundredths of the first.
    pub percent: Option<f64>,
    /// Where they lie.
    pub intervals: [Option<[f64; 2]>; 2],
    /// The threshold as the user wrote it.
    pub threshold: Option<String>,
    /// What it comes to for this figure, in its unit: at most this where `at_most`, else at least.
    pub limit: Option<f64>,
    /// Which side of the limit is allowed.
    pub at_most: Option<bool>,
    /// What is said.
    pub verdict: Verdict,
    /// Why it is said, where the figures alone do not show it.
    pub why: Option<String>,
}

impl Finding {
    /// The verdict with its reason: `not comparable: [2] did not come to its end`.
    #[must_use]
    pub fn said(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.verdict.words()),
            None => self.verdict.words().to_owned(),
        }
    }
}

/// Every figure that several have, with what is said of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Judged {
    /// Whether any threshold was set.
    pub asked: bool,
    /// Figures, those with a threshold also where one side lacks them.
    pub findings: Vec<Finding>,
}

impl Judged {
    /// Those of one verdict.
    pub fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.verdict == verdict)
    }
}

impl Thresholds {
    /// Whether there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.rules.is_empty() || self.most.is_some()
    }

    /// Holds them against what stands beside each other.
    ///
    /// # Errors
    ///
    /// `usage` for a threshold on what nobody has, on a figure without a worse side, in a wrong unit, or between what was simulated and what was measured.
    pub fn judge(&self, beside: &Beside, subjects: &[ComparisonInput]) -> Result<Judged> {
        if let Some(nothing) = subjects.iter().find(|subject| self.any() && subject.empty()) {
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
        let first = subjects.first().is_some_and(|first| first.simulated);
        if self.any() && subjects.iter().any(|subject| subject.simulated != first) {
            return Err(
                Fault::usage("a threshold between what was simulated and what was measured would say nothing")
                    .hint("compare two that are both simulated, or both not; or leave out the thresholds"),
            );
        }
        for rule in &self.rules {
            known(rule, beside)?;
        }
        let default = self.most.map(Rule::default_of).transpose()?;
        let mut judged = Judged {
            asked: self.any(),
            findings: Vec::new(),
        };
        let mut compared = false;
        for section in &beside.sections {
            for line in &section.lines {
                for subject in 1..line.values.len() {
                    let proof = Proof::of(line, subject, subjects, beside);
                    let finding = finding(section.name(), line, subject, proof);
                    let mut rules: Vec<&Rule> = self
                        .rules
                        .iter()
                        .filter(|rule| rule.on(section.name(), &line.name))
                        .collect();
                    if rules.is_empty() && !EFFORT.contains(&line.name.as_str()) && !wanders(&line.name) {
                        rules.extend(&default);
                    }
                    let mut held = false;
                    for rule in rules {
                        let held_by = hold(rule, &finding, proof, self.strict)?;
                        held |= held_by.is_some();
                        judged.findings.extend(held_by);
                    }
                    compared |= held;
                    if !held && finding.before.is_some() && finding.after.is_some() {
                        judged.findings.push(finding);
                    }
                }
            }
        }
        for alone in &beside.alone {
            // What at least two others have stands in a line already.
            let lined = |finding: &Finding| {
                finding.subject == alone.subject && finding.case == alone.case && finding.name == alone.name
            };
            if judged.findings.iter().any(lined) {
                continue;
            }
            let finding = Finding {
                subject: alone.subject,
                case: alone.case.clone(),
                name: alone.name.clone(),
                unit: alone.unit,
                better: Direction::of(&alone.name, alone.unit),
                before: alone.before,
                after: alone.after,
                difference: None,
                percent: None,
                intervals: [None, None],
                threshold: None,
                limit: None,
                at_most: None,
                verdict: Verdict::NotCompared,
                why: None,
            };
            let mut rules: Vec<&Rule> = self
                .rules
                .iter()
                .filter(|rule| rule.on(&alone.case, &alone.name))
                .collect();
            // What is gone is told under a threshold on everything too; what is new is not.
            if rules.is_empty() && alone.after.is_none() && !wanders(&alone.name) {
                rules.extend(&default);
            }
            for rule in rules {
                let held = hold(rule, &finding, Proof::default(), self.strict)?;
                compared |= held
                    .as_ref()
                    .is_some_and(|held| held.verdict != Verdict::NotCompared || self.strict);
                judged.findings.extend(held);
            }
        }
        if self.rules.is_empty() && self.most.is_some() && !compared {
            return Err(
                Fault::usage("no figure is on both sides: `--max-regression` could never be exceeded")
                    .hint("compare what has figures in common, or leave out `--max-regression`"),
            );
        }
        Ok(judged)
    }
}

/// A figure without a threshold.
fn finding(case: &str, line: &Line, subject: usize, proof: Proof) -> Finding {
    let (before, after) = (line.values[0], line.values[subject]);
    let difference = before.zip(after).map(|(before, after)| after - before);
    let intervals = [line.intervals[0], line.intervals[subject]];
    let unfinished = proof.unfinished();
    let shown = |before: f64, after: f64| proof.shows((after > before) == (line.better == Some(Direction::Less)));
    let verdict = match (before, after, line.better) {
        (None, _, _) | (_, None, _) => Verdict::NotCompared,
        (Some(before), Some(after), _) if before == after => Verdict::Same,
        _ if unfinished.is_some() => Verdict::NotComparable,
        (Some(before), Some(after), _) if unseen(before, after, intervals) && !shown(before, after) => {
            Verdict::NoDifferenceSeen
        }
        (_, _, None | Some(Direction::Neutral)) => Verdict::Other,
        (Some(before), Some(after), Some(better)) if (after > before) == (better == Direction::More) => Verdict::Better,
        _ => Verdict::Worse,
    };
    Finding {
        subject,
        case: case.to_owned(),
        name: line.name.clone(),
        unit: line.unit,
        better: line.better,
        before,
        after,
        difference,
        percent: line.percents[subject].filter(|_| before.is_some()),
        intervals,
        threshold: None,
        limit: None,
        at_most: None,
        why: unfinished.filter(|_| verdict == Verdict::NotComparable),
        verdict,
    }
}

/// Whether it may move along the boundary from search to search, less of one axis for more of another: only a threshold of its own is on it.
fn wanders(name: &str) -> bool {
    name.starts_with("recommended ")
}

/// Whether one lies within the interval of the other.
fn unseen(before: f64, after: f64, [first, other]: [Option<[f64; 2]>; 2]) -> bool {
    let within =
        |value: f64, interval: Option<[f64; 2]>| interval.is_some_and(|[low, high]| low <= value && value <= high);
    within(after, first) || within(before, other)
}

/// A figure under a threshold; none where the threshold has no side to hold it on.
fn hold(rule: &Rule, finding: &Finding, proof: Proof, strict: bool) -> Result<Option<Finding>> {
    let bound = |before| rule.bound(&finding.name, finding.unit, finding.better, before);
    let Some(limit) = bound(finding.before)? else {
        return Ok(None);
    };
    let beyond =
        |before: Option<f64>, after: f64| bound(before).ok().flatten().is_some_and(|limit| limit.breaks(after));
    let needed = finding.after.filter(|_| finding.before.is_some() || !limit.relative);
    let loss = limit.at_most == (finding.better == Some(Direction::Less));
    let (verdict, why) = match (needed, finding.before) {
        (None, _) if strict => (Verdict::Exceeded, None),
        (None, _) => (Verdict::NotCompared, None),
        (Some(after), before) if !proof.settles(before, after, beyond) => {
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
                && unseen(before, after, finding.intervals)
                && !(limit.breaks(after) && proof.shows(loss)) =>
        {
            let why = limit.breaks(after).then(|| UNPROVEN.to_owned());
            (Verdict::NoDifferenceSeen, why)
        }
        (Some(after), _) if limit.breaks(after) => (Verdict::Exceeded, None),
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

/// Refuses a threshold on what nobody has, or on what has no worse side.
fn known(rule: &Rule, beside: &Beside) -> Result<()> {
    let lines = beside.sections.iter().flat_map(|section| {
        let lines = section.lines.iter();
        lines.map(|line| (section.name(), line.name.as_str(), line.better))
    });
    let alone = beside.alone.iter();
    let alone = alone.map(|alone| {
        (
            alone.case.as_str(),
            alone.name.as_str(),
            Direction::of(&alone.name, alone.unit),
        )
    });
    let all: Vec<(&str, &str, Option<Direction>)> = lines.chain(alone).collect();
    let on: Vec<_> = all.iter().filter(|(case, name, _)| rule.on(case, name)).collect();
    if on.is_empty() {
        return Err(
            Fault::usage(format!("`{}`: there is no figure `{}`", rule.text, rule.name())).hint(near(rule, &all)),
        );
    }
    // A pattern may be on others too, of which it allows something that can be.
    if let [(_, _, better)] = on[..] {
        rule.check(*better)?;
    }
    let side = |better: Option<Direction>| matches!(better, Some(Direction::More | Direction::Less));
    if !rule.sided() && !on.iter().any(|(_, _, better)| side(*better)) {
        return Err(Fault::usage(format!(
            "`{}`: nobody can say which side of `{}` is the worse one",
            rule.text, on[0].1
        ))
        .hint("write `<=` or `>=`, or a limit with a sign"));
    }
    Ok(())
}

/// The nearest names, for a hint.
fn near(rule: &Rule, all: &[(&str, &str, Option<Direction>)]) -> String {
    let wanted = rule.name();
    let figure = wanted.rsplit('/').next().unwrap_or(wanted);
    let mut names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "what is compared has no figures".to_owned();
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
