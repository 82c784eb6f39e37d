//! Points that verify known answers: just inside the boundary, implied by others and never probed.
//!
//! A search probes only unknown points, so its answers can never contradict each other. A wrong answer is found only
//! by probing points that are already known: a few steps inside the fitting points nearest to a failing one, where
//! noise is most likely to show.

use super::lattice::Cell;
use super::{Boundary, Point};
use crate::fault::Result;

/// The largest distance, in steps, at which a point verifies a fitting point.
const STEPS: i64 = 8;

impl Boundary {
    /// The verification points still to probe, of `count` in total. They belong to the fitting points nearest to a
    /// failing one; each is a few steps easier on every axis and unrecorded. Empty if nothing fails or nothing fits.
    pub fn verification_points(&self, count: usize) -> Result<Vec<Point>> {
        let view = self.view()?;
        if view.fails.is_empty() {
            return Ok(Vec::new());
        }
        let mut edge: Vec<(f64, &Cell)> = view
            .fits
            .iter()
            .map(|fit| (self.distance_to_failure(fit, &view.fails), fit))
            .collect();
        edge.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        let verification_points = edge
            .iter()
            .take(count)
            .filter_map(|(_, fit)| self.verification_cell(fit));
        Ok(verification_points.map(|cell| self.lattice.point(&cell)).collect())
    }

    /// The point that verifies a fitting cell; `None` if it was verified already, or if all candidates were recorded.
    fn verification_cell(&self, fit: &Cell) -> Option<Cell> {
        let inside = |step: i64| -> Cell { fit.iter().map(|at| (at - step).max(0)).collect() };
        if (1..=STEPS).any(|step| self.verified.contains(&inside(step))) {
            return None;
        }
        (1..=STEPS).map(inside).find(|cell| !self.tested.contains(cell))
    }

    /// The distance from a fitting cell to the nearest failing one: the largest of the axes, relative to the search
    /// range.
    fn distance_to_failure(&self, fit: &Cell, fails: &[Cell]) -> f64 {
        let last = self.lattice.last();
        let from = |fail: &Cell| {
            let sides = fail.iter().zip(fit).zip(&last);
            let shares = sides.map(|((fail, fit), last)| (fail - fit) as f64 / (*last).max(1) as f64);
            shares.fold(0.0, f64::max)
        };
        fails.iter().map(from).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Options, Verdict};
    use super::*;
    use serde_json::json;

    #[test]
    fn the_point_nearest_to_a_failure_is_verified_first_and_once() {
        let mut map = Boundary::new(&json!({ "a": [0, 99], "b": [0, 99] }), Options::default()).unwrap();
        let point = |a: i64, b: i64| Point::default().with("a", a).with("b", b);
        for (a, b) in [(10, 60), (40, 40), (60, 0)] {
            map.record(&point(a, b), &Answer::from(Verdict::Ok)).unwrap();
        }
        assert!(map.verification_points(3).unwrap().is_empty(), "nothing fails");
        map.record(&point(45, 41), &Answer::from(Verdict::Oom)).unwrap();
        assert_eq!(map.verification_points(2).unwrap(), [point(39, 39), point(9, 59)]);
        assert_eq!(
            map.verification_points(3).unwrap().last(),
            Some(&point(59, 0)),
            "never easier than the smallest"
        );
        map.record(&point(39, 39), &Answer::from(Verdict::Ok)).unwrap();
        assert_eq!(map.verification_points(2).unwrap(), [point(9, 59)]);
    }

    #[test]
    fn points_probed_by_the_search_itself_verify_nothing() {
        let mut map = Boundary::new(&json!({ "a": [0, 99] }), Options::default()).unwrap();
        for (a, fits) in [(49, true), (50, true), (51, false)] {
            let verdict = if fits { Verdict::Ok } else { Verdict::Oom };
            map.record(&Point::default().with("a", a), &Answer::from(verdict))
                .unwrap();
        }
        let point = Point::default().with("a", 48);
        assert_eq!(map.verification_points(1).unwrap().first(), Some(&point));
        map.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        assert!(map.verification_points(1).unwrap().is_empty());
    }
}
