//! Answers that contradict each other, and points to probe again for verification.
//!
//! The band runs from the smallest points that failed to the largest points that fitted nevertheless. Limits are
//! monotone, so a point is contradicted if it both failed and fitted, or if it failed and a harder point fitted. One
//! failure outweighs any number of fits, because memory that ran out once may run out again. The whole band therefore
//! counts as failing, and nothing in it or above it is ever called fitting.
//!
//! A search probes only unknown points, so its answers can never contradict each other. A wrong answer is found only
//! by probing points that are already known: verification points, a few steps inside the fitting points that prove most,
//! and suspects (`suspects`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::dominance::maximal;
use super::lattice::{Cell, below};
use super::volume::left_below;
use super::{Boundary, Moves, Point, Scalar};
use crate::error::Result;

/// Where answers contradict each other: all points at or above one of `from` and at or below one of `to`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The smallest points that failed although the same or a harder point fitted, sorted.
    pub from: Vec<Point>,
    /// The largest points that fitted although the same or an easier point failed, sorted.
    pub to: Vec<Point>,
    /// The largest width of the band along each axis, in the axis' own unit.
    pub width: BTreeMap<String, Scalar>,
    /// The answers at these points, those of `from` first.
    pub answers: Vec<AnswerCounts>,
}

/// How often one point fitted, failed or gave no clear answer, over all its records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerCounts {
    /// The point.
    pub point: Point,
    /// Answers that it fits.
    pub fits: usize,
    /// Answers that it fails.
    pub fails: usize,
    /// Inconclusive answers.
    pub unclear: usize,
}

impl Boundary {
    /// The band inside the search range; `None` if no answers contradict each other there.
    #[must_use]
    pub fn band(&self) -> Option<Band> {
        if self.contradicted.is_empty() {
            return None;
        }
        let inside = |cell: &Cell| self.lattice.clamp(cell);
        let mut to = maximal(self.contradicted.iter().filter_map(inside).collect());
        to.sort_unstable();
        let fails = maximal(self.fails.cells().filter_map(inside).collect());
        let mut from: Vec<Cell> = fails.iter().map(|cell| self.lattice.mirror(cell)).collect();
        from.retain(|low| to.iter().any(|high| below(low, high)));
        from.sort_unstable();
        to.retain(|high| from.iter().any(|low| below(low, high)));
        if from.is_empty() {
            return None;
        }
        let points = |cells: &[Cell]| cells.iter().map(|cell| self.lattice.point(cell)).collect();
        Some(Band {
            width: self.width(&from, &to),
            from: points(&from),
            to: points(&to),
            answers: from
                .iter()
                .chain(to.iter().filter(|cell| !from.contains(cell)))
                .map(|cell| self.answered(cell))
                .collect(),
        })
    }

    /// Whether answers contradict each other at a point: it or an easier one failed, and it or a harder one fitted.
    pub fn is_in_band(&self, point: &Point) -> Result<bool> {
        if self.contradicted.is_empty() {
            return Ok(false);
        }
        let (easier, harder) = self.lattice.cells(point)?;
        let fitted = self.contradicted.iter().any(|cell| below(&harder, cell));
        Ok(fitted && self.fails.covers(&self.lattice.mirror(&easier)))
    }

    /// Counts the answers at a cell.
    fn answered(&self, cell: &Cell) -> AnswerCounts {
        let axes = self.lattice.axes().iter().zip(cell);
        let at: Vec<f64> = axes.map(|(axis, at)| axis.value(*at).as_f64()).collect();
        let here = |coordinates: &[Scalar]| coordinates.iter().map(|value| value.as_f64()).eq(at.iter().copied());
        let records = self.recorded_moves().filter(|(coordinates, _)| here(coordinates));
        let moves: Vec<Moves> = records.map(|(_, moves)| moves).collect();
        let count = |wanted| moves.iter().filter(|moves| **moves == wanted).count();
        AnswerCounts {
            point: self.lattice.point(cell),
            fits: count(Moves::Fits),
            fails: count(Moves::Fails),
            unclear: count(Moves::None),
        }
    }

    fn width(&self, from: &[Cell], to: &[Cell]) -> BTreeMap<String, Scalar> {
        let pairs = || from.iter().flat_map(|low| to.iter().map(move |high| (low, high)));
        let axes = self.lattice.axes().iter().enumerate().map(|(index, axis)| {
            let widths = pairs()
                .filter(|(low, high)| below(low, high))
                .map(|(low, high)| axis.distance(low[index].max(0), high[index].min(axis.last())));
            (axis.name().to_owned(), axis.scalar(widths.fold(0.0, f64::max)))
        });
        axes.collect()
    }
}

/// The largest distance, in steps, at which a point verifies a fitting point.
const VERIFICATION_STEPS: i64 = 8;

impl Boundary {
    /// The verification points still to probe, of `count` in total. Each belongs to one of the fitting points that prove
    /// most that no other answer proves: a wrong answer there would do most harm. It is unrecorded, and a few steps easier
    /// on every axis. Empty if nothing bounds the search or nothing fits.
    pub fn verification_points(&self, count: usize) -> Result<Vec<Point>> {
        let view = self.view()?;
        if view.bounding.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.verifying(&view.fits, count))
    }

    /// The verification points that are expected at the end of the search, if the limit runs through these points. With three axes and more, the points
    /// that prove most are usually still to be found.
    pub fn expected_verification_points(&self, count: usize, limit: &[Point]) -> Result<Vec<Point>> {
        if self.lattice.free().len() < 3 || self.view()?.bounding.is_empty() {
            return self.verification_points(count);
        }
        let mut fits = self.view()?.fits.clone();
        for point in limit {
            fits.push(self.lattice.inside(point)?);
        }
        Ok(self.verifying(&maximal(fits), count))
    }

    /// The points that verify those of these fitting cells which prove most that no other one proves.
    fn verifying(&self, fits: &[Cell], count: usize) -> Vec<Point> {
        let proven_alone = |fit: &Cell| left_below(fit, fits.iter().filter(|other| *other != fit));
        let mut edge: Vec<(u128, &Cell)> = fits.iter().map(|fit| (proven_alone(fit), fit)).collect();
        edge.sort_by(|a, b| b.cmp(a));
        let verification_points = edge
            .iter()
            .take(count)
            .filter_map(|(_, fit)| self.verification_cell(fit));
        verification_points.map(|cell| self.lattice.point(&cell)).collect()
    }

    /// The point that verifies a fitting cell; `None` if it was verified already, or if all candidates were recorded.
    fn verification_cell(&self, fit: &Cell) -> Option<Cell> {
        let inside = |step: i64| -> Cell { fit.iter().map(|at| (at - step).max(0)).collect() };
        if (1..=VERIFICATION_STEPS).any(|step| self.verified.contains(&inside(step))) {
            return None;
        }
        (1..=VERIFICATION_STEPS)
            .map(inside)
            .find(|cell| !self.tested.contains(cell))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Class, Options, Verdict};
    use super::*;
    use serde_json::json;

    #[test]
    fn with_three_axes_the_last_points_are_expected_where_most_is_still_to_be_proven() {
        let axes = json!({ "a": [0, 99], "b": [0, 99], "c": [0, 99] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        let at = |side: i64| Point::default().with("a", side).with("b", side).with("c", side);
        map.record(&at(10), &Answer::from(Verdict::Ok)).unwrap();
        map.record(&at(99), &Answer::from(Verdict::Oom)).unwrap();
        assert_eq!(map.verification_points(1).unwrap(), [at(9)]);
        assert_eq!(map.expected_verification_points(1, &[at(80)]).unwrap(), [at(79)]);
    }

    fn boundary(answers: &[(i64, i64, bool)]) -> Boundary {
        let mut map = Boundary::new(&json!({ "a": [0, 99], "b": [0, 99] }), Options::default()).unwrap();
        for (a, b, fits) in answers {
            let verdict = if *fits { Verdict::Ok } else { Verdict::Oom };
            map.record(&point(*a, *b), &Answer::from(verdict)).unwrap();
        }
        map
    }

    fn point(a: i64, b: i64) -> Point {
        Point::default().with("a", a).with("b", b)
    }

    #[test]
    fn answers_that_agree_leave_no_band() {
        let map = boundary(&[(50, 50, true), (60, 60, false), (50, 50, true)]);
        assert_eq!(map.band(), None);
        assert!(!map.is_in_band(&point(55, 55)).unwrap());
    }

    #[test]
    fn the_band_runs_from_what_failed_to_what_fitted_all_the_same() {
        let map = boundary(&[(50, 50, true), (40, 45, false), (30, 90, true), (95, 95, false)]);
        let band = map.band().unwrap();
        assert_eq!((band.from, band.to), (vec![point(40, 45)], vec![point(50, 50)]));
        assert_eq!(
            band.width,
            [("a".to_owned(), Scalar::Int(10)), ("b".to_owned(), Scalar::Int(5))].into()
        );
        for (a, b, within) in [(45, 47, true), (40, 45, true), (39, 45, false), (51, 50, false)] {
            assert_eq!(map.is_in_band(&point(a, b)).unwrap(), within, "{a} {b}");
        }
        assert_eq!(map.classify(&point(45, 47)).unwrap(), Class::Fails);
        assert_eq!(map.frontier().unwrap(), [point(30, 90)]);
    }

    #[test]
    fn one_failure_of_many_answers_leaves_a_point_unsafe() {
        let map = boundary(&[(50, 50, true), (50, 50, false), (50, 50, true), (50, 50, true)]);
        let band = map.band().unwrap();
        let expected = AnswerCounts {
            point: point(50, 50),
            fits: 3,
            fails: 1,
            unclear: 0,
        };
        assert_eq!(band.answers, [expected]);
        assert_eq!(map.classify(&point(50, 50)).unwrap(), Class::Fails);
        assert!(map.frontier().unwrap().is_empty());
    }

    #[test]
    fn the_point_that_alone_proves_most_is_verified_first_and_once() {
        let mut map = Boundary::new(&json!({ "a": [0, 99], "b": [0, 99] }), Options::default()).unwrap();
        let point = |a: i64, b: i64| Point::default().with("a", a).with("b", b);
        for (a, b) in [(10, 60), (40, 40), (60, 0)] {
            map.record(&point(a, b), &Answer::from(Verdict::Ok)).unwrap();
        }
        assert!(map.verification_points(3).unwrap().is_empty(), "nothing fails");
        map.record(&point(61, 1), &Answer::from(Verdict::Oom)).unwrap();
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
