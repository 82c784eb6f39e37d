//! Latencies of one request in milliseconds, as defined by vLLM's bench (`vllm/benchmarks/serve.py` and
//! `lib/endpoint_request_func.py`, 0.33.0). Pure.
//!
//! Service time starts when the request was sent; vLLM's bench reports this. Response time starts when the request was
//! due, so that a request that waited for its turn does not look fast (coordinated omission).

use std::time::Duration;

use crate::load::Record;

/// TTFT: from `from` to the first text or token.
pub(super) fn ttft_ms(record: &Record, from: Duration) -> Option<f64> {
    milliseconds(from, record.first_token?)
}

/// E2E latency: from `from` to the last text or token; later usage events and `[DONE]` do not count.
pub(super) fn e2el_ms(record: &Record, from: Duration) -> Option<f64> {
    milliseconds(from, record.last_token?)
}

/// TPOT: (E2EL − TTFT) / (tokens − 1). `None` for one token.
pub(super) fn tpot_ms(record: &Record, output: u64) -> Option<f64> {
    per_token(milliseconds(record.first_token?, record.last_token?)?, output)
}

/// Divides a time by the number of tokens after the first.
pub(in crate::load) fn per_token(time_ms: f64, output: u64) -> Option<f64> {
    let rest = output.checked_sub(1).filter(|rest| *rest > 0)?;
    Some(time_ms / rest as f64)
}

/// Milliseconds between two times; `None` if `to` is before `from`.
pub(super) fn milliseconds(from: Duration, to: Duration) -> Option<f64> {
    Some(to.checked_sub(from)?.as_secs_f64() * 1e3)
}
