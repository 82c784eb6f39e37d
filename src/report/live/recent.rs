//! Memory of the last minutes, for a curve of a few columns.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report::spark::highest;

/// How far back it goes.
const BACK: Duration = Duration::from_secs(120);

/// Looks that are kept apart.
const APART: Duration = Duration::from_millis(250);

/// Memory as it was seen lately.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    /// One more look, `at` after the start.
    pub(super) fn push(&mut self, at: Duration, used: u64) {
        match self.0.back_mut() {
            Some((last, known)) if at < *last + APART => *known = used.max(*known),
            _ => self.0.push_back((at, used)),
        }
        // The look before the first column still holds at its beginning.
        while self.0.get(1).is_some_and(|(next, _)| *next + BACK < at) {
            self.0.pop_front();
        }
    }

    /// The most of each of so many stretches up to now, as a share of what there is.
    pub(super) fn heights(&self, now: Duration, total: u64, columns: usize) -> Vec<Option<f64>> {
        let share = |used: u64| used as f64 / total.max(1) as f64;
        let begin = now.saturating_sub(BACK);
        let values: Vec<(f64, f64)> = self
            .0
            .iter()
            .map(|(at, used)| (at.max(&begin).as_secs_f64(), share(*used)))
            .collect();
        highest(&values, now.as_secs_f64(), columns)
    }
}
