//! Goodput: completed requests that met every objective, by the formula of vLLM's bench. Pure.

use serde::{Deserialize, Serialize};

use super::judged::Judged;
use super::latency::{e2el_ms, tpot_ms, ttft_ms};
use super::rates::per_second;
use super::settings::Slo;

/// Requests that met every objective. The times are service times, as in vLLM's bench; `response` asks the same of response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// The objectives.
    pub slo: Slo,
    /// So many requests met them.
    pub good: u64,
    /// Their share of all that were issued: one that failed or was cut off met nothing.
    pub share: Option<f64>,
    /// Good requests a second: `request_goodput` of vLLM's bench.
    pub request_throughput: Option<f64>,
    /// The same where times count from when a request was due.
    pub response: Met,
}

/// How many met the objectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Met {
    /// So many requests.
    pub good: u64,
    /// Their share of all that were issued.
    pub share: Option<f64>,
    /// Of them a second.
    pub request_throughput: Option<f64>,
}

impl Goodput {
    /// Of all requests that were issued.
    pub(super) fn of(issued: &[&Judged<'_>], slo: Slo, seconds: f64) -> Self {
        let service = Met::of(issued, seconds, |judged| meets(judged, slo, false));
        Self {
            slo,
            good: service.good,
            share: service.share,
            request_throughput: service.request_throughput,
            response: Met::of(issued, seconds, |judged| meets(judged, slo, true)),
        }
    }
}

impl Met {
    fn of(issued: &[&Judged<'_>], seconds: f64, good: impl Fn(&Judged<'_>) -> bool) -> Self {
        let count = issued.iter().filter(|judged| good(judged)).count();
        Self {
            good: count as u64,
            share: (!issued.is_empty()).then(|| count as f64 / issued.len() as f64),
            request_throughput: per_second(count as f64, seconds),
        }
    }
}

/// Whether a request completed and met every objective, where its times count from when it was due, or sent.
fn meets(judged: &Judged<'_>, slo: Slo, due: bool) -> bool {
    let record = judged.record;
    let from = if due { record.scheduled } else { record.sent };
    // A bound that is not set is met; a time that was not measured meets none.
    let within =
        |bound: Option<f64>, time: Option<f64>| bound.is_none_or(|bound| time.is_some_and(|time| time <= bound));
    let tpot = if judged.output == Some(1) {
        Some(0.0)
    } else {
        judged.output.and_then(|output| tpot_ms(record, output))
    };
    let gap = record.gaps_ms.iter().copied().fold(0.0_f32, f32::max);
    judged.completed()
        && within(slo.ttft_ms, ttft_ms(record, from))
        && within(slo.e2el_ms, e2el_ms(record, from))
        && within(slo.tpot_ms, tpot)
        && within(slo.itl_ms, Some(f64::from(gap)))
}
