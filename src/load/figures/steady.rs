//! The steady part of a load, without its ramp and its drain, and the figures within it. Pure.
//!
//! Closed loop: the longest span in which at least 95 % of the wanted requests were under way. A slot that is empty for less than 5 % of
//! a request's time between one request and the next is not counted as empty. Open loop: from the end of the ramp to the last arrival.
//!
//! Requests at its edges: latencies are of the requests that were sent within the span, whenever they ended, since leaving out those
//! that end later would leave out the slow ones. Throughput counts parts: tokens by the moments of the events that brought them,
//! prompts and requests by the share of their time within the span.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::flow::{Span, Work, under_way};
use super::judged::Judged;
use super::latencies::Latencies;
use super::rates::Rates;
use super::settings::Held;

/// Of the wanted concurrency, as much must be under way.
const SHARE: f64 = 0.95;

/// The steady part of a load in figures. Unlike over the whole load, the rates count the work for every request within the span, those
/// of the warm-up and those that were cut off too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Its beginning, seconds since the load's clock began.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Requests under way on average.
    pub concurrency: f64,
    /// Requests that were sent within it and completed: those that the latencies are of.
    pub completed: u64,
    /// Within it.
    #[serde(flatten)]
    pub rates: Rates,
    /// Of the requests sent within it.
    #[serde(flatten)]
    pub latencies: Latencies,
}

impl Steady {
    /// Of all requests, those of the warm-up among them, in the order in which they were sent; `None` where no part is steady.
    pub(super) fn of(all: &[Judged<'_>], held: Held) -> Option<Self> {
        let measured = || all.iter().filter(|judged| !judged.record.warmup);
        let begun = measured().map(|judged| judged.record.sent).min()?;
        let span = match held {
            Held::Closed { concurrency } => longest(all, concurrency)?,
            Held::Open { ramped } => Span {
                from: ramped,
                to: measured().map(|judged| judged.record.scheduled).max()?,
            },
            Held::Varying => return None,
        };
        let span = Span {
            from: span.from.max(begun),
            ..span
        };
        if span.from >= span.to {
            return None;
        }
        let completed: Vec<&Judged<'_>> = measured()
            .filter(|judged| judged.completed() && span.holds(judged.record.sent))
            .collect();
        let work = Work::within(span, all);
        Some(Self {
            from: span.from.as_secs_f64(),
            to: span.to.as_secs_f64(),
            concurrency: work.concurrency,
            completed: completed.len() as u64,
            rates: Rates::new(work.requests, work.input, work.output, span.seconds()),
            latencies: Latencies::of(&completed, held.wave()),
        })
    }
}

/// The longest span in which enough requests were under way.
fn longest(all: &[Judged<'_>], wanted: u64) -> Option<Span> {
    let enough = |open: u64| open as f64 >= SHARE * wanted as f64;
    let times = all.iter().map(|judged| (judged.record.sent, judged.record.ended));
    let bridged = usual(times.clone()).mul_f64(1.0 - SHARE);
    let mut spans: Vec<Span> = Vec::new();
    let mut from = None;
    for (moment, open) in under_way(times) {
        match (enough(open), from) {
            (true, None) => from = Some(moment),
            (false, Some(begun)) => {
                from = None;
                let span = Span {
                    from: begun,
                    to: moment,
                };
                match spans.last_mut() {
                    Some(before) if span.from.saturating_sub(before.to) <= bridged => before.to = span.to,
                    _ => spans.push(span),
                }
            }
            _ => {}
        }
    }
    // Of equally long ones the first.
    spans
        .into_iter()
        .rev()
        .max_by_key(|span| span.to.saturating_sub(span.from))
}

/// The median time that a request is under way.
fn usual(times: impl Iterator<Item = (Duration, Duration)>) -> Duration {
    let mut times: Vec<Duration> = times.map(|(from, to)| to.saturating_sub(from)).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
