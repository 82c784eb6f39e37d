//! The limits that one start must serve, how they are chosen, the bounds that the engine reports in turn, and request
//! timeouts.
//!
//! [`Limits`] come from a boundary's search range or a single point. [`StartHistory`] chooses those of the next start: enough
//! for a point and, if memory allows, for the whole search range. [`EngineBounds`] explain why a request was not served in
//! full: memory, or a configured length. [`BoundsReport`] hands them to the search, as predictions and not as proof.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FailureRule, Limits};
use crate::boundary::{BoundsReport, Cause, Point};
use crate::fault::{Fault, Result};
use crate::run::Evidence;

impl Limits {
    pub(super) const SMALLEST: Self = Self::new(1, 1, 1);

    pub(super) const fn new(input: u64, output: u64, concurrency: u64) -> Self {
        Self {
            input,
            output,
            total: input.saturating_add(output),
            concurrency,
        }
    }

    /// Limits for exactly this point.
    ///
    /// # Errors
    ///
    /// `usage` if the point has no `input` or `output`, or a value below 1.
    pub fn of_point(point: &Point) -> Result<Self> {
        let axis = |name: &str, default: Option<i64>| {
            let value = match point.0.get(name) {
                Some(_) => point.int(name),
                None => default,
            };
            value
                .and_then(|value| u64::try_from(value).ok())
                .filter(|value| *value >= 1)
                .ok_or_else(|| {
                    Fault::usage(format!(
                        "the point ({point}) needs a whole number from 1 up as `{name}`"
                    ))
                    .hint("a point is `#{ input: 512, output: 128, concurrency: 1 }`")
                })
        };
        Ok(Self::new(
            axis("input", None)?,
            axis("output", None)?,
            axis("concurrency", Some(1))?,
        ))
    }

    /// The point that needs exactly these limits.
    pub(super) fn point(&self) -> Result<Point> {
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        Ok(Point::default()
            .with("input", whole(self.input)?)
            .with("output", whole(self.output)?)
            .with("concurrency", whole(self.concurrency)?))
    }

    /// The upper ends of `axes`, as passed to `boundary()`, enlarged to include `point`.
    pub(super) fn from_axes(axes: Option<&Value>, point: Self) -> Self {
        let highest = |name: &str, least: u64| {
            let ends = axes.and_then(|axes| ends(axes.get(name)?));
            ends.map_or(least, |(_, highest)| highest.max(least))
        };
        Self::new(
            highest("input", point.input),
            highest("output", point.output),
            highest("concurrency", point.concurrency),
        )
    }

    /// The lower ends of `axes`; `self` supplies missing axes.
    pub(super) fn lower_ends(self, axes: &Value) -> Self {
        let lowest = |name: &str, or: u64| axes.get(name).and_then(ends).map_or(or, |(lowest, _)| lowest);
        Self::new(
            lowest("input", self.input),
            lowest("output", self.output),
            lowest("concurrency", self.concurrency),
        )
    }

    /// Tokens in the KV cache when all requests are at their end.
    pub(super) fn resident(self) -> u64 {
        self.input.saturating_add(self.output).saturating_mul(self.concurrency)
    }

    /// Whether a start with these limits also serves `other`.
    pub fn cover(&self, other: &Self) -> bool {
        self.input >= other.input
            && self.output >= other.output
            && self.total >= other.total
            && self.concurrency >= other.concurrency
    }

    /// The same limits with at most `total` tokens per sequence.
    pub(super) fn capped(self, total: u64) -> Self {
        Self {
            input: self.input.min(total),
            output: self.output.min(total),
            total: self.total.min(total),
            concurrency: self.concurrency,
        }
    }

    /// The larger of each limit.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            total: self.total.max(other.total),
            concurrency: self.concurrency.max(other.concurrency),
        }
    }
}

/// `input=8192 output=4096 concurrency=1`, with `total=…` if it is less than input + output.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            input,
            output,
            total,
            concurrency,
        } = self;
        write!(f, "input={input} output={output} ")?;
        if *total < input.saturating_add(*output) {
            write!(f, "total={total} ")?;
        }
        write!(f, "concurrency={concurrency}")
    }
}

/// The lowest and the highest value of an axis, given as `[lowest, highest]` or with a `range`.
fn ends(axis: &Value) -> Option<(u64, u64)> {
    let range = axis.get("range").unwrap_or(axis).as_array()?;
    let values = || range.iter().filter_map(Value::as_f64);
    let highest = values().fold(f64::NEG_INFINITY, f64::max);
    let lowest = values().fold(f64::INFINITY, f64::min);
    (highest >= 1.0).then(|| (lowest.max(0.0).ceil() as u64, highest.ceil() as u64))
}

/// Bounds in tokens; `None` if the engine does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EngineBounds {
    /// KV cache size.
    pub(super) kv_tokens: Option<u64>,
    /// Longest input and output together.
    pub(super) max_model_len: Option<u64>,
    /// Longest input.
    pub(super) max_input: Option<u64>,
    /// The length to which the engine reduced itself for lack of memory.
    pub(super) fitted: Option<u64>,
}

/// A bound that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// [`Cause::KvCache`] or [`Cause::LengthLimit`].
    pub(super) cause: Cause,
    /// One sentence for the user.
    pub(super) message: String,
}

impl EngineBounds {
    /// The bound that explains why a request of this size is not served in full; the lowest if several do. Engines
    /// reserve one token of a bound (llama.cpp) or two (`SGLang`), so nearly reaching it is enough.
    pub(super) fn bound(&self, requested: &Limits) -> Option<Bound> {
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
    pub(super) fn learn(&mut self, rules: &[FailureRule], refusal: &str) {
        for groups in rules.iter().filter_map(|rule| rule.pattern.captures(refusal)) {
            let stated = |name: &str| groups.name(name)?.as_str().parse().ok();
            self.max_model_len = stated("limit").or(self.max_model_len);
            self.max_input = stated("input_limit").or(self.max_input);
        }
    }

    /// The bound that explains why an output ended after `output` tokens. TGI feeds its output back as input in slices,
    /// so its longest input limits the output too.
    pub(super) fn bound_of_output(&self, requested: &Limits, output: u64) -> Option<Bound> {
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

/// Combines the bounds of the running start with those of failed starts; `None` if there are none.
pub(super) fn bounds_report(
    reported: &EngineBounds,
    block: Option<u64>,
    starts: &StartHistory,
    attached: bool,
) -> Option<BoundsReport> {
    let report = BoundsReport {
        // A KV cache exactly as large as the configured length says nothing about memory, unless memory set that
        // length.
        tokens: reported
            .kv_tokens
            .filter(|tokens| reported.max_model_len != Some(*tokens) || starts.memory_allows(*tokens)),
        block,
        longest: [reported.fitted, starts.estimate()].into_iter().flatten().min(),
        longest_input: reported.max_input,
        max_model_len: reported.max_model_len.filter(|_| attached),
    };
    let bounds = [
        report.tokens,
        report.longest,
        report.longest_input,
        report.max_model_len,
    ];
    bounds.iter().any(Option::is_some).then_some(report)
}

/// Timeout as a multiple of the expected duration.
const TIMEOUT_FACTOR: f64 = 10.0;

/// Minimum timeout in seconds: the first request compiles kernels and fills caches.
pub(super) const MIN_TIMEOUT: f64 = 60.0;

/// Maximum timeout in seconds.
const MAX_TIMEOUT: f64 = 3600.0;

/// Assumed seconds per token before any request completed: those of a CPU.
const DEFAULT_PREFILL: f64 = 0.005;
const DEFAULT_DECODE: f64 = 0.1;

/// The slowest prefill and decode so far, in seconds per token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestSpeed {
    prefill: Option<f64>,
    decode: Option<f64>,
}

impl RequestSpeed {
    /// Records the speed of a completed request.
    pub(super) fn learn(&mut self, requested: &Limits, ttft_ms: Option<f64>, tpot_ms: Option<f64>) {
        let slower = |before: &mut Option<f64>, now: f64| *before = Some(before.unwrap_or(0.0).max(now));
        if let Some(ttft) = ttft_ms {
            slower(&mut self.prefill, ttft / 1e3 / requested.input as f64);
        }
        if let Some(tpot) = tpot_ms {
            slower(&mut self.decode, tpot / 1e3);
        }
    }

    /// Whether any request was completed.
    pub(super) fn is_known(&self) -> bool {
        self.prefill.is_some() || self.decode.is_some()
    }

    /// The timeout for `requested.concurrency` such requests. Their prefills may run one after another.
    pub(super) fn timeout(&self, requested: &Limits) -> Duration {
        let inputs = requested.input as f64 * requested.concurrency as f64;
        let prefill = self.prefill.unwrap_or(DEFAULT_PREFILL) * inputs;
        let usual = prefill + self.decode.unwrap_or(DEFAULT_DECODE) * requested.output as f64;
        Duration::from_secs_f64((TIMEOUT_FACTOR * usual).clamp(MIN_TIMEOUT, MAX_TIMEOUT))
    }
}

/// A failed start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StartFailure {
    pub(super) limits: Limits,
    pub(super) cause: Cause,
    /// The longest context that would fit, according to the engine.
    pub(super) longest: Option<u64>,
    pub(super) evidence: Evidence,
}

impl StartFailure {
    /// Whether another start with the same limits would fail the same way.
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self.cause, Cause::Memory | Cause::LengthLimit)
    }

    /// Whether the same start may succeed a little later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.cause, Cause::Port | Cause::GpuBusy | Cause::ForeignTenant)
    }

    /// Whether a start with these limits would fail the same way: they are no smaller, or too long by the engine's own
    /// estimate.
    fn repeats(&self, limits: &Limits) -> bool {
        limits.cover(&self.limits) || self.rules_out(limits)
    }

    /// Whether limits are too long by the engine's own estimate. One from memory only holds for at least as many sequences,
    /// because fewer leave more room.
    fn rules_out(&self, limits: &Limits) -> bool {
        let longer = self.longest.is_some_and(|longest| longest < limits.total);
        longer && (self.cause == Cause::LengthLimit || limits.concurrency >= self.limits.concurrency)
    }

    /// The failure as the answer for a point that no start serves. Where a start with smaller limits did not fail, it is the
    /// engine's estimate that rules the point out.
    pub(super) fn for_point(&self, requested: &Limits) -> Self {
        let mut failure = self.clone();
        failure.evidence.reported = self.longest.filter(|_| !requested.cover(&self.limits));
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
        let failed = self.failed.iter().filter(|failure| failure.cause == Cause::Memory);
        failed.filter_map(|failure| failure.longest).min() == Some(longest)
    }

    /// The largest limits that serve `requested` and are not known to fail. Tries the whole search range, then the
    /// engine's own estimate, then the KV cache size of the newest start, then exactly the point. The error is the failure
    /// that shows that no start serves the point: of a start that was tried, or with `use_report` by the engine's estimate.
    pub(super) fn next(
        &self,
        whole: Limits,
        requested: Limits,
        use_report: bool,
    ) -> std::result::Result<Limits, &StartFailure> {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(input: u64, output: u64, concurrency: u64) -> Limits {
        Limits {
            input,
            output,
            total: input + output,
            concurrency,
        }
    }

    #[test]
    fn a_point_without_concurrency_has_one_sequence() {
        let point = Point::default().with("input", 10).with("output", 3);
        assert_eq!(Limits::of_point(&point).unwrap(), limits(10, 3, 1));
    }

    #[test]
    fn an_impossible_point_is_named() {
        let point = Point::default().with("input", 10);
        assert!(Limits::of_point(&point).unwrap_err().message.contains("`output`"));
        let point = Point::default().with("input", 10).with("output", 0);
        assert!(Limits::of_point(&point).is_err());
    }

    #[test]
    fn the_box_takes_both_forms_of_an_axis_and_the_point() {
        let axes = json!({ "input": [128, 8192], "output": { "range": [1, 64] } });
        assert_eq!(Limits::from_axes(Some(&axes), limits(16, 100, 4)), limits(8192, 100, 4));
        assert_eq!(Limits::from_axes(None, limits(16, 100, 4)), limits(16, 100, 4));
    }

    #[test]
    fn covering_means_every_limit() {
        assert!(limits(10, 10, 2).cover(&limits(10, 9, 1)));
        assert!(!limits(10, 10, 2).cover(&limits(10, 9, 3)));
        assert!(!limits(10, 10, 2).capped(12).cover(&limits(10, 9, 1)));
    }

    #[test]
    fn the_total_is_shown_where_it_limits() {
        assert_eq!(limits(10, 8, 2).to_string(), "input=10 output=8 concurrency=2");
        assert_eq!(
            limits(10, 8, 2).capped(12).to_string(),
            "input=10 output=8 total=12 concurrency=2"
        );
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
            max_input: None,
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
            max_input: None,
        };
        let failed = |cause: &str, longest| StartHistory {
            failed: vec![StartFailure {
                limits: Limits::SMALLEST,
                cause: cause.into(),
                longest: Some(longest),
                evidence: Evidence::default(),
            }],
            ..StartHistory::default()
        };
        let none = StartHistory::default();
        assert_eq!(bounds_report(&bounds(None, None), Some(16), &none, false), None);
        assert_eq!(bounds_report(&bounds(Some(4096), None), None, &none, false), None);
        let report = bounds_report(
            &bounds(Some(9000), Some(4096)),
            Some(16),
            &failed("memory", 5000),
            false,
        )
        .unwrap();
        assert_eq!(
            (report.tokens, report.block, report.longest),
            (Some(9000), Some(16), Some(4096))
        );
        let of = |starts| {
            let report = bounds_report(&bounds(Some(4096), None), None, &starts, false).unwrap();
            (report.tokens, report.longest)
        };
        assert_eq!(
            of(failed("memory", 4096)),
            (Some(4096), Some(4096)),
            "memory set that length"
        );
        assert_eq!(of(failed("length_limit", 4096)), (None, Some(4096)));
        let attached = bounds_report(&bounds(None, None), None, &none, true).unwrap();
        assert_eq!((attached.max_model_len, attached.longest), (Some(4096), None));
    }
}

#[cfg(test)]
mod speed_tests {
    use super::*;

    fn requested(input: u64, output: u64, concurrency: u64) -> Limits {
        Limits {
            input,
            output,
            total: input + output,
            concurrency,
        }
    }

    #[test]
    fn short_requests_have_a_minute_and_none_has_more_than_an_hour() {
        assert_eq!(RequestSpeed::default().timeout(&requested(1, 1, 1)).as_secs(), 60);
        assert_eq!(
            RequestSpeed::default()
                .timeout(&requested(1_000_000, 100_000, 64))
                .as_secs(),
            3600
        );
    }

    #[test]
    fn a_fast_engine_is_not_waited_for_as_if_it_were_a_cpu() {
        let mut speed = RequestSpeed::default();
        speed.learn(&requested(1000, 64, 1), Some(100.0), Some(20.0));
        assert_eq!(speed.timeout(&requested(63_280, 64, 1)).as_secs(), 76);
    }

    #[test]
    fn a_slow_engine_gets_more_time() {
        let mut speed = RequestSpeed::default();
        let before = speed.timeout(&requested(1000, 1000, 1));
        speed.learn(&requested(100, 10, 1), Some(1000.0), Some(250.0));
        let after = speed.timeout(&requested(1000, 1000, 1));
        assert!(
            before.as_secs() == 1050 && after.as_secs() == 2600,
            "{before:?} {after:?}"
        );
    }
}

#[cfg(test)]
mod start_tests {
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
