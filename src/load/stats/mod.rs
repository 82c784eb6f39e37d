//! Statistics of a load, computed from its records: counts, throughput, latencies with confidence intervals, goodput,
//! steady-state values, token counts, and variation over repeats. Pure: uses no clock and no files.
//!
//! `request` classifies each request and has the formulas of its latencies, `summary` the statistics of a sample. Names
//! and formulas are those of vLLM's bench; differences are documented at each item. Warm-up requests count only towards
//! concurrency.

mod client;
mod latencies;
mod request;
mod summary;
#[cfg(test)]
mod tests;
mod throughput;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub use client::{ClientStats, SendDelays};
pub use latencies::{ErrorAdjusted, Latencies, LatencySpreads, RepeatStats, ResponseTimes, Spread, TtftAndE2el};
pub use request::{Disagreement, EvaluatedRequest, EventTokens, Failures, Tokens};
use request::{Evaluated, RequestResult};
use serde::{Deserialize, Serialize};
pub use summary::{Intervals, Percentiles, Statistics, Summary, Thin};
pub use throughput::{Goodput, Rates, SloCounts, Steady};

pub(in crate::load) use summary::{interpolated, mean, min_sample_size};
pub(in crate::load) use throughput::concurrency_steps;

use super::record::RequestRecord;
use crate::warning::Warning;

/// Inputs of the statistics besides the records.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The intended concurrency.
    pub target: TargetConcurrency,
    /// Objectives of a good request; `None`: no goodput.
    pub slo: Option<Slo>,
    /// When the load ended, if later than the last request's end; `None`: at the last end.
    pub over: Option<Duration>,
    /// Whether prompts and answers must have the requested token counts, so that other counts are a failure. False for a
    /// user's prompts: their counts may be unknown, and an answer may stop by itself.
    pub exact: bool,
    /// Output tokens of whole texts by the tokenizer, by request index, if counted.
    pub tokenized: HashMap<u64, u64>,
    /// The client's own performance, if measured.
    pub client: Option<ClientStats>,
}

/// The intended concurrency; determines which part of the load is steady.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TargetConcurrency {
    /// Constant. Steady is the longest span with at least 95 % of it in flight.
    Closed {
        /// Concurrent requests.
        concurrency: u64,
    },
    /// Determined by arrivals. Steady is from the end of the ramp to the last arrival.
    Open {
        /// The end of the ramp, since the start of the load.
        ramped: Duration,
    },
    /// Changing; no part is steady.
    #[default]
    Varying,
}

/// Service level objectives: optional upper limits in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slo {
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first. An answer of one token meets it, as in vLLM's bench.
    pub tpot_ms: Option<f64>,
    /// E2E latency.
    pub e2el_ms: Option<f64>,
    /// Inter-token latency: the largest gap of a request must meet it. vLLM's bench has no such objective.
    pub itl_ms: Option<f64>,
}

impl Slo {
    /// The limit of a latency in milliseconds, by the name of its field.
    pub fn limit(&self, latency: &str) -> Option<f64> {
        match latency {
            "ttft_ms" => self.ttft_ms,
            "tpot_ms" => self.tpot_ms,
            "e2el_ms" => self.e2el_ms,
            "itl_ms" => self.itl_ms,
            _ => None,
        }
    }
}

impl TargetConcurrency {
    /// The number of requests that run together, if known.
    fn wave(self) -> usize {
        match self {
            TargetConcurrency::Closed { concurrency } => usize::try_from(concurrency).unwrap_or(usize::MAX),
            TargetConcurrency::Open { .. } | TargetConcurrency::Varying => 1,
        }
    }
}

/// Statistics of a load. Every JSON key is always present; `null` means that the load cannot support the value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadStats {
    /// Requests sent: completed + failed + cut_off.
    pub issued: u64,
    /// Requests that completed with the requested token counts.
    pub completed: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests still in flight when the load ended.
    pub cut_off: u64,
    /// Seconds from when the first request was due to the last end.
    pub duration: f64,
    /// Throughput over the whole duration.
    #[serde(flatten)]
    pub rates: Rates,
    /// Most tokens that arrived within one second.
    pub max_output_tokens_per_s: Option<f64>,
    /// Most completed requests in flight at the same time.
    pub max_concurrent_requests: Option<u64>,
    /// Latencies from sending.
    #[serde(flatten)]
    pub latencies: Latencies,
    /// Latencies from when requests were due.
    pub response: ResponseTimes,
    /// Percentiles with failed requests as infinitely slow.
    pub adjusted: ErrorAdjusted,
    /// Goodput, if objectives are given.
    pub goodput: Option<Goodput>,
    /// The steady part of the load, if there is one.
    pub steady: Option<Steady>,
    /// Token counts by source.
    pub tokens: Tokens,
    /// The client's own performance, if measured.
    pub client: Option<ClientStats>,
    /// Failed requests by kind of failure.
    pub failures: BTreeMap<String, Failures>,
    /// Warnings for readers of these statistics.
    pub warnings: Vec<Warning>,
}

impl LoadStats {
    /// Computes the statistics of a load. Records may come in any order.
    pub fn from_records(records: &[RequestRecord], settings: &Settings) -> Self {
        let all = EvaluatedRequest::all(records, settings);
        let issued: Vec<Evaluated<'_>> = all.iter().filter(|request| !request.record.warmup).collect();
        let completed: Vec<Evaluated<'_>> = issued.iter().copied().filter(|request| request.completed()).collect();
        let with =
            |result: fn(&RequestResult) -> bool| issued.iter().filter(|request| result(&request.result)).count() as u64;
        let duration = duration(&issued, settings.over).as_secs_f64();
        let wave = settings.target.wave();
        let mut stats = Self {
            issued: issued.len() as u64,
            completed: completed.len() as u64,
            failed: with(|result| matches!(result, RequestResult::Failed(..))),
            cut_off: with(|result| *result == RequestResult::CutOff),
            duration,
            rates: Rates::from_completed(&completed, duration),
            max_output_tokens_per_s: throughput::peak_tokens_per_second(&completed),
            max_concurrent_requests: throughput::peak_concurrency(&completed),
            latencies: Latencies::new(&completed, wave),
            response: ResponseTimes::new(&completed, wave),
            adjusted: ErrorAdjusted::new(&issued, wave),
            goodput: settings.slo.map(|slo| Goodput::new(&issued, slo, duration)),
            steady: Steady::new(&all, settings.target),
            tokens: Tokens::new(&completed, settings),
            client: settings.client,
            failures: request::by_form(&issued),
            warnings: Vec::new(),
        };
        stats.warnings = stats.tokens.warnings(&completed);
        if let Some(client) = &stats.client {
            stats.warnings.extend(client.warnings(&stats, settings.target));
        }
        stats
    }
}

/// From when the first request was due to the last end.
fn duration(issued: &[Evaluated<'_>], over: Option<Duration>) -> Duration {
    let begun = issued.iter().map(|request| request.record.scheduled).min();
    let ended = issued.iter().map(|request| request.record.ended).chain(over).max();
    ended
        .zip(begun)
        .map(|(ended, begun)| ended.saturating_sub(begun))
        .unwrap_or_default()
}
