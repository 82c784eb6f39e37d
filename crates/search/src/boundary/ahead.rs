//! The probes that a search expects to make, from which the time left is estimated.

use serde::{Deserialize, Serialize};

use super::Point;

/// The answer that is expected of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The point fits.
    Fits,
    /// The engine tries the requests, and they do not fit.
    Fails,
    /// The engine refuses the requests unseen: they are longer than it allows.
    Refused,
}

impl Expected {
    /// The answer of a point that fits or does not fit.
    #[must_use]
    pub fn of(fits: bool) -> Self {
        if fits { Self::Fits } else { Self::Fails }
    }
}

/// The probes that a search expects to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ahead {
    /// The points that are known, and what they should find.
    pub points: Vec<(Point, Expected)>,
    /// How many other probes should fit.
    pub fitting: f64,
    /// How many other probes should fail.
    pub failing: f64,
    /// Points near which these others will be, if that is known.
    pub near: Vec<Point>,
    /// Whether the answers are confirmed after these probes.
    pub confirms: bool,
}

impl Ahead {
    /// A number of unknown probes. The share `failing` of them fails.
    #[must_use]
    pub fn of(probes: f64, failing: f64) -> Self {
        Self {
            fitting: probes * (1.0 - failing),
            failing: probes * failing,
            ..Self::default()
        }
    }

    /// The first so many of them.
    #[must_use]
    pub fn at_most(mut self, probes: i64) -> Self {
        let probes = probes.max(0);
        self.points.truncate(usize::try_from(probes).unwrap_or(usize::MAX));
        let others = self.fitting + self.failing;
        let kept = ((probes - self.points.len() as i64) as f64).min(others);
        if others > 0.0 {
            self.fitting *= kept / others;
            self.failing *= kept / others;
        }
        self
    }

    /// The number of probes.
    #[must_use]
    pub fn probes(&self) -> i64 {
        self.points.len() as i64 + (self.fitting + self.failing).round() as i64
    }
}
