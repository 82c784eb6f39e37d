//! Percentiles in which a request that gave no answer took infinitely long: leaving it out would reward the engine for failing. Pure.

use serde::{Deserialize, Serialize};

use super::judged::Judged;
use super::latency::{e2el_ms, ttft_ms};
use super::percentile::{least, nearest, ranks};
use super::sample::Sample;

/// Error-adjusted percentiles of service times: a failed or cut-off request counts as infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adjusted {
    /// Time to first token.
    pub ttft_ms: Percentiles,
    /// To the last token.
    pub e2el_ms: Percentiles,
}

/// Percentiles by nearest rank: an infinite value is never mixed with a finite one. `None` where infinite, or where the sample cannot
/// support it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 50th.
    pub p50: Option<f64>,
    /// 90th.
    pub p90: Option<f64>,
    /// 95th.
    pub p95: Option<f64>,
    /// 99th.
    pub p99: Option<f64>,
    /// 99.9th.
    pub p99_9: Option<f64>,
}

impl Adjusted {
    /// Of all requests that were issued, in the order of time. `wave`: requests at once.
    pub(super) fn of(issued: &[&Judged<'_>], wave: usize) -> Self {
        Self {
            ttft_ms: Percentiles::of(issued, wave, |judged| ttft_ms(judged.record, judged.record.sent)),
            e2el_ms: Percentiles::of(issued, wave, |judged| e2el_ms(judged.record, judged.record.sent)),
        }
    }
}

impl Percentiles {
    fn of(issued: &[&Judged<'_>], wave: usize, of: impl Fn(&Judged<'_>) -> Option<f64>) -> Self {
        let took = |judged: &&Judged<'_>| {
            let finite = Some(judged).filter(|judged| judged.completed());
            finite.and_then(|judged| of(judged)).unwrap_or(f64::INFINITY)
        };
        let sample = Sample::single(issued.iter().map(took).collect(), wave);
        let mut ascending = sample.values.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        let n = issued.len();
        let percentile = |share| {
            let at = nearest(n, share).filter(|_| n >= least(share))?;
            let figure = ascending.get(at).copied().filter(|figure| figure.is_finite())?;
            // Failures that come together are fewer than they look.
            ranks(sample.effective(share, figure)?.min(n), share)?;
            Some(figure)
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
