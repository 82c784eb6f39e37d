//! The bounds that an engine reports, and the starts that failed.
//!
//! [`EngineBounds`] explains why a request was not served in full: memory, or a configured length. [`StartHistory`]
//! chooses the limits of the next start: enough for a point and, if memory allows, for the whole search range.
//! [`BoundsReport`] passes both to the search, as predictions and not as proof.

use serde::{Deserialize, Serialize};

use crate::boundary::{BoundsReport, Cause, NextStart};
use crate::engine::adapter::FailureRule;
use crate::run::{Evidence, Limits};

/// Bounds in tokens; `None` if the engine does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineBounds {
    /// KV cache size.
    pub(crate) kv_tokens: Option<u64>,
    /// Longest input and output together.
    pub(crate) max_model_len: Option<u64>,
    /// Longest input.
    pub(crate) max_input: Option<u64>,
    /// The length limit that the engine chose for lack of memory.
    pub(crate) fitted: Option<u64>,
    /// The sequences for whose recurrent state there is room.
    pub(crate) sequences: Option<u64>,
    /// KV cache size of the smallest of several engines behind one address, if they differ.
    pub(crate) smallest: Option<u64>,
}

/// A bound that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// [`Cause::KvCache`] or [`Cause::LengthLimit`].
    pub(crate) cause: Cause,
    /// One sentence for the user.
    pub(crate) message: String,
}

impl EngineBounds {
    /// The bound that explains why a request of this size is not served in full; the lowest if several do. Engines
    /// reserve one token of a bound (llama.cpp) or two (`SGLang`), so nearly reaching it is enough.
    pub(crate) fn bound(&self, requested: &Limits) -> Option<Bound> {
        let total = requested.total;
        let reached = |bound: Option<u64>| bound.filter(|bound| *bound <= total.saturating_add(1));
        let kv_cache = |message: String| Bound {
            cause: Cause::KvCache,
            message,
        };
        let limit = |what: &str, bound: u64| Bound {
            cause: Cause::LengthLimit,
            message: format!("its {what} is {bound} tokens"),
        };
        let fitted = reached(self.fitted);
        let pool = reached(self.kv_tokens).filter(|pool| self.max_model_len.is_none_or(|longest| *pool < longest));
        let input = self.max_input.filter(|longest| *longest < requested.input);
        fitted
            .map(|fitted| kv_cache(format!("its memory allows a length of {fitted} tokens")))
            .or_else(|| pool.map(|pool| kv_cache(format!("its KV cache holds {pool} tokens"))))
            .or_else(|| reached(self.max_model_len).map(|longest| limit("longest context", longest)))
            .or_else(|| input.map(|longest| limit("longest input", longest)))
    }

    /// Learns the limits that a refusal states, from the groups `limit` and `input_limit` of the rules.
    pub(crate) fn learn(&mut self, rules: &[FailureRule], refusal: &str) {
        for groups in rules.iter().filter_map(|rule| rule.pattern.captures(refusal)) {
            let stated = |name: &str| groups.name(name)?.as_str().parse().ok();
            self.max_model_len = stated("limit").or(self.max_model_len);
            self.max_input = stated("input_limit").or(self.max_input);
        }
    }

    /// The bound that explains why an output ended after `output` tokens. TGI feeds its output back as input in slices,
    /// so its longest input limits the output too.
    pub(crate) fn bound_of_output(&self, requested: &Limits, output: u64) -> Option<Bound> {
        self.bound(requested).or_else(|| {
            let longest = self
                .max_input
                .filter(|longest| requested.input.saturating_add(output) > *longest)?;
            Some(Bound {
                cause: Cause::LengthLimit,
                message: format!("its longest input is {longest} tokens, and what it produced becomes input"),
            })
        })
    }
}

/// Combines the bounds of the running start with those of failed starts; `None` if there are none. `started` are
/// the limits requested at the start; `None` if it is not ours. A length that the engine states is a bound of its own
/// unless it is the requested one.
pub(crate) fn bounds_report(
    reported: &EngineBounds,
    block: Option<u64>,
    starts: &StartHistory,
    started: Option<Limits>,
) -> Option<BoundsReport> {
    let is_own = |stated: &u64| started.is_none_or(|asked| *stated < asked.total && reported.fitted.is_none());
    let report = BoundsReport {
        // A KV cache exactly as large as the configured length says nothing about memory, unless memory set that
        // length.
        tokens: reported.kv_tokens.filter(|tokens| {
            let is_fitted = reported.fitted == Some(*tokens) || starts.memory_allows(*tokens);
            reported.max_model_len != Some(*tokens) || is_fitted
        }),
        block,
        longest: [reported.fitted, starts.estimate()].into_iter().flatten().min(),
        longest_input: reported.max_input,
        sequences: [reported.sequences, starts.state_slots()].into_iter().flatten().min(),
        max_model_len: reported.max_model_len.filter(is_own),
        length: None,
    };
    // Tokens that are no whole number of blocks are those of requests of the configured length.
    let in_part = report
        .tokens
        .zip(block)
        .is_some_and(|(tokens, block)| block > 0 && tokens % block > 0);
    let report = BoundsReport {
        length: reported.max_model_len.filter(|_| in_part),
        ..report
    };
    let bounds = [
        report.tokens,
        report.longest,
        report.longest_input,
        report.max_model_len,
        report.sequences,
    ];
    bounds.iter().any(Option::is_some).then_some(report)
}

/// A failed start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartFailure {
    pub(crate) limits: Limits,
    pub(crate) cause: Cause,
    /// The longest context that would fit, according to the engine.
    pub(crate) longest: Option<u64>,
    /// The engine's version, by its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    pub(crate) evidence: Evidence,
}

impl StartFailure {
    /// The remedy: the adapter's, otherwise that of the cause.
    pub(crate) fn remedy(&self) -> &str {
        const UNKNOWN: &str =
            "fix the cause in its last log lines; if it ran out of memory, ask for shorter or fewer requests";
        let known = self.evidence.remedy.as_deref();
        known.or_else(|| self.cause.remedy()).unwrap_or(UNKNOWN)
    }

    /// Whether another start with the same limits would fail the same way.
    pub(crate) fn is_permanent(&self) -> bool {
        self.cause.next_start() == NextStart::Fails
    }

    /// Whether the same start may succeed a little later.
    pub(crate) fn may_pass(&self) -> bool {
        self.cause.next_start() == NextStart::MayPass
    }

    /// Whether a start with these limits would fail the same way: they are no smaller, or too long by the engine's own
    /// estimate.
    fn repeats(&self, limits: &Limits) -> bool {
        limits.cover(&self.limits) || self.rules_out(limits)
    }

    /// The sequences for whose recurrent state there is room, as the engine states.
    fn state_slots(&self) -> Option<u64> {
        self.evidence.limit.as_ref().map(|limit| limit.concurrency)
    }

    /// Whether limits are too large by the engine's own figures. An estimated length from memory holds only for the same
    /// concurrency or more, because fewer sequences leave more room.
    fn rules_out(&self, limits: &Limits) -> bool {
        let longer = self.longest.is_some_and(|longest| longest < limits.total);
        longer && (self.cause == Cause::LengthLimit || limits.concurrency >= self.limits.concurrency)
            || self.state_slots().is_some_and(|slots| slots < limits.concurrency)
    }

    /// Whether only the engine's own figures say that a start with these limits fails.
    pub(crate) fn is_foreseen(&self, limits: &Limits) -> bool {
        !limits.cover(&self.limits) && self.rules_out(limits)
    }

    /// The failure as the answer for a point that no start serves. If the failed start had larger limits than the point
    /// needs, the engine's own estimate rules the point out.
    pub(crate) fn for_point(&self, requested: &Limits) -> Self {
        let mut failure = self.clone();
        failure.evidence.reported = self.longest.filter(|_| !requested.cover(&self.limits));
        failure
    }
}

/// The starts of an engine so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartHistory {
    /// Failures that would repeat, of all engines of this kind.
    pub(crate) failed: Vec<StartFailure>,
    /// Whether any start became ready. Otherwise a failure without a known cause is likely to repeat.
    pub(crate) served: bool,
    /// KV cache size in tokens of the newest start.
    pub(crate) kv_tokens: Option<u64>,
}

impl StartHistory {
    /// Records a successful start and its KV cache size.
    pub(crate) fn serves(&mut self, kv_tokens: Option<u64>) {
        self.served = true;
        self.kv_tokens = kv_tokens.or(self.kv_tokens);
    }

    /// The longest context that would fit, according to failed starts: the minimum of their estimates.
    pub(crate) fn estimate(&self) -> Option<u64> {
        self.failed.iter().filter_map(|failure| failure.longest).min()
    }

    /// The version that the log of a failed start has.
    pub(crate) fn version(&self) -> Option<String> {
        self.failed.iter().find_map(|failure| failure.version.clone())
    }

    /// Whether a start failed for lack of memory and estimated that a context of exactly this length would fit.
    pub(crate) fn memory_allows(&self, longest: u64) -> bool {
        let failed = self.failed.iter().filter(|failure| failure.cause == Cause::Memory);
        failed.filter_map(|failure| failure.longest).min() == Some(longest)
    }

    /// The fewest sequences for whose recurrent state failed starts had room.
    pub(crate) fn state_slots(&self) -> Option<u64> {
        self.failed.iter().filter_map(StartFailure::state_slots).min()
    }

    /// The largest limits that serve `requested` and are not known to fail. Tries the whole search range, then the
    /// engine's own figures, then the KV cache size of the newest start, then exactly the point. The error is the
    /// failure that shows that no start serves the point: a start that was tried or, with `use_report`, the engine's
    /// estimate.
    pub(crate) fn next(
        &self,
        whole: Limits,
        requested: Limits,
        use_report: bool,
    ) -> std::result::Result<Limits, &StartFailure> {
        if self.known_failure(&whole).is_none() {
            return Ok(whole);
        }
        // Use the smallest estimate of all failures that rule out the whole range.
        let repeated = || self.failed.iter().filter(|failure| failure.repeats(&whole));
        let estimate = repeated().filter_map(|failure| failure.longest).min();
        // One start with the sequences that the engine stated: if that fails too, its figure is no help.
        let mut stated = repeated().filter_map(StartFailure::state_slots);
        let slots = stated.next().filter(|_| stated.next().is_none());
        let fewer = Limits {
            concurrency: slots.unwrap_or(whole.concurrency),
            ..whole
        };
        // All sequences share the KV cache. Some engines make it only as large as the requested length.
        let kv_tokens = self.kv_tokens.map(|kv_tokens| kv_tokens / fewer.concurrency.max(1));
        let shorter = [estimate, kv_tokens]
            .into_iter()
            .flatten()
            .map(|longest| fewer.capped(longest));
        let not_shorter = (slots.is_some() && estimate.is_none()).then_some(fewer);
        for limits in not_shorter
            .into_iter()
            .chain(shorter)
            .filter(|limits| limits.cover(&requested))
        {
            if self.known_failure(&limits).is_none() {
                return Ok(limits);
            }
        }
        let tried = self.failed.iter().find(|failure| requested.cover(&failure.limits));
        let ruled_out = || {
            self.failed
                .iter()
                .find(|failure| use_report && failure.rules_out(&requested))
        };
        tried.or_else(ruled_out).map_or(Ok(requested), Err)
    }

    /// The failure that a start with these limits would repeat.
    fn known_failure(&self, limits: &Limits) -> Option<&StartFailure> {
        self.failed.iter().find(|failure| failure.repeats(limits))
    }
}

#[cfg(test)]
mod bounds_tests {
    use super::*;

    const REQUESTED: Limits = Limits {
        input: 600,
        output: 400,
        total: 1000,
        concurrency: 1,
    };

    fn cause(reported: EngineBounds) -> Option<Cause> {
        reported.bound(&REQUESTED).map(|bound| bound.cause)
    }

    #[test]
    fn the_lower_bound_is_the_one_that_holds() {
        let of = |kv_tokens, max_model_len| {
            cause(EngineBounds {
                kv_tokens,
                max_model_len,
                ..EngineBounds::default()
            })
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(5000), Some(2000)), None);
        assert_eq!(of(Some(900), Some(2000)), Some(Cause::KvCache));
        assert_eq!(of(Some(1000), None), Some(Cause::KvCache), "one token is kept");
        assert_eq!(of(Some(5000), Some(900)), Some(Cause::LengthLimit));
        assert_eq!(of(Some(900), Some(800)), Some(Cause::LengthLimit));
        // A KV cache exactly as large as the configured length says nothing about memory.
        assert_eq!(of(Some(900), Some(900)), Some(Cause::LengthLimit));
    }

    #[test]
    fn a_length_that_the_engine_shrank_for_memory_is_memory() {
        let shrunk = EngineBounds {
            kv_tokens: Some(900),
            max_model_len: Some(900),
            fitted: Some(900),
            ..EngineBounds::default()
        };
        assert_eq!(cause(shrunk), Some(Cause::KvCache));
    }

    #[test]
    fn the_longest_input_bounds_inputs_and_what_becomes_input() {
        let of = |max_input| EngineBounds {
            max_input: Some(max_input),
            max_model_len: Some(4096),
            ..EngineBounds::default()
        };
        assert_eq!(cause(of(599)), Some(Cause::LengthLimit));
        assert_eq!(cause(of(600)), None);
        assert_eq!(of(900).bound_of_output(&REQUESTED, 300), None);
        let bound = of(900).bound_of_output(&REQUESTED, 301).unwrap();
        assert_eq!(bound.cause, Cause::LengthLimit);
    }
}

#[cfg(test)]
mod report_tests {
    use super::StartFailure;
    use super::*;

    #[test]
    fn only_bounds_of_its_own_are_reported() {
        let bounds = |kv_tokens, fitted| EngineBounds {
            kv_tokens,
            max_model_len: Some(4096),
            fitted,
            ..EngineBounds::default()
        };
        let asked = |total| {
            Some(Limits {
                total,
                ..Limits::SMALLEST
            })
        };
        let failed = |cause: &str, longest| StartHistory {
            failed: vec![StartFailure {
                limits: Limits::SMALLEST,
                cause: cause.into(),
                longest: Some(longest),
                version: None,
                evidence: Evidence::default(),
            }],
            ..StartHistory::default()
        };
        let none = StartHistory::default();
        assert_eq!(bounds_report(&bounds(None, None), Some(16), &none, asked(4096)), None);
        assert_eq!(bounds_report(&bounds(Some(4096), None), None, &none, asked(4096)), None);
        let report = bounds_report(
            &bounds(Some(9000), Some(4096)),
            Some(16),
            &failed("memory", 5000),
            asked(4096),
        )
        .unwrap();
        assert_eq!(
            (report.tokens, report.block, report.longest),
            (Some(9000), Some(16), Some(4096))
        );
        let of = |starts| {
            let report = bounds_report(&bounds(Some(4096), None), None, &starts, asked(4096)).unwrap();
            (report.tokens, report.longest)
        };
        assert_eq!(
            of(failed("memory", 4096)),
            (Some(4096), Some(4096)),
            "memory set that length"
        );
        assert_eq!(of(failed("length_limit", 4096)), (None, Some(4096)));
        let attached = bounds_report(&bounds(None, None), None, &none, None).unwrap();
        assert_eq!((attached.max_model_len, attached.longest), (Some(4096), None));
        let own = bounds_report(&bounds(None, None), None, &none, asked(9000)).unwrap();
        assert_eq!(own.max_model_len, Some(4096), "it states less than it was asked for");
    }
}

#[cfg(test)]
mod start_tests {
    use super::*;
    use crate::run::SlotLimit;

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
            version: None,
            evidence: Evidence::default(),
        }
    }

    #[test]
    fn the_box_comes_first_then_the_estimate_then_the_point() {
        let (whole, requested) = (limits(8000, 8000), limits(100, 100));
        let mut starts = StartHistory::default();
        assert_eq!(starts.next(whole, requested, true), Ok(whole));
        starts.failed.push(failure(whole, "memory", Some(5000)));
        let capped = whole.capped(5000);
        assert_eq!(starts.next(whole, requested, true), Ok(capped));
        starts.failed.push(failure(capped, "memory", None));
        assert_eq!(starts.next(whole, requested, true), Ok(requested));
        starts.failed.push(failure(requested, "memory", None));
        assert!(starts.next(whole, requested, true).is_err());
    }

    #[test]
    fn a_point_beyond_the_engines_own_estimate_costs_no_start() {
        let (whole, requested) = (limits(8000, 8000), limits(6000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", Some(5000)));
        let Err(known_failure) = starts.next(whole, requested, true) else {
            panic!("a start for {requested}")
        };
        assert_eq!(known_failure.for_point(&requested).evidence.reported, Some(5000));
        assert!(starts.next(limits(7000, 9), limits(7000, 9), true).is_err());
        assert_eq!(starts.next(whole, requested, false), Ok(requested));
    }

    #[test]
    fn a_start_that_was_tried_says_more_than_an_estimate() {
        let (whole, requested) = (limits(8000, 8000), limits(6000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", Some(5000)));
        starts.failed.push(failure(requested, "memory", None));
        for use_report in [true, false] {
            let known_failure = starts.next(whole, requested, use_report).unwrap_err();
            assert_eq!(known_failure.for_point(&requested).evidence.reported, None);
        }
    }

    #[test]
    fn stated_slots_are_taken_up_once() {
        let many = |concurrency| Limits {
            concurrency,
            ..limits(500, 60)
        };
        let refused = |concurrency, slots| {
            let mut failure = failure(many(concurrency), "memory", None);
            failure.evidence.limit = Some(SlotLimit {
                concurrency: slots,
                by: "state_slots".to_owned(),
            });
            failure
        };
        let mut starts = StartHistory::default();
        starts.failed.push(refused(1024, 191));
        assert_eq!(starts.next(many(1024), many(7), true), Ok(many(191)));
        assert_eq!(starts.next(many(1024), many(191), true), Ok(many(191)));
        assert!(starts.next(many(1024), many(1024), true).is_err(), "as it was tried");
        let foreseen = starts.next(many(1024), many(192), true).unwrap_err();
        assert!(foreseen.is_foreseen(&many(192)) && !foreseen.is_foreseen(&many(1024)));
        assert_eq!(starts.next(many(1024), many(192), false), Ok(many(192)));
        assert_eq!(starts.state_slots(), Some(191));
        starts.failed.push(refused(191, 190));
        assert_eq!(starts.next(many(1024), many(7), true), Ok(many(7)), "only once");
    }

    #[test]
    fn slots_and_an_estimated_length_are_taken_up_together() {
        let whole = Limits {
            concurrency: 1024,
            ..limits(8000, 8000)
        };
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", Some(5000)));
        let mut failure = failure(whole.capped(5000), "memory", None);
        failure.evidence.limit = Some(SlotLimit {
            concurrency: 191,
            by: "state_slots".to_owned(),
        });
        starts.failed.push(failure);
        let fewer = Limits {
            concurrency: 191,
            ..whole
        };
        assert_eq!(starts.next(whole, limits(100, 100), true), Ok(fewer.capped(5000)));
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
        assert_eq!(starts.next(whole, requested, true), Ok(requested));
        assert!(starts.next(whole, many(requested), true).is_err());
    }

    #[test]
    fn the_pool_of_a_start_that_served_widens_the_next() {
        let (whole, requested) = (limits(8000, 8000), limits(3000, 100));
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "memory", None));
        starts.serves(Some(5000));
        assert_eq!(starts.next(whole, requested, true), Ok(whole.capped(5000)));
        let beyond = limits(5000, 1);
        assert_eq!(
            starts.next(whole, beyond, true),
            Ok(beyond),
            "the pool is no word on it"
        );
        starts.failed.push(failure(whole.capped(5000), "memory", None));
        assert_eq!(starts.next(whole, requested, true), Ok(requested));
    }

    #[test]
    fn more_than_what_failed_is_not_tried_and_less_is() {
        let mut starts = StartHistory::default();
        starts.failed.push(failure(limits(1000, 1000), "memory", None));
        let harder = limits(2000, 1000);
        assert!(starts.next(harder, harder, true).is_err());
        let easier = limits(900, 1000);
        assert_eq!(starts.next(easier, easier, true), Ok(easier));
    }

    #[test]
    fn a_length_limit_is_final_beyond_it() {
        let whole = limits(8000, 8000);
        let mut starts = StartHistory::default();
        starts.failed.push(failure(whole, "length_limit", Some(4096)));
        assert_eq!(starts.next(whole, limits(1000, 1000), true), Ok(whole.capped(4096)));
        let beyond = limits(4000, 1000);
        assert!(matches!(starts.next(whole, beyond, true), Err(failure) if failure.cause == Cause::LengthLimit));
    }
}
