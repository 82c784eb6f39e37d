//! The latencies of many requests as samples. Pure.

use serde::{Deserialize, Serialize};

use super::Summary;
use super::judged::Judged;
use super::latency::{e2el_ms, tpot_ms, ttft_ms};
use super::sample::Sample;

/// Service times of completed requests: from when they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token after the first.
    pub tpot_ms: Summary,
    /// Gaps between events that carry text or tokens, of all requests together. An event of several tokens ends one gap.
    pub itl_ms: Summary,
    /// To the last token.
    pub e2el_ms: Summary,
}

/// Response times of completed requests: from when they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// To the last token.
    pub e2el_ms: Summary,
}

impl Latencies {
    /// Of completed requests in the order in which they were sent.
    pub(super) fn of(completed: &[&Judged<'_>], wave: usize) -> Self {
        let gaps = completed.iter().map(|judged| judged.record.gaps_ms.as_slice());
        Self {
            ttft_ms: single(completed, wave, |judged| ttft_ms(judged.record, judged.record.sent)),
            tpot_ms: single(completed, wave, |judged| tpot_ms(judged.record, judged.output?)),
            itl_ms: Summary::of_sample(&Sample::grouped(gaps, wave)),
            e2el_ms: single(completed, wave, |judged| e2el_ms(judged.record, judged.record.sent)),
        }
    }
}

impl Response {
    /// Of completed requests in the order in which they were sent.
    pub(super) fn of(completed: &[&Judged<'_>], wave: usize) -> Self {
        let due = |judged: &Judged<'_>| judged.record.scheduled;
        Self {
            ttft_ms: single(completed, wave, |judged| ttft_ms(judged.record, due(judged))),
            e2el_ms: single(completed, wave, |judged| e2el_ms(judged.record, due(judged))),
        }
    }
}

fn single(completed: &[&Judged<'_>], wave: usize, of: impl Fn(&Judged<'_>) -> Option<f64>) -> Summary {
    let values = completed.iter().filter_map(|judged| of(judged)).collect();
    Summary::of_sample(&Sample::single(values, wave))
}
