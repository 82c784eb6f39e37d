//! Arrivals: closed loop, open loop with a rate profile and inter-arrival times, or replay of a trace.

use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};
use serde::{Deserialize, Serialize};

use super::files::Arrival;
use super::rng::{Purpose, rng};
use crate::fault::{Fault, Result};

/// When requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Closed loop with constant concurrency: each request is followed by the next as soon as it has ended.
    Closed {
        /// Concurrent requests.
        concurrency: u64,
        /// Time over which the slots open, evenly.
        ramp: Duration,
    },
    /// Closed loop with changing concurrency: steps of (concurrency, duration).
    ClosedSteps(Vec<(u64, Duration)>),
    /// Open loop: at a rate, independent of responses.
    Open {
        /// Requests per second over time.
        profile: RateProfile,
        /// Distribution of the inter-arrival times.
        pattern: Pattern,
    },
    /// At the times of a trace.
    Replay(Vec<Arrival>),
}

impl Arrivals {
    /// Whether requests arrive at fixed times (open loop), independent of responses.
    pub fn is_open_loop(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Replay(_))
    }

    /// The maximum concurrency, if the arrivals determine it.
    pub fn max_concurrency(&self) -> Option<u64> {
        match self {
            Self::Closed { concurrency, .. } => Some(*concurrency),
            Self::ClosedSteps(steps) => steps.iter().map(|(concurrency, _)| *concurrency).max(),
            Self::Open { .. } | Self::Replay(_) => None,
        }
    }

    /// The number of connections to open before the load starts. In an open loop, about the number of requests in two
    /// seconds.
    pub fn expected(&self) -> u64 {
        const SECONDS: f64 = 2.0;
        let rate = match self {
            Self::Closed { .. } | Self::ClosedSteps(_) => return self.max_concurrency().unwrap_or(1),
            Self::Open { profile, .. } => profile.peak(),
            Self::Replay(arrivals) => {
                let lasts = arrivals.last().map_or(0.0, |last| last.at.as_secs_f64());
                arrivals.len() as f64 / lasts.max(SECONDS)
            }
        };
        (rate * SECONDS).ceil().clamp(1.0, 512.0) as u64
    }

    /// When the last request arrives, if known in advance.
    pub fn length(&self) -> Option<Duration> {
        match self {
            Self::Closed { .. } => None,
            Self::ClosedSteps(steps) => Some(steps.iter().map(|(_, time)| *time).sum()),
            Self::Open { profile, .. } => profile.length(),
            Self::Replay(arrivals) => arrivals.last().map(|last| last.at),
        }
    }
}

/// Generates the due times of consecutive requests.
pub(super) struct ArrivalClock {
    rng: ChaCha8Rng,
    /// Sum of the inter-arrival times so far, in units of the mean.
    units: f64,
    planned: usize,
}

impl ArrivalClock {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: rng(seed, Purpose::Arrivals),
            units: 0.0,
            planned: 0,
        }
    }

    /// When the next request is due: `Some(None)` as soon as a slot is free; `None` if there are no more.
    pub(super) fn next(&mut self, arrivals: &Arrivals) -> Option<Option<Duration>> {
        let due = match arrivals {
            Arrivals::Closed { .. } | Arrivals::ClosedSteps(_) => None,
            Arrivals::Open { profile, pattern } => {
                // The process runs in its own time at rate 1, and the profile maps that to real time. A Poisson process
                // therefore remains one when the rate changes.
                self.units += pattern.gap(self.planned == 0, &mut self.rng);
                Some(profile.time_of(self.units)?)
            }
            Arrivals::Replay(arrivals) => Some(arrivals.get(self.planned)?.at),
        };
        self.planned += 1;
        Some(due)
    }
}

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
    /// vLLM's bench then rescales all gaps so that the last request is due at exactly requests / rate. We do not
    /// rescale. It would fix the number of arrivals in a time span, which is random in a Poisson process, would require
    /// the number of requests in advance, and would hide the sample's deviation from the rate. The achieved rate is in
    /// the result.
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

/// Allowed rates in requests per second: one in eleven days, and more than any client sends.
const RATE_RANGE: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A constant rate, or a sequence of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile {
    /// Requests per second, and for how many seconds: infinite in the last step of an endless profile.
    steps: Vec<(f64, f64)>,
}

impl RateProfile {
    /// A constant rate without end.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid rate.
    pub fn constant(rate: f64) -> Result<Self> {
        let steps = vec![(checked("rate", rate)?, f64::INFINITY)];
        Ok(Self { steps })
    }

    /// A sequence of (rate, duration). A rate of 0 is a pause.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid rate, or if all are 0.
    pub fn steps(steps_given: impl IntoIterator<Item = (f64, Duration)>) -> Result<Self> {
        let steps = steps_given
            .into_iter()
            .enumerate()
            .map(|(index, (rate, time))| {
                let rate = match rate {
                    0.0 => 0.0,
                    rate => checked(&format!("steps[{index}].rate"), rate)?,
                };
                Ok((rate, time.as_secs_f64()))
            })
            .collect::<Result<Vec<_>>>()?;
        if steps.iter().all(|(rate, _)| *rate == 0.0) {
            return Err(Fault::usage("option `steps` has no rate above 0"));
        }
        Ok(Self { steps })
    }

    /// The time at which the integral of the rate reaches `units`; `None` if it never does.
    fn time_of(&self, units: f64) -> Option<Duration> {
        let (mut left, mut passed) = (units, 0.0);
        for (rate, seconds) in &self.steps {
            let whole = rate * seconds;
            // An arrival exactly at the end of a step belongs to the next one.
            if left < whole {
                return Duration::try_from_secs_f64(passed + left / rate).ok();
            }
            left -= whole;
            passed += seconds;
        }
        None
    }

    /// The highest rate.
    fn peak(&self) -> f64 {
        self.steps.iter().map(|(rate, _)| *rate).fold(0.0, f64::max)
    }

    /// Total duration, if finite.
    pub fn length(&self) -> Option<Duration> {
        let seconds: f64 = self.steps.iter().map(|(_, seconds)| seconds).sum();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

fn checked(name: &str, rate: f64) -> Result<f64> {
    if RATE_RANGE.contains(&rate) {
        return Ok(rate);
    }
    Err(Fault::usage(format!("option `{name}` is {rate}")).hint("give requests a second, from 0.000001 to 1000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(profile: &RateProfile, units: f64) -> Option<f64> {
        profile.time_of(units).map(|time| time.as_secs_f64())
    }

    #[test]
    fn constant_rate_never_ends() {
        let profile = RateProfile::constant(4.0).unwrap();
        assert_eq!((moment(&profile, 10.0), profile.length()), (Some(2.5), None));
    }

    #[test]
    fn rates_are_integrated_over_steps_and_pauses() {
        let second = Duration::from_secs(1);
        let profile = RateProfile::steps([(2.0, second), (0.0, second), (4.0, second)]).unwrap();
        let moments: Vec<_> = [0.0, 1.0, 2.0, 4.0, 5.999, 6.0]
            .map(|units| moment(&profile, units))
            .into();
        assert_eq!(moments[..4], [Some(0.0), Some(0.5), Some(2.0), Some(2.5)]);
        assert!(moments[4].is_some_and(|at| at < 3.0) && moments[5].is_none());
        assert_eq!(profile.length(), Some(3 * second));
    }

    #[test]
    fn invalid_rate_is_an_error() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(RateProfile::constant(rate).is_err(), "{rate}");
        }
        assert!(RateProfile::steps([(0.0, Duration::from_secs(1))]).is_err());
    }
}
