//! How long things take in a simulated engine (pure): its start, a step of continuous batching, and how model time becomes real
//! time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// Seconds of model time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// From the start to the first byte on the device: imports, configuration.
    pub boot_seconds: f64,
    /// Loading weights.
    pub load_seconds: f64,
    /// Profiling.
    pub profile_seconds: f64,
    /// Compiling, with graphs only.
    pub compile_seconds: f64,
    /// Capturing graphs, with graphs only.
    pub graphs_seconds: f64,
    /// Warm-up, until requests are taken.
    pub warm_up_seconds: f64,
    /// Prompt tokens computed per second.
    pub prefill_tokens_per_second: f64,
    /// A step with graphs: reading the weights once.
    pub step_seconds: f64,
    /// A step without graphs: the same and the launches of its kernels.
    pub step_eager_seconds: f64,
    /// Each sequence that decodes in a step: sampling and reading its cache.
    pub sequence_seconds: f64,
}

impl Timing {
    /// One step: `prefill` prompt tokens computed, `decode` sequences advanced by one token.
    #[must_use]
    pub fn step(&self, eager: bool, prefill: u64, decode: u64) -> f64 {
        let fixed = if eager {
            self.step_eager_seconds
        } else {
            self.step_seconds
        };
        fixed + prefill as f64 / self.prefill_tokens_per_second + decode as f64 * self.sequence_seconds
    }

    pub(super) fn check(&self) -> Result<()> {
        let seconds = [
            self.boot_seconds,
            self.load_seconds,
            self.profile_seconds,
            self.compile_seconds,
            self.graphs_seconds,
            self.warm_up_seconds,
            self.step_seconds,
            self.step_eager_seconds,
            self.sequence_seconds,
        ];
        if seconds.iter().any(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(Fault::usage("a duration under `time` is not a number from 0 up"));
        }
        if !(self.prefill_tokens_per_second.is_finite() && self.prefill_tokens_per_second > 0.0) {
            return Err(Fault::usage("`prefill_tokens_per_second` must be above 0"));
        }
        Ok(())
    }
}

/// Turns model time into real time. Timers are no finer than a millisecond and fire late, so small debts add up before they are
/// slept, and what was slept too long is set against the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    scale: f64,
    debt: f64,
}

/// Debts below this are not worth a timer.
const FINEST: f64 = 0.001;

impl Pace {
    /// `scale` seconds of real time per second of model time.
    pub(crate) fn new(scale: f64) -> Self {
        Self { scale, debt: 0.0 }
    }

    /// Spends model time; what to sleep now, if anything.
    pub(crate) fn spend(&mut self, seconds: f64) -> Option<Duration> {
        self.debt += seconds * self.scale;
        (self.debt >= FINEST).then(|| Duration::from_secs_f64(self.debt))
    }

    /// What was really slept.
    pub(crate) fn slept(&mut self, time: Duration) {
        self.debt -= time.as_secs_f64();
    }

    /// Forgets what was slept too long: the engine was idle.
    pub(crate) fn rest(&mut self) {
        self.debt = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_timers_do_not_slow_the_model_down() {
        let (mut pace, mut slept) = (Pace::new(0.01), 0.0);
        for _ in 0..1000 {
            if let Some(sleep) = pace.spend(0.016) {
                let late = sleep + Duration::from_millis(2);
                slept += late.as_secs_f64();
                pace.slept(late);
            }
        }
        assert!((slept - 0.16).abs() < 0.005, "{slept}");
        assert!(Pace::new(0.0).spend(1e9).is_none());
    }
}
