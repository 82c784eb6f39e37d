//! The latencies of one request, by the definitions of vLLM's bench (`vllm/benchmarks/serve.py` and `lib/endpoint_request_func.py`,
//! 0.33.0), in milliseconds. Pure.
//!
//! Two clocks: service time begins when the request was sent, and is what vLLM's bench tells; response time begins when it was due, so
//! that a request that had to wait for its turn does not look fast (coordinated omission).

use std::time::Duration;

use crate::load::Record;

/// TTFT: from the beginning to the first text or token.
pub(super) fn ttft_ms(record: &Record, from: Duration) -> Option<f64> {
    milliseconds(from, record.first_token?)
}

/// E2EL, end to end: from the beginning to the last text or token; usage and `[DONE]` that follow are not waited for.
pub(super) fn e2el_ms(record: &Record, from: Duration) -> Option<f64> {
    milliseconds(from, record.last_token?)
}

/// TPOT: (E2EL − TTFT) / (tokens − 1). One token has none.
pub(super) fn tpot_ms(record: &Record, output: u64) -> Option<f64> {
    per_token(milliseconds(record.first_token?, record.last_token?)?, output)
}

/// A time shared among all tokens but the first.
pub(in crate::load) fn per_token(time_ms: f64, output: u64) -> Option<f64> {
    let rest = output.checked_sub(1).filter(|rest| *rest > 0)?;
    Some(time_ms / rest as f64)
}

/// Milliseconds from one moment to another; `None` where they are the wrong way round.
pub(super) fn milliseconds(from: Duration, to: Duration) -> Option<f64> {
    Some(to.checked_sub(from)?.as_secs_f64() * 1e3)
}
