//! Concurrency and token arrivals over time, and the work done within a window of the load. Pure.

use std::time::Duration;

use super::request::{EvaluatedRequest, RequestResult};

/// A half-open time window of the load: `from` included, `to` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Window {
    pub(super) fn seconds(self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }

    /// The share of the interval `from..to` inside the window; for an empty interval 0 or 1.
    fn share(self, from: Duration, to: Duration) -> f64 {
        let within = self.to.min(to).saturating_sub(self.from.max(from)).as_secs_f64();
        let whole = to.saturating_sub(from).as_secs_f64();
        match whole > 0.0 {
            true => within / whole,
            false => f64::from(u8::from(self.contains(from))),
        }
    }

    pub(super) fn contains(self, moment: Duration) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// The number of concurrent intervals after each change, with its time. An interval that ends where another begins ends
/// first.
pub(super) fn concurrency_steps(spans: impl Iterator<Item = (Duration, Duration)>) -> Vec<(Duration, u64)> {
    let mut changes: Vec<(Duration, bool)> = spans.flat_map(|(from, to)| [(from, true), (to, false)]).collect();
    // This order would end an empty interval before it begins.
    changes.sort_unstable();
    let mut open = 0_u64;
    let mut steps: Vec<(Duration, u64)> = Vec::new();
    for (moment, begins) in changes {
        open = if begins { open + 1 } else { open.saturating_sub(1) };
        match steps.last_mut() {
            Some(last) if last.0 == moment => last.1 = open,
            _ => steps.push((moment, open)),
        }
    }
    steps
}

/// Work done by the engine within a window. A request across the window's edge counts in part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Completed requests, each by the share of its service time inside the window.
    pub(super) requests: f64,
    /// Prompt tokens, each prompt by the share of its time from sending to the first token.
    pub(super) input: f64,
    /// Generated tokens, by the arrival time of their events.
    pub(super) output: f64,
    /// Mean number of requests in flight.
    pub(super) concurrency: f64,
}

impl Work {
    /// Includes warm-up requests, because the engine worked for them as well. A failed request counts only towards
    /// concurrency.
    pub(super) fn within(window: Window, all: &[EvaluatedRequest<'_>]) -> Self {
        let mut work = Self::default();
        for request in all {
            let record = request.record;
            let whole = Window {
                from: record.sent,
                to: record.ended,
            };
            let share = window.share(record.sent, record.ended);
            work.concurrency += share * whole.seconds();
            if matches!(request.result, RequestResult::Failed(..)) {
                continue;
            }
            if request.completed() {
                work.requests += share;
            }
            if let Some(first) = record.first_token {
                let input = request.input as f64;
                work.input += input * window.share(record.sent, first);
            }
            work.output +=
                tokens_per_event(request) * count(token_times(request).filter(|time| window.contains(*time)));
        }
        work.concurrency = if window.seconds() > 0.0 {
            work.concurrency / window.seconds()
        } else {
            0.0
        };
        work
    }
}

/// Arrival time of each event with text or tokens.
pub(super) fn token_times(request: &EvaluatedRequest<'_>) -> impl Iterator<Item = Duration> {
    let record = request.record;
    let mut after_ms = 0.0;
    record.first_token.into_iter().flat_map(move |first| {
        let later = record.itl_ms.iter().map(move |gap| {
            after_ms += f64::from(*gap);
            // An invalid sum of gaps counts as 0.
            first.saturating_add(Duration::try_from_secs_f64(after_ms / 1e3).unwrap_or_default())
        });
        std::iter::once(first).chain(later)
    })
}

/// Mean number of tokens per event of this response; 1 if unknown.
pub(super) fn tokens_per_event(request: &EvaluatedRequest<'_>) -> f64 {
    let events = request.record.itl_ms.len() + 1;
    match request.output {
        // A cut-off response has no total count, and its events may report 0 tokens.
        Some(output) if output > 0 => output as f64 / events as f64,
        _ => 1.0,
    }
}

fn count(token_times: impl Iterator) -> f64 {
    token_times.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn window_counts_partial_requests() {
        let at = Duration::from_secs;
        let window = Window { from: at(2), to: at(4) };
        assert!((window.share(at(1), at(3)) - 0.5).abs() < 1e-12);
        assert!((window.share(at(0), at(1))).abs() < 1e-12);
        assert!((window.share(at(2), at(2)) - 1.0).abs() < 1e-12 && window.share(at(4), at(4)).abs() < 1e-12);
    }
}
