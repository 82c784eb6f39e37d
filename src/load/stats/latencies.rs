//! Latency statistics over many requests. Pure.

use serde::{Deserialize, Serialize};

use super::Summary;
use super::latency::{e2el_ms, tpot_ms, ttft_ms};
use super::request::EvaluatedRequest;
use super::sample::Sample;

/// Service times of completed requests, measured from when they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token after the first.
    pub tpot_ms: Summary,
    /// Inter-token latency: times between events with text or tokens, over all requests. An event with several tokens
    /// counts once.
    pub itl_ms: Summary,
    /// E2E latency.
    pub e2el_ms: Summary,
}

/// Response times of completed requests, measured from when they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// E2E latency.
    pub e2el_ms: Summary,
}

impl Latencies {
    /// From completed requests in the order in which they were sent.
    pub(super) fn new(completed: &[&EvaluatedRequest<'_>], wave: usize) -> Self {
        let gaps = completed.iter().map(|request| request.record.itl_ms.as_slice());
        Self {
            ttft_ms: single(completed, wave, |request| ttft_ms(request.record, request.record.sent)),
            tpot_ms: single(completed, wave, |request| tpot_ms(request.record, request.output?)),
            itl_ms: Summary::from_sample(&Sample::per_token(gaps, wave)),
            e2el_ms: single(completed, wave, |request| e2el_ms(request.record, request.record.sent)),
        }
    }
}

impl ResponseTimes {
    /// From completed requests in the order in which they were sent.
    pub(super) fn new(completed: &[&EvaluatedRequest<'_>], wave: usize) -> Self {
        let due = |request: &EvaluatedRequest<'_>| request.record.scheduled;
        Self {
            ttft_ms: single(completed, wave, |request| ttft_ms(request.record, due(request))),
            e2el_ms: single(completed, wave, |request| e2el_ms(request.record, due(request))),
        }
    }
}

fn single(
    completed: &[&EvaluatedRequest<'_>],
    wave: usize,
    metric: impl Fn(&EvaluatedRequest<'_>) -> Option<f64>,
) -> Summary {
    let values = completed.iter().filter_map(|request| metric(request)).collect();
    Summary::from_sample(&Sample::per_request(values, wave))
}
