//! Pairs of a fitting and a failing neighbour, the basis of tgi-profiler's search.
//!
//! The method is that of `boundary_detection.py` in tgi-profiler 1.0.0: the k nearest neighbours of every point, and
//! some far ones drawn in proportion to their distance. Unlike there, a point is not its own neighbour, and every
//! pair comes once. The strategy decides how to weigh the figures and which pairs to refine. Distances are Euclidean,
//! in the axes' own units.

use std::collections::{BTreeSet, HashSet};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::lattice::Cell;
use super::{Boundary, Class, Point};
use crate::error::{Error, Result};

/// Each point is compared with every other.
const MOST_POINTS: usize = 5_000;

/// How neighbours are chosen, and which points around a pair count.
#[derive(Clone, Copy, Debug)]
pub struct PairingOptions {
    /// Nearest neighbours of each point.
    pub nearest: usize,
    /// Draws of far neighbours for each point.
    pub far: usize,
    /// Seed of these draws.
    pub seed: u64,
    /// The distance at which a point's contribution to the crowding falls by a factor of e.
    pub scale: f64,
    /// The radius around the fitting point within which others count for the consistency.
    pub radius: f64,
}

/// A fitting point and a failing neighbour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpposingPair {
    /// The fitting point.
    pub fits: Point,
    /// The failing point.
    pub fails: Point,
    /// The distance between them.
    pub distance: f64,
    /// The lattice point halfway between them; not one of the given points.
    pub middle: Point,
    /// The share of the other points within the radius that agree with the pair: fitting points nearer to the fitting
    /// point, failing points nearer to the failing one. 0.5 if there are no others.
    pub consistency: f64,
    /// How crowded the middle is: Σ exp(−distance / scale) over all points.
    pub crowding: f64,
}

struct ClassifiedPoint {
    cell: Cell,
    at: Vec<f64>,
    class: Class,
}

impl Boundary {
    /// The pairs among `points`, each classified by what is known about it; a point that the engine's report rules out
    /// counts as failing. Unknown points, and points outside the search range, have no pairs. The same points give the
    /// same pairs in the same order.
    ///
    /// # Errors
    ///
    /// `limit` for more than 5,000 points.
    pub fn pairs(&self, points: &[Point], options: PairingOptions) -> Result<Vec<OpposingPair>> {
        if points.len() > MOST_POINTS {
            return Err(Error::limit(format!(
                "{} points are too many to pair: the limit is {MOST_POINTS}",
                points.len()
            ))
            .hint("search with fewer rounds or a smaller grid"));
        }
        let places = self.places(points)?;
        let taken: HashSet<&Cell> = places.iter().map(|place| &place.cell).collect();
        let mut pairs = Vec::new();
        for (fits, fails) in opposing_pairs(&places, options) {
            let (one, other) = (&places[fits], &places[fails]);
            let middle = self.lattice.middle(&one.cell, &other.cell);
            if taken.contains(&middle) {
                continue;
            }
            pairs.push(OpposingPair {
                fits: self.lattice.point(&one.cell),
                fails: self.lattice.point(&other.cell),
                distance: distance(&one.at, &other.at),
                consistency: consistency(&places, fits, fails, options.radius),
                crowding: crowding(&places, &self.position(&middle), options.scale),
                middle: self.lattice.point(&middle),
            });
        }
        Ok(pairs)
    }

    /// Each point inside the search range once, in the order given.
    fn places(&self, points: &[Point]) -> Result<Vec<ClassifiedPoint>> {
        let (mut places, mut seen) = (Vec::new(), HashSet::new());
        let last = self.lattice.last();
        for point in points {
            let (cell, _) = self.lattice.cells(point)?;
            let inside = cell.iter().zip(&last).all(|(at, last)| (0..=*last).contains(at));
            if inside && seen.insert(cell.clone()) {
                places.push(ClassifiedPoint {
                    at: self.position(&cell),
                    class: match self.classify(point)? {
                        Class::NotSent => Class::Fails,
                        class => class,
                    },
                    cell,
                });
            }
        }
        Ok(places)
    }

    fn position(&self, cell: &Cell) -> Vec<f64> {
        let axes = self.lattice.axes().iter().zip(cell);
        axes.map(|(axis, at)| axis.value(*at).as_f64()).collect()
    }
}

/// Indices of neighbours, the fitting one first, each pair once.
fn opposing_pairs(places: &[ClassifiedPoint], options: PairingOptions) -> Vec<(usize, usize)> {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let known: Vec<usize> = (0..places.len())
        .filter(|index| places[*index].class != Class::Unknown)
        .collect();
    let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
    for here in &known {
        let mut others: Vec<(f64, usize)> = known
            .iter()
            .filter(|other| *other != here)
            .map(|other| (distance(&places[*here].at, &places[*other].at), *other))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        let near: Vec<usize> = others.iter().take(options.nearest).map(|(_, other)| *other).collect();
        let far = (0..options.far).filter_map(|_| weighted_pick(&others, random.random()));
        for other in near.into_iter().chain(far) {
            let pair = match (places[*here].class, places[other].class) {
                (Class::Fits, Class::Fails) => (*here, other),
                (Class::Fails, Class::Fits) => (other, *here),
                _ => continue,
            };
            if seen.insert(pair) {
                pairs.push(pair);
            }
        }
    }
    pairs
}

/// Picks one of the others with a probability proportional to its distance; `share` is uniform in 0 to 1.
fn weighted_pick(others: &[(f64, usize)], share: f64) -> Option<usize> {
    let mut left = share * others.iter().map(|(distance, _)| distance).sum::<f64>();
    let found = others.iter().find(|(distance, _)| {
        left -= distance;
        left < 0.0
    });
    found.or(others.last()).map(|(_, index)| *index)
}

fn consistency(places: &[ClassifiedPoint], fits: usize, fails: usize, radius: f64) -> f64 {
    let (from, to) = (&places[fits].at, &places[fails].at);
    let (mut consistent, mut all) = (0u32, 0u32);
    for (index, place) in places.iter().enumerate() {
        let away = distance(&place.at, from);
        if index == fits || index == fails || place.class == Class::Unknown || away > radius {
            continue;
        }
        all += 1;
        consistent += u32::from((place.class == Class::Fits) == (away < distance(&place.at, to)));
    }
    if all == 0 {
        0.5
    } else {
        f64::from(consistent) / f64::from(all)
    }
}

fn crowding(places: &[ClassifiedPoint], at: &[f64], scale: f64) -> f64 {
    places
        .iter()
        .map(|place| (-distance(&place.at, at) / scale).exp())
        .sum()
}

fn distance(from: &[f64], to: &[f64]) -> f64 {
    let squares = from.iter().zip(to).map(|(from, to)| (from - to) * (from - to));
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::boundary::{Answer, Options};
    use crate::error::Kind;

    const OPTIONS: PairingOptions = PairingOptions {
        nearest: 5,
        far: 3,
        seed: 1,
        scale: 1000.0,
        radius: 1000.0,
    };

    fn point(input: i64, output: i64) -> Point {
        Point::default().with("input", input).with("output", output)
    }

    fn recorded(points: &[(i64, i64)], truth: impl Fn(i64, i64) -> bool) -> (Boundary, Vec<Point>) {
        let axes = json!({ "input": [0, 4000], "output": [0, 4000] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        for (input, output) in points {
            let verdict = if truth(*input, *output) { "ok" } else { "oom" };
            let answer = Answer::parse(&json!(verdict)).unwrap();
            map.record(&point(*input, *output), &answer).unwrap();
        }
        let points = points.iter().map(|(input, output)| point(*input, *output)).collect();
        (map, points)
    }

    #[test]
    fn opposite_neighbours_are_paired_once_with_the_point_between() {
        let (map, points) = recorded(&[(1000, 1000), (3000, 1000), (500, 500)], |input, _| input < 2000);
        let one = PairingOptions {
            nearest: 1,
            far: 0,
            ..OPTIONS
        };
        let pairs = map.pairs(&points, one).unwrap();
        assert_eq!(pairs.len(), 1, "{pairs:?}");
        let pair = &pairs[0];
        assert_eq!((&pair.fits, &pair.fails), (&point(1000, 1000), &point(3000, 1000)));
        assert_eq!((&pair.middle, pair.distance), (&point(2000, 1000), 2000.0));
        // (500, 500) is 707 from the fitting point, nearer to it than to the failing one, and fits.
        assert_eq!(pair.consistency, 1.0);
        let far = (1500f64.powi(2) + 500f64.powi(2)).sqrt();
        let crowding = 2.0 * (-1f64).exp() + (-far / 1000.0).exp();
        assert!((pair.crowding - crowding).abs() < 1e-12);
    }

    #[test]
    fn a_point_does_not_count_for_its_own_pair() {
        let (map, points) = recorded(&[(1000, 1000), (3000, 1000)], |input, _| input < 2000);
        assert_eq!(map.pairs(&points, OPTIONS).unwrap()[0].consistency, 0.5);
    }

    #[test]
    fn a_middle_that_was_given_is_not_given_again() {
        let (map, points) = recorded(&[(1000, 0), (1001, 0)], |input, _| input <= 1000);
        assert!(map.pairs(&points, OPTIONS).unwrap().is_empty(), "nothing lies between");
        let (map, mut points) = recorded(&[(1000, 0), (1100, 0)], |input, _| input <= 1000);
        points.push(point(1050, 0));
        assert!(map.pairs(&points, OPTIONS).unwrap().is_empty(), "it was probed already");
    }

    #[test]
    fn points_outside_the_box_are_left_out() {
        let (map, mut points) = recorded(&[(1000, 0), (2000, 0)], |input, _| input <= 1000);
        points.push(point(9000, 0));
        let pairs = map.pairs(&points, OPTIONS).unwrap();
        assert!(pairs.iter().all(|pair| pair.fails == point(2000, 0)), "{pairs:?}");
    }

    #[test]
    fn too_many_points_are_refused() {
        let (map, _) = recorded(&[], |_, _| true);
        let points: Vec<Point> = (0..=5_000).map(|at| point(at, 0)).collect();
        assert_eq!(map.pairs(&points, OPTIONS).unwrap_err().kind, Kind::Limit);
    }

    #[test]
    fn far_ones_are_drawn_in_proportion_to_their_distance() {
        let others = [(1.0, 7), (3.0, 8)];
        let draws = (0..1000)
            .filter(|n| weighted_pick(&others, f64::from(*n) / 1000.0) == Some(8))
            .count();
        assert_eq!(draws, 750);
        assert_eq!(weighted_pick(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn pairs_are_of_opposite_verdict_and_the_same_each_time(
            points in proptest::collection::vec((0i64..4000, 0i64..4000), 2..40),
            limit in 0i64..8000,
            seed in 0u64..9,
        ) {
            let (map, points) =  recorded(&points, |input, output| input + output <= limit);
            let options = PairingOptions { seed, ..OPTIONS };
            let pairs = map.pairs(&points, options).unwrap();
            prop_assert_eq!(&pairs, &map.pairs(&points, options).unwrap());
            for pair in &pairs {
                prop_assert_eq!(map.classify(&pair.fits).unwrap(), Class::Fits);
                prop_assert_eq!(map.classify(&pair.fails).unwrap(), Class::Fails);
                prop_assert!(!points.contains(&pair.middle) && pair.distance > 0.0);
                prop_assert!((0.0..=1.0).contains(&pair.consistency) && pair.crowding > 0.0);
            }
        }
    }
}
