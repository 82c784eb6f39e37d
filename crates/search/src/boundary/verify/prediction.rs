//! A prediction of the boundary: how likely a point fits.

use super::super::{Boundary, Point};

/// The shares of the limits that agree with all answers which admit a point that surely fits, and one that may fit.
const AGREE: [f64; 2] = [0.9, 0.1];

/// Whether points should fit. It proves nothing.
pub struct LimitPrediction<'a, E> {
    pub(super) map: &'a Boundary,
    /// The chance that a point fits, 0 to 1; monotone as the boundary is.
    pub(super) chance: &'a dyn Fn(&Point) -> Result<f64, E>,
    /// The chances from which on a point surely fits, and may fit. `None` for a prediction that is either 0 or 1.
    pub(super) levels: Option<[f64; 2]>,
    /// How far from the predicted limit each side is probed, in the unit of the axis.
    pub(super) within: f64,
    /// A length that the limit equals exactly, or within `near` tokens: input and output of one request.
    pub(super) stated: Option<i64>,
    /// The tokens by which a server's count may differ from the request.
    pub(super) near: i64,
    /// The lengths of a workload, without the concurrency if that is searched.
    pub(super) workload: Option<&'a Point>,
}

/// A prediction is expected to fit from this chance on.
pub(super) const EXPECTED: f64 = 0.5;

impl<'a, E> LimitPrediction<'a, E> {
    /// A prediction by `chance`, verified `within` units from where it changes. If it is `graded`, a point surely fits
    /// from a chance of 0.9 on, and may fit from 0.1 on; otherwise its chances are 0 and 1.
    pub fn new(
        map: &'a Boundary,
        chance: &'a dyn Fn(&Point) -> Result<f64, E>,
        graded: bool,
        within: f64,
        workload: Option<&'a Point>,
    ) -> Self {
        Self {
            map,
            chance,
            levels: graded.then_some(AGREE),
            within,
            stated: None,
            near: 0,
            workload,
        }
    }

    /// The prediction with other chances from which on a point surely fits, and may fit.
    pub(super) fn graded(&self, levels: [f64; 2]) -> Self {
        Self {
            levels: Some(levels),
            ..*self
        }
    }

    /// The chance of a point is at least this much.
    pub(super) fn reaches(&self, point: &Point, least: f64) -> Result<bool, E> {
        Ok((self.chance)(point)? >= least)
    }

    /// Whether a point should fit.
    pub(super) fn expects(&self, point: &Point) -> Result<bool, E> {
        self.reaches(point, EXPECTED)
    }

    /// True if the length of a point equals the limit that the server states.
    pub(super) fn is_stated(&self, point: &Point) -> bool {
        let length = |name| point.int(name).unwrap_or(0);
        self.stated == Some(length("input") + length("output"))
    }
}
