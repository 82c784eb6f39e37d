//! Where to look whether answers hold: just inside of the boundary, at points that follow from others and were never asked.
//!
//! A search asks only what is unknown, so that its answers can never contradict each other. A wrong one is found only by asking
//! what is known: some steps inside of the fitting points that have a failing one nearest, where noise is likeliest to show.

use super::lattice::Cell;
use super::{Boundary, Point};
use crate::fault::Result;

/// Steps inside of a fitting point up to which a look counts for it.
const STEPS: i64 = 8;

impl Boundary {
    /// Looks that are still to be made of `count` in all: for the fitting points that a failing one is nearest to, a point that is a few
    /// steps easier on every axis, and that was not recorded. Empty where nothing fails, or nothing fits.
    pub fn looks(&self, count: usize) -> Result<Vec<Point>> {
        let view = self.view()?;
        if view.fails.is_empty() {
            return Ok(Vec::new());
        }
        let mut edge: Vec<(f64, &Cell)> = view
            .fits
            .iter()
            .map(|fit| (self.apart(fit, &view.fails), fit))
            .collect();
        edge.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        let looks = edge.iter().take(count).filter_map(|(_, fit)| self.look_inside(fit));
        Ok(looks.map(|cell| self.lattice.point(&cell)).collect())
    }

    /// The look at a fitting cell; none once there was one, or where all near it was asked.
    fn look_inside(&self, fit: &Cell) -> Option<Cell> {
        let inside = |step: i64| -> Cell { fit.iter().map(|at| (at - step).max(0)).collect() };
        if (1..=STEPS).any(|step| self.looked.contains(&inside(step))) {
            return None;
        }
        (1..=STEPS).map(inside).find(|cell| !self.seen.contains(cell))
    }

    /// How far a fitting cell is from the nearest failing one, in shares of the box: the widest of the axes.
    fn apart(&self, fit: &Cell, fails: &[Cell]) -> f64 {
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
    fn the_edge_nearest_to_a_failure_is_looked_at_first_and_once() {
        let mut map = Boundary::new(&json!({ "a": [0, 99], "b": [0, 99] }), Options::default()).unwrap();
        let point = |a: i64, b: i64| Point::default().with("a", a).with("b", b);
        for (a, b) in [(10, 60), (40, 40), (60, 0)] {
            map.record(&point(a, b), &Answer::from(Verdict::Ok)).unwrap();
        }
        assert!(map.looks(3).unwrap().is_empty(), "nothing fails");
        map.record(&point(45, 41), &Answer::from(Verdict::Oom)).unwrap();
        assert_eq!(map.looks(2).unwrap(), [point(39, 39), point(9, 59)]);
        assert_eq!(
            map.looks(3).unwrap().last(),
            Some(&point(59, 0)),
            "the easiest is not passed"
        );
        map.record(&point(39, 39), &Answer::from(Verdict::Ok)).unwrap();
        assert_eq!(map.looks(2).unwrap(), [point(9, 59)]);
    }

    #[test]
    fn what_the_search_itself_asked_is_no_look() {
        let mut map = Boundary::new(&json!({ "a": [0, 99] }), Options::default()).unwrap();
        for (a, fits) in [(49, true), (50, true), (51, false)] {
            let verdict = if fits { Verdict::Ok } else { Verdict::Oom };
            map.record(&Point::default().with("a", a), &Answer::from(verdict))
                .unwrap();
        }
        let look = Point::default().with("a", 48);
        assert_eq!(map.looks(1).unwrap().first(), Some(&look));
        map.record(&look, &Answer::from(Verdict::Ok)).unwrap();
        assert!(map.looks(1).unwrap().is_empty());
    }
}
