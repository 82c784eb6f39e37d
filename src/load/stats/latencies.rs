//! Latency statistics over many requests, error-adjusted percentiles, and variation over repeated loads. Pure.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::request::{Evaluated, EvaluatedRequest};
use super::summary::{Percentiles, Sample, Statistics, min_sample_size, nearest_rank, rank_interval};
use super::{LoadStats, Summary};

/// Latencies of completed requests (TTFT, TPOT, ITL, E2E), measured from when each was sent, not from when it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token that came after the first event.
    pub tpot_ms: Summary,
    /// Inter-token latency by event: times between events with text or tokens, over all requests. An event with several
    /// tokens counts once.
    pub itl_ms: Summary,
    /// Inter-token latency by token, where events say that they carry several. A gap before several tokens is shared by
    /// them.
    #[serde(default, skip_serializing_if = "Summary::is_empty")]
    pub token_itl_ms: Summary,
    /// E2E latency.
    pub e2el_ms: Summary,
}

/// A value for each of the two latencies that are also measured from the due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TtftAndE2el<T> {
    /// Time to first token.
    pub ttft_ms: T,
    /// E2E latency.
    pub e2el_ms: T,
}

/// Response times of completed requests, measured from when they were due.
pub type ResponseTimes = TtftAndE2el<Summary>;

/// Error-adjusted percentiles of service times: a failed or cut-off request counts as infinite. They use the nearest
/// rank, so that infinite and finite values are never interpolated. `None` if infinite, or if the sample is too small.
pub type ErrorAdjusted = TtftAndE2el<Percentiles<Option<f64>>>;

impl Latencies {
    /// From completed requests in sending order.
    pub(super) fn new(completed: &[Evaluated<'_>], wave: usize) -> Self {
        let gaps = completed.iter().map(|request| request.record.itl_ms.as_slice());
        Self {
            ttft_ms: single(completed, wave, |request| request.record.ttft_ms(request.record.sent)),
            tpot_ms: single(completed, wave, |request| request.record.tpot_ms(request.output?)),
            itl_ms: Summary::from_sample(&Sample::per_token(gaps, wave)),
            token_itl_ms: by_token(completed, wave),
            e2el_ms: single(completed, wave, |request| request.record.e2el_ms(request.record.sent)),
        }
    }
}

/// The times between tokens. Empty if each event carries one, or if it is not known of an answer.
fn by_token(completed: &[Evaluated<'_>], wave: usize) -> Summary {
    if completed.iter().all(|request| request.record.later_tokens.is_empty()) {
        return Summary::default();
    }
    let gaps: Option<Vec<_>> = completed
        .iter()
        .map(|request| request.record.token_gaps_ms(request.output?))
        .collect();
    let gaps = gaps.unwrap_or_default();
    Summary::from_sample(&Sample::per_token(gaps.iter().map(Cow::as_ref), wave))
}

impl ResponseTimes {
    /// From completed requests in sending order.
    pub(super) fn new(completed: &[Evaluated<'_>], wave: usize) -> Self {
        let due = |request: &EvaluatedRequest<'_>| request.record.scheduled;
        Self {
            ttft_ms: single(completed, wave, |request| request.record.ttft_ms(due(request))),
            e2el_ms: single(completed, wave, |request| request.record.e2el_ms(due(request))),
        }
    }
}

/// Time to the first text that a user sees, from completed requests in sending order.
pub(super) fn first_visible(completed: &[Evaluated<'_>], wave: usize) -> Summary {
    single(completed, wave, |request| {
        request.record.first_visible_ms(request.record.sent)
    })
}

fn single(completed: &[Evaluated<'_>], wave: usize, metric: impl Fn(&EvaluatedRequest<'_>) -> Option<f64>) -> Summary {
    let values = completed.iter().filter_map(|request| metric(request)).collect();
    Summary::from_sample(&Sample::per_request(values, wave))
}

impl ErrorAdjusted {
    /// From all issued requests in sending order. `wave` is the concurrency.
    pub(super) fn new(issued: &[Evaluated<'_>], wave: usize) -> Self {
        Self {
            ttft_ms: adjusted(issued, wave, |request| request.record.ttft_ms(request.record.sent)),
            e2el_ms: adjusted(issued, wave, |request| request.record.e2el_ms(request.record.sent)),
        }
    }
}

fn adjusted(
    issued: &[Evaluated<'_>],
    wave: usize,
    metric: impl Fn(&EvaluatedRequest<'_>) -> Option<f64>,
) -> Percentiles<Option<f64>> {
    let took = |request: &Evaluated<'_>| {
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
    Percentiles {
        median: percentile(0.5),
        p90: percentile(0.9),
        p95: percentile(0.95),
        p99: percentile(0.99),
        p99_9: percentile(0.999),
    }
}

/// Statistics over repeated loads. `None` if not every load has the value, or a percentile is thin in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepeatStats {
    /// Number of loads.
    pub runs: u64,
    /// Completed requests per second.
    pub request_throughput: Option<Spread>,
    /// Prompt tokens per second.
    pub input_throughput: Option<Spread>,
    /// Generated tokens per second.
    pub output_throughput: Option<Spread>,
    /// Prompt and generated tokens per second.
    pub total_token_throughput: Option<Spread>,
    /// Good requests per second.
    pub goodput: Option<Spread>,
    /// Time to first token.
    pub ttft_ms: LatencySpreads,
    /// Time per output token after the first.
    pub tpot_ms: LatencySpreads,
    /// Inter-token latency by event.
    pub itl_ms: LatencySpreads,
    /// Inter-token latency by token.
    pub token_itl_ms: LatencySpreads,
    /// E2E latency.
    pub e2el_ms: LatencySpreads,
}

/// The spread of one latency's statistics over repeated loads.
pub type LatencySpreads = Statistics<Option<Spread>>;

/// One value over repeated loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation over loads (divisor n − 1); needs 2 loads.
    pub std: Option<f64>,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Coefficient of variation: standard deviation / mean.
    pub cv: Option<f64>,
    /// 95 % confidence interval of the mean by Student's t; needs 2 loads.
    pub ci: Option<[f64; 2]>,
}

impl RepeatStats {
    /// From repeated loads of the same kind.
    pub fn new(loads: &[LoadStats]) -> Self {
        let spread = |value: fn(&LoadStats) -> Option<f64>| Spread::from_values(loads.iter().map(value));
        let spreads = |summary: fn(&LoadStats) -> &Summary| LatencySpreads::new(loads, summary);
        Self {
            runs: loads.len() as u64,
            request_throughput: spread(|load| load.rates.request_throughput),
            input_throughput: spread(|load| load.rates.input_throughput),
            output_throughput: spread(|load| load.rates.output_throughput),
            total_token_throughput: spread(|load| load.rates.total_token_throughput),
            goodput: spread(|load| load.goodput.as_ref()?.counts.request_throughput),
            ttft_ms: spreads(|load| &load.latencies.ttft_ms),
            tpot_ms: spreads(|load| &load.latencies.tpot_ms),
            itl_ms: spreads(|load| &load.latencies.itl_ms),
            token_itl_ms: spreads(|load| &load.latencies.token_itl_ms),
            e2el_ms: spreads(|load| &load.latencies.e2el_ms),
        }
    }
}

impl LatencySpreads {
    fn new(loads: &[LoadStats], summary: fn(&LoadStats) -> &Summary) -> Self {
        let spread =
            |value: fn(&Summary) -> Option<f64>| Spread::from_values(loads.iter().map(|load| value(summary(load))));
        Self {
            mean: spread(|summary| summary.mean),
            median: spread(|summary| summary.median.filter(|_| !summary.thin.median)),
            p90: spread(|summary| summary.p90.filter(|_| !summary.thin.p90)),
            p95: spread(|summary| summary.p95.filter(|_| !summary.thin.p95)),
            p99: spread(|summary| summary.p99.filter(|_| !summary.thin.p99)),
            p99_9: spread(|summary| summary.p99_9.filter(|_| !summary.thin.p99_9)),
        }
    }
}

impl Spread {
    /// From one value of each load; `None` if a load lacks it or there are no loads.
    pub fn from_values(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (values.len() >= 2).then(|| (squares / (n - 1.0)).sqrt());
        Some(Self {
            mean,
            std,
            min,
            max,
            cv: std.filter(|_| mean > 0.0).map(|std| std / mean),
            ci: Sample::per_load(values).interval(mean),
        })
    }
}
