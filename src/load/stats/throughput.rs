//! Throughput, concurrency over time, peaks and goodput, over the whole load and over its steady part, without ramp-up
//! and drain. Names and formulas are those of vLLM's bench. Pure.
//!
//! The steady part of a closed loop is the longest span with at least 95 % of the intended concurrency. Gaps shorter
//! than 5 % of the median request duration are bridged, because a slot is briefly empty between two requests. A span of
//! less than half that duration counts as none: it may hold a burst of tokens, or no token at all. Open loop: from the
//! end of the ramp to the last arrival.
//!
//! Its latencies cover the requests sent within the span, whenever they ended, because leaving out late ends would
//! leave out the slow requests. Its throughput counts partial requests: output tokens by the arrival time of their
//! events, prompts and requests by the share of their time within the span.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latencies::Latencies;
use super::request::{Evaluated, EvaluatedRequest, RequestResult};
use super::{Slo, TargetConcurrency};

/// Throughput over the whole load. `None` for a duration of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Completed requests per second.
    pub request_throughput: Option<f64>,
    /// Prompt tokens of completed requests per second.
    pub input_throughput: Option<f64>,
    /// Generated tokens of completed requests per second.
    pub output_throughput: Option<f64>,
    /// Prompt and generated tokens of completed requests per second.
    pub total_token_throughput: Option<f64>,
}

impl Rates {
    pub(super) fn new(requests: f64, input: f64, output: f64, seconds: f64) -> Self {
        let rate = |count: f64| per_second(count, seconds);
        Self {
            request_throughput: rate(requests),
            input_throughput: rate(input),
            output_throughput: rate(output),
            total_token_throughput: rate(input + output),
        }
    }

    pub(super) fn from_completed(completed: &[Evaluated<'_>], seconds: f64) -> Self {
        let input: u64 = completed.iter().map(|request| request.input).sum();
        let output: u64 = completed.iter().filter_map(|request| request.output).sum();
        Self::new(completed.len() as f64, input as f64, output as f64, seconds)
    }
}

fn per_second(count: f64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| count / seconds)
}

/// A half-open time window of the load: `from` included, `to` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Window {
    fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    pub(super) fn seconds(self) -> f64 {
        self.length().as_secs_f64()
    }

    /// The share of the interval `from..to` inside the window; for an empty interval 0 or 1.
    fn share(self, from: Duration, to: Duration) -> f64 {
        let within = self.to.min(to).saturating_sub(self.from.max(from)).as_secs_f64();
        let whole = to.saturating_sub(from).as_secs_f64();
        if whole > 0.0 {
            within / whole
        } else {
            f64::from(u8::from(self.contains(from)))
        }
    }

    pub(super) fn contains(self, moment: Duration) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// The number of concurrent intervals after each change, with its time. An interval that ends where another begins ends
/// first.
pub(in crate::load) fn concurrency_steps(spans: impl Iterator<Item = (Duration, Duration)>) -> Vec<(Duration, u64)> {
    let mut changes: Vec<(Duration, bool)> = spans
        .flat_map(|(from, to)| [(from, true), (to.max(from), false)])
        .collect();
    // An empty interval ends before it begins, so the number may be below zero in between.
    changes.sort_unstable();
    let mut open = 0_u64;
    let mut steps: Vec<(Duration, u64)> = Vec::new();
    for (moment, begins) in changes {
        open = open.wrapping_add_signed(if begins { 1 } else { -1 });
        match steps.last_mut() {
            Some(last) if last.0 == moment => last.1 = open,
            _ => steps.push((moment, open)),
        }
    }
    steps
}

/// Throughput within a window, and the mean number of requests in flight. A request across the window's edge counts in
/// part: the request by the share of its service time inside, its prompt by the share of its time from sending to the
/// first token, its generated tokens by the arrival time of their events.
///
/// Includes warm-up requests, because the engine worked for them as well. A failed request counts only towards
/// concurrency.
fn work_within(window: Window, all: &[EvaluatedRequest<'_>]) -> (Rates, f64) {
    let (mut requests, mut input, mut output, mut busy) = (0.0, 0.0, 0.0, 0.0);
    let typical = typical_tokens_per_event(all);
    for request in all {
        let record = request.record;
        let share = window.share(record.sent, record.ended);
        busy += share * record.ended.saturating_sub(record.sent).as_secs_f64();
        if matches!(request.result, RequestResult::Failed(..)) {
            continue;
        }
        if request.completed() {
            requests += share;
        }
        if let Some(first) = record.first_token {
            input += request.input as f64 * window.share(record.sent, first);
        }
        let events = record.token_times().filter(|time| window.contains(*time)).count();
        output += tokens_per_event(request, typical) * events as f64;
    }
    let seconds = window.seconds();
    (Rates::new(requests, input, output, seconds), busy / seconds)
}

/// Mean number of tokens per event of this response; `typical` if unknown.
fn tokens_per_event(request: &EvaluatedRequest<'_>, typical: f64) -> f64 {
    let events = request.record.itl_ms.len() + 1;
    let record = request.record;
    let counted = record
        .counts
        .output
        .or(record.tokens_seen.filter(|_| record.events > 0).map(u64::from));
    match request.output.filter(|_| request.completed()).or(counted) {
        // A cut-off response has no total count, and its events may report 0 tokens.
        Some(output) if output > 0 => output as f64 / events as f64,
        _ => typical,
    }
}

/// Mean number of tokens per event of the completed responses; 1 if unknown.
fn typical_tokens_per_event(all: &[EvaluatedRequest<'_>]) -> f64 {
    let completed = || all.iter().filter(|request| request.completed());
    let tokens: u64 = completed().filter_map(|request| request.output).sum();
    let events: u64 = completed().map(|request| u64::from(request.record.events)).sum();
    if tokens > 0 && events > 0 {
        tokens as f64 / events as f64
    } else {
        1.0
    }
}

/// Most tokens that arrived within one second, counted as in vLLM's bench in consecutive seconds from the first
/// request. An event counts with all its tokens, where vLLM counts 1.
pub(super) fn peak_tokens_per_second(completed: &[Evaluated<'_>]) -> Option<f64> {
    let begun = completed.iter().map(|request| request.record.sent).min()?;
    let mut seconds: Vec<f64> = Vec::new();
    for request in completed {
        let tokens = tokens_per_event(request, 1.0);
        for time in request.record.token_times() {
            let second = usize::try_from(time.saturating_sub(begun).as_secs()).ok()?;
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += tokens;
        }
    }
    seconds.into_iter().max_by(f64::total_cmp)
}

/// Most completed requests in flight at the same time, from sending to the last token. vLLM 0.33 counts requests that
/// touch the same second, which is more; later versions count as we do.
pub(super) fn peak_concurrency(completed: &[Evaluated<'_>]) -> Option<u64> {
    let window = |request: &Evaluated<'_>| -> Option<(Duration, Duration)> {
        Some((request.record.sent, request.record.last_token?))
    };
    concurrency_steps(completed.iter().filter_map(window))
        .into_iter()
        .map(|(_, open)| open)
        .max()
}

/// Requests that met every objective. Uses service times, as vLLM's bench does; `response` uses response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// The objectives.
    pub slo: Slo,
    /// The requests that met them: `request_throughput` is `request_goodput` of vLLM's bench.
    #[serde(flatten)]
    pub counts: SloCounts,
    /// The counts with times measured from the due time.
    pub response: SloCounts,
}

/// Number of requests that met the objectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SloCounts {
    /// Number of requests.
    pub good: u64,
    /// Their share of all issued requests; failed and cut-off requests meet no objective.
    pub share: Option<f64>,
    /// Good requests per second.
    pub request_throughput: Option<f64>,
}

impl Goodput {
    /// From all issued requests.
    pub(super) fn new(issued: &[Evaluated<'_>], slo: Slo, seconds: f64) -> Self {
        Self {
            slo,
            counts: SloCounts::new(issued, seconds, |request| meets(request, slo, false)),
            response: SloCounts::new(issued, seconds, |request| meets(request, slo, true)),
        }
    }
}

impl SloCounts {
    fn new(issued: &[Evaluated<'_>], seconds: f64, good: impl Fn(&EvaluatedRequest<'_>) -> bool) -> Self {
        let count = issued.iter().filter(|request| good(request)).count();
        Self {
            good: count as u64,
            share: (!issued.is_empty()).then(|| count as f64 / issued.len() as f64),
            request_throughput: per_second(count as f64, seconds),
        }
    }
}

/// Whether a request completed and met every objective. Times count from when it was due if `due`, otherwise from
/// sending.
fn meets(request: &EvaluatedRequest<'_>, slo: Slo, due: bool) -> bool {
    let record = request.record;
    let from = if due { record.scheduled } else { record.sent };
    // An unset limit is met; a missing time does not meet a limit.
    let within =
        |bound: Option<f64>, time: Option<f64>| bound.is_none_or(|bound| time.is_some_and(|time| time <= bound));
    let tpot = if request.output == Some(1) {
        Some(0.0)
    } else {
        request.output.and_then(|output| record.tpot_ms(output))
    };
    let gap = record.itl_ms.iter().copied().fold(0.0_f32, f32::max);
    request.completed()
        && within(slo.ttft_ms, record.ttft_ms(from))
        && within(slo.e2el_ms, record.e2el_ms(from))
        && within(slo.tpot_ms, tpot)
        && within(slo.itl_ms, Some(f64::from(gap)))
}

/// Required share of the intended concurrency.
const SHARE: f64 = 0.95;

/// Least length of the steady part of a closed loop, in median request durations.
const LEAST: f64 = 0.5;

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
    /// Completed requests that were sent within it; the latencies cover these.
    pub completed: u64,
    /// Throughput within it.
    #[serde(flatten)]
    pub rates: Rates,
    /// Latencies of the requests sent within it.
    #[serde(flatten)]
    pub latencies: Latencies,
}

impl Steady {
    /// From all requests, including warm-up, in sending order. `None` if no part is steady.
    pub(super) fn new(all: &[EvaluatedRequest<'_>], target: TargetConcurrency) -> Option<Self> {
        let measured = || all.iter().filter(|request| !request.record.warmup);
        let begun = measured().map(|request| request.record.sent).min()?;
        let times = all.iter().map(|request| (request.record.sent, request.record.ended));
        let steady = match target {
            TargetConcurrency::Closed { concurrency } => longest(times, concurrency)?,
            TargetConcurrency::Open { ramped } => Window {
                from: ramped,
                to: measured().map(|request| request.record.scheduled).max()?,
            },
            TargetConcurrency::Varying => return None,
        };
        let window = Window {
            from: steady.from.max(begun),
            ..steady
        };
        if window.from >= window.to {
            return None;
        }
        let completed: Vec<Evaluated<'_>> = measured()
            .filter(|request| request.completed() && window.contains(request.record.sent))
            .collect();
        let (rates, concurrency) = work_within(window, all);
        Some(Self {
            from: window.from.as_secs_f64(),
            to: window.to.as_secs_f64(),
            concurrency,
            completed: completed.len() as u64,
            rates,
            latencies: Latencies::new(&completed, target.wave()),
        })
    }
}

/// The longest span with enough requests in flight; `None` if it is too short.
fn longest(times: impl Iterator<Item = (Duration, Duration)> + Clone, wanted: u64) -> Option<Window> {
    let enough = |open: u64| open as f64 >= SHARE * wanted as f64;
    let usual = median_duration(times.clone());
    let max_gap = usual.mul_f64(1.0 - SHARE);
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
    // The first of the longest spans.
    spans
        .into_iter()
        .rev()
        .max_by_key(|window| window.length())
        .filter(|window| window.length() >= usual.mul_f64(LEAST))
}

/// The median time that a request is in flight.
fn median_duration(times: impl Iterator<Item = (Duration, Duration)>) -> Duration {
    let mut times: Vec<Duration> = times.map(|(from, to)| to.saturating_sub(from)).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_interval_leaves_nothing_open() {
        let at = Duration::from_secs;
        let spans = [(at(1), at(1)), (at(2), at(3))];
        assert_eq!(
            concurrency_steps(spans.into_iter()),
            [(at(1), 0), (at(2), 1), (at(3), 0)]
        );
    }

    #[test]
    fn end_counts_before_start_at_the_same_time() {
        let at = Duration::from_secs;
        let spans = [(at(0), at(2)), (at(2), at(3)), (at(1), at(3))];
        assert_eq!(
            concurrency_steps(spans.into_iter()),
            [(at(0), 1), (at(1), 2), (at(2), 2), (at(3), 0)]
        );
    }

    #[test]
    fn a_moment_of_full_concurrency_is_no_steady_part() {
        let at = Duration::from_secs;
        let two = |overlap: u64| longest([(at(0), at(10)), (at(10 - overlap), at(20 - overlap))].into_iter(), 2);
        assert!(two(4).is_none());
        assert_eq!(two(6).unwrap().length(), at(6));
    }

    #[test]
    fn window_counts_partial_requests() {
        let at = Duration::from_secs;
        let window = Window { from: at(2), to: at(4) };
        assert!((window.share(at(1), at(3)) - 0.5).abs() < 1e-12);
        assert!((window.share(at(0), at(1))).abs() < 1e-12);
        assert!((window.share(at(2), at(2)) - 1.0).abs() < 1e-12 && window.share(at(4), at(4)).abs() < 1e-12);
    }
}
