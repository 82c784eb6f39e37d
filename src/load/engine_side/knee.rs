//! Finds the knee (saturation point) of a curve.
//!
//! The method is the core of Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a Haystack", ICDCS
//! workshops 2011): with both axes scaled to the range of the curve, the knee is the point farthest from the straight
//! line between its ends. Instead of Kneedle's sensitivity parameter we use the noise of the values. If every point of
//! a straight line may be off by `n`, none is farther than `2 n` from the line through its ends, so a curve within that
//! distance has no provable knee. Two points may swap their order if their distances differ by less than `4 n`, so the
//! knee is a range.

use serde::{Deserialize, Serialize};

/// Default noise: the error of a value, as a share of the highest.
pub const NOISE: f64 = 0.02;

/// Which way a curve bends at its knee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bend {
    /// Rises, then flattens, as throughput over concurrency.
    #[default]
    Flattens,
    /// Flat, then rises, as latency.
    Steepens,
}

/// The knee of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Its x coordinate.
    pub x: f64,
    /// The value there; the mean of several measurements.
    pub y: f64,
    /// The knee lies between `low` and `high`: the smallest and the largest `x` that noise cannot distinguish from it.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Distance from the straight line, as a share of the value's range.
    pub distance: f64,
}

/// The knee of points in any order. `noise` is the error of a value, as a share of the highest. `None` if there is no
/// knee: fewer than three different `x`, a flat or straight curve, or a bend within the noise.
#[must_use]
pub fn knee(points: &[(f64, f64)], bend: Bend, noise: f64) -> Option<Knee> {
    let curve = averaged(points);
    let (first, last) = (*curve.first()?, *curve.last()?);
    let width = last.0 - first.0;
    if curve.len() < 3 || width <= 0.0 {
        return None;
    }
    let highest = curve.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let slack = 2.0 * noise * highest;
    let height = |point: &(f64, f64)| {
        let line = first.1 + (last.1 - first.1) * (point.0 - first.0) / width;
        match bend {
            Bend::Flattens => point.1 - line,
            Bend::Steepens => line - point.1,
        }
    };
    let knee = curve
        .iter()
        .copied()
        .reduce(|best, next| if height(&next) > height(&best) { next } else { best })?;
    let most = height(&knee);
    if most <= slack || most <= 0.0 {
        return None;
    }
    let candidates = || {
        curve
            .iter()
            .filter(|point| height(point) >= most - 2.0 * slack)
            .map(|point| point.0)
    };
    let values = || curve.iter().map(|point| point.1);
    let range = values().reduce(f64::max)? - values().reduce(f64::min)?;
    Some(Knee {
        x: knee.0,
        y: knee.1,
        low: candidates().reduce(f64::min)?,
        high: candidates().reduce(f64::max)?,
        distance: most / range,
    })
}

/// Sorts by `x` and averages points with equal `x`. Drops non-finite points.
fn averaged(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            let count = same.len() as f64;
            (same[0].0, same.iter().map(|point| point.1).sum::<f64>() / count)
        })
        .collect()
}

#[cfg(test)]
mod tests;
