//! Distribution of inter-arrival times in an open loop.

use rand::Rng;
use rand_distr::{Distribution, Gamma};
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// Minimum burstiness. Below it nearly all requests arrive together.
const MIN_BURSTINESS: f64 = 0.01;
/// Maximum burstiness. Beyond it gaps differ by less than 1 %; use `constant`.
const MAX_BURSTINESS: f64 = 10_000.0;

/// Distribution of the inter-arrival times, with mean 1 / rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Constant; the first request is due immediately.
    Constant,
    /// Gamma distribution with shape `burstiness` and mean 1 / rate, as in vLLM's bench: 1 is a Poisson process, lower
    /// is burstier, higher is more regular. The first request is due after one inter-arrival time.
    ///
    /// vLLM's bench then rescales all gaps so that the last request is due at exactly requests / rate. We do not: that
    /// fixes the number of arrivals in a time span, which is random in a Poisson process, requires the number of
    /// requests beforehand, and hides the sample's deviation from the rate. The achieved rate is in the result.
    Gamma(f64),
}

impl Pattern {
    /// A Poisson process.
    pub const POISSON: Self = Self::Gamma(1.0);

    /// Gamma distribution with this burstiness.
    ///
    /// # Errors
    ///
    /// `usage` if it is out of range.
    pub fn gamma(burstiness: f64) -> Result<Self> {
        if (MIN_BURSTINESS..=MAX_BURSTINESS).contains(&burstiness) {
            return Ok(Self::Gamma(burstiness));
        }
        Err(
            Fault::usage(format!("option `burstiness` is {burstiness}")).hint(format!(
                "give a number from {MIN_BURSTINESS} to {MAX_BURSTINESS}: 1 is a Poisson process, less comes in bursts, more comes evenly"
            )),
        )
    }

    /// The shape parameter; `None` for constant gaps.
    #[must_use]
    pub fn burstiness(self) -> Option<f64> {
        match self {
            Self::Constant => None,
            Self::Gamma(shape) => Some(shape),
        }
    }

    /// The next inter-arrival time in units of the mean. `first` marks the first request.
    pub(super) fn gap(self, first: bool, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Constant if first => 0.0,
            Self::Constant => 1.0,
            // The constructor has checked the shape.
            Self::Gamma(shape) => Gamma::new(shape, 1.0 / shape).map_or(1.0, |gamma| gamma.sample(rng)),
        }
    }
}
