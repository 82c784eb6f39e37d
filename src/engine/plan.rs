//! Chooses the limits to start an engine with: enough for a point and, if memory allows, for the whole search range.

use serde::{Deserialize, Serialize};

use super::Limits;
use super::answer::Evidence;

/// A failed start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StartFailure {
    pub(super) limits: Limits,
    /// `memory`, `length_limit`, or another reason.
    pub(super) cause: String,
    /// The longest context that would fit, according to the engine.
    pub(super) longest: Option<u64>,
    pub(super) evidence: Evidence,
}

impl StartFailure {
    /// Whether another start with the same limits would fail the same way.
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self.cause.as_str(), "memory" | "length_limit")
    }

    /// Whether the same start may succeed a little later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.cause.as_str(), "port" | "gpu_busy" | "foreign_tenant")
    }

    /// Whether a start with these limits would fail the same way: they are no smaller, or too long by the engine's own
    /// estimate. An estimate from memory only holds for at least as many sequences, because fewer leave more room.
    fn repeats(&self, limits: &Limits) -> bool {
        limits.cover(&self.limits) || self.rules_out(limits)
    }

    fn rules_out(&self, limits: &Limits) -> bool {
        let longer = self.longest.is_some_and(|longest| longest < limits.total);
        longer && (self.cause == "length_limit" || limits.concurrency >= self.limits.concurrency)
    }

    /// The failure as the answer for a point that it rules out.
    pub(super) fn of_point(&self, requested: &Limits) -> Self {
        let mut failure = self.clone();
        if let Some(longest) = self.longest
            && !requested.cover(&self.limits)
        {
            let message = failure.evidence.message.unwrap_or_default();
            let said = format!(
                "{message}; the engine itself says that {longest} tokens would fit, and {} do not",
                requested.total
            );
            failure.evidence.message = Some(said);
        }
        failure
    }
}

/// The starts of an engine so far.
#[derive(Clone, Debug, Default)]
pub(super) struct StartHistory {
    /// Those that would repeat, of all engines of the kind.
    pub(super) failed: Vec<StartFailure>,
    /// Whether any start became ready. Otherwise a failure without a known cause is likely to repeat.
    pub(super) served: bool,
    /// KV cache size in tokens of the newest start.
    pub(super) kv_tokens: Option<u64>,
}

impl StartHistory {
    /// Records a successful start and its KV cache size.
    pub(super) fn serves(&mut self, kv_tokens: Option<u64>) {
        self.served = true;
        self.kv_tokens = kv_tokens.or(self.kv_tokens);
    }

    /// The longest context that would fit, according to failed starts: the minimum of their estimates.
    pub(super) fn estimate(&self) -> Option<u64> {
        self.failed.iter().filter_map(|failure| failure.longest).min()
    }

    /// Whether a start failed for lack of memory and estimated that a context of just this length would fit.
    pub(super) fn memory_allows(&self, longest: u64) -> bool {
        let failed = self.failed.iter().filter(|failure| failure.cause == "memory");
        failed.filter_map(|failure| failure.longest).min() == Some(longest)
    }

    /// The largest limits that serve `requested` and are not known to fail. Tries the whole search range, then the
    /// engine's own estimate, then the KV cache size of the newest start, then exactly the point. The error is the failure
    /// that shows that no start serves the point.
    pub(super) fn next(&self, whole: Limits, requested: Limits) -> Result<Limits, &StartFailure> {
        if self.known_failure(&whole).is_none() {
            return Ok(whole);
        }
        // Of all failures that rule out the whole range, the smallest estimate holds.
        let repeated = self.failed.iter().filter(|failure| failure.repeats(&whole));
        let estimate = repeated.filter_map(|failure| failure.longest).min();
        // All sequences share the KV cache. Some engines make it only as large as the requested length.
        let kv_tokens = self.kv_tokens.map(|kv_tokens| kv_tokens / whole.concurrency.max(1));
        let wider = [estimate, kv_tokens]
            .into_iter()
            .flatten()
            .map(|longest| whole.capped(longest));
        for limits in wider.filter(|limits| limits.cover(&requested)) {
            if self.known_failure(&limits).is_none() {
                return Ok(limits);
            }
        }
        match self.known_failure(&requested) {
            None => Ok(requested),
            Some(failure) => Err(failure),
        }
    }

    /// The failure that a start with these limits would repeat.
    fn known_failure(&self, limits: &Limits) -> Option<&StartFailure> {
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
        let (whole, requested) = (limits(8000, 8000), limits(100, 100));
        let mut starts = StartHistory::default();
        assert_eq!(starts.next(whole, requested), Ok(whole));
        starts.failed.push(failure(whole, "memory", Some(5000)));
        let capped = whole.capped(5000);
        assert_eq!(starts.next(whole, requested), Ok(capped));
        starts.failed.push(failure(capped, "memory", None));
        assert_eq!(starts.next(whole, requested), Ok(requested));
        starts.failed.push(failure(requested, "memory", None));
        assert!(starts.next(whole, requested).is_err());
    }

    #[test]
    fn a_point_beyond_the_engines_own_estimate_costs_no_start() {
        let (whole, requested) = (limits(8000, 8000), limits(6000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", Some(5000)));
        let Err(known_failure) = starts.next(whole, requested) else {
            panic!("a start for {requested}")
        };
        let message = known_failure.of_point(&requested).evidence.message.unwrap();
        assert!(message.contains("5000") && message.contains("6100"), "{message}");
        assert!(starts.next(limits(7000, 9), limits(7000, 9)).is_err());
    }

    #[test]
    fn an_estimate_for_more_sequences_says_nothing_of_fewer() {
        let many = |limits: Limits| Limits {
            concurrency: 64,
            ..limits
        };
        let (whole, requested) = (many(limits(8000, 8000)), limits(6000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", Some(5000)));
        assert_eq!(starts.next(whole, requested), Ok(requested));
        assert!(starts.next(whole, many(requested)).is_err());
    }

    #[test]
    fn the_pool_of_a_start_that_served_widens_the_next() {
        let (whole, requested) = (limits(8000, 8000), limits(3000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", None));
        starts.serves(Some(5000));
        assert_eq!(starts.next(whole, requested), Ok(whole.capped(5000)));
        let beyond = limits(5000, 1);
        assert_eq!(starts.next(whole, beyond), Ok(beyond), "the pool is no word on it");
        starts.failed.push(failure(whole.capped(5000), "memory", None));
        assert_eq!(starts.next(whole, requested), Ok(requested));
    }

    #[test]
    fn more_than_what_failed_is_not_tried_and_less_is() {
        let mut starts = StartHistory::default();
        starts.failed.push(failure(limits(1000, 1000), "memory", None));
        let harder = limits(2000, 1000);
        assert!(starts.next(harder, harder).is_err());
        let easier = limits(900, 1000);
        assert_eq!(starts.next(easier, easier), Ok(easier));
    }

    #[test]
    fn a_length_limit_is_final_beyond_it() {
        let whole = limits(8000, 8000);
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "length_limit", Some(4096)));
        assert_eq!(starts.next(whole, limits(1000, 1000)), Ok(whole.capped(4096)));
        let beyond = limits(4000, 1000);
        assert!(matches!(starts.next(whole, beyond), Err(failure) if failure.cause == "length_limit"));
    }
}
