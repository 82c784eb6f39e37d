//! How long a request may take before it counts as hung, learnt from those that ended well. Pure.

use std::time::Duration;

use super::Limits;

/// How many times its usual time a request may take.
const PATIENCE: f64 = 10.0;

/// Seconds that any request may take: the first one compiles kernels and fills caches.
const LEAST: f64 = 60.0;

/// Seconds that no request may take.
const MOST: f64 = 3600.0;

/// Seconds a token before any request ended well: those of a CPU.
const PREFILL: f64 = 0.005;
const DECODE: f64 = 0.1;

/// The slowest prefill and decode seen so far, in seconds a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    prefill: Option<f64>,
    decode: Option<f64>,
}

impl Pace {
    /// Learns from a request that ended well.
    pub(super) fn learn(&mut self, asked: &Limits, ttft_ms: Option<f64>, tpot_ms: Option<f64>) {
        if let Some(ttft) = ttft_ms {
            self.prefill = slower(self.prefill, ttft / 1e3 / real(asked.input));
        }
        if let Some(tpot) = tpot_ms {
            self.decode = slower(self.decode, tpot / 1e3);
        }
    }

    /// The time for a request among `asked.concurrency` of its kind: their prefills may come one after another.
    pub(super) fn timeout(&self, asked: &Limits) -> Duration {
        let prefill = self.prefill.unwrap_or(PREFILL) * real(asked.input) * real(asked.concurrency);
        let usual = prefill + self.decode.unwrap_or(DECODE) * real(asked.output);
        Duration::from_secs_f64((PATIENCE * usual).clamp(LEAST, MOST))
    }
}

fn slower(before: Option<f64>, now: f64) -> Option<f64> {
    Some(before.map_or(now, |before| before.max(now)))
}

fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(input: u64, output: u64, concurrency: u64) -> Limits {
        Limits {
            input,
            output,
            total: input + output,
            concurrency,
        }
    }

    #[test]
    fn short_requests_have_a_minute_and_none_has_more_than_an_hour() {
        assert_eq!(Pace::default().timeout(&asked(1, 1, 1)).as_secs(), 60);
        assert_eq!(Pace::default().timeout(&asked(1_000_000, 100_000, 64)).as_secs(), 3600);
    }

    #[test]
    fn a_fast_engine_is_not_waited_for_as_if_it_were_a_cpu() {
        let mut pace = Pace::default();
        pace.learn(&asked(1000, 64, 1), Some(100.0), Some(20.0));
        assert_eq!(pace.timeout(&asked(63_280, 64, 1)).as_secs(), 76);
    }

    #[test]
    fn a_slow_engine_gets_more_time() {
        let mut pace = Pace::default();
        let before = pace.timeout(&asked(1000, 1000, 1));
        pace.learn(&asked(100, 10, 1), Some(1000.0), Some(250.0));
        let after = pace.timeout(&asked(1000, 1000, 1));
        assert!(
            before.as_secs() == 1050 && after.as_secs() == 2600,
            "{before:?} {after:?}"
        );
    }
}
