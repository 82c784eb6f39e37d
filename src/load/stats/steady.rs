//! The steady part of a load, without ramp-up and drain, and its statistics. Pure.
//!
//! Closed loop: the longest span with at least 95 % of the intended concurrency. Gaps shorter than 5 % of the median
//! request duration are bridged, because a slot is briefly empty between two requests. Open loop: from the end of the
//! ramp to the last arrival.
//!
//! Latencies cover the requests sent within the span, whenever they ended; leaving out those that ended later would
//! leave out the slow ones. Throughput counts partial requests: output tokens by the arrival time of their events,
//! prompts and requests by the share of their time within the span.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TargetConcurrency;
use super::latencies::Latencies;
use super::request::EvaluatedRequest;
use super::throughput::{Rates, Window, Work, concurrency_steps};

/// Required share of the intended concurrency.
const SHARE: f64 = 0.95;

/// Statistics of the steady part. Unlike over the whole load, throughput includes the work for warm-up and cut-off
/// requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Start, seconds since the start of the load.
    pub from: f64,
    /// End, seconds since the start of the load.
    pub to: f64,
    /// Mean number of requests in flight.
    pub concurrency: f64,
    /// Completed requests that were sent within it; the latencies are theirs.
    pub completed: u64,
    /// Throughput within it.
    #[serde(flatten)]
    pub rates: Rates,
    /// Latencies of the requests sent within it.
    #[serde(flatten)]
    pub latencies: Latencies,
}

impl Steady {
    /// From all requests, including warm-up, in the order in which they were sent. `None` if no part is steady.
    pub(super) fn new(all: &[EvaluatedRequest<'_>], target: TargetConcurrency) -> Option<Self> {
        let measured = || all.iter().filter(|request| !request.record.warmup);
        let begun = measured().map(|request| request.record.sent).min()?;
        let window = match target {
            TargetConcurrency::Closed { concurrency } => longest(all, concurrency)?,
            TargetConcurrency::Open { ramped } => Window {
                from: ramped,
                to: measured().map(|request| request.record.scheduled).max()?,
            },
            TargetConcurrency::Varying => return None,
        };
        let window = Window {
            from: window.from.max(begun),
            ..window
        };
        if window.from >= window.to {
            return None;
        }
        let completed: Vec<&EvaluatedRequest<'_>> = measured()
            .filter(|request| request.completed() && window.contains(request.record.sent))
            .collect();
        let work = Work::within(window, all);
        Some(Self {
            from: window.from.as_secs_f64(),
            to: window.to.as_secs_f64(),
            concurrency: work.concurrency,
            completed: completed.len() as u64,
            rates: Rates::new(work.requests, work.input, work.output, window.seconds()),
            latencies: Latencies::new(&completed, target.wave()),
        })
    }
}

/// The longest span with enough requests in flight.
fn longest(all: &[EvaluatedRequest<'_>], wanted: u64) -> Option<Window> {
    let enough = |open: u64| open as f64 >= SHARE * wanted as f64;
    let times = all.iter().map(|request| (request.record.sent, request.record.ended));
    let max_gap = median_duration(times.clone()).mul_f64(1.0 - SHARE);
    let mut spans: Vec<Window> = Vec::new();
    let mut from = None;
    for (moment, open) in concurrency_steps(times) {
        match (enough(open), from) {
            (true, None) => from = Some(moment),
            (false, Some(begun)) => {
                from = None;
                let window = Window {
                    from: begun,
                    to: moment,
                };
                match spans.last_mut() {
                    Some(before) if window.from.saturating_sub(before.to) <= max_gap => before.to = window.to,
                    _ => spans.push(window),
                }
            }
            _ => {}
        }
    }
    // Of spans of equal length, the first.
    spans
        .into_iter()
        .rev()
        .max_by_key(|window| window.to.saturating_sub(window.from))
}

/// The median time a request is in flight.
fn median_duration(times: impl Iterator<Item = (Duration, Duration)>) -> Duration {
    let mut times: Vec<Duration> = times.map(|(from, to)| to.saturating_sub(from)).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
