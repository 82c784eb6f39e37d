//! Measures how late the client sends requests in an open loop: Poisson arrivals with short answers.

use std::time::Duration;

use profiler::load::Slots;

use crate::client::Load;

/// Duration of the arrivals.
const SECONDS: u64 = 10;

/// Tokens per answer.
const TOKENS: u64 = 10;

/// A load with `rate` arrivals per second. The number of concurrent streams follows from the rate and the duration of
/// an answer.
pub fn load(rate: u64, gap: Duration) -> Load {
    let answer = crate::mock::FIRST + gap * u32::try_from(TOKENS).unwrap();
    let expected = (answer.as_secs_f64() * rate as f64 * 1.5) as u64 + 8;
    Load {
        slots: Slots::Open {
            max_concurrency: None,
            expected,
        },
        count: rate * SECONDS,
        tokens: TOKENS,
        rate: Some(rate as f64),
    }
}

/// Gaps of a Poisson process, reproducible: splitmix64 and the inverse of the exponential distribution.
pub struct Poisson {
    state: u64,
    at: f64,
    rate: f64,
}

impl Poisson {
    pub fn new(rate: f64) -> Self {
        Self {
            state: 1,
            at: 0.0,
            rate,
        }
    }

    /// Time of the next arrival.
    pub fn next(&mut self) -> Duration {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let uniform = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        self.at -= uniform.ln() / self.rate;
        Duration::from_secs_f64(self.at)
    }
}
