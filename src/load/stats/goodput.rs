//! Goodput: completed requests that met every objective, by the formula of vLLM's bench. Pure.

use serde::{Deserialize, Serialize};

use super::latency::{e2el_ms, tpot_ms, ttft_ms};
use super::rates::per_second;
use super::request::EvaluatedRequest;
use super::settings::Slo;

/// Requests that met every objective. Uses service times, as vLLM's bench does; `response` uses response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// The objectives.
    pub slo: Slo,
    /// Number of requests that met them.
    pub good: u64,
    /// Their share of all issued requests; failed and cut-off requests meet no objective.
    pub share: Option<f64>,
    /// Good requests per second: `request_goodput` of vLLM's bench.
    pub request_throughput: Option<f64>,
    /// The same with times measured from when a request was due.
    pub response: SloCounts,
}

/// Number of requests that met the objectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SloCounts {
    /// Number of requests.
    pub good: u64,
    /// Their share of all issued requests.
    pub share: Option<f64>,
    /// The same per second.
    pub request_throughput: Option<f64>,
}

impl Goodput {
    /// From all issued requests.
    pub(super) fn new(issued: &[&EvaluatedRequest<'_>], slo: Slo, seconds: f64) -> Self {
        let service = SloCounts::new(issued, seconds, |request| meets(request, slo, false));
        Self {
            slo,
            good: service.good,
            share: service.share,
            request_throughput: service.request_throughput,
            response: SloCounts::new(issued, seconds, |request| meets(request, slo, true)),
        }
    }
}

impl SloCounts {
    fn new(issued: &[&EvaluatedRequest<'_>], seconds: f64, good: impl Fn(&EvaluatedRequest<'_>) -> bool) -> Self {
        let count = issued.iter().filter(|request| good(request)).count();
        Self {
            good: count as u64,
            share: (!issued.is_empty()).then(|| count as f64 / issued.len() as f64),
            request_throughput: per_second(count as f64, seconds),
        }
    }
}

/// Whether a request completed and met every objective. Times count from when it was due if `due`, otherwise from
/// sending.
fn meets(request: &EvaluatedRequest<'_>, slo: Slo, due: bool) -> bool {
    let record = request.record;
    let from = if due { record.scheduled } else { record.sent };
    // An unset limit is met; a missing time does not meet a limit.
    let within =
        |bound: Option<f64>, time: Option<f64>| bound.is_none_or(|bound| time.is_some_and(|time| time <= bound));
    let tpot = if request.output == Some(1) {
        Some(0.0)
    } else {
        request.output.and_then(|output| tpot_ms(record, output))
    };
    let gap = record.itl_ms.iter().copied().fold(0.0_f32, f32::max);
    request.completed()
        && within(slo.ttft_ms, ttft_ms(record, from))
        && within(slo.e2el_ms, e2el_ms(record, from))
        && within(slo.tpot_ms, tpot)
        && within(slo.itl_ms, Some(f64::from(gap)))
}
