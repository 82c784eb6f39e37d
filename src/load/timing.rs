//! When the parts of one answer arrived, and the latencies that follow.

use std::time::{Duration, Instant};

use super::figures::per_token;

/// Moments of one answer, by a monotonic clock, each taken when the network chunk was read that brought it.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Just before the request was handed to the connection; a new connection's set-up is included, a reused one has none.
    pub sent: Instant,
    /// The first byte of the body.
    pub first_byte: Option<Instant>,
    /// The first event that carries text or tokens.
    pub first_token: Option<Instant>,
    /// The last event that carries text or tokens.
    pub last_token: Option<Instant>,
    /// The answer ended, in whatever way.
    pub ended: Option<Instant>,
    /// Between events that carry text or tokens, in milliseconds.
    gaps_ms: Vec<f32>,
}

impl Timing {
    /// A request that is sent now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            sent: Instant::now(),
            first_byte: None,
            first_token: None,
            last_token: None,
            ended: None,
            gaps_ms: Vec::new(),
        }
    }

    /// Text or tokens arrived.
    pub(super) fn content(&mut self, at: Instant) {
        if let Some(before) = self.last_token {
            self.gaps_ms.push(milliseconds(at - before) as f32);
        }
        self.first_token.get_or_insert(at);
        self.last_token = Some(at);
    }

    /// TTFT: from sending to the first text or token.
    #[must_use]
    pub fn ttft_ms(&self) -> Option<f64> {
        Some(milliseconds(self.first_token? - self.sent))
    }

    /// End to end: from sending to the last text or token, as vLLM's bench; usage and `[DONE]` that follow are not waited for.
    #[must_use]
    pub fn e2el_ms(&self) -> Option<f64> {
        Some(milliseconds(self.last_token? - self.sent))
    }

    /// TPOT as vLLM's bench: (end to end − TTFT) / (tokens − 1), of the tokens that the engine counted. One token has none.
    #[must_use]
    pub fn tpot_ms(&self, output: u64) -> Option<f64> {
        per_token(self.e2el_ms()? - self.ttft_ms()?, output)
    }

    /// ITL as vLLM's bench: the raw gaps between events that carry text or tokens, in milliseconds. An event of several
    /// tokens ends one gap.
    #[must_use]
    pub fn gaps_ms(&self) -> &[f32] {
        &self.gaps_ms
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_follow_their_definitions() {
        let mut timing = Timing::start();
        let at = |ms: u64| timing.sent + Duration::from_millis(ms);
        let stamps = [at(100), at(110), at(140)];
        for stamp in stamps {
            timing.content(stamp);
        }
        assert_eq!(timing.ttft_ms(), Some(100.0));
        assert_eq!(timing.e2el_ms(), Some(140.0));
        // Three events, but the engine counted five tokens.
        assert_eq!(timing.tpot_ms(5), Some(10.0));
        assert_eq!(timing.tpot_ms(1), None);
        assert_eq!(timing.gaps_ms(), [10.0, 30.0]);
    }

    #[test]
    fn without_a_token_there_is_no_latency() {
        let timing = Timing::start();
        assert_eq!(
            (timing.ttft_ms(), timing.e2el_ms(), timing.tpot_ms(5)),
            (None, None, None)
        );
    }
}
