//! One step of a verification, and what it asks the boundary about single points.

use super::super::{Ahead, Boundary, Class, Moves, Point, Scalar};
use super::place::Place;
use crate::error::Result;

/// The next probe of a verification, and the places that are proven so far.
#[derive(Clone, Debug)]
pub struct VerificationStep {
    /// The point to probe; `None` if an answer in flight is needed first, or if nothing is left to probe.
    pub next: Option<Point>,
    /// Whether `next` is a side of a place of the certificate. Otherwise it is where limits that agree with all answers
    /// differ most.
    pub certifies: bool,
    /// Every point that the verification needed so far, `next` included.
    pub planned: Vec<Point>,
    /// The places where the prediction is probed.
    pub places: Vec<Place>,
    /// The places that are known on both sides, as far as the prediction holds.
    pub proven: Vec<Place>,
    /// Whether no answer contradicts the prediction.
    pub held: bool,
    /// The probes that it is expected to take yet.
    pub ahead: Ahead,
}

impl Boundary {
    /// The side of the limit on which a point is known to lie. A point that the engine's own report rules out fails.
    pub(super) fn side(&self, point: &Point) -> Result<Class> {
        Ok(match self.classify(point)? {
            Class::NotSent => Class::Fails,
            class => class,
        })
    }

    /// True if the answer for a point is neither known nor recorded.
    pub(super) fn is_unanswered(&self, point: &Point) -> Result<bool> {
        Ok(!self.recorded(point)? && self.classify(point)? == Class::Unknown)
    }

    /// True if the answer for a point is neither known nor in flight, nor expected to follow from those in flight.
    pub(super) fn can_be_asked(&self, point: &Point) -> Result<bool> {
        Ok(self.is_unanswered(point)? && !self.asked(point)? && !self.waits(point)?)
    }

    /// Whether any probe is in flight.
    pub(super) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The values on an axis of the recorded points that differ from a point only along it, and their effects.
    pub(super) fn recorded_on_line(&self, point: &Point, along: usize) -> Result<Vec<(f64, Moves)>> {
        let through = self.lattice.coordinates(point)?;
        let is_on_line = |coordinates: &[Scalar]| {
            let mut sides = coordinates.iter().zip(&through).enumerate();
            sides.all(|(axis, (one, other))| axis == along || one == other)
        };
        let on_line = self.recorded_moves().filter(|(coordinates, _)| is_on_line(coordinates));
        Ok(on_line
            .map(|(coordinates, moves)| (coordinates[along].as_f64(), moves))
            .collect())
    }

    /// The number of fitting points that differ from the point of a place only along its axis.
    pub(super) fn fitting_beside(&self, place: &Place) -> Result<usize> {
        let Some(along) = place.along else { return Ok(0) };
        let on_line = self.recorded_on_line(&place.point, along)?;
        Ok(on_line.iter().filter(|(_, moves)| *moves == Moves::Fits).count())
    }
}
