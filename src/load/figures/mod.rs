//! What the records of a load say in figures: accounts, throughput, latencies with their intervals, goodput, the steady part, token counts
//! and repeats. Pure: nothing here looks at a clock or a file.
//!
//! `judged` says what became of a request, `latency` has the formulas, `sample` and `percentile` the statistics. Names and formulas are
//! those of vLLM's bench, and where they differ the item says so. Requests of the warm-up are in no figure but those of concurrency.

mod adjusted;
mod client;
mod failures;
mod flow;
mod goodput;
mod judged;
mod latencies;
mod latency;
mod peak;
mod percentile;
#[cfg(test)]
mod properties;
mod rates;
mod repeats;
mod requests;
mod sample;
mod settings;
#[cfg(test)]
mod simulated;
mod steady;
mod student;
mod summary;
#[cfg(test)]
mod tests;
mod tokens;

pub use adjusted::{Adjusted, Percentiles};
pub use client::{Client, Late};
pub use failures::Failures;
pub use goodput::{Goodput, Met};
pub use latencies::{Latencies, Response};
pub(in crate::load) use latency::per_token;
pub use rates::Rates;
pub use repeats::{Repeats, Spread, Spreads};
pub use requests::{Request, requests};
pub use settings::{Held, Settings, Slo};
pub use steady::Steady;
pub(in crate::load) use student::student;
pub use summary::{Intervals, Summary};
pub use tokens::{Disagreement, Engine, Events, Tokens};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Record;
use judged::{Fate, Judged};

/// A load in figures. As JSON its keys are always there; `null` is what the load cannot tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests sent: completed + failed + cut_off.
    pub issued: u64,
    /// Requests that ended as they should, with the counts asked for.
    pub completed: u64,
    /// Requests that did not.
    pub failed: u64,
    /// Requests under way when the load was over.
    pub cut_off: u64,
    /// Seconds from when the first request was due to the last end.
    pub duration: f64,
    /// Over the whole duration.
    #[serde(flatten)]
    pub rates: Rates,
    /// The most tokens that arrived within one second.
    pub max_output_tokens_per_s: Option<f64>,
    /// The most completed requests that were under way at once.
    pub max_concurrent_requests: Option<u64>,
    /// From when requests were sent.
    #[serde(flatten)]
    pub latencies: Latencies,
    /// From when requests were due.
    pub response: Response,
    /// With infinite times for requests that gave no answer.
    pub adjusted: Adjusted,
    /// Under the objectives, where there are any.
    pub goodput: Option<Goodput>,
    /// The same in the steady part, where there is one.
    pub steady: Option<Steady>,
    /// Tokens by who counted them.
    pub tokens: Tokens,
    /// How the client fared, where somebody watched.
    pub client: Option<Client>,
    /// Failed requests by the form of the failure.
    pub failures: BTreeMap<String, Failures>,
    /// What the reader of these figures must know.
    pub warnings: Vec<String>,
}

impl Figures {
    /// The figures of a load. Records may come in any order.
    #[must_use]
    pub fn of(records: &[Record], settings: &Settings) -> Self {
        let mut sorted: Vec<&Record> = records.iter().collect();
        sorted.sort_unstable_by_key(|record| (record.sent, record.index));
        let all: Vec<Judged<'_>> = sorted.iter().map(|record| Judged::new(record, settings)).collect();
        let issued: Vec<&Judged<'_>> = all.iter().filter(|judged| !judged.record.warmup).collect();
        let completed: Vec<&Judged<'_>> = issued.iter().copied().filter(|judged| judged.completed()).collect();
        let with = |fate: fn(&Fate) -> bool| issued.iter().filter(|judged| fate(&judged.fate)).count() as u64;
        let duration = duration(&issued, settings.over).as_secs_f64();
        let wave = settings.held.wave();
        let mut figures = Self {
            issued: issued.len() as u64,
            completed: completed.len() as u64,
            failed: with(|fate| matches!(fate, Fate::Failed(..))),
            cut_off: with(|fate| *fate == Fate::CutOff),
            duration,
            rates: Rates::of(&completed, duration),
            max_output_tokens_per_s: peak::tokens_in_a_second(&completed),
            max_concurrent_requests: peak::requests_at_once(&completed),
            latencies: Latencies::of(&completed, wave),
            response: Response::of(&completed, wave),
            adjusted: Adjusted::of(&issued, wave),
            goodput: settings.slo.map(|slo| Goodput::of(&issued, slo, duration)),
            steady: Steady::of(&all, settings.held),
            tokens: Tokens::of(&completed, settings),
            client: settings.watch.as_ref().map(Client::of),
            failures: failures::by_form(&issued),
            warnings: Vec::new(),
        };
        figures.warnings = figures.tokens.warnings(&completed);
        if let Some(client) = &figures.client {
            figures.warnings.extend(client.warnings(&figures, settings.held));
        }
        figures
    }
}

/// From when the first request was due to the last end.
fn duration(issued: &[&Judged<'_>], over: Option<Duration>) -> Duration {
    let begun = issued.iter().map(|judged| judged.record.scheduled).min();
    let ended = issued.iter().map(|judged| judged.record.ended).chain(over).max();
    ended
        .zip(begun)
        .map(|(ended, begun)| ended.saturating_sub(begun))
        .unwrap_or_default()
}
