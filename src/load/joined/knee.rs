//! The knee of a curve: where more of one figure stops bringing as much of the other.
//!
//! The method is the one at the heart of Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a Haystack", ICDCS
//! workshops 2011): with both axes scaled to the range of the curve, the knee is the point farthest from the straight line between its
//! ends. What Kneedle leaves to a sensitivity is decided by the noise of the figures here. Where every point of a straight line may be wrong by
//! `n`, none is farther than `2 n` from the line through its ends: a curve that stays within that has no knee that it could prove. Two points
//! may change places where their distances differ by less than `4 n`: the knee is a bracket.

use serde::{Deserialize, Serialize};

/// How wrong a figure may be, as a share of the highest, where nobody says.
pub const NOISE: f64 = 0.02;

/// Which way a curve bends at its knee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bend {
    /// It rises and then flattens, as throughput does over concurrency.
    #[default]
    Flattens,
    /// It is flat and then rises, as latency does.
    Steepens,
}

/// The knee of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Where it is.
    pub x: f64,
    /// The figure there; of several measurements their mean.
    pub y: f64,
    /// The smallest and the largest `x` that cannot be told from it within the noise: the knee lies between them.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How far from the straight line it lies, as a share of the range of the figure.
    pub distance: f64,
}

/// The knee of these points, in any order. `noise` is how wrong a figure may be, as a share of the highest. `None` where the curve has
/// none: fewer than three different `x`, flat, straight, or bent no further than noise may bend a straight line.
#[must_use]
pub fn knee(points: &[(f64, f64)], bend: Bend, noise: f64) -> Option<Knee> {
    let curve = joined(points);
    let (first, last) = (*curve.first()?, *curve.last()?);
    let width = last.0 - first.0;
    if curve.len() < 3 || width <= 0.0 {
        return None;
    }
    let highest = curve.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let slack = 2.0 * noise * highest;
    let away = |point: &(f64, f64)| {
        let line = first.1 + (last.1 - first.1) * (point.0 - first.0) / width;
        match bend {
            Bend::Flattens => point.1 - line,
            Bend::Steepens => line - point.1,
        }
    };
    let knee = curve
        .iter()
        .copied()
        .reduce(|best, next| if away(&next) > away(&best) { next } else { best })?;
    let most = away(&knee);
    if most <= slack || most <= 0.0 {
        return None;
    }
    let alike = || {
        curve
            .iter()
            .filter(|point| away(point) >= most - 2.0 * slack)
            .map(|point| point.0)
    };
    let values = || curve.iter().map(|point| point.1);
    let range = values().reduce(f64::max)? - values().reduce(f64::min)?;
    Some(Knee {
        x: knee.0,
        y: knee.1,
        low: alike().reduce(f64::min)?,
        high: alike().reduce(f64::max)?,
        distance: most / range,
    })
}

/// By ascending `x`, each once, with the mean of its figures. What is no number is left out.
fn joined(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
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
