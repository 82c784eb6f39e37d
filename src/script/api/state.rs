//! Script API of the state of a search, which the steps of `std/search/steps` pass on, and of its costs.

use rhai::plugin::*;
use rhai::{Array, FnPtr, ImmutableString, Map};

use super::boundary::{from_point, maybe, points_of, to_point};
use crate::boundary::Point;
use crate::cost::Costs;
use crate::fault::Fault;
use crate::script::boundary::BoundaryHandle;
use crate::script::search::Search;
use crate::script::{self, Caught, begin_call, from_script};

/// The probe as `std/search/steps` makes it.
fn probe_of(search: &Search, point: &Point) -> Dynamic {
    Map::from([
        ("point".into(), from_point(point)),
        ("probe".into(), Dynamic::from(search.probe.clone())),
    ])
    .into()
}

/// The state of a search: what was probed and what it cost, what is in flight, and why the search ended.
#[export_module]
pub mod state {
    /// A search over `map` that has not probed anything yet. `probe` gets a point and returns its answer; `options` are
    /// all options of the search. Answers from before a resume count. `steps::begin` of `std/search/steps` checks the
    /// options and calls this.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.probes == 0 && search.stopped == "");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn search_state(context: NativeCallContext, map: BoundaryHandle, probe: FnPtr, options: Map) -> Caught<Search> {
        Ok(Search::new(&begin_call(&context), map, probe, options)?)
    }

    /// The boundary that is searched.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.map.axes().input.range == [1, 100]);
    /// ```
    #[rhai_fn(get = "map", pure)]
    pub fn map(search: &mut Search) -> BoundaryHandle {
        search.map.clone()
    }

    /// The options of the search, with their defaults.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{ max_probes: 5 });
    /// assert(search.options.max_probes == 5 && search.options.retries == 3);
    /// ```
    #[rhai_fn(get = "options", pure)]
    pub fn options(search: &mut Search) -> Map {
        search.options.clone()
    }

    /// Why the search ended; `""` while it is running. Set it to a reason of your own to end the search.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.stopped = "enough";
    /// assert(steps::probe(search, #{ input: 5 }).probes == 0);
    /// ```
    #[rhai_fn(get = "stopped", pure)]
    pub fn stopped(search: &mut Search) -> ImmutableString {
        search.stopped.clone()
    }

    /// Sets why the search ended.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.stopped = "enough";
    /// ```
    #[rhai_fn(set = "stopped")]
    pub fn set_stopped(search: &mut Search, why: ImmutableString) {
        search.stopped = why;
    }

    /// Number of probes so far, retries and those before a resume included.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(steps::probe(search, #{ input: 5 }).probes == 1);
    /// ```
    #[rhai_fn(get = "probes", pure)]
    pub fn probes(search: &mut Search) -> i64 {
        search.costs.total.probes
    }

    /// Does not count `n` probes: they were imported, not made.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 50 }, #{ verdict: "ok" });
    /// let search = steps::begin(map, |p| "ok", #{});
    /// search.discount(1);
    /// assert(search.probes == 0);
    /// ```
    pub fn discount(search: &mut Search, n: i64) {
        let probes = &mut search.costs.total.probes;
        *probes = probes.saturating_sub(n).max(0);
    }

    /// The cost of the probes so far: see `Costs`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", starts: 1, seconds: 9 }, #{});
    /// search = steps::probe(search, #{ input: 5 });
    /// assert(search.costs.starts == 1 && search.costs.seconds == 9.0);
    /// ```
    #[rhai_fn(get = "costs", pure)]
    pub fn costs(search: &mut Search) -> Costs {
        search.costs.clone()
    }

    /// The point that was probed last, `()` before the first probe.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.at == () && steps::probe(search, #{ input: 5 }).at == #{ input: 5 });
    /// ```
    #[rhai_fn(get = "at", pure)]
    pub fn at(search: &mut Search) -> Dynamic {
        maybe(search.engine.at.as_ref(), from_point)
    }

    /// Whether the next probe has to start the engine.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.engine_down && !steps::probe(search, #{ input: 5 }).engine_down);
    /// ```
    #[rhai_fn(get = "engine_down", pure)]
    pub fn engine_down(search: &mut Search) -> bool {
        search.engine.down
    }

    /// Sets whether the next probe has to start the engine.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.engine_down = false;
    /// ```
    #[rhai_fn(set = "engine_down")]
    pub fn set_engine_down(search: &mut Search, down: bool) {
        search.engine.down = down;
    }

    /// The newest report of the engine's bounds, as answers carry it; `()` if there is none.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let probe = |p| #{ verdict: "ok", report: #{ tokens: 6000 } };
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), probe, #{});
    /// assert(steps::probe(search, #{ input: 5 }).report.tokens == 6000);
    /// ```
    #[rhai_fn(get = "report", pure)]
    pub fn report(search: &mut Search) -> Dynamic {
        search.engine.report.clone()
    }

    /// The memory peaks of fitting points, for `memory_model`: `#{ point, peak, at_most }` with the peak in bytes. A
    /// peak that is not a new maximum is `at_most`, because engines do not return memory.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", peak: 7000 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).peaks == [#{ point: #{ input: 5 }, peak: 7000.0, at_most: false }]);
    /// ```
    #[rhai_fn(get = "peaks", pure)]
    pub fn peaks(search: &mut Search) -> Array {
        search.engine.peaks.samples.clone()
    }

    /// The prediction that was verified, as the result of a strategy has it; `()` if none was.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.predicted == ());
    /// ```
    #[rhai_fn(get = "predicted", pure)]
    pub fn predicted(search: &mut Search) -> Dynamic {
        search.limit.predicted.clone()
    }

    /// Sets the prediction that was verified.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.predicted = #{ why: "no limit is known", held: false };
    /// assert(steps::finish(search).predicted.held == false);
    /// ```
    #[rhai_fn(set = "predicted")]
    pub fn set_predicted(search: &mut Search, predicted: Dynamic) {
        search.limit.predicted = predicted;
    }

    /// The certificate of the verified limit, as the result of a strategy has it; `()` if none was verified.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.verified == ());
    /// ```
    #[rhai_fn(get = "verified", pure)]
    pub fn verified(search: &mut Search) -> Dynamic {
        search.limit.verified.clone()
    }

    /// Sets the certificate of the verified limit.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.verified = ();
    /// ```
    #[rhai_fn(set = "verified")]
    pub fn set_verified(search: &mut Search, verified: Dynamic) {
        search.limit.verified = verified;
    }

    /// Why verifying a fitted limit was given up, `()` if it was not.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.not_verified == ());
    /// ```
    #[rhai_fn(get = "not_verified", pure)]
    pub fn not_verified(search: &mut Search) -> Dynamic {
        search.limit.not_verified.clone()
    }

    /// Sets why verifying a fitted limit was given up.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.not_verified = "its answers contradict each other";
    /// ```
    #[rhai_fn(set = "not_verified")]
    pub fn set_not_verified(search: &mut Search, why: Dynamic) {
        search.limit.not_verified = why;
    }

    /// The longest request that the server stated when its report was verified; `()` if it stated none.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.stated == ());
    /// ```
    #[rhai_fn(get = "stated", pure)]
    pub fn stated(search: &mut Search) -> Dynamic {
        search.limit.stated.clone()
    }

    /// Sets the longest request that the server stated.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.stated = 8192;
    /// ```
    #[rhai_fn(set = "stated")]
    pub fn set_stated(search: &mut Search, stated: Dynamic) {
        search.limit.stated = stated;
    }

    /// Roughly how many probes verifying takes, `()` while nothing is being verified.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.left == ());
    /// ```
    #[rhai_fn(get = "left", pure)]
    pub fn left(search: &mut Search) -> Dynamic {
        maybe(search.left.as_ref(), |left| Dynamic::from(left.probes()))
    }

    /// Sets roughly how many probes verifying takes: a whole number (below 0 is 0), the `ahead` of `map.next_to_verify`, or
    /// `()`.
    ///
    /// # Errors
    ///
    /// `usage` for anything else.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.left = 4;
    /// assert(search.left == 4);
    /// ```
    #[rhai_fn(set = "left", return_raw)]
    pub fn set_left(search: &mut Search, left: Dynamic) -> Caught<()> {
        search.left = match left.as_int() {
            _ if left.is_unit() => None,
            Ok(count) => Some(search.usual_probes(count.max(0))),
            Err(_) => Some(script::options(left.try_cast_result::<Map>().map_err(|other| {
                Fault::usage(format!("`left` is a number of probes or what is ahead, not `{other}`"))
            })?)?),
        };
        Ok(())
    }

    /// Reports the progress to the user: the probes so far, and the time left by `left`. `steps` calls it before each
    /// probe, when the next step is known. It does nothing if no answer was recorded since.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::probe(steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{}), #{ input: 5 });
    /// search.left = 3;
    /// search.tell_progress();
    /// ```
    #[rhai_fn(return_raw)]
    pub fn tell_progress(context: NativeCallContext, search: &mut Search) -> Caught<()> {
        Ok(search.tell_progress(&begin_call(&context))?)
    }

    /// The points that are being probed.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(steps::probe(search, #{ input: 5 }).in_flight == []);
    /// ```
    #[rhai_fn(get = "in_flight", pure)]
    pub fn in_flight(search: &mut Search) -> Array {
        search.in_flight.iter().map(|probe| from_point(&probe.point)).collect()
    }

    /// Number of points in a row without a usable answer.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "timeout", #{ retries: 0 });
    /// assert(steps::probe(search, #{ input: 5 }).unanswered == 1);
    /// ```
    #[rhai_fn(get = "unanswered", pure)]
    pub fn unanswered(search: &mut Search) -> i64 {
        search.unanswered
    }

    /// Notes points that the strategy planned, such as corners or a grid, so that a resumed search does not take them
    /// for points that the rule for the next point chose.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.plan([#{ input: 5 }]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn plan(search: &mut Search, points: Array) -> Caught<()> {
        search.planned.extend(points_of(points)?);
        Ok(())
    }

    /// Number of points that the search chose one by one, by its rule or to verify a limit.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.chosen == 0);
    /// ```
    #[rhai_fn(get = "chosen", pure)]
    pub fn chosen(search: &mut Search) -> i64 {
        search.chosen
    }

    /// Sets the number of points that the search chose one by one.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.chosen += 1;
    /// ```
    #[rhai_fn(set = "chosen")]
    pub fn set_chosen(search: &mut Search, chosen: i64) {
        search.chosen = chosen;
    }

    /// Number of points that the rule for the next point chose, `next_points` of `std/search/choose`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.chosen_by_rule == 0);
    /// ```
    #[rhai_fn(get = "chosen_by_rule", pure)]
    pub fn chosen_by_rule(search: &mut Search) -> i64 {
        search.chosen_by_rule
    }

    /// Sets the number of points that the rule for the next point chose.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.chosen_by_rule += 1;
    /// ```
    #[rhai_fn(set = "chosen_by_rule")]
    pub fn set_chosen_by_rule(search: &mut Search, chosen: i64) {
        search.chosen_by_rule = chosen;
    }

    /// The number of points chosen one by one that ends the search, `()` for any number. The time left ends there.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.most_chosen == ());
    /// ```
    #[rhai_fn(get = "most_chosen", pure)]
    pub fn most_chosen(search: &mut Search) -> Dynamic {
        search.most_chosen.map_or(Dynamic::UNIT, Dynamic::from)
    }

    /// Sets the number of points chosen one by one that ends the search.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.most_chosen = 16;
    /// ```
    #[rhai_fn(set = "most_chosen")]
    pub fn set_most_chosen(search: &mut Search, most: Dynamic) {
        search.most_chosen = most.as_int().ok();
    }

    /// Number of points from before a resume that were chosen one by one: those that were not planned.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.chosen_before_resume() == search.map.resumed());
    /// ```
    #[rhai_fn(pure)]
    pub fn chosen_before_resume(search: &mut Search) -> i64 {
        search.chosen_before_resume()
    }

    /// The next probe to repeat after an inconclusive answer, `#{ point, probe }`; `()` if there is none.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.next_repeat() == ());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn next_repeat(search: &mut Search) -> Caught<Dynamic> {
        let point = search.next_repeat()?;
        Ok(maybe(point, |point| probe_of(search, &point)))
    }

    /// Number of points that an earlier execution of the run had sent, but not recorded, when it was killed.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.unrecorded == 0);
    /// ```
    #[rhai_fn(get = "unrecorded", pure)]
    pub fn unrecorded(search: &mut Search) -> i64 {
        search.unrecorded.len() as i64
    }

    /// Sends the next of these points, `#{ point, probe }`; `()` if there is none. Its answer may be in the journal.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.send_unrecorded() == ());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn send_unrecorded(search: &mut Search) -> Caught<Dynamic> {
        let point = search.send_unrecorded()?;
        Ok(maybe(point, |point| probe_of(search, &point)))
    }

    /// Sends a point: its answer is awaited. Returns `#{ point, probe }`. If its answer is recorded or follows from
    /// others, it is asked again, to see whether it holds.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(search.send(#{ input: 5 }).point == #{ input: 5 } && search.in_flight.len() == 1);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn send(context: NativeCallContext, search: &mut Search, point: Map) -> Caught<Dynamic> {
        let point = to_point(&point)?;
        search.send(&begin_call(&context), point.clone())?;
        Ok(probe_of(search, &point))
    }

    /// Counts the cost of the answer of a point in flight, and what it says of the engine. `seconds` is the duration of
    /// the probe, for an answer that states none. Returns whether the probe may be repeated: the answer is inconclusive,
    /// and not all retries were made. `repeat` or `record` then takes the answer.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// let item = search.send(#{ input: 5 });
    /// assert(search.count(item.point, "timeout", 60.0) && search.costs.seconds == 60.0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn count(search: &mut Search, point: Map, answer: Dynamic, seconds: f64) -> Caught<bool> {
        Ok(search.count(&to_point(&point)?, &from_script(&answer)?, seconds)?)
    }

    /// Repeats the probe whose answer was counted last.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.send(#{ input: 5 });
    /// search.count(#{ input: 5 }, "timeout", 60.0);
    /// search.repeat();
    /// assert(search.next_repeat().point == #{ input: 5 });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn repeat(search: &mut Search) -> Caught<()> {
        Ok(search.repeat()?)
    }

    /// Records the answer that was counted last, and reports the progress to the user. An answer that ended a server
    /// stops the search.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// search.send(#{ input: 5 });
    /// search.count(#{ input: 5 }, "ok", 0.1);
    /// search.record("ok");
    /// assert(search.map.classify(#{ input: 5 }) == "fits");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn record(context: NativeCallContext, search: &mut Search, answer: Dynamic) -> Caught<()> {
        search.record(&begin_call(&context), answer)
    }

    /// Number of engine starts so far.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", starts: 1 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.starts == 1);
    /// ```
    #[rhai_fn(get = "starts", pure)]
    pub fn starts(costs: &mut Costs) -> i64 {
        costs.total.starts
    }

    /// Seconds of all probes and their starts so far.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", seconds: 2 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.seconds == 2.0);
    /// ```
    #[rhai_fn(get = "seconds", pure)]
    pub fn seconds(costs: &mut Costs) -> f64 {
        costs.total.seconds
    }

    /// These seconds times the number of GPUs.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let probe = |p| #{ verdict: "ok", seconds: 2, gpus: 4 };
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), probe, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.gpu_seconds == 8.0);
    /// ```
    #[rhai_fn(get = "gpu_seconds", pure)]
    pub fn gpu_seconds(costs: &mut Costs) -> f64 {
        costs.total.gpu_seconds
    }

    /// Number of failures after which the engine had to be started.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let probe = |p| #{ verdict: if p.input < 50 { "ok" } else { "oom" }, starts: 1 };
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), probe, #{});
    /// assert(steps::probe_corners(search).costs.deaths == 1);
    /// ```
    #[rhai_fn(get = "deaths", pure)]
    pub fn deaths(costs: &mut Costs) -> i64 {
        costs.deaths
    }

    /// Whether a request was served without a start, so that its duration is known.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| "ok", #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.has_served);
    /// ```
    #[rhai_fn(get = "has_served", pure)]
    pub fn has_served(costs: &mut Costs) -> bool {
        costs.has_served()
    }

    /// Mean seconds of a start; 0 if none was seen.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", starts: 1, seconds: 60 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.start_seconds() == 60.0);
    /// ```
    #[rhai_fn(pure)]
    pub fn start_seconds(costs: &mut Costs) -> f64 {
        costs.start_seconds()
    }

    /// Estimated seconds of the request of a point: a least-squares fit of seconds per input token and per output token
    /// to what was measured, or the mean if there are too few measurements or their lengths are too similar.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", seconds: 2 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.seconds_of(#{ input: 50 }) == 2.0);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn seconds_of(costs: &mut Costs, point: Map) -> Caught<f64> {
        Ok(costs.seconds_of(&to_point(&point)?))
    }

    /// Expected seconds of probing a point that fits with probability `chance`: its request, and the start after a
    /// failure that kills the engine.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search/steps" as steps;
    /// let search = steps::begin(boundary(#{ input: [1, 100] }, #{}), |p| #{ verdict: "ok", seconds: 2 }, #{});
    /// assert(steps::probe(search, #{ input: 5 }).costs.expected(#{ input: 50 }, 0.5) == 2.0);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn expected(costs: &mut Costs, point: Map, chance: f64) -> Caught<f64> {
        Ok(costs.expected(&to_point(&point)?, chance))
    }
}
