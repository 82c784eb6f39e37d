//! The request rate of an open loop over time.

use std::time::Duration;

use crate::fault::{Fault, Result};

/// Allowed rates in requests per second: one in eleven days, and more than any client sends.
const RATE_RANGE: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A constant rate, or a sequence of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// Requests per second.
    rate: f64,
    /// Duration; infinite in the last step of an endless profile.
    seconds: f64,
}

impl Profile {
    /// A constant rate without end.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid rate.
    pub fn constant(rate: f64) -> Result<Self> {
        let steps = vec![Step {
            rate: checked("rate", rate)?,
            seconds: f64::INFINITY,
        }];
        Ok(Self { steps })
    }

    /// A sequence of (rate, duration). A rate of 0 is a pause.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid rate, or if all are 0.
    pub fn steps(steps_given: impl IntoIterator<Item = (f64, Duration)>) -> Result<Self> {
        let steps = steps_given.into_iter().enumerate().map(|(index, (rate, time))| {
            let rate = match rate {
                0.0 => 0.0,
                rate => checked(&format!("steps[{index}].rate"), rate)?,
            };
            let seconds = time.as_secs_f64();
            Ok(Step { rate, seconds })
        });
        let steps = steps.collect::<Result<Vec<_>>>()?;
        if steps.iter().all(|step| step.rate == 0.0) {
            return Err(Fault::usage("option `steps` has no rate above 0"));
        }
        Ok(Self { steps })
    }

    /// The time at which the integral of the rate reaches `units`; `None` if it never does.
    pub(super) fn time_of(&self, units: f64) -> Option<Duration> {
        let (mut left, mut passed) = (units, 0.0);
        for step in &self.steps {
            let whole = step.rate * step.seconds;
            // An arrival exactly at the end of a step belongs to the next one.
            if left < whole {
                return Duration::try_from_secs_f64(passed + left / step.rate).ok();
            }
            left -= whole;
            passed += step.seconds;
        }
        None
    }

    /// The highest rate.
    pub(super) fn peak(&self) -> f64 {
        self.steps.iter().map(|step| step.rate).fold(0.0, f64::max)
    }

    /// Total duration, if finite.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        let seconds: f64 = self.steps.iter().map(|step| step.seconds).sum();
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
mod tests;
