//! The state of a search between two probes: what was probed and what it cost, what is in flight, what is known of the
//! engine, and why the search ended. `std/search/steps` decides; this keeps count.

use std::collections::VecDeque;

use rhai::{Dynamic, FnPtr, ImmutableString, Map};
use serde_json::Value;

use super::boundary::BoundaryHandle;
use super::{Caught, Host, from_script, to_script};
use crate::boundary::{Ahead, Class, Expected, Moves, Point, Verdict};
use crate::cost::{Costs, Spent, UsualSearch};
use crate::fault::{Fault, Result};
use crate::run::PointAnswer;

/// The estimated number of probes left is the median of this many estimates: a single answer may open a large region
/// for a moment.
const ESTIMATES: usize = 5;

/// A search, as scripts pass it from step to step.
#[derive(Clone)]
pub(super) struct Search {
    /// The boundary that is searched.
    pub(super) map: BoundaryHandle,
    /// Probes a point, and returns its answer.
    pub(super) probe: FnPtr,
    /// The options, checked.
    pub(super) options: Map,
    /// Why the search ended; empty while it is running.
    pub(super) stopped: ImmutableString,
    /// The probes so far and what they cost, including those before a resume.
    pub(super) costs: Costs,
    /// The engine after the last probe.
    pub(super) engine: EngineAfterProbe,
    /// Probes whose answer is awaited, or that will be repeated.
    pub(super) in_flight: Vec<Probe>,
    /// The probe whose answer was counted last, until it is repeated or recorded.
    answered: Option<Probe>,
    /// Probes with an inconclusive answer that will be repeated first.
    repeats: VecDeque<Point>,
    /// Points that an earlier execution had sent but not recorded when it was killed. They are probed first.
    pub(super) unrecorded: VecDeque<Point>,
    /// The limit that was predicted or verified.
    pub(super) limit: LimitOfSearch,
    /// Points that the strategy planned: corners, a grid, places to verify.
    pub(super) planned: Vec<Point>,
    /// Number of points that the strategy chose one by one, rather than planned: by its rule, or to verify a limit.
    pub(super) chosen: i64,
    /// Those that its rule chose.
    pub(super) chosen_by_rule: i64,
    /// The number of points chosen one by one that ends the search, if any does.
    pub(super) most_chosen: Option<i64>,
    /// Points in a row without a usable answer.
    pub(super) unanswered: i64,
    /// The probes ahead, if a prediction is being verified or a limit narrowed.
    pub(super) left: Option<Ahead>,
    /// Whether an answer was recorded since the progress was told.
    untold: bool,
    /// The last few estimates of how many probes the coverage takes in all.
    estimates: VecDeque<i64>,
}

/// The engine after the last probe.
#[derive(Clone)]
pub(super) struct EngineAfterProbe {
    /// The point that was probed.
    pub(super) at: Option<Point>,
    /// Whether the next probe has to start the engine.
    pub(super) down: bool,
    /// The newest report of its bounds, as scripts see it; `()` if there is none.
    pub(super) report: Dynamic,
    /// Memory peaks of fitting points, for a memory model.
    pub(super) peaks: Peaks,
}

/// Memory peaks of fitting points.
#[derive(Clone, Default)]
pub(super) struct Peaks {
    /// Each as `#{ point, peak, at_most }`. A peak that is not a new maximum only says that the point needed no more
    /// than that, because engines do not return memory.
    pub(super) samples: Vec<Dynamic>,
    highest: f64,
}

/// The limit that a search predicted or verified, as its result has it. Each is `()` if there is none.
#[derive(Clone, Default)]
pub(super) struct LimitOfSearch {
    pub(super) predicted: Dynamic,
    pub(super) verified: Dynamic,
    /// Why verifying a fitted limit was given up.
    pub(super) not_verified: Dynamic,
    /// The longest request that the server stated when its report was verified.
    pub(super) stated: Dynamic,
}

/// A point that is being probed.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) point: Point,
    /// Whether its answer was known: the probe shows whether it holds.
    known: bool,
    /// How many probes were in flight when it was sent. They share the time that passes.
    among: usize,
    /// The cost of its answers so far.
    spent: Spent,
}

impl Search {
    /// A search that has not probed anything yet. Answers that the boundary holds from before a resume count as its own.
    pub(super) fn new(host: &Host, map: BoundaryHandle, probe: FnPtr, options: Map) -> Result<Self> {
        let lattice = {
            let mut boundary = map.lock();
            // An earlier search may have ended with an error that the script caught.
            boundary.forget_asked();
            boundary.lattice().clone()
        };
        let unrecorded = host.run.unrecorded();
        let mut search = Self {
            unrecorded: unrecorded.iter().filter_map(|point| lattice.own(point)).collect(),
            map,
            probe,
            options,
            stopped: ImmutableString::new(),
            costs: Costs::default(),
            engine: EngineAfterProbe {
                at: None,
                down: true,
                report: Dynamic::UNIT,
                peaks: Peaks::default(),
            },
            in_flight: Vec::new(),
            answered: None,
            repeats: VecDeque::new(),
            limit: LimitOfSearch::default(),
            planned: Vec::new(),
            chosen: 0,
            chosen_by_rule: 0,
            most_chosen: None,
            unanswered: 0,
            left: None,
            untold: false,
            estimates: VecDeque::new(),
        };
        let spent = search.map.spent().clone();
        for row in spent {
            let point: Point = serde_json::from_value(row.point.value()).map_err(Fault::internal)?;
            search.costs.learn(&point, row.verdict, &row.spent);
            search.engine.peaks.learn(&point, row.verdict, row.peak)?;
            if let Some(report) = &row.report {
                search.engine.report = to_script(report)?;
            }
            search.engine.at = Some(point);
        }
        Ok(search)
    }

    fn option(&self, name: &str) -> Result<&Dynamic> {
        (self.options.get(name)).ok_or_else(|| Fault::usage(format!("the search has no option `{name}`")))
    }

    fn int_option(&self, name: &str) -> Result<i64> {
        let value = self.option(name)?;
        (value.as_int()).map_err(|kind| Fault::usage(format!("option `{name}` is a whole number, not a {kind}")))
    }

    fn coverage(&self) -> Result<f64> {
        let value = self.option("coverage")?;
        (value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64)))
            .map_err(|kind| Fault::usage(format!("option `coverage` is a number, not a {kind}")))
    }

    /// The next probe to repeat. Every choice of a probe begins with this: a step that ended with an error, which the
    /// script caught, leaves points in the boundary that no probe will answer.
    pub(super) fn next_repeat(&mut self) -> Result<Option<Point>> {
        {
            let mut boundary = self.map.lock();
            boundary.forget_asked();
            for probe in &self.in_flight {
                boundary.ask(&probe.point)?;
            }
        }
        Ok(self.repeats.pop_front())
    }

    /// Notes that a point is being probed. If its answer is recorded or follows from others, it is asked again.
    pub(super) fn send(&mut self, host: &Host, point: Point) -> Result<()> {
        let known = {
            let map = self.map.lock();
            map.recorded(&point)? || map.classify(&point)? != Class::Unknown
        };
        if known {
            self.map.forget(host, &point);
        }
        self.add_in_flight(point, known)
    }

    /// Sends the next point that an earlier execution had sent but not recorded: its answer may be in the journal.
    pub(super) fn send_unrecorded(&mut self) -> Result<Option<Point>> {
        let Some(point) = self.unrecorded.pop_front() else {
            return Ok(None);
        };
        self.add_in_flight(point.clone(), false)?;
        Ok(Some(point))
    }

    fn add_in_flight(&mut self, point: Point, known: bool) -> Result<()> {
        self.map.lock().ask(&point)?;
        self.in_flight.push(Probe {
            point,
            known,
            among: self.in_flight.len() + 1,
            spent: Spent::default(),
        });
        Ok(())
    }

    /// Counts the cost of an answer and what it says of the engine. Returns whether the probe may be repeated: the
    /// answer is inconclusive, and not all retries were made; or it alone says that nothing fits.
    pub(super) fn count(&mut self, point: &Point, answer: &Value, took: f64) -> Result<bool> {
        let retries = self.int_option("retries")?;
        let at = self.in_flight.iter().position(|probe| probe.point == *point);
        let at = at.ok_or_else(|| Fault::usage(format!("{point} is not being probed")))?;
        let answer = PointAnswer::read_probe(answer, took)?;
        let verdict = answer.judged.verdict;
        self.require_isolated(&answer)?;
        let mut probe = self.in_flight.remove(at);
        let mut spent = answer.spent.clone();
        spent.seconds /= probe.among as f64;
        probe.spent.add(&spent);
        let again = answer.is_inconclusive() && probe.spent.probes <= retries
            || probe.spent.probes == 1 && !probe.known && self.says_that_nothing_fits(point, &answer)?;
        self.answered = Some(probe);
        self.costs.learn(point, verdict, &spent);
        self.engine.at = Some(point.clone());
        self.engine.down = answer.is_engine_down(self.engine.down);
        if let Some(report) = &answer.judged.report {
            self.engine.report = to_script(report)?;
        }
        let peak = answer.peak.map(|bytes| bytes as f64);
        self.engine.peaks.learn(point, verdict, peak)?;
        Ok(again)
    }

    /// Refuses an answer of an engine that another point had used, where each point is to get a fresh one. An answer
    /// that does not count its starts comes from no engine.
    fn require_isolated(&self, answer: &PointAnswer) -> Result<()> {
        let isolates = self
            .options
            .get("isolate")
            .is_some_and(|value| value.as_bool() == Ok(true));
        let of_engine = answer.starts.is_some() && answer.evidence.issued > 0;
        if !isolates || !of_engine || answer.spent.isolated {
            return Ok(());
        }
        Err(
            Fault::usage("`isolate` is asked for, and the engine was not started for this point alone")
                .hint("describe the engine with the same option: `engines::describe(name, #{ isolate: true, … })`"),
        )
    }

    /// Whether the easiest point of the search was sent and fails, which ends the search. Option `confirm` 0 takes
    /// answers as they are.
    fn says_that_nothing_fits(&self, point: &Point, answer: &PointAnswer) -> Result<bool> {
        let sent = !matches!(answer.judged.verdict, Verdict::StartFailed | Verdict::NotSent);
        let map = self.map.lock();
        let moves = (answer.judged.verdict).moves(answer.judged.cause.as_ref(), map.options().overload);
        Ok(sent && moves == Moves::Fails && *point == map.smallest() && self.int_option("confirm")? > 0)
    }

    /// Repeats the probe whose answer was counted last.
    pub(super) fn repeat(&mut self) -> Result<()> {
        let probe = self.answered()?;
        self.repeats.push_back(probe.point.clone());
        self.in_flight.push(probe);
        Ok(())
    }

    /// Records the answer that was counted last.
    pub(super) fn record(&mut self, host: &Host, answer: Dynamic) -> Caught<()> {
        let probe = self.answered()?;
        let mut answer = match answer.try_cast_result::<Map>() {
            Ok(map) => map,
            Err(verdict) => Map::from([("verdict".into(), verdict)]),
        };
        let mut spent: Map = to_script(&probe.spent)?.cast();
        let ids = probe.spent.answers.iter().map(|&id| Dynamic::from(id as i64));
        spent.insert("answers".into(), ids.collect::<rhai::Array>().into());
        answer.insert("spent".into(), spent.into());
        let mut value = from_script(&answer.clone().into())?;
        if PointAnswer::read(&value)?.ended_server() {
            answer.insert("crash".into(), self.option("crash")?.clone());
            value = from_script(&answer.into())?;
            self.stopped = "server".into();
        }
        let open = self.open()?;
        self.map.record(host, probe.point, value)?;
        self.untold = true;
        if !probe.known {
            let settled = self.open()? < open;
            self.unanswered = if settled { 0 } else { self.unanswered + 1 };
        }
        Ok(())
    }

    fn answered(&mut self) -> Result<Probe> {
        (self.answered.take()).ok_or_else(|| Fault::usage("no answer was counted that could be recorded or repeated"))
    }

    fn open(&self) -> Result<u128> {
        Ok(self.map.lock().volume()?.open)
    }

    /// Reports the progress, if an answer was recorded since: the next step is known by now, and what it leaves to do.
    pub(super) fn tell_progress(&mut self, host: &Host) -> Result<()> {
        if !std::mem::take(&mut self.untold) {
            return Ok(());
        }
        let ahead = self.ahead()?;
        let probes = self.costs.total.probes.max(0).cast_unsigned();
        let expected = (ahead.as_ref()).map(|ahead| probes + ahead.probes().max(0).cast_unsigned());
        let survives = self.reports_pool();
        let down = self.engine.down;
        let seconds_left = ahead.and_then(|ahead| self.costs.seconds_left(&ahead, down, survives));
        let budget = self.budget_seconds()?;
        let seconds_left = seconds_left.map(|left| left.min(budget));
        self.map.note_progress(host, probes, expected, seconds_left)
    }

    /// The seconds after which `max_seconds` or `max_gpu_seconds` is spent; infinite without them.
    fn budget_seconds(&self) -> Result<f64> {
        let Spent {
            seconds, gpu_seconds, ..
        } = self.costs.total;
        let of_time = self.budget("max_seconds")? - seconds;
        let of_gpus = self.budget("max_gpu_seconds")? - gpu_seconds;
        let rate = if seconds > 0.0 { gpu_seconds / seconds } else { 0.0 };
        Ok(of_time
            .min(if rate > 0.0 { of_gpus / rate } else { f64::INFINITY })
            .max(0.0))
    }

    /// The value of a budget; infinite for none.
    fn budget(&self, name: &str) -> Result<f64> {
        let value = self.option(name)?;
        let value = value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64));
        Ok(value.unwrap_or(f64::INFINITY))
    }

    /// Whether the engine reports its KV cache, so that it is expected to refuse, queue or preempt what exceeds it.
    fn reports_pool(&self) -> bool {
        let report = self.engine.report.as_map_ref();
        report.is_ok_and(|report| report.get("tokens").is_some_and(|tokens| !tokens.is_unit()))
    }

    /// The probes that are expected, the final confirmation included; `None` while too little is known.
    fn ahead(&mut self) -> Result<Option<Ahead>> {
        let probes = self.costs.total.probes;
        let confirm = usize::try_from(self.int_option("confirm")?).unwrap_or(0);
        let usual = self.usual();
        let budget = self.option("max_probes")?.as_int().unwrap_or(i64::MAX);
        let expected = (self.map.lock()).expected(probes.max(0).cast_unsigned(), self.coverage()?)?;
        let expected = expected.map(u64::cast_signed);
        let mut ahead = match (&self.left, expected) {
            (Some(left), _) => left.clone(),
            (None, Some(expected)) if expected == probes => Ahead::default(),
            (None, _) if self.verifies()? => {
                let classified = self.map.lock().is_classified()?;
                usual.ahead(usual.left(probes, budget, expected, classified))
            }
            (None, None) => return Ok(None),
            (None, Some(expected)) if self.axes() < 2 => usual.ahead(expected - probes),
            (None, Some(expected)) => {
                self.estimates.push_back(expected);
                if self.estimates.len() > ESTIMATES {
                    self.estimates.pop_front();
                }
                let mut sorted = Vec::from(self.estimates.clone());
                sorted.sort_unstable();
                usual.ahead((sorted[sorted.len() / 2] - probes).max(1))
            }
        };
        let mut limit: Vec<Point> = ahead.near.iter().map(|(point, _)| point.clone()).collect();
        if limit.is_empty() {
            let map = self.map.lock();
            limit = map.predicted()?.into_iter().map(|ray| ray.expected).collect();
            let known = map.frontier()?.into_iter().chain(map.failing()?);
            ahead.near = known.chain(limit.clone()).map(|point| (point, 1.0)).collect();
        }
        if self.left.is_none() || ahead.confirms {
            let points = self.map.lock().expected_verification_points(confirm, &limit)?;
            if ahead.probes() > 0 {
                // Where little fits yet, the points are not known. A single axis has one limit to confirm.
                let all = if self.axes() < 2 { confirm.min(1) } else { confirm };
                ahead.fitting += all.saturating_sub(points.len()) as f64;
            }
            let points = points.into_iter().map(|point| (point, Expected::Fits));
            ahead.points.extend(points);
        }
        if let Some(most) = self.most_chosen {
            ahead = ahead.until_chosen(most - self.chosen);
        }
        let starts = self.budget("max_starts")? - self.costs.total.starts as f64;
        let deadly = self.costs.deadly(self.engine.down, self.reports_pool());
        if starts.is_finite() && deadly > 0.0 {
            // The failure after the last start ends the search.
            let failures = starts + if self.engine.down { 0.0 } else { 1.0 };
            ahead = ahead.until_failed(failures.max(0.0) / deadly);
        }
        Ok(Some(ahead.at_most(budget.saturating_sub(probes))))
    }

    /// A number of unknown probes. The usual share of them fails.
    pub(super) fn usual_probes(&self, count: i64) -> Ahead {
        self.usual().ahead(count)
    }

    fn usual(&self) -> UsualSearch {
        UsualSearch::over(self.axes())
    }

    /// The number of axes that are searched.
    fn axes(&self) -> usize {
        let map = self.map.lock();
        let axes = map.lattice().axes().iter().filter(|axis| map.varies(axis.name()));
        axes.count()
    }

    /// Whether the search ends once a limit is verified, rather than when most is proven: one axis is bisected.
    fn verifies(&self) -> Result<bool> {
        let proof = self.option("proof")?.clone().into_string().unwrap_or_default();
        let launch_axes = self.option("launch_axes")?.as_array_ref().map_or(0, |axes| axes.len());
        Ok(proof == "verified" && launch_axes == 0 && self.axes() > 1)
    }

    /// Number of points of earlier executions that the strategy did not plan: the rule for the next point chose them.
    pub(super) fn chosen_before_resume(&self) -> i64 {
        let mut passed = self.planned.clone();
        let map = self.map.lock();
        let mut chosen = 0;
        for (point, _) in map.records().take(self.map.0.resumed) {
            if !passed.contains(&point) {
                chosen += 1;
                passed.push(point);
            }
        }
        chosen
    }
}

impl Peaks {
    /// Adds the peak of one more answer. After a failure, which ends most engines, the maximum starts again.
    fn learn(&mut self, point: &Point, verdict: Verdict, peak: Option<f64>) -> Result<()> {
        if verdict != Verdict::Ok {
            self.highest = 0.0;
        } else if let Some(peak) = peak {
            let sample = Map::from([
                ("point".into(), to_script(point)?),
                ("peak".into(), peak.into()),
                ("at_most".into(), (peak <= self.highest).into()),
            ]);
            self.samples.push(sample.into());
            self.highest = self.highest.max(peak);
        }
        Ok(())
    }
}
