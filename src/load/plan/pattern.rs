//! How requests of an open loop follow each other.

use rand::Rng;
use rand_distr::{Distribution, Gamma};
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// The least burstiness that is drawn: below it nearly all requests come at once, and the gamma distribution is nothing but its end.
const LEAST: f64 = 0.01;
/// The most: beyond it gaps differ by less than 1 %, and `constant` is meant.
const MOST: f64 = 10_000.0;

/// How the gaps between arrivals are spread around their mean, 1 / rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// All are the same; the first request is due at once.
    Constant,
    /// Gamma distribution with shape `burstiness` and mean 1 / rate, as in vLLM's bench: 1 is a Poisson process, below 1 requests come in bursts, above 1
    /// they come more evenly. The first request is due after a gap.
    ///
    /// vLLM's bench then stretches all gaps so that the last request is due at exactly requests / rate. That is not done here: it makes the number of
    /// arrivals in a time certain, which in a Poisson process is random, needs a number of requests known beforehand, and hides how far the
    /// sample was from the rate. The rate that came about is in the answer.
    Gamma(f64),
}

impl Pattern {
    /// A Poisson process.
    pub const POISSON: Self = Self::Gamma(1.0);

    /// Gamma with this burstiness.
    ///
    /// # Errors
    ///
    /// `usage` for one that cannot be drawn.
    pub fn gamma(burstiness: f64) -> Result<Self> {
        if (LEAST..=MOST).contains(&burstiness) {
            return Ok(Self::Gamma(burstiness));
        }
        Err(
            Fault::usage(format!("option `burstiness` is {burstiness}")).hint(format!(
                "give a number from {LEAST} to {MOST}: 1 is a Poisson process, less comes in bursts, more comes evenly"
            )),
        )
    }

    /// The shape of the gaps; none where they are all the same.
    #[must_use]
    pub fn burstiness(self) -> Option<f64> {
        match self {
            Self::Constant => None,
            Self::Gamma(shape) => Some(shape),
        }
    }

    /// What stands between an arrival and the one before it, in units of the mean gap. `first`: there is none before it.
    pub(super) fn gap(self, first: bool, numbers: &mut impl Rng) -> f64 {
        match self {
            Self::Constant if first => 0.0,
            Self::Constant => 1.0,
            // The shape was checked when it was given.
            Self::Gamma(shape) => Gamma::new(shape, 1.0 / shape).map_or(1.0, |gamma| gamma.sample(numbers)),
        }
    }
}
