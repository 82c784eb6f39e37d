//! Simulated inference engine: a model of GPU memory and time behind the real HTTP APIs.
//!
//! It imitates vLLM, SGLang, TensorRT-LLM, TGI, llama-server, Ollama and `transformers serve`: their routes, log lines
//! and out-of-memory failures. It runs in-process ([`Sim::start`]), as `profiler sim`, and as a container. All its
//! output contains `SIMULATED`. Logs and pages of an engine are text: `engines/NAME.jinja`.
//!
//! `profile` describes a model on a card; `start` allocates its memory, which may fail; `engine_core` then steps the
//! `scheduler`, which admits, preempts and finishes requests; `http` serves them.

mod devices;
mod engine_core;
mod exit;
mod forecast;
mod http;
mod memory;
mod options;
mod process;
mod profile;
mod scheduler;
mod start;
#[cfg(test)]
mod tests;
mod texts;
mod tokens;

use std::time::Duration;

pub use exit::{Exit, LogSink};
pub use forecast::{Forecast, ForecastLoad, StepCost};
pub use options::{AfterFailure, FailedRequest, FailedStart, Misbehave, Options, Serve, Spec, Victim};
pub use process::{ProcessState, Sim, SimHandle};
pub use profile::{
    ConfigSource, Defaults, Dynamic, Engine, Fixed, Kv, MemoryProfile, PoolProfile, Profile, Reservation, Speculation,
    names,
};
use serde::{Deserialize, Serialize};

/// Seconds of model time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Time until the first byte is allocated on the device: imports, configuration.
    pub boot_seconds: f64,
    /// Loading weights.
    pub load_seconds: f64,
    /// Profiling.
    pub profile_seconds: f64,
    /// Compiling; only with CUDA graphs.
    pub compile_seconds: f64,
    /// Capturing CUDA graphs.
    pub graphs_seconds: f64,
    /// Warm-up, until requests are accepted.
    pub warm_up_seconds: f64,
    /// Prompt tokens computed per second.
    pub prefill_tokens_per_second: f64,
    /// A step with CUDA graphs: reading the weights once.
    pub step_seconds: f64,
    /// A step without CUDA graphs: the step above plus kernel launches.
    pub step_eager_seconds: f64,
    /// Added by each decoding sequence: sampling and reading its KV cache.
    pub sequence_seconds: f64,
}

impl Timing {
    /// Everything takes no time.
    const FREE: Self = Self {
        boot_seconds: 0.0,
        load_seconds: 0.0,
        profile_seconds: 0.0,
        compile_seconds: 0.0,
        graphs_seconds: 0.0,
        warm_up_seconds: 0.0,
        prefill_tokens_per_second: f64::INFINITY,
        step_seconds: 0.0,
        step_eager_seconds: 0.0,
        sequence_seconds: 0.0,
    };

    /// Duration of a step with `prefill` prompt tokens and `decode` decoding sequences.
    pub fn step(&self, eager: bool, prefill: u64, decode: u64) -> f64 {
        let fixed = if eager {
            self.step_eager_seconds
        } else {
            self.step_seconds
        };
        fixed + prefill as f64 / self.prefill_tokens_per_second + decode as f64 * self.sequence_seconds
    }
}

/// Scales model time to real time. Timers have millisecond resolution and fire late. Short sleeps are therefore
/// accumulated, and oversleeping is subtracted from the next sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeScaler {
    scale: f64,
    unslept: f64,
}

/// Shorter sleeps are accumulated.
const MIN_SLEEP_SECONDS: f64 = 0.001;

impl TimeScaler {
    /// `scale` seconds of real time per second of model time.
    pub(crate) fn new(scale: f64) -> Self {
        Self { scale, unslept: 0.0 }
    }

    /// Adds model time; returns how long to sleep now, if at all.
    pub(crate) fn spend(&mut self, seconds: f64) -> Option<Duration> {
        self.unslept += seconds * self.scale;
        (self.unslept >= MIN_SLEEP_SECONDS).then(|| Duration::from_secs_f64(self.unslept))
    }

    /// Records how long the sleep really took.
    pub(crate) fn slept(&mut self, time: Duration) {
        self.unslept -= time.as_secs_f64();
    }

    /// Resets the balance after the engine was idle.
    pub(crate) fn reset(&mut self) {
        self.unslept = 0.0;
    }
}

#[cfg(test)]
mod time_tests {
    use super::*;

    #[test]
    fn late_timers_do_not_slow_the_model_down() {
        let (mut scaler, mut slept) = (TimeScaler::new(0.01), 0.0);
        for _ in 0..1000 {
            if let Some(sleep) = scaler.spend(0.016) {
                let late = sleep + Duration::from_millis(2);
                slept += late.as_secs_f64();
                scaler.slept(late);
            }
        }
        assert!((slept - 0.16).abs() < 0.005, "{slept}");
        assert!(TimeScaler::new(0.0).spend(1e9).is_none());
    }
}
