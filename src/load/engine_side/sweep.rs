//! Findings over the levels of a sweep: the knee (saturation point) of a curve, and the onset of a condition.
//!
//! The method for the knee is the core of Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a
//! Haystack", ICDCS workshops 2011): with both axes scaled to the range of the curve, the knee is the point farthest
//! from the straight line between its ends. Instead of Kneedle's sensitivity parameter we use the noise of the values.
//! If every point of a straight line may be off by `n`, none is farther than `2 n` from the line through its ends, so
//! a curve within that distance has no provable knee. Two points may swap their order if their distances differ by
//! less than `4 n`, so the knee is a range.

use serde::{Deserialize, Serialize};

/// Noise: the possible error of a value, as a share of the highest.
const NOISE: f64 = 0.02;

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

/// Where points in any order, such as throughput over concurrency, stop to rise. `None` if there is no knee: fewer than
/// three different `x`, a flat or straight curve, or a bend within the noise.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let curve = averaged(points);
    let (first, last) = (*curve.first()?, *curve.last()?);
    let width = last.0 - first.0;
    if curve.len() < 3 || width <= 0.0 {
        return None;
    }
    let highest = curve.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let slack = 2.0 * NOISE * highest;
    let height = |point: &(f64, f64)| {
        let line = first.1 + (last.1 - first.1) * (point.0 - first.0) / width;
        point.1 - line
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

/// The levels between which something starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Onset {
    /// The largest tested level below `first_with` without it; `None` if the smallest level had it.
    pub last_without: Option<f64>,
    /// The smallest level with it.
    pub first_with: f64,
    /// Larger levels without it: the more there are, the less `first_with` is a sharp limit.
    pub contradicting: Vec<f64>,
}

/// Where it starts among levels in any order. A level tested several times has it if it ever did. `None` if no level
/// has it.
pub fn onset(levels: &[(f64, bool)]) -> Option<Onset> {
    let with = |level: f64| levels.iter().any(|(other, has)| *has && *other == level);
    let first_with = levels
        .iter()
        .filter(|(_, has)| *has)
        .map(|(level, _)| *level)
        .reduce(f64::min)?;
    let without = levels.iter().map(|(level, _)| *level).filter(|level| !with(*level));
    let mut contradicting: Vec<f64> = without.clone().filter(|level| *level > first_with).collect();
    contradicting.sort_by(f64::total_cmp);
    contradicting.dedup();
    Some(Onset {
        last_without: without.filter(|level| *level < first_with).reduce(f64::max),
        first_with,
        contradicting,
    })
}

#[cfg(test)]
mod knee_tests;

#[cfg(test)]
mod onset_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn onset_lies_between_last_without_and_first_with() {
        let levels = [(64.0, true), (1.0, false), (32.0, false), (128.0, true), (16.0, false)];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(32.0), 64.0));
        assert!(onset.contradicting.is_empty());
    }

    #[test]
    fn contradicting_levels_are_listed() {
        let levels = [
            (1.0, false),
            (8.0, true),
            (8.0, false),
            (16.0, false),
            (16.0, false),
            (32.0, true),
        ];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(1.0), 8.0));
        assert_eq!(onset.contradicting, [16.0]);
    }

    #[test]
    fn no_onset_if_never_and_no_lower_bound_if_always() {
        assert_eq!(onset(&[]), None);
        assert_eq!(onset(&[(1.0, false), (2.0, false)]), None);
        assert_eq!(onset(&[(4.0, true), (2.0, true)]).unwrap().last_without, None);
    }

    proptest! {
        /// For a sharp threshold, the range contains it and nothing contradicts it, in any order of levels.
        #[test]
        fn threshold_lies_in_the_range(levels in prop::collection::vec(1_u32..300, 1..30), threshold in 1_u32..300) {
            let tried: Vec<_> = levels.iter().map(|level| (f64::from(*level), *level >= threshold)).collect();
            match onset(&tried) {
                Some(onset) => {
                    prop_assert!(onset.first_with >= f64::from(threshold));
                    prop_assert!(onset.last_without.is_none_or(|last| last < f64::from(threshold)));
                    prop_assert_eq!(onset.contradicting, Vec::<f64>::new());
                }
                None => prop_assert!(levels.iter().all(|level| *level < threshold)),
            }
        }
    }
}
