//! Narrows a limit that was found until the tolerances of the axes are met, on nine rays from the smallest point and at
//! the places of the prediction that was verified.

use super::super::{Boundary, Point};
use super::place::{Place, axis_of};
use super::prediction::{EXPECTED, LimitPrediction};
use super::report::ReportedLimit;
use crate::error::Result;

/// The next probes that narrow a limit.
#[derive(Clone, Debug)]
pub struct Narrowing {
    /// One point for each line that is wider than a tolerance, the widest line first.
    pub points: Vec<Point>,
    /// The places whose lines are narrowed, too.
    pub places: Vec<Place>,
    /// Whether no answer contradicts the prediction, other than close to where it changes.
    pub held: bool,
}

impl Boundary {
    /// The next points for a limit that an engine reports.
    ///
    /// # Errors
    ///
    /// `usage` for a point that the boundary cannot have.
    pub fn narrow_report(&self, limit: ReportedLimit) -> Result<Narrowing> {
        let chance = |point: &Point| Ok(if limit.admits(point) { 1.0 } else { 0.0 });
        let places = limit.prediction(self, &chance, None).places()?;
        let places = on_a_line(places);
        let points = self.too_wide(&places, |point| Ok(limit.admits(point)))?;
        let held = !self.contradicts_report(limit);
        Ok(Narrowing { points, places, held })
    }

    /// The next points for the limits that agree with all answers; with `at_places`, also on the lines of their places.
    ///
    /// # Errors
    ///
    /// `limit` if the boundary is too large to compute its volume.
    pub fn narrow_fitted(&self, at_places: bool) -> Result<Narrowing> {
        let chance = |point: &Point| self.expected_chance(point);
        let places = if at_places && self.hypotheses()?.is_some() {
            LimitPrediction::new(self, &chance, true, 0.0, None).places()?
        } else {
            Vec::new()
        };
        let places = on_a_line(places);
        // Once the limit is exact on all rays, nothing is predicted any more.
        let lines = if self.predicted()?.is_empty() { &[] } else { &*places };
        let points = self.too_wide(lines, |point| Ok(self.expected_chance(point)? >= EXPECTED))?;
        Ok(Narrowing {
            points,
            places,
            held: true,
        })
    }

    /// One point for each ray, and each line of a place, that is wider than a tolerance.
    fn too_wide(&self, places: &[Place], expects: impl FnMut(&Point) -> Result<bool>) -> Result<Vec<Point>> {
        let through = places.iter().filter_map(|place| {
            let axis = axis_of(self, place)?;
            Some((place.point.clone(), axis.name().to_owned()))
        });
        self.beyond_tolerance(&through.collect::<Vec<_>>(), expects)
    }
}

/// The places that lie on a line along an axis.
fn on_a_line(mut places: Vec<Place>) -> Vec<Place> {
    places.retain(|place| place.along.is_some());
    places
}
