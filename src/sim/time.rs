//! How long things take in a simulated engine (pure): its start, a step of continuous batching, and how model time becomes real
//! time.

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
