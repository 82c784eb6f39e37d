//! How many requests a second are to come, as it changes over time.

use std::time::Duration;

use crate::fault::{Fault, Result};

/// The least and the most requests a second that mean something: one in eleven days, and more than any client sends.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A rate for ever, or rates one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// Requests a second.
    rate: f64,
    /// How long; for ever in the last step of an endless profile.
    seconds: f64,
}

impl Profile {
    /// This rate, for ever.
    ///
    /// # Errors
    ///
    /// `usage` for what is no rate.
    pub fn constant(rate: f64) -> Result<Self> {
        let steps = vec![Step {
            rate: checked("rate", rate)?,
            seconds: f64::INFINITY,
        }];
        Ok(Self { steps })
    }

    /// These rates, each for so many seconds. A rate of 0 is a pause.
    ///
    /// # Errors
    ///
    /// `usage` for what is no rate, and where none is above 0.
    pub fn steps(given: impl IntoIterator<Item = (f64, Duration)>) -> Result<Self> {
        let steps = given.into_iter().enumerate().map(|(index, (rate, time))| {
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

    /// When so many requests are due by now, of a process that brings one in each unit: the time at which the rates add up to `units`. None
    /// when they never do.
    pub(super) fn moment(&self, units: f64) -> Option<Duration> {
        let (mut left, mut passed) = (units, 0.0);
        for step in &self.steps {
            let whole = step.rate * step.seconds;
            // What is due when a step ends belongs to the next one; the product is NaN for no rate for ever, which is not made.
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

    /// How long it all takes, where it has an end.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        let seconds: f64 = self.steps.iter().map(|step| step.seconds).sum();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

fn checked(name: &str, rate: f64) -> Result<f64> {
    if RATES.contains(&rate) {
        return Ok(rate);
    }
    Err(Fault::usage(format!("option `{name}` is {rate}")).hint("give requests a second, from 0.000001 to 1000000"))
}

#[cfg(test)]
mod tests;
