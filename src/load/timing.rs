//! Timestamps of one streamed response and the latencies computed from them.

use std::time::{Duration, Instant};

use super::stats::per_token;

/// Timestamps of one response, by a monotonic clock, taken when the network chunk was read.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Just before sending. Includes connection setup for a new connection.
    pub sent: Instant,
    /// First byte of the body.
    pub first_byte: Option<Instant>,
    /// First event with text or tokens.
    pub first_token: Option<Instant>,
    /// Last event with text or tokens.
    pub last_token: Option<Instant>,
    /// When the response ended, for whatever reason.
    pub ended: Option<Instant>,
    /// ITL: times between events with text or tokens, in milliseconds.
    itl_ms: Vec<f32>,
}

impl Timing {
    /// Starts timing a request that is sent now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            sent: Instant::now(),
            first_byte: None,
            first_token: None,
            last_token: None,
            ended: None,
            itl_ms: Vec::new(),
        }
    }

    /// Records an event with text or tokens.
    pub(super) fn record_content(&mut self, at: Instant) {
        if let Some(previous) = self.last_token {
            self.itl_ms.push(milliseconds(at - previous) as f32);
        }
        self.first_token.get_or_insert(at);
        self.last_token = Some(at);
    }

    /// TTFT: from sending to the first text or token.
    #[must_use]
    pub fn ttft_ms(&self) -> Option<f64> {
        Some(milliseconds(self.first_token? - self.sent))
    }

    /// E2E latency: from sending to the last text or token, as in vLLM's bench. Later usage events and `[DONE]` do not
    /// count.
    #[must_use]
    pub fn e2el_ms(&self) -> Option<f64> {
        Some(milliseconds(self.last_token? - self.sent))
    }

    /// TPOT as in vLLM's bench: (E2E latency − TTFT) / (tokens − 1), with the engine's token count. `None` for one
    /// token.
    #[must_use]
    pub fn tpot_ms(&self, output: u64) -> Option<f64> {
        per_token(self.e2el_ms()? - self.ttft_ms()?, output)
    }

    /// ITL as in vLLM's bench: times between events with text or tokens, in milliseconds. An event with several tokens
    /// counts once.
    #[must_use]
    pub fn itl_ms(&self) -> &[f32] {
        &self.itl_ms
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_match_their_definitions() {
        let mut timing = Timing::start();
        let at = |ms: u64| timing.sent + Duration::from_millis(ms);
        let stamps = [at(100), at(110), at(140)];
        for stamp in stamps {
            timing.record_content(stamp);
        }
        assert_eq!(timing.ttft_ms(), Some(100.0));
        assert_eq!(timing.e2el_ms(), Some(140.0));
        // Three events, but the engine counted five tokens.
        assert_eq!(timing.tpot_ms(5), Some(10.0));
        assert_eq!(timing.tpot_ms(1), None);
        assert_eq!(timing.itl_ms(), [10.0, 30.0]);
    }

    #[test]
    fn no_token_gives_no_latency() {
        let timing = Timing::start();
        assert_eq!(
            (timing.ttft_ms(), timing.e2el_ms(), timing.tpot_ms(5)),
            (None, None, None)
        );
    }
}
