//! Statistics of a gauge over a window: time-weighted mean, maximum, and growth.

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::load::stats::t_quantile;

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
    #[must_use]
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
    Some((slope, slope - t_quantile(means.len() - 2) * error))
}

#[cfg(test)]
mod tests;
