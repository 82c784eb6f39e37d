//! A value sampled over time, and its statistics over a window: time-weighted mean, maximum, and growth.

use serde::{Deserialize, Serialize};

use crate::experiment::t_quantile;

/// Number of blocks of a window for estimating growth.
const BLOCKS: u32 = 10;

/// Minimum number of blocks with data.
const FEWEST: usize = 5;

/// Statistics of a gauge over a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GaugeStats {
    /// Time-weighted mean; failed samples do not count.
    pub mean: f64,
    /// Maximum of the samples.
    pub max: f64,
    /// Growth per second: the slope of a straight line through the means of ten blocks of the window (batch means:
    /// neighbouring samples are correlated, block means hardly are). `None` with data in fewer than five blocks.
    pub growth: Option<f64>,
    /// Whether it grew over the window by at least `step`, with 97.5 % confidence; `None` as `growth`.
    pub grows: Option<bool>,
}

impl GaugeStats {
    /// From a curve between two times. `step` is the minimum growth that counts. `None` without data.
    pub(super) fn new(curve: &Curve, from: f64, to: f64, step: f64) -> Option<Self> {
        let window = curve.within(from, to);
        let trend = trend(curve, from, to);
        Some(Self {
            mean: window.mean()?,
            max: window.max()?,
            growth: trend.map(|(slope, _)| slope),
            grows: trend.map(|(_, least)| least * (to - from) >= step),
        })
    }

    /// The same statistics in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            max: self.max * factor,
            growth: self.growth.map(|growth| growth * factor),
            grows: self.grows,
        }
    }
}

/// The slope of the least-squares line through the block means, and the lower end of its confidence interval.
fn trend(curve: &Curve, from: f64, to: f64) -> Option<(f64, f64)> {
    let width = (to - from) / f64::from(BLOCKS);
    if width <= 0.0 {
        return None;
    }
    let block = |number: u32| {
        let begin = from + width * f64::from(number);
        Some((begin + width / 2.0, curve.within(begin, begin + width).mean()?))
    };
    let means: Vec<(f64, f64)> = (0..BLOCKS).filter_map(block).collect();
    if means.len() < FEWEST {
        return None;
    }
    let count = means.len() as f64;
    let middle = |part: fn(&(f64, f64)) -> f64| means.iter().map(part).sum::<f64>() / count;
    let (x, y) = (middle(|mean| mean.0), middle(|mean| mean.1));
    let spread: f64 = means.iter().map(|mean| (mean.0 - x).powi(2)).sum();
    let slope = means.iter().map(|mean| (mean.0 - x) * (mean.1 - y)).sum::<f64>() / spread;
    let left: f64 = means
        .iter()
        .map(|mean| (mean.1 - y - slope * (mean.0 - x)).powi(2))
        .sum();
    let error = (left / (count - 2.0) / spread).sqrt();
    Some((slope, slope - t_quantile(count - 2.0) * error))
}

/// A value over time in continuous pieces. Between two pieces it is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve(Vec<Vec<(f64, f64)>>);

impl Curve {
    /// From samples in order of time; `None` starts a gap.
    pub(super) fn from_samples(samples: impl Iterator<Item = (f64, Option<f64>)>) -> Self {
        let mut pieces = vec![Vec::new()];
        for (at, value) in samples {
            match (value, pieces.last_mut()) {
                (Some(value), Some(piece)) => piece.push((at, value)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        Self(pieces)
    }

    /// The part between two times, interpolated at its ends.
    pub(super) fn within(&self, from: f64, to: f64) -> Self {
        let pieces = self.0.iter().map(|piece| clipped(piece, from, to));
        Self(pieces.filter(|piece| !piece.is_empty()).collect())
    }

    /// The area below the curve, and the total time over which it is known.
    pub(super) fn area(&self) -> (f64, f64) {
        let steps = self.0.iter().flat_map(|piece| piece.windows(2));
        steps.fold((0.0, 0.0), |(area, time), step| {
            let width = step[1].0 - step[0].0;
            (area + width * (step[0].1 + step[1].1) / 2.0, time + width)
        })
    }

    /// Time-weighted mean; of isolated samples, their mean.
    pub(super) fn mean(&self) -> Option<f64> {
        let (area, time) = self.area();
        if time > 0.0 {
            return Some(area / time);
        }
        let count = self.values().count();
        (count > 0).then(|| self.values().sum::<f64>() / count as f64)
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.values().reduce(f64::max)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().flatten().map(|(_, value)| *value)
    }
}

fn clipped(piece: &[(f64, f64)], from: f64, to: f64) -> Vec<(f64, f64)> {
    let between = |at: f64| {
        let next = piece.partition_point(|(time, _)| *time < at);
        let (before, after) = (piece.get(next.checked_sub(1)?)?, piece.get(next)?);
        let share = (at - before.0) / (after.0 - before.0);
        Some((at, before.1 + (after.1 - before.1) * share))
    };
    let first = piece.partition_point(|(at, _)| *at < from);
    let last = piece.partition_point(|(at, _)| *at <= to);
    if to < from {
        return Vec::new();
    }
    let inside = piece.get(first..last).unwrap_or_default();
    let begin = between(from).filter(|_| inside.first().is_none_or(|(at, _)| *at > from));
    let end = between(to).filter(|_| inside.last().is_none_or(|(at, _)| *at < to));
    begin.into_iter().chain(inside.iter().copied()).chain(end).collect()
}

#[cfg(test)]
mod gauge_tests {
    use proptest::prelude::*;

    use super::*;

    /// Ten samples a second for ten seconds.
    fn looks(value: impl Fn(f64) -> f64) -> Curve {
        Curve::from_samples(
            (0..=100)
                .map(|look| f64::from(look) / 10.0)
                .map(|at| (at, Some(value(at)))),
        )
    }

    #[test]
    fn growing_queue_differs_from_fluctuating_queue() {
        let grows = |value: &dyn Fn(f64) -> f64| GaugeStats::new(&looks(value), 0.0, 10.0, 1.0).unwrap();
        let growing = grows(&|at| 5.0 * at + (3.0 * at).sin());
        assert_eq!(growing.grows, Some(true));
        assert!((growing.growth.unwrap() - 5.0).abs() < 0.2, "{growing:?}");
        assert_eq!(grows(&|at| 20.0 + 8.0 * (3.0 * at).sin()).grows, Some(false));
        assert_eq!(grows(&|_| 7.0).grows, Some(false));
        assert_eq!(grows(&|at| 0.05 * at).grows, Some(false), "half a request is none");
        assert_eq!(grows(&|at| 50.0 - 5.0 * at).grows, Some(false));
    }

    #[test]
    fn too_few_samples_give_no_growth() {
        let short = GaugeStats::new(&looks(|at| at), 0.0, 100.0, 1.0).unwrap();
        assert_eq!((short.growth, short.grows), (None, None), "one block of ten");
        assert_eq!(GaugeStats::new(&Curve::default(), 0.0, 1.0, 1.0), None);
        assert_eq!(GaugeStats::new(&looks(|_| 3.0), 5.0, 5.0, 1.0).unwrap().growth, None);
    }

    proptest! {
        /// The growth of a straight line is its slope in any window.
        #[test]
        fn straight_line_has_its_slope(slope in -50.0_f64..50.0, from in 0.0_f64..4.0, length in 1.0_f64..5.0) {
            let level = GaugeStats::new(&looks(|at| 1000.0 + slope * at), from, from + length, 1.0).unwrap();
            prop_assert!((level.growth.unwrap() - slope).abs() < 1e-6);
            let middle = 1000.0 + slope * (from + length / 2.0);
            prop_assert!((level.mean - middle).abs() < 1e-6);
        }
    }
}

#[cfg(test)]
mod curve_tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(looks: &[(f64, Option<f64>)]) -> Curve {
        Curve::from_samples(looks.iter().copied())
    }

    #[test]
    fn mean_is_time_weighted_and_gaps_are_not_zero() {
        let curve = curve(&[
            (0.0, Some(2.0)),
            (1.0, Some(2.0)),
            (2.0, None),
            (9.0, Some(8.0)),
            (12.0, Some(8.0)),
        ]);
        assert_eq!(curve.mean(), Some(6.5), "1 s at 2 and 3 s at 8");
        assert_eq!(curve.within(0.5, 1.5).mean(), Some(2.0));
        assert_eq!(curve.within(2.0, 8.0).mean(), None);
        assert_eq!(curve.max(), Some(8.0));
    }

    #[test]
    fn window_ends_are_interpolated() {
        let rising = curve(&[(0.0, Some(0.0)), (10.0, Some(10.0))]);
        let part = rising.within(2.0, 4.0);
        assert_eq!(
            (part.mean(), part.max(), part.area()),
            (Some(3.0), Some(4.0), (6.0, 2.0))
        );
        assert_eq!(rising.within(4.0, 2.0), Curve::default());
        assert_eq!(
            curve(&[(1.0, Some(5.0))]).within(0.0, 2.0).mean(),
            Some(5.0),
            "one sample"
        );
    }

    proptest! {
        /// For any split of a window, the areas and known times of the parts add up to the whole.
        #[test]
        fn areas_of_parts_add_up(
            steps in prop::collection::vec((0.01_f64..2.0, prop::option::weighted(0.8, 0.0_f64..100.0)), 1..40),
            cuts in (0.0_f64..40.0, 0.0_f64..40.0, 0.0_f64..40.0),
        ) {
            let mut at = 0.0;
            let looks = steps.into_iter().map(|(step, value)| { at += step; (at, value) });
            let curve = Curve::from_samples(looks);
            let mut cuts = [cuts.0, cuts.1, cuts.2];
            cuts.sort_by(f64::total_cmp);
            let [from, cut, to] = cuts;
            let (area, time) = curve.within(from, to).area();
            let (first, second) = (curve.within(from, cut).area(), curve.within(cut, to).area());
            prop_assert!((first.0 + second.0 - area).abs() < 1e-6 && (first.1 + second.1 - time).abs() < 1e-9);
            if let (Some(mean), Some(max)) = (curve.within(from, to).mean(), curve.max()) {
                prop_assert!(mean <= max + 1e-9 && mean >= -1e-9);
            }
        }
    }
}
