//! Decides how far a limit can be applied to what a boundary proves. A boundary is not a sample: what fitted
//! once fits.
//!
//! A lower value is a loss only if a point that fitted fails now; otherwise the search may have tested fewer
//! points. An unfinished run has proven only a part: its values can still change, and a limit applies only if
//! all values that they could still take lie on one side of it.

use super::Comparison;
use super::{ComparedMetric, label};
use crate::compare::{ComparisonInput, Direction};

/// Larger than any metric, but small enough that percentages of it stay finite.
const UNBOUNDED: f64 = 1e300;

/// What is known about a boundary metric beyond its value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
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
    pub(super) fn new(
        line: &ComparedMetric,
        subject: usize,
        inputs: &[ComparisonInput],
        comparison: &Comparison,
    ) -> Self {
        if !line.proven {
            return Self::default();
        }
        let changed = |fits: bool| {
            comparison
                .changed_points
                .iter()
                .any(|one| one.subject == subject && one.fits == fits)
        };
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
    pub(super) fn confirms(self, loss: bool) -> bool {
        if loss { self.newly_fails } else { self.newly_fits }
    }

    /// Names the unfinished inputs; `None` if both are finished.
    pub(super) fn unfinished(self) -> Option<String> {
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
    pub(super) fn decides(self, before: Option<f64>, after: f64, beyond: impl Fn(Option<f64>, f64) -> bool) -> bool {
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
