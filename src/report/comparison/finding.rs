//! The result of a comparison: a verdict on each metric, points with opposite verdicts, and inputs that cannot be
//! judged.

use serde::Serialize;

use super::setup::SetupDifference;
use crate::boundary::Point;
use crate::compare::{Direction, Unit};
use crate::experiment::is_negligible;
use crate::fmt::list;

/// Metrics that describe the effort of measuring. Only thresholds that name them apply.
pub(super) const EFFORT: [&str; 3] = ["points", "runs", "timeline_samples"];

/// A comparison of several inputs with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Every metric of the boundary and of each case, in every input but the first. Ordered by case, metric and input.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// Cases without a counterpart, and other caveats.
    pub notes: Vec<String>,
    /// Differences of setup between the baseline and each other input.
    pub setup_differences: Vec<SetupDifference>,
    /// Points that fit in the baseline and fail in another input, or the reverse: at most a few hundred of each
    /// kind.
    pub changed_points: Vec<ChangedPoint>,
    /// Whether the baseline's recommended point still fits, in sentences.
    pub advice: Vec<String>,
    /// Inputs whose search answers another question than the baseline's, so that its limit gets no verdict.
    pub not_judged: Vec<NotJudged>,
    /// Number of inputs.
    #[serde(skip)]
    pub(super) inputs: usize,
    /// Case and name of percentiles that too few requests support. They get no verdict.
    #[serde(skip)]
    pub(super) thin: Vec<(String, String)>,
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

/// The verdict on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum MetricVerdict {
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

impl From<MetricVerdict> for &'static str {
    fn from(verdict: MetricVerdict) -> Self {
        verdict.name()
    }
}

impl MetricVerdict {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
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
    pub verdict: MetricVerdict,
    /// The reason, if the numbers alone do not show it.
    pub why: Option<String>,
    /// Evidence of a boundary beyond the values; `None` for measured metrics.
    #[serde(skip)]
    pub(super) proof: Option<Proof>,
}

/// Evidence of boundaries about a metric, beyond its values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Proof {
    /// Whether a point that fitted in the baseline fails in the other input.
    pub(super) newly_fails: bool,
    /// Whether a point that failed in the baseline fits in the other input.
    pub(super) newly_fits: bool,
    /// For the baseline and the other input: the range of possible final values of an unfinished run.
    pub(super) ranges: [Option<[f64; 2]>; 2],
}

/// One metric of one input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricValue {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) value: f64,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) better: Option<Direction>,
}

impl MetricValue {
    pub(super) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
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
    /// A measured metric without a better direction.
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
            verdict: MetricVerdict::NotCompared,
            why: None,
            proof: None,
        }
        .judged()
    }

    /// The finding with its verdict without thresholds.
    pub(super) fn judged(mut self) -> Self {
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return self;
        };
        let rises = after > before;
        let confirmed = self.confirms(rises);
        self.verdict = match self.better {
            _ if before == after => MetricVerdict::Same,
            _ if self.unfinished().is_some() => {
                self.why = self.unfinished();
                MetricVerdict::NotCompared
            }
            _ if self.within_interval() && !confirmed => MetricVerdict::NotSignificant,
            _ if self.proof.is_none() && is_negligible(before, after, self.unit) => MetricVerdict::NotSignificant,
            None | Some(Direction::Neutral) => MetricVerdict::Other,
            Some(better) if rises == (better == Direction::More) => MetricVerdict::Better,
            Some(_) => MetricVerdict::Worse,
        };
        self
    }

    /// Whether points with opposite verdicts confirm that the value rose (`rises`) or fell.
    pub(super) fn confirms(&self, rises: bool) -> bool {
        let loss = rises == (self.better == Some(Direction::Less));
        self.proof
            .is_some_and(|proof| if loss { proof.newly_fails } else { proof.newly_fits })
    }

    /// Whether either value lies within the other's interval.
    pub(super) fn within_interval(&self) -> bool {
        let within = |value: Option<f64>, interval: Option<[f64; 2]>| {
            let both = value.zip(interval);
            both.is_some_and(|(value, [low, high])| low <= value && value <= high)
        };
        within(self.after, self.intervals[0]) || within(self.before, self.intervals[1])
    }

    /// Names the unfinished inputs whose value can still change; `None` if there are none.
    pub(super) fn unfinished(&self) -> Option<String> {
        let [first, other] = self.proof?.ranges;
        let mut unfinished: Vec<String> = first.iter().map(|_| label(0)).collect();
        unfinished.extend(other.iter().map(|_| label(self.subject)));
        let end = if unfinished.len() == 1 { "its end" } else { "their end" };
        (!unfinished.is_empty()).then(|| format!("{} did not come to {end}", list(&unfinished)))
    }

    /// The verdict with its reason: `not compared: [2] did not come to its end`.
    pub fn verdict_text(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.verdict.name()),
            None => self.verdict.name().to_owned(),
        }
    }

    /// The metric, by how much it changed, and its threshold, for a message.
    pub fn summary(&self) -> String {
        let change = match (self.before.and(self.after), self.percent) {
            (None, _) => " is not on both sides".to_owned(),
            (_, Some(percent)) => format!(" {percent:+.1} %"),
            _ => String::new(),
        };
        let why = self
            .why
            .as_ref()
            .filter(|_| self.verdict == MetricVerdict::Exceeded)
            .map_or_else(String::new, |why| format!(" not compared, {why}"));
        let threshold = self.threshold.as_deref().unwrap_or_default();
        format!("{} of {}{change}{why} ({threshold})", self.name, self.case)
    }
}

/// A point with opposite verdicts in the baseline and another input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedPoint {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The point in the baseline.
    pub point: Point,
    /// Whether it now fits; otherwise it now fails, or the engine's own report rules it out.
    pub fits: bool,
    /// The verdict in the baseline: `ok`, `oom (cuda)`; or `recommended`.
    pub before: String,
    /// The contradicting verdict in the other input.
    pub after: String,
    /// The point with that verdict in the other input, if it is another one: an easier point that fails or was not
    /// sent, or a harder one that fits.
    pub at: Option<Point>,
}

/// Recommended points may move along the boundary from search to search, trading one axis for another. Only
/// thresholds that name them apply.
pub(super) fn is_recommendation(name: &str) -> bool {
    name.starts_with("recommended ")
}

/// An input's label in tables: `[1]`.
pub(super) fn label(index: usize) -> String {
    format!("[{}]", index + 1)
}
