//! Finds the knee of a curve over levels, and the first level at which something happens.
//!
//! The method for the knee is the core of Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a
//! Haystack", ICDCS workshops 2011): with both axes scaled to the range of the curve, the knee is the point farthest
//! from the straight line between its ends. Instead of Kneedle's sensitivity parameter we use the noise of the values.
//! If every point of a straight line may be off by `n`, all are within `2 n` of the line through its ends, so
//! a curve within that distance has no provable knee. Two points may swap their order if their distances differ by
//! less than `4 n`, so the knee is a range.

use serde::{Deserialize, Serialize};

/// Noise: the possible error of a value, as a share of the highest.
const NOISE: f64 = 0.02;

/// A level saturates if none has more than this many times its throughput. Judgement: every concave curve has a knee, also
/// one that still rises by half.
const STILL_RISES: f64 = 1.25;

/// A curve is flat if it rises by less than this share of what its level rises by.
const FLAT: f64 = 0.5;

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

/// The point where a curve in any order, such as throughput over concurrency, stops rising. `None` if there is no knee:
/// fewer than three different `x`, a flat or straight curve, or a bend within the noise.
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

/// The level beyond which throughput hardly rises: the knee, if no level exceeds it by a quarter; else the smallest level that
/// none exceeds so far, if the curve is flat from there on. `None` if there is none below the highest level.
pub fn saturation_point(points: &[(f64, f64)]) -> Option<Knee> {
    let curve = averaged(points);
    let most = curve.iter().map(|point| point.1).fold(0.0, f64::max);
    let still_rises = |y: f64| most > STILL_RISES * y;
    let bend = knee(points);
    if bend.is_some_and(|knee| !still_rises(knee.y)) {
        return bend;
    }
    let (highest, _) = *curve.last()?;
    let (x, y) = *curve.iter().find(|point| point.1 > 0.0 && !still_rises(point.1))?;
    let is_flat = most / y - 1.0 < FLAT * (highest / x - 1.0);
    is_flat.then_some(Knee {
        x,
        y,
        low: x,
        high: x,
        distance: 0.0,
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

/// The onset among levels in any order. A level tested several times has it if it ever did. `None` if no level has it.
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

#[cfg(test)]
mod knee_tests {
    use proptest::prelude::*;

    use super::*;

    const LEVELS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    fn over(levels: &[f64], figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        levels.iter().map(|x| (*x, figure(*x))).collect()
    }

    #[test]
    fn knee_of_saturating_throughput() {
        let knee = knee(&over(&LEVELS, |x| 20.0 * x.min(32.0))).unwrap();
        assert_eq!((knee.x, knee.y, knee.low, knee.high), (32.0, 640.0, 32.0, 32.0));
    }

    #[test]
    fn knee_of_a_curve_that_falls_afterwards() {
        // Preemption above a concurrency of 64.
        let knee = knee(&over(&LEVELS, |x| {
            if x <= 64.0 { 20.0 * x } else { 1280.0 - 2.0 * (x - 64.0) }
        }))
        .unwrap();
        assert_eq!(knee.x, 64.0);
    }

    #[test]
    fn a_curve_that_steepens_has_no_knee() {
        let points = over(&LEVELS, |x| if x <= 64.0 { 10.0 } else { 10.0 + (x - 64.0) });
        assert_eq!(knee(&points), None);
    }

    #[test]
    fn gentle_bend_gives_a_range() {
        let knee = knee(&over(&LEVELS, |x| 1500.0 * x / (x + 40.0))).unwrap();
        assert!(
            knee.low <= knee.x && knee.x <= knee.high && (32.0..=128.0).contains(&knee.x),
            "{knee:?}"
        );
        assert!(knee.low < knee.high, "no single level stands out: {knee:?}");
    }

    #[test]
    fn a_curve_saturates_where_it_becomes_flat() {
        let at = |points: &[(f64, f64)]| saturation_point(points).map(|knee| knee.x);
        // An 8 B model on an H200, by eightfold levels.
        assert_eq!(at(&[(1.0, 205.0), (8.0, 1520.0), (64.0, 6607.0)]), None);
        // Its knee is at 64, where a quarter is still to come.
        let late = [
            (1.0, 100.0),
            (64.0, 6000.0),
            (128.0, 7600.0),
            (192.0, 7601.0),
            (256.0, 7602.0),
        ];
        assert_eq!(at(&late), Some(128.0));
        assert_eq!(
            at(&over(&[10.0, 20.0, 40.0, 80.0, 120.0], |x| 25.0 * x.min(40.0))),
            Some(40.0)
        );
        assert_eq!(at(&over(&[8.0, 9.0, 10.0], |x| 25.0 * x)), None);
        // One request at a time, and one level.
        assert_eq!(at(&[(1.0, 59.9), (4.0, 59.4)]), Some(1.0));
        assert_eq!(at(&[(4.0, 59.4)]), None);
        // Repeats count as their mean.
        let noisy = [
            (1.0, 20.0),
            (32.0, 500.0),
            (32.0, 640.0),
            (256.0, 655.0),
            (256.0, 760.0),
        ];
        assert_eq!(at(&noisy), Some(32.0));
    }

    #[test]
    fn too_few_points_have_no_knee() {
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&over(&[1.0, 2.0], |x| x)), None);
        assert_eq!(knee(&[(1.0, 5.0), (1.0, 9.0), (1.0, 2.0)]), None);
        assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| f64::NAN)), None);
        assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| 0.0)), None);
    }

    #[test]
    fn repeated_levels_are_averaged() {
        let mut points = over(&LEVELS, |x| 20.0 * x.min(32.0) * 0.99);
        points.extend(over(&LEVELS, |x| 20.0 * x.min(32.0) * 1.01));
        points.reverse();
        let knee = knee(&points).unwrap();
        assert!((knee.x, (knee.y - 640.0).abs() < 1e-9) == (32.0, true), "{knee:?}");
    }

    /// Ascending levels, each with an error from -1 to 1.
    fn noisy() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((1.0_f64..50.0, -1.0_f64..=1.0), 3..20).prop_map(|steps| {
            let mut x = 0.0;
            steps
                .into_iter()
                .map(|(step, error)| {
                    x += step;
                    (x, error)
                })
                .collect()
        })
    }

    proptest! {
        /// Noise within the allowed size never creates a knee in a straight line.
        #[test]
        fn noisy_straight_line_has_no_knee(levels in noisy(), start in 10.0_f64..1000.0, slope in 0.0_f64..50.0) {
            let exact = |x: f64| start + slope * x;
            let least = levels.iter().map(|(x, _)| exact(*x)).fold(f64::INFINITY, f64::min);
            // Errors are allowed as a share of the highest value, which is at least the lowest exact one minus its error.
            let size = NOISE * least / (1.0 + NOISE);
            let points: Vec<_> = levels.iter().map(|(x, error)| (*x, exact(*x) + error * size)).collect();
            prop_assert_eq!(knee(&points), None);
        }

        /// A clear corner is found, and lies in the range for any allowed noise.
        #[test]
        fn corner_lies_in_the_range(errors in prop::collection::vec(-1.0_f64..=1.0, 9), corner in 2_usize..6) {
            let at = LEVELS[corner];
            let exact = over(&LEVELS, |x| x.min(at));
            let size = NOISE * at / (1.0 + NOISE);
            let points: Vec<_> = exact.iter().zip(errors).map(|((x, y), error)| (*x, y + error * size)).collect();
            let knee = knee(&points).unwrap();
            prop_assert!(knee.low <= at && at <= knee.high, "{} not in {:?}", at, knee);
            prop_assert!(knee.low <= knee.x && knee.x <= knee.high);
        }

        /// Neither the units of the axes nor the order of the points matter.
        #[test]
        fn units_and_order_do_not_matter(levels in noisy(), scale in 0.01_f64..100.0, turn in 0_usize..20) {
            let points: Vec<_> = levels.iter().map(|(x, error)| (*x, 100.0 + 90.0 * error)).collect();
            let mut other: Vec<_> = points.iter().map(|(x, y)| (x * scale, y * scale)).collect();
            let turn = turn % other.len();
            other.rotate_left(turn);
            let (one, two) = (knee(&points), knee(&other));
            prop_assert_eq!(one.is_some(), two.is_some());
            if let (Some(one), Some(two)) = (one, two) {
                prop_assert!((one.x * scale - two.x).abs() < 1e-9 * two.x && (one.distance - two.distance).abs() < 1e-9);
            }
        }
    }
}
