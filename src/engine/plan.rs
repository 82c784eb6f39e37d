//! Which limits to start an engine with, so that it serves a point and, where memory allows, the whole box. Pure.

use serde::{Deserialize, Serialize};

use super::Limits;
use super::answer::Evidence;

/// A start that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StartFailure {
    /// The limits of the start.
    pub(super) limits: Limits,
    /// `memory`, `length_limit`, or another reason.
    pub(super) cause: String,
    /// The longest context that the engine says would do.
    pub(super) longest: Option<u64>,
    pub(super) evidence: Evidence,
}

impl StartFailure {
    /// Whether another start with the same limits would fail in the same way: a lack of memory, or a limit that was set.
    pub(super) fn lasts(&self) -> bool {
        matches!(self.cause.as_str(), "memory" | "length_limit")
    }

    /// Whether a start with these limits would repeat it: it needs no less, or the engine itself said that its length is too long. What it said
    /// of memory holds where at least as many sequences are to be served: fewer leave more room.
    fn repeats(&self, limits: &Limits) -> bool {
        limits.cover(&self.limits) || self.rules_out(limits)
    }

    fn rules_out(&self, limits: &Limits) -> bool {
        let longer = self.longest.is_some_and(|longest| longest < limits.total);
        longer && (self.cause == "length_limit" || limits.concurrency >= self.limits.concurrency)
    }

    /// The failure as the answer for a point that it rules out.
    pub(super) fn of_point(&self, asked: &Limits) -> Self {
        let mut failure = self.clone();
        if let Some(longest) = self.longest
            && !asked.cover(&self.limits)
        {
            let message = failure.evidence.message.unwrap_or_default();
            let said = format!(
                "{message}; the engine itself says that {longest} tokens would fit, and {} do not",
                asked.total
            );
            failure.evidence.message = Some(said);
        }
        failure
    }
}

/// What is known of an engine's starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    failed: Vec<StartFailure>,
    /// Tokens that the KV cache of the newest start holds.
    pool: Option<u64>,
}

/// What to do about a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<'a> {
    /// Start with these limits.
    Try(Limits),
    /// No start serves the point, as this failure shows.
    Hopeless(&'a StartFailure),
}

impl Starts {
    /// What an earlier life of the run knew.
    pub(super) fn new(failed: Vec<StartFailure>) -> Self {
        Self { failed, pool: None }
    }

    /// Remembers a failure that another start with the same limits would repeat.
    pub(super) fn remember(&mut self, failure: StartFailure) {
        self.failed.push(failure);
    }

    /// Remembers a start that served, and what it said of its KV cache.
    pub(super) fn served(&mut self, kv_tokens: Option<u64>) {
        self.pool = kv_tokens.or(self.pool);
    }

    /// The longest context that starts which failed say would do: the least of their estimates.
    pub(super) fn estimate(&self) -> Option<u64> {
        self.failed.iter().filter_map(|failure| failure.longest).min()
    }

    /// The widest start that serves `asked` and is not known to fail: the whole box; else as much as the engine's own estimate allows; else as
    /// much as the pool of its newest start holds; else exactly the point.
    pub(super) fn next(&self, whole: Limits, asked: Limits) -> Next<'_> {
        if self.known(&whole).is_none() {
            return Next::Try(whole);
        }
        // Of all failures that the box repeats, the smallest estimate is the one that holds.
        let repeated = self.failed.iter().filter(|failure| failure.repeats(&whole));
        let estimate = repeated.filter_map(|failure| failure.longest).min();
        // The pool is shared by all sequences of the start; some engines make it just as large as they are told to.
        let pool = self.pool.map(|pool| pool / whole.concurrency.max(1));
        let wider = [estimate, pool]
            .into_iter()
            .flatten()
            .map(|longest| whole.capped(longest));
        for limits in wider.filter(|limits| limits.cover(&asked)) {
            if self.known(&limits).is_none() {
                return Next::Try(limits);
            }
        }
        match self.known(&asked) {
            None => Next::Try(asked),
            Some(failure) => Next::Hopeless(failure),
        }
    }

    /// The failure that a start with these limits would repeat.
    fn known(&self, limits: &Limits) -> Option<&StartFailure> {
        self.failed.iter().find(|failure| failure.repeats(limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(input: u64, output: u64) -> Limits {
        Limits {
            input,
            output,
            total: input + output,
            concurrency: 1,
        }
    }

    fn failure(limits: Limits, cause: &str, longest: Option<u64>) -> StartFailure {
        StartFailure {
            limits,
            cause: cause.into(),
            longest,
            evidence: Evidence::default(),
        }
    }

    #[test]
    fn the_box_comes_first_then_the_estimate_then_the_point() {
        let (whole, asked) = (limits(8000, 8000), limits(100, 100));
        let mut starts = Starts::default();
        assert_eq!(starts.next(whole, asked), Next::Try(whole));
        starts.remember(failure(whole, "memory", Some(5000)));
        let capped = whole.capped(5000);
        assert_eq!(starts.next(whole, asked), Next::Try(capped));
        starts.remember(failure(capped, "memory", None));
        assert_eq!(starts.next(whole, asked), Next::Try(asked));
        starts.remember(failure(asked, "memory", None));
        assert!(matches!(starts.next(whole, asked), Next::Hopeless(_)));
    }

    #[test]
    fn a_point_beyond_the_engines_own_estimate_costs_no_start() {
        let (whole, asked) = (limits(8000, 8000), limits(6000, 100));
        let mut starts = Starts::default();
        starts.remember(failure(whole, "memory", Some(5000)));
        let Next::Hopeless(known) = starts.next(whole, asked) else {
            panic!("a start for {asked}")
        };
        let message = known.of_point(&asked).evidence.message.unwrap();
        assert!(message.contains("5000") && message.contains("6100"), "{message}");
        assert!(matches!(
            starts.next(limits(7000, 9), limits(7000, 9)),
            Next::Hopeless(_)
        ));
    }

    #[test]
    fn an_estimate_for_more_sequences_says_nothing_of_fewer() {
        let many = |limits: Limits| Limits {
            concurrency: 64,
            ..limits
        };
        let (whole, asked) = (many(limits(8000, 8000)), limits(6000, 100));
        let mut starts = Starts::default();
        starts.remember(failure(whole, "memory", Some(5000)));
        assert_eq!(starts.next(whole, asked), Next::Try(asked));
        assert!(matches!(starts.next(whole, many(asked)), Next::Hopeless(_)));
    }

    #[test]
    fn the_pool_of_a_start_that_served_widens_the_next() {
        let (whole, asked) = (limits(8000, 8000), limits(3000, 100));
        let mut starts = Starts::default();
        starts.remember(failure(whole, "memory", None));
        starts.served(Some(5000));
        assert_eq!(starts.next(whole, asked), Next::Try(whole.capped(5000)));
        let beyond = limits(5000, 1);
        assert_eq!(
            starts.next(whole, beyond),
            Next::Try(beyond),
            "the pool is no word on it"
        );
        starts.remember(failure(whole.capped(5000), "memory", None));
        assert_eq!(starts.next(whole, asked), Next::Try(asked));
    }

    #[test]
    fn more_than_what_failed_is_not_tried_and_less_is() {
        let mut starts = Starts::default();
        starts.remember(failure(limits(1000, 1000), "memory", None));
        let harder = limits(2000, 1000);
        assert!(matches!(starts.next(harder, harder), Next::Hopeless(_)));
        let easier = limits(900, 1000);
        assert_eq!(starts.next(easier, easier), Next::Try(easier));
    }

    #[test]
    fn a_length_limit_is_final_beyond_it() {
        let whole = limits(8000, 8000);
        let mut starts = Starts::default();
        starts.remember(failure(whole, "length_limit", Some(4096)));
        assert_eq!(starts.next(whole, limits(1000, 1000)), Next::Try(whole.capped(4096)));
        let beyond = limits(4000, 1000);
        assert!(matches!(starts.next(whole, beyond), Next::Hopeless(failure) if failure.cause == "length_limit"));
    }
}
