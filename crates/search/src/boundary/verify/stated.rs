//! Verifies a prediction that was made before the probes: both sides of all places, the fitting sides first, because an
//! engine that survives answers them all with one start. It is given up at the first answer that contradicts it.

use super::super::{Ahead, Boundary, Class, Expected, Point};
use super::place::Place;
use super::prediction::LimitPrediction;
use super::step::VerificationStep;
use crate::error::{Error, Result as Checked};

/// How far the walk over the sides of all places got.
pub(super) enum Walk<R> {
    /// This side is to be probed next.
    Probe(Point),
    /// Answers in flight come first.
    Wait,
    /// An answer shows that the engine meant another limit.
    Restated(R),
    /// All sides are answered, or one contradicts the prediction.
    Ended { held: bool },
}

impl Boundary {
    /// The next step of verifying a prediction. With `parallel` both sides of all places are probed at the same time;
    /// otherwise one after the other, so that the first unexpected answer saves the remaining probes. With `only_fits`
    /// the sides that should fail are left out.
    ///
    /// # Errors
    ///
    /// Errors of the prediction.
    pub fn verify_prediction<E: From<Error>>(
        &self,
        prediction: &LimitPrediction<'_, E>,
        parallel: bool,
        only_fits: bool,
    ) -> Result<VerificationStep, E> {
        let mut places = prediction.places()?;
        if only_fits {
            for place in &mut places {
                place.fails = None;
            }
        }
        let mut planned = Vec::new();
        let walk = self.walk(&places, parallel, &mut planned, |_| Ok(None::<()>))?;
        let is_answered = |_: &Place, side: &Point, _: Class| Ok(self.classify(side)? != Class::Unknown);
        Ok(self.concluded(&walk, places, planned, is_answered)?)
    }

    /// Walks over the sides of all places, and adds those that it reaches to `planned`. `restated` says whether the
    /// answer of a point shows that the engine meant another limit.
    pub(super) fn walk<R>(
        &self,
        places: &[Place],
        parallel: bool,
        planned: &mut Vec<Point>,
        restated: impl Fn(&Point) -> Checked<Option<R>>,
    ) -> Checked<Walk<R>> {
        let sides = || {
            let fits = places
                .iter()
                .filter_map(|place| Some((place.fits.as_ref()?, Class::Fits)));
            fits.chain(
                places
                    .iter()
                    .filter_map(|place| Some((place.fails.as_ref()?, Class::Fails))),
            )
        };
        if parallel {
            planned.extend(sides().map(|(point, _)| point.clone()));
            for (point, _) in sides() {
                if self.is_unanswered(point)? && !self.asked(point)? {
                    return Ok(Walk::Probe(point.clone()));
                }
            }
            if self.is_waiting() {
                return Ok(Walk::Wait);
            }
        }
        for (point, side) in sides() {
            planned.push(point.clone());
            if self.is_unanswered(point)? {
                return Ok(Walk::Probe(point.clone()));
            }
            if let Some(limit) = restated(point)? {
                return Ok(Walk::Restated(limit));
            }
            // An unanswered point, or one beyond a configured limit, neither supports nor contradicts the prediction.
            if self.contradicts(point, side)? {
                return Ok(Walk::Ended { held: false });
            }
        }
        Ok(Walk::Ended { held: true })
    }

    /// True if a point is known to lie on the other side.
    pub(super) fn contradicts(&self, point: &Point, expected: Class) -> Checked<bool> {
        let side = self.side(point)?;
        Ok(side != Class::Unknown && side != expected)
    }

    /// The step that follows from a walk over the places. `is_answered` says whether a side of a place is known.
    pub(super) fn concluded<R>(
        &self,
        walk: &Walk<R>,
        places: Vec<Place>,
        planned: Vec<Point>,
        is_answered: impl Fn(&Place, &Point, Class) -> Checked<bool>,
    ) -> Checked<VerificationStep> {
        let (next, held) = match walk {
            Walk::Probe(point) => (Some(point.clone()), true),
            Walk::Wait | Walk::Restated(_) => (None, true),
            Walk::Ended { held } => (None, *held),
        };
        let mut proven = Vec::new();
        let mut ahead = Ahead::default();
        for place in places.iter().filter(|_| held) {
            let fits = place.fits.iter().map(|point| (point, Class::Fits));
            let mut known = true;
            for (point, side) in fits.chain(place.fails.iter().map(|point| (point, Class::Fails))) {
                known = known && is_answered(place, point, side)?;
                if self.is_unanswered(point)? {
                    ahead.points.push((point.clone(), Expected::of(side == Class::Fits)));
                }
            }
            if known {
                proven.push(place.clone());
            }
        }
        Ok(VerificationStep {
            certifies: true,
            next,
            planned,
            places,
            proven,
            held,
            ahead,
        })
    }
}
