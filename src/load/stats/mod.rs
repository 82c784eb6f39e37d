//! Statistics of a load, computed from its records: counts, throughput, latencies with confidence intervals, goodput,
//! steady-state values, token counts, and variation over repeats. Pure: uses no clock and no files.
//!
//! `request` classifies each request, `latency` has the formulas, `sample` and `percentile` the statistics. Names and
//! formulas are those of vLLM's bench; differences are documented at each item. Warm-up requests count only towards
//! concurrency.

mod adjusted;
mod client;
mod failures;
mod flow;
mod goodput;
mod latencies;
mod latency;
mod peak;
mod per_request;
mod percentile;
#[cfg(test)]
mod properties;
mod quantiles;
mod rates;
mod repeats;
mod request;
mod sample;
mod settings;
#[cfg(test)]
mod simulated;
mod steady;
mod summary;
#[cfg(test)]
mod tests;
mod tokens;

pub use adjusted::{ErrorAdjusted, Percentiles};
pub use client::{ClientStats, SendDelays};
pub use failures::Failures;
pub use goodput::{Goodput, SloCounts};
pub use latencies::{Latencies, ResponseTimes};
pub(in crate::load) use latency::per_token;
pub use per_request::{RequestStats, request_stats};
pub(in crate::load) use quantiles::t_quantile;
pub use rates::Rates;
pub use repeats::{LatencySpreads, RepeatStats, Spread};
pub use settings::{Settings, Slo, TargetConcurrency};
pub use steady::Steady;
pub use summary::{Intervals, Summary};
pub use tokens::{Disagreement, EngineTokens, EventTokens, Tokens};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Record;
use request::{EvaluatedRequest, RequestResult};

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
    /// What a reader of these statistics must know.
    pub warnings: Vec<String>,
}

impl LoadStats {
    /// Computes the statistics of a load. Records may come in any order.
    #[must_use]
    pub fn from_records(records: &[Record], settings: &Settings) -> Self {
        let mut sorted: Vec<&Record> = records.iter().collect();
        sorted.sort_unstable_by_key(|record| (record.sent, record.index));
        let all: Vec<EvaluatedRequest<'_>> = sorted
            .iter()
            .map(|record| EvaluatedRequest::new(record, settings))
            .collect();
        let issued: Vec<&EvaluatedRequest<'_>> = all.iter().filter(|request| !request.record.warmup).collect();
        let completed: Vec<&EvaluatedRequest<'_>> =
            issued.iter().copied().filter(|request| request.completed()).collect();
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
            max_output_tokens_per_s: peak::peak_tokens_per_second(&completed),
            max_concurrent_requests: peak::peak_concurrency(&completed),
            latencies: Latencies::new(&completed, wave),
            response: ResponseTimes::new(&completed, wave),
            adjusted: ErrorAdjusted::new(&issued, wave),
            goodput: settings.slo.map(|slo| Goodput::new(&issued, slo, duration)),
            steady: Steady::new(&all, settings.target),
            tokens: Tokens::new(&completed, settings),
            client: settings.client_health.as_ref().map(ClientStats::new),
            failures: failures::by_form(&issued),
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
fn duration(issued: &[&EvaluatedRequest<'_>], over: Option<Duration>) -> Duration {
    let begun = issued.iter().map(|request| request.record.scheduled).min();
    let ended = issued.iter().map(|request| request.record.ended).chain(over).max();
    ended
        .zip(begun)
        .map(|(ended, begun)| ended.saturating_sub(begun))
        .unwrap_or_default()
}
