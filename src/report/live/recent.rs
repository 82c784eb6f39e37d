//! Memory use of the last two minutes, for a sparkline.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report::spark::max_per_column;

const WINDOW: Duration = Duration::from_secs(120);

/// Samples closer than this are merged.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    /// Adds a sample, `at` after the start.
    pub(super) fn push(&mut self, at: Duration, used: u64) {
        match self.0.back_mut() {
            Some((last, peak)) if at < *last + MIN_INTERVAL => *peak = used.max(*peak),
            _ => self.0.push_back((at, used)),
        }
        // The last sample before the window gives its initial value.
        while self.0.get(1).is_some_and(|(next, _)| *next + WINDOW < at) {
            self.0.pop_front();
        }
    }

    /// The peak of each of `columns` equal intervals up to now, relative to `total`.
    pub(super) fn heights(&self, now: Duration, total: u64, columns: usize) -> Vec<Option<f64>> {
        let share = |used: u64| used as f64 / total.max(1) as f64;
        let begin = now.saturating_sub(WINDOW);
        let values: Vec<(f64, f64)> = self
            .0
            .iter()
            .map(|(at, used)| (at.max(&begin).as_secs_f64(), share(*used)))
            .collect();
        max_per_column(&values, now.as_secs_f64(), columns)
    }
}
