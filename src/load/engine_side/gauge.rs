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
mod gauge_tests;

#[cfg(test)]
mod curve_tests;
