//! Requests under way over time, and the tokens that arrived: what is asked of a part of the load. Pure.

use std::time::Duration;

use super::judged::{Fate, Judged};

/// A part of the load, from one moment to another, by the load's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Span {
    /// Its length in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }

    /// The share of the time from one moment to another that lies within; of no time, all or nothing.
    fn share(self, from: Duration, to: Duration) -> f64 {
        let within = self.to.min(to).saturating_sub(self.from.max(from)).as_secs_f64();
        let whole = to.saturating_sub(from).as_secs_f64();
        match whole > 0.0 {
            true => within / whole,
            false => f64::from(u8::from(self.holds(from))),
        }
    }

    /// Whether a moment lies within: the end does not.
    pub(super) fn holds(self, moment: Duration) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// How many of these spans are open at each change: the moment, and the number from then on. A span that ends where another begins
/// makes room first.
pub(super) fn under_way(spans: impl Iterator<Item = (Duration, Duration)>) -> Vec<(Duration, u64)> {
    let mut changes: Vec<(Duration, bool)> = spans.flat_map(|(from, to)| [(from, true), (to, false)]).collect();
    // An empty span would end before it begins.
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

/// What the engine did within a span, counted in parts where a request lies across its edge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Completed requests, each by the share of its time from sending to its end.
    pub(super) requests: f64,
    /// Tokens of prompts, each prompt by the share of its time from sending to the first token.
    pub(super) input: f64,
    /// Tokens generated, by the moments of the events that brought them.
    pub(super) output: f64,
    /// Requests under way on average.
    pub(super) concurrency: f64,
}

impl Work {
    /// Of all requests, those of the warm-up too: the engine worked for them as well. What a failed request took counts as under way only.
    pub(super) fn within(span: Span, all: &[Judged<'_>]) -> Self {
        let mut work = Self::default();
        for judged in all {
            let record = judged.record;
            let whole = Span {
                from: record.sent,
                to: record.ended,
            };
            let share = span.share(record.sent, record.ended);
            work.concurrency += share * whole.seconds();
            if matches!(judged.fate, Fate::Failed(..)) {
                continue;
            }
            if judged.completed() {
                work.requests += share;
            }
            if let Some(first) = record.first_token {
                let input = judged.input as f64;
                work.input += input * span.share(record.sent, first);
            }
            work.output += tokens_per_event(judged) * count(stamps(judged).filter(|stamp| span.holds(*stamp)));
        }
        work.concurrency = if span.seconds() > 0.0 {
            work.concurrency / span.seconds()
        } else {
            0.0
        };
        work
    }
}

/// When each event with text or tokens arrived.
pub(super) fn stamps(judged: &Judged<'_>) -> impl Iterator<Item = Duration> {
    let record = judged.record;
    let mut after_ms = 0.0;
    record.first_token.into_iter().flat_map(move |first| {
        let later = record.gaps_ms.iter().map(move |gap| {
            after_ms += f64::from(*gap);
            // A sum of gaps that is no time is none.
            first.saturating_add(Duration::try_from_secs_f64(after_ms / 1e3).unwrap_or_default())
        });
        std::iter::once(first).chain(later)
    })
}

/// How many tokens an event of this answer carries on average; one where nobody knows.
pub(super) fn tokens_per_event(judged: &Judged<'_>) -> f64 {
    let events = judged.record.gaps_ms.len() + 1;
    match judged.output {
        // An answer that was cut off has no count of its whole; what its events told may be 0 of many.
        Some(output) if output > 0 => output as f64 / events as f64,
        _ => 1.0,
    }
}

fn count(stamps: impl Iterator) -> f64 {
    stamps.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_makes_room_for_one_that_begins() {
        let at = Duration::from_secs;
        let spans = [(at(0), at(2)), (at(2), at(3)), (at(1), at(3))];
        assert_eq!(
            under_way(spans.into_iter()),
            [(at(0), 1), (at(1), 2), (at(2), 2), (at(3), 0)]
        );
    }

    #[test]
    fn a_span_takes_its_share() {
        let at = Duration::from_secs;
        let span = Span { from: at(2), to: at(4) };
        assert!((span.share(at(1), at(3)) - 0.5).abs() < 1e-12);
        assert!((span.share(at(0), at(1))).abs() < 1e-12);
        assert!((span.share(at(2), at(2)) - 1.0).abs() < 1e-12 && span.share(at(4), at(4)).abs() < 1e-12);
    }
}
