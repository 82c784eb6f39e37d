//! Records the speed of requests and derives the timeout of the next ones.

use std::time::Duration;

use crate::run::Limits;

/// Timeout as a multiple of the expected duration.
const TIMEOUT_FACTOR: f64 = 10.0;

/// Minimum timeout in seconds: the first request compiles kernels and fills caches.
pub(crate) const MIN_TIMEOUT: f64 = 60.0;

/// Maximum timeout in seconds.
const MAX_TIMEOUT: f64 = 3600.0;

/// Assumed seconds per token before any request completed: those of a CPU.
const DEFAULT_PREFILL: f64 = 0.005;
const DEFAULT_DECODE: f64 = 0.1;

/// The slowest prefill and decode so far, in seconds per token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestSpeed {
    prefill: Option<f64>,
    decode: Option<f64>,
}

impl RequestSpeed {
    /// Records the speed of a completed request.
    pub(crate) fn learn(&mut self, requested: &Limits, ttft_ms: Option<f64>, tpot_ms: Option<f64>) {
        let slower = |before: &mut Option<f64>, now: f64| *before = Some(before.unwrap_or(0.0).max(now));
        if let Some(ttft) = ttft_ms {
            slower(&mut self.prefill, ttft / 1e3 / requested.input as f64);
        }
        if let Some(tpot) = tpot_ms {
            slower(&mut self.decode, tpot / 1e3);
        }
    }

    /// Whether any request was completed.
    pub(crate) fn is_known(&self) -> bool {
        self.prefill.is_some() || self.decode.is_some()
    }

    /// The timeout for `requested.concurrency` such requests. Their prefills may run one after another.
    pub(crate) fn timeout(&self, requested: &Limits) -> Duration {
        let inputs = requested.input as f64 * requested.concurrency as f64;
        let prefill = self.prefill.unwrap_or(DEFAULT_PREFILL) * inputs;
        let usual = prefill + self.decode.unwrap_or(DEFAULT_DECODE) * requested.output as f64;
        Duration::from_secs_f64((TIMEOUT_FACTOR * usual).clamp(MIN_TIMEOUT, MAX_TIMEOUT))
    }
}

#[cfg(test)]
mod speed_tests {
    use super::*;

    #[test]
    fn short_requests_have_a_minute_and_none_has_more_than_an_hour() {
        assert_eq!(RequestSpeed::default().timeout(&Limits::new(1, 1, 1)).as_secs(), 60);
        assert_eq!(
            RequestSpeed::default()
                .timeout(&Limits::new(1_000_000, 100_000, 64))
                .as_secs(),
            3600
        );
    }

    #[test]
    fn a_fast_engine_is_not_waited_for_as_if_it_were_a_cpu() {
        let mut speed = RequestSpeed::default();
        speed.learn(&Limits::new(1000, 64, 1), Some(100.0), Some(20.0));
        assert_eq!(speed.timeout(&Limits::new(63_280, 64, 1)).as_secs(), 76);
    }

    #[test]
    fn a_slow_engine_gets_more_time() {
        let mut speed = RequestSpeed::default();
        let before = speed.timeout(&Limits::new(1000, 1000, 1));
        speed.learn(&Limits::new(100, 10, 1), Some(1000.0), Some(250.0));
        let after = speed.timeout(&Limits::new(1000, 1000, 1));
        assert!(
            before.as_secs() == 1050 && after.as_secs() == 2600,
            "{before:?} {after:?}"
        );
    }
}
