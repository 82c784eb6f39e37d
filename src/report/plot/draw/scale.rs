//! Maps values to a share of an axis, and back.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged};
use serde::{Deserialize, Serialize};

/// The range of an axis and its kind. `from < to`, both above 0 if it is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisScale {
    /// The value at its start: left or bottom.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
    /// Whether it is logarithmic.
    pub log: bool,
}

impl AxisScale {
    /// The position of a value: 0 at the start, 1 at the end, limited to ten lengths beyond the ends.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if share.is_nan() { 0.0 } else { share.clamp(-10.0, 10.0) }
    }

    /// The value at a position.
    #[must_use]
    pub fn value(&self, share: f64) -> f64 {
        if self.log {
            self.from * (self.to / self.from).powf(share)
        } else {
            self.from + share * (self.to - self.from)
        }
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        // Allows for rounding beyond the ends.
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }
}

impl Ranged for AxisScale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (begin, end) = (f64::from(limit.0), f64::from(limit.1));
        (begin + self.share(*value) * (end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let steps = hint.max_num_points().clamp(1, 100);
        let points = (0..=steps).map(|step| self.value(step as f64 / steps as f64));
        points.collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::AxisScale;

    proptest! {
        #[test]
        fn a_share_leads_back_to_its_value(from in 0.1..100.0_f64, length in 0.1..1e6_f64, share in 0.0..1.0_f64, log: bool) {
            let scale = AxisScale { from, to: from + length, log };
            let there = scale.value(share);
            prop_assert!((scale.share(there) - share).abs() < 1e-6);
            prop_assert!(scale.contains(there));
        }
    }

    #[test]
    fn positions_beyond_the_ends_are_limited() {
        let scale = AxisScale {
            from: 1.0,
            to: 10.0,
            log: true,
        };
        assert_eq!(scale.share(0.0), -10.0);
        assert_eq!(scale.share(f64::INFINITY), 10.0);
    }
}
