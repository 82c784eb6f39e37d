//! Statistics of a load, computed from its records: counts, throughput, latencies with confidence intervals, goodput,
//! steady-state values, token counts, and variation over repeats. Pure: uses no clock and no files.
//!
//! `request` classifies each request and has the formulas of its latencies, `summary` the statistics of a sample. Names
//! and formulas are those of vLLM's bench; differences are documented at each item. Warm-up requests count only towards
//! concurrency.

mod client;
mod latencies;
mod measurable;
mod request;
mod slow_start;
mod summary;
#[cfg(test)]
mod tests;
mod throughput;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub use client::{ClientStats, SendDelays};
pub use latencies::{ErrorAdjusted, Latencies, LatencySpreads, RepeatStats, ResponseTimes, Spread, TtftAndE2el};
pub use measurable::Unmeasured;
use measurable::has_order;
pub use request::{Disagreement, EvaluatedRequest, EventTokens, Failures, Tokens};
use request::{Evaluated, RequestResult};
use serde::{Deserialize, Serialize};
pub use summary::{Intervals, Percentiles, Statistics, Summary, Thin};
pub use throughput::{Goodput, Rates, SloCounts, Steady};

pub(in crate::load) use summary::{interpolated, mean, min_sample_size};
pub(in crate::load) use throughput::concurrency_steps;

use super::record::RequestRecord;
use super::tolerance::Tolerance;
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
    /// Whether prompts must have the requested token counts, so that another count is a failure, and answers should. False
    /// for a user's prompts: their counts may be unknown, and an answer may stop by itself.
    pub exact: bool,
    /// Tokens that may be missing from an answer without a word.
    pub tolerance: Tolerance,
    /// The engine is simulated, and its clock is not this machine's: delays of this machine count many times, so latencies
    /// are not judged.
    pub timeless: bool,
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
    /// Requests that completed.
    pub completed: u64,
    /// Completed requests whose answers have fewer tokens than requested.
    #[serde(default)]
    pub short: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests still in flight when the load ended.
    pub cut_off: u64,
    /// Rejections (429 and 503), also of requests that were accepted later.
    #[serde(default)]
    pub rejected: u64,
    /// Seconds that requests waited after rejections, in all.
    #[serde(default)]
    pub waited: f64,
    /// Seconds from when the first request was due to the last end.
    pub duration: f64,
    /// Throughput over the whole duration; over the steady part if the end of the duration cut requests off.
    #[serde(flatten)]
    pub rates: Rates,
    /// Most tokens that arrived within one second.
    pub max_output_tokens_per_s: Option<f64>,
    /// Most completed requests in flight at the same time.
    pub max_concurrent_requests: Option<u64>,
    /// Latencies from sending.
    #[serde(flatten)]
    pub latencies: Latencies,
    /// Time to the first text that a user sees, after thoughts. Equal to the TTFT where nothing is hidden.
    #[serde(default)]
    pub first_visible_ms: Summary,
    /// Latencies that cannot be measured here, each with the reason.
    #[serde(default)]
    pub unmeasured: Unmeasured,
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
        let (unmeasured, mut warnings) = if settings.timeless {
            Default::default()
        } else {
            measurable::unmeasured(&completed)
        };
        // Times that are out of order say nothing.
        let timed: Vec<Evaluated<'_>> = completed.iter().copied().filter(|request| has_order(request)).collect();
        let mut steady = Steady::new(&all, settings.target);
        if let Some(steady) = &mut steady {
            measurable::leave_out(&unmeasured, &mut steady.latencies);
        }
        let mut stats = Self {
            issued: issued.len() as u64,
            completed: completed.len() as u64,
            short: completed.iter().filter(|request| request.is_short(settings)).count() as u64,
            failed: with(|result| matches!(result, RequestResult::Failed(..))),
            cut_off: with(|result| *result == RequestResult::CutOff),
            rejected: issued.iter().map(|request| request.rejections()).sum(),
            waited: issued.iter().map(|request| request.record.waited.as_secs_f64()).sum(),
            duration,
            rates: Rates::from_completed(&completed, duration),
            max_output_tokens_per_s: throughput::peak_tokens_per_second(&completed),
            max_concurrent_requests: throughput::peak_concurrency(&completed),
            latencies: Latencies::new(&timed, wave),
            first_visible_ms: latencies::first_visible(&timed, wave),
            response: ResponseTimes::new(&timed, wave),
            adjusted: ErrorAdjusted::new(&issued, wave),
            goodput: settings
                .slo
                .filter(|slo| unmeasured.keys().all(|latency| slo.limit(latency).is_none()))
                .map(|slo| Goodput::new(&issued, slo, duration)),
            steady,
            tokens: Tokens::new(&completed, settings),
            client: settings.client,
            failures: request::by_form(&issued),
            warnings: Vec::new(),
            unmeasured,
        };
        stats.leave_out();
        warnings.extend(stats.prefer_steady(settings));
        warnings.extend(stats.tokens.warnings(&completed));
        warnings.extend(request::warnings(&completed, settings));
        warnings.extend(stats.rejections(&issued, settings.target));
        if !settings.timeless && matches!(settings.target, TargetConcurrency::Closed { .. }) {
            warnings.extend(slow_start::warning(&timed, wave));
        }
        stats.warnings = warnings;
        if let Some(client) = &stats.client {
            stats.warnings.extend(client.warnings(&stats, settings.target));
        }
        stats
    }

    /// Leaves the latencies out that could not be measured.
    fn leave_out(&mut self) {
        measurable::leave_out(&self.unmeasured, &mut self.latencies);
        if self.unmeasured.contains_key("ttft_ms") {
            self.first_visible_ms = Summary::default();
            self.response.ttft_ms = Summary::default();
            self.adjusted.ttft_ms = Default::default();
        }
        if self.unmeasured.contains_key("e2el_ms") {
            self.response.e2el_ms = Summary::default();
            self.adjusted.e2el_ms = Default::default();
        }
    }

    /// Takes the throughput of the steady part if the end of the duration cut requests off: over the whole duration, only
    /// their time would count, and not their tokens.
    fn prefer_steady(&mut self, settings: &Settings) -> Option<Warning> {
        if self.cut_off == 0 || settings.over.is_none() {
            return None;
        }
        let closed = matches!(settings.target, TargetConcurrency::Closed { .. });
        let (cut, issued) = (self.cut_off, self.issued);
        let rates = match self.steady.as_ref().filter(|_| closed) {
            Some(steady) => {
                self.rates = steady.rates;
                let (from, to) = (steady.from, steady.to);
                format!(
                    "the throughputs are of the steady part, {from:.1} s to {to:.1} s, and count the tokens that came"
                )
            }
            None => "the throughputs count only completed requests".to_owned(),
        };
        let message = format!(
            "{cut} of {issued} requests were cut off at the end of `duration`: {rates}; latencies are of the {} that completed, which were \
             the shorter ones",
            self.completed
        );
        Some(Warning::new("cut_off", message).sized(cut as f64))
    }

    /// Says how many requests the server rejected, and how many it served together.
    fn rejections(&self, issued: &[Evaluated<'_>], target: TargetConcurrency) -> Option<Warning> {
        if self.rejected == 0 {
            return None;
        }
        let (rejected, requests) = (
            self.rejected,
            issued.iter().filter(|request| request.rejections() > 0).count(),
        );
        let waited = match self.waited {
            0.0 => String::new(),
            waited => format!("; they waited {waited:.1} s in all, which no latency contains"),
        };
        let most = self.max_concurrent_requests.filter(|most| match target {
            TargetConcurrency::Closed { concurrency } => *most < concurrency,
            TargetConcurrency::Open { .. } | TargetConcurrency::Varying => false,
        });
        let allows = most.map_or_else(String::new, |most| {
            format!("; the server allows {most} at a time, so this is no measurement of more")
        });
        let message = format!(
            "the server rejected {requests} of {} requests (429 or 503), {rejected} times in all{waited}{allows}",
            self.issued
        );
        Some(Warning::new("rate_limited", message).sized(rejected as f64))
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
