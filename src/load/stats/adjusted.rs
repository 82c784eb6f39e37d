//! Error-adjusted percentiles: a failed request counts as infinitely slow. Leaving it out would reward the engine for
//! failing. Pure.

use serde::{Deserialize, Serialize};

use super::latency::{e2el_ms, ttft_ms};
use super::percentile::{min_sample_size, nearest_rank, rank_interval};
use super::request::EvaluatedRequest;
use super::sample::Sample;

/// Error-adjusted percentiles of service times: a failed or cut-off request counts as infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorAdjusted {
    /// Time to first token.
    pub ttft_ms: Percentiles,
    /// E2E latency.
    pub e2el_ms: Percentiles,
}

/// Percentiles by nearest rank, so that infinite and finite values are never interpolated. `None` if infinite, or if
/// the sample is too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
}

impl ErrorAdjusted {
    /// From all issued requests in order of time. `wave` is the concurrency.
    pub(super) fn new(issued: &[&EvaluatedRequest<'_>], wave: usize) -> Self {
        Self {
            ttft_ms: Percentiles::new(issued, wave, |request| ttft_ms(request.record, request.record.sent)),
            e2el_ms: Percentiles::new(issued, wave, |request| e2el_ms(request.record, request.record.sent)),
        }
    }
}

impl Percentiles {
    fn new(
        issued: &[&EvaluatedRequest<'_>],
        wave: usize,
        metric: impl Fn(&EvaluatedRequest<'_>) -> Option<f64>,
    ) -> Self {
        let took = |request: &&EvaluatedRequest<'_>| {
            let finite = Some(request).filter(|request| request.completed());
            finite.and_then(|request| metric(request)).unwrap_or(f64::INFINITY)
        };
        let sample = Sample::per_request(issued.iter().map(took).collect(), wave);
        let mut ascending = sample.values.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        let n = issued.len();
        let percentile = |share| {
            let at = nearest_rank(n, share).filter(|_| n >= min_sample_size(share))?;
            let value = ascending.get(at).copied().filter(|value| value.is_finite())?;
            // Correlated failures count as fewer independent ones.
            rank_interval(sample.effective(share, value)?.min(n), share)?;
            Some(value)
        };
        Self {
            p50: percentile(0.5),
            p90: percentile(0.9),
            p95: percentile(0.95),
            p99: percentile(0.99),
            p99_9: percentile(0.999),
        }
    }
}
