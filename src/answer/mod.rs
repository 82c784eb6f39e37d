//! The answer of a search, in the order in which people ask: the limit, how sure it is, what to run, why not more, how
//! much room is left, what to ask next. The terminal, the page and `--json` all show this value. [`Findings`] adds what
//! else is known of the boundary, with the operating point to recommend.

pub(crate) mod evidence;
mod limit;
mod workload;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::boundary::{Axis, Band, Boundary, Class, Easier, Limit, Moves, Point, PredictedCrossing, Quantity, Scalar};
use crate::fault::{Fault, Result};
use crate::fmt::{rounded, thousands};
use crate::report::plot::AxisScale;
use crate::report::sections::run_command;
use crate::report::{Bytes, Fact, allow_flags, simulated_line, with_model};
use crate::run::RecordedRun;
use evidence::nearest_failure;
use limit::{
    KV_CACHE, along_one_axis, cause, counted_otherwise, limit_text, report_failed, sure, unanswered, untested,
};
pub use workload::candidates;
use workload::{commands, table_text};

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// One inequality agrees with every answer.
    Limit,
    /// No inequality does: the table has the largest values that fitted.
    Table,
    /// Everything in the search range fits.
    NotReached,
    /// Not even the smallest point of the search range fits.
    NothingFits,
    /// Too little is known.
    #[default]
    Undecided,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What kind of answer it is.
    pub state: State,
    /// The limit as people say it.
    pub limit: String,
    /// The limit in numbers, if it is an inequality.
    pub inequality: Option<Limit>,
    /// How sure it is: what was confirmed, at what cost, and why the search ended.
    pub sure: String,
    /// Which servers and models were asked: engine, version, model, address.
    #[serde(default)]
    pub asked: Vec<String>,
    /// The workload that the user named, with the lengths that it gave.
    pub workload: Option<String>,
    /// What to run, by workload.
    pub run: Vec<Command>,
    /// Why more does not fit, in the engine's own words where it has any.
    pub why: Option<String>,
    /// How much room is left in the KV cache and in the GPU's memory.
    pub room: Vec<String>,
    /// What to ask next.
    pub next: Option<String>,
}

/// Flags for one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The workload, and how it relates to what was tested.
    pub workload: String,
    /// A point that fitted, or that is easier than one that did.
    pub point: Point,
    /// The engine's flags; empty without an engine.
    pub flags: Vec<String>,
}

/// What an answer needs to know beyond the boundary.
pub struct Context<'a> {
    /// What the search strategy returned.
    pub search: Option<&'a Value>,
    /// What is known of the run.
    pub run: &'a Extras,
    /// The engine's flags for a point; the flag says whether they should limit concurrency.
    pub flags: &'a dyn Fn(&Point, bool) -> Result<Vec<String>>,
    /// Bytes of memory left while a point was probed.
    pub headroom: &'a dyn Fn(&Point) -> Option<u64>,
}

impl Answer {
    /// The answer of a boundary.
    ///
    /// # Errors
    ///
    /// Those of the adapter's `flags`, and `limit` for a boundary with too many corners.
    pub fn new(boundary: &Boundary, context: &Context) -> Result<Self> {
        let mut answer = Self::default();
        let limit = boundary.stated_limit();
        let moved = |moves| boundary.records().any(|(_, record)| record.moves == moves);
        let (smallest, largest) = (boundary.smallest(), boundary.largest());
        let untested = untested(boundary);
        if boundary.classify(&largest)? == Class::Fits {
            answer.state = State::NotReached;
            let positions = context
                .search
                .and_then(|search| search["question"]["bounds"]["positions"].as_u64());
            let positions = positions.filter(|positions| Some(*positions) == Quantity::Total.of(&largest));
            let note = positions.map_or_else(String::new, |positions| {
                format!(", which is the model's own maximum of {} tokens", thousands(positions))
            });
            answer.limit = format!("limit not reached: everything up to {largest} fits{note}");
            answer.next = next(boundary, positions.is_some(), context);
        } else if let Some(limit) = &limit {
            answer.state = State::Limit;
            answer.limit = limit_text(boundary, limit);
            answer.inequality = Some(limit.clone());
            // A server's own limit says nothing of its memory.
            if limit.configured && !boundary.varies("concurrency") {
                answer.next = how_many(&limit.at, context);
            }
        } else if boundary.classify(&smallest)? == Class::NotSent {
            answer.state = State::NothingFits;
            answer.limit = format!("nothing fits, as the engine itself reports: even {smallest} was not sent");
        } else if boundary.classify(&smallest)? == Class::Fails {
            answer.state = State::NothingFits;
            answer.limit = match boundary.band() {
                Some(_) => format!("nothing fits reliably: {smallest} fitted and failed"),
                None => format!("nothing fits: even {smallest} fails"),
            };
        } else if let Some(untested) = untested
            .as_ref()
            .filter(|_| boundary.frontier().is_ok_and(|fits| fits.is_empty()))
        {
            answer.limit = format!("undecided: {untested}");
        } else if boundary.clipped().contains(&smallest) {
            answer.state = State::NothingFits;
            answer.limit = format!("nothing fits: even {smallest} is refused for its length, not for lack of memory");
        } else if boundary.frontier()?.is_empty() && moved(Moves::Fails) {
            answer.limit =
                format!("undecided: what was tested fails, and nothing smaller was; {smallest} is not known to fit");
        } else if boundary.frontier()?.is_empty() && moved(Moves::Bounds) {
            answer.limit = format!("undecided: nothing was sent that fits; {smallest} is not known to fit");
        } else if boundary.frontier()?.is_empty() {
            answer.limit = "undecided: no probe gave a clear answer".to_owned();
        } else if !moved(Moves::Fails) && !moved(Moves::Bounds) && (boundary.clipped().is_empty() || untested.is_some())
        {
            let fits = boundary.frontier()?.last().map(ToString::to_string).unwrap_or_default();
            answer.limit = format!("undecided: {fits} fits, and nothing harder is known to fail");
        } else if let Some((text, decided)) = along_one_axis(boundary)? {
            answer.state = if decided { State::Limit } else { State::Undecided };
            answer.limit = text;
        } else {
            answer.state = State::Table;
            answer.limit = table_text(boundary, context)?;
        }
        answer.sure = sure(boundary, &answer, context)?;
        answer.asked.clone_from(&context.run.asked);
        answer.workload = context.search.and_then(|search| named_workload(&search["question"]));
        if answer.state != State::Undecided {
            answer.run = commands(boundary, answer.inequality.as_ref(), context)?;
        }
        if let Some(advice) = advise(boundary)? {
            answer.why = nearest_failure(boundary, &advice.safe);
            answer.room = room(boundary, answer.inequality.as_ref(), &advice.safe, context);
        } else {
            answer.why = nearest_failure(boundary, &smallest);
        }
        match untested.filter(|untested| !answer.limit.contains(untested)) {
            Some(untested) if answer.why.is_none() => answer.why = Some(untested),
            untested => answer
                .room
                .extend(untested.map(|untested| format!("besides: {untested}"))),
        }
        if answer.why.is_none() && answer.state == State::Undecided {
            answer.why = unanswered(boundary);
        }
        answer.room.extend(counted_otherwise(boundary));
        // A length limit besides one of memory is worth a line of its own.
        let length_limit = boundary.length_limit();
        if let Some(length) = length_limit.filter(|length| limit.as_ref() != Some(length)) {
            answer.room.push(format!("besides: {}", limit_text(boundary, &length)));
        }
        Ok(answer)
    }

    /// The answer as facts, the limit first.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![Fact::new("limit", &self.limit), Fact::new("how sure", &self.sure)];
        facts.extend(self.workload.iter().map(|workload| Fact::new("workload", workload)));
        for command in &self.run {
            facts.push(Fact::new("what to run", &command.workload));
            if !command.flags.is_empty() {
                facts.push(Fact::code("what to run", command.flags.join(" ")));
            }
        }
        facts.extend(self.why.iter().map(|why| Fact::new("why not more", why)));
        facts.extend(self.room.iter().map(|room| Fact::new("room", room)));
        facts.extend(self.next.iter().map(|next| match next.starts_with("profiler ") {
            true => Fact::code("ask further", next),
            false => Fact::new("ask further", next),
        }));
        facts.extend(self.asked.iter().map(|asked| Fact::new("asked", asked)));
        facts
    }
}

/// Information beyond the boundary itself: from [`super::Findings`], or from a journal entry of it.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// What `report(map)` returned, if it was called.
    pub report: Option<Value>,
    /// What ended the run before its script did: `stopped by Ctrl-C`.
    pub stopped: Option<String>,
    /// The script as the user named it.
    pub script: String,
    /// The parameters that were set.
    pub set: Map<String, Value>,
    /// What `--allow` allowed.
    pub allow: Vec<String>,
    /// The notice of a simulated run.
    pub simulated: Option<String>,
    /// Whether the memory of the machine was read, not that of a GPU.
    pub on_host: bool,
    /// Which servers and models were asked.
    pub asked: Vec<String>,
}

/// The notice of a recorded run, if it was simulated.
pub fn simulated_notice(found: &RecordedRun) -> Option<String> {
    (found.manifest.simulated).then(|| simulated_line(&found.totals.simulated()))
}

impl Extras {
    /// What a run recorded, with what `report(map)` returned.
    pub fn of_run(found: &RecordedRun, report: Option<Value>) -> Self {
        let manifest = &found.manifest;
        Self {
            report,
            stopped: found.stopped(),
            script: manifest.script.path.clone(),
            set: with_model(manifest.set.clone(), manifest.parameters.as_ref(), &found.totals.asked),
            allow: manifest.permissions.clone(),
            simulated: simulated_notice(found),
            on_host: manifest.engines.iter().any(|engine| engine["memory_source"] == "host"),
            asked: found.totals.asked.iter().map(ToString::to_string).collect(),
        }
    }

    /// The recorded answer; otherwise, as for interrupted runs and those of older versions, that of the boundary.
    ///
    /// # Errors
    ///
    /// As [`Answer::new`].
    pub fn answer(&self, boundary: &Boundary) -> Result<Answer> {
        let recorded: Option<Answer> = self.field("answer").and_then(|answer| Answer::deserialize(answer).ok());
        // Older versions said of points that were not sent that they fail.
        let unsent = boundary.records().any(|(_, record)| record.moves == Moves::Bounds);
        if let Some(mut recorded) = recorded.clone().filter(|_| !unsent) {
            // Nor did they record who was asked; the journal has it.
            if recorded.asked.is_empty() {
                recorded.asked.clone_from(&self.asked);
            }
            return Ok(recorded);
        }
        let answer = self.within_context(|context| Answer::new(boundary, context))?;
        let Some(Answer { run, room, next, .. }) = recorded else {
            return Ok(answer);
        };
        Ok(Answer {
            run,
            room,
            next,
            ..answer
        })
    }

    /// What `report(map)` returned; otherwise what it would return for the boundary, but for the engine's flags.
    ///
    /// # Errors
    ///
    /// As [`Findings::new`].
    pub fn findings(&self, boundary: &Boundary) -> Result<Value> {
        if let Some(recorded) = &self.report {
            return Ok(recorded.clone());
        }
        let findings = self.within_context(|context| Findings::new(boundary, context))?;
        serde_json::to_value(findings).map_err(Fault::internal)
    }

    fn field(&self, key: &str) -> Option<&Value> {
        self.report.as_ref()?.get(key)
    }

    fn within_context<T>(&self, found: impl FnOnce(&Context) -> Result<T>) -> Result<T> {
        let headroom = self.field("headroom").and_then(Value::as_u64);
        found(&Context {
            search: self.field("search").filter(|search| search.is_object()),
            run: self,
            // They follow from the engine's adapter, which only the run itself had.
            flags: &|_, _| Ok(Vec::new()),
            headroom: &|_| headroom,
        })
    }
}

/// `chat: input 4,083, output 451 tokens, the 95th percentiles of its lengths`; none if the question names no workload.
fn named_workload(question: &Value) -> Option<String> {
    let work = &question["workload"];
    let given = question["given"].as_array();
    let mut lengths = vec!["input", "output"];
    lengths.retain(|name| given.is_none_or(|given| given.iter().all(|one| one != name)));
    let length = |name: &&str| Some(format!("{name} {}", thousands(work[*name]["p95"].as_u64()?)));
    let lengths: Vec<String> = lengths.iter().filter_map(length).collect();
    let lengths = match lengths.is_empty() {
        true => String::new(),
        false => format!(": {} tokens, the 95th percentiles of its lengths", lengths.join(", ")),
    };
    Some(format!("{}{lengths}", work["name"].as_str()?))
}

/// Room in the KV cache, and apart from it in the GPU's memory.
fn room(boundary: &Boundary, limit: Option<&Limit>, safe: &Point, context: &Context) -> Vec<String> {
    let mut lines = Vec::new();
    let used = Quantity::AllTokens.of(safe);
    // What the engine reports is a KV cache that it allocated at its start, unless it fails long before that is full.
    let is_full = |tokens: &u64| used.is_none_or(|used| used >= tokens - tokens / 10);
    let tokens = boundary.report().and_then(|report| report.tokens);
    let tokens = tokens.filter(|tokens| !report_failed(context) || is_full(tokens));
    let single = safe.int("concurrency").unwrap_or(1) == 1;
    let total = limit.filter(|limit| limit.quantity == Quantity::Total && !limit.configured && single);
    let tokens = tokens.or(total.and_then(Limit::uncontradicted));
    if let (Some(tokens), Some(used)) = (tokens, used)
        && used <= tokens
    {
        let (left, tokens) = (thousands(tokens - used), thousands(tokens));
        lines.push(format!("KV cache: {left} of {tokens} tokens left at {safe}"));
    }
    if let Some(bytes) = (context.headroom)(safe) {
        let is_allocated = tokens.is_some() || limit.is_some_and(|limit| cause(boundary, limit) == KV_CACHE);
        lines.push(match is_allocated {
            _ if context.run.on_host => format!("host memory: {} unused at {safe}", Bytes(bytes)),
            true => format!("GPU memory outside the engine's share: {} unused", Bytes(bytes)),
            false => format!("GPU memory: {} unused at {safe}", Bytes(bytes)),
        });
    }
    lines
}

/// The command that asks how many requests of these lengths run concurrently.
fn how_many(lengths: &Point, context: &Context) -> Option<String> {
    let mut set = context.run.set.clone();
    set.retain(|name, _| name != "workload" && name != "concurrency");
    for axis in ["input", "output"] {
        set.insert(axis.to_owned(), json!(lengths.int(axis)?));
    }
    Some(run_command(&context.run.script, &set, &allow_flags(&context.run.allow)))
}

/// The command that asks beyond the search range, with all else as it was set. `longest` says that requests cannot be
/// longer.
fn next(boundary: &Boundary, longest: bool, context: &Context) -> Option<String> {
    let (smallest, largest) = (boundary.smallest(), boundary.largest());
    let tokens = boundary.report().and_then(|report| report.tokens);
    let total = Quantity::Total.of(&largest)?;
    let many = boundary.varies("concurrency");
    if !many && (longest || tokens.is_none_or(|tokens| tokens >= 2 * total)) {
        // One request cannot fill the KV cache.
        return how_many(&largest, context);
    }
    let mut set = context.run.set.clone();
    let axes = boundary.lattice().axes().iter().map(Axis::name);
    for axis in axes.filter(|axis| boundary.varies(axis) && (!longest || *axis == "concurrency")) {
        let (low, high) = (smallest.int(axis)?, largest.int(axis)?);
        set.insert(axis.to_owned(), json!([low, high.saturating_mul(4)]));
    }
    Some(run_command(&context.run.script, &set, &allow_flags(&context.run.allow)))
}

/// What `report(map)` returns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// What people read first.
    pub answer: Answer,
    /// The largest points proven to fit.
    pub frontier: Vec<Point>,
    /// The point of the answer's last workload; `None` if nothing fits.
    pub recommended: Option<Point>,
    /// The engine's flags for it.
    pub flags: Vec<String>,
    /// Bytes of memory left at the largest confirmed point; `None` if memory was not measured.
    pub headroom: Option<u64>,
    /// All recorded points, in order.
    pub points: Vec<Value>,
    /// The widest unresolved interval of each axis.
    pub gap: BTreeMap<String, Scalar>,
    /// Predicted points of the boundary; they prove nothing.
    pub predicted: Vec<PredictedCrossing>,
    /// The band in which answers contradict each other; no point in or above it counts as fitting.
    pub band: Option<Band>,
    /// Statistics of the search, if the script passed them.
    pub search: Option<Value>,
}

impl Findings {
    /// Summarises a boundary.
    pub fn new(boundary: &Boundary, context: &Context) -> Result<Self> {
        let answer = Answer::new(boundary, context)?;
        let advice = advise(boundary)?;
        let run = answer.run.last();
        let rows = boundary.records().map(|(point, record)| {
            json!({
                "point": point,
                "verdict": record.verdict,
                "cause": record.cause.as_deref(),
                "moves": record.moves,
                "evidence": record.evidence(),
            })
        });
        Ok(Self {
            frontier: boundary.frontier()?,
            flags: run.map(|command| command.flags.clone()).unwrap_or_default(),
            headroom: advice.as_ref().and_then(|advice| (context.headroom)(&advice.safe)),
            recommended: run
                .map(|command| command.point.clone())
                .or(advice.map(|advice| advice.recommended)),
            points: rows.collect(),
            gap: boundary.gap()?.into_iter().collect(),
            predicted: boundary.predicted()?,
            band: boundary.band(),
            search: context.search.cloned(),
            answer,
        })
    }
}

/// Safety margin: the recommended point is 5 % below the safe one on every axis where that is at least one
/// step.
const MARGIN: f64 = 0.05;

/// The point to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// A point that fitted.
    pub safe: Point,
    /// The safe point less the margin, within the search range; the safe point itself if the limit is exact.
    pub recommended: Point,
}

/// The point to run, or `None` if nothing fits: where the limit was confirmed. If no single limit agrees with every
/// answer, the point of the frontier with the largest product of its normalised coordinates, which is a balanced one.
pub fn advise(boundary: &Boundary) -> Result<Option<Advice>> {
    let axes = boundary.lattice().axes();
    let limit = boundary.stated_limit();
    let exact = limit.as_ref().is_some_and(Limit::is_exact);
    let safe = match limit {
        Some(limit) => Some(limit.at),
        None => {
            let scored = boundary.frontier()?;
            let scored = scored.into_iter().map(|point| (score(axes, &point), point));
            scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, point)| point)
        }
    };
    Ok(safe.map(|safe| Advice {
        recommended: if exact { safe.clone() } else { with_margin(axes, &safe) },
        safe,
    }))
}

fn score(axes: &[Axis], point: &Point) -> f64 {
    let share = |axis: &Axis| {
        // Above zero, so that an axis at its easiest end does not hide the other axes.
        let share = axis_position(axis, axis.of(point)?);
        Some(match axis.easier() {
            Easier::Down => 0.01 + share,
            Easier::Up => 1.01 - share,
        })
    };
    axes.iter().filter_map(share).product()
}

/// Position of a value between the lowest (0) and the highest (1) end of its axis, on the axis's own scale.
pub(crate) fn axis_position(axis: &Axis, value: f64) -> f64 {
    // An axis of one value has one position.
    AxisScale::of(axis).share(value).clamp(0.0, 1.0)
}

/// Whether a point is at most as hard as another on every axis.
pub(crate) fn at_most_as_hard(axes: &[Axis], one: &Point, other: &Point) -> bool {
    axes.iter().all(|axis| match (axis.of(one), axis.of(other)) {
        (Some(one), Some(other)) => axis.difficulty(one) <= axis.difficulty(other),
        _ => false,
    })
}

/// The point a margin easier than `safe`, within the search range.
pub(super) fn with_margin(axes: &[Axis], safe: &Point) -> Point {
    let easier = |(name, value): (&String, &Scalar)| {
        let axis = axes.iter().find(|axis| axis.name() == name);
        (name.clone(), axis.map_or(*value, |axis| step_back(axis, *value)))
    };
    Point(safe.0.iter().map(easier).collect())
}

/// Moves a value towards the easier end by the margin, within the axis. Integers stay integers.
fn step_back(axis: &Axis, value: Scalar) -> Scalar {
    let (low, high) = axis.range();
    let real = value.as_f64();
    // Small counts stay: one less of two concurrent requests would be half, not 5 %. The lengths step back
    // anyway.
    if matches!(value, Scalar::Int(_)) && MARGIN * real.abs() < 1.0 {
        return value;
    }
    let margin = MARGIN * real.abs();
    // Six decimals are finer than any axis is measured.
    let eased = match (axis.easier(), value) {
        (Easier::Down, Scalar::Int(_)) => (real - margin).floor(),
        (Easier::Up, Scalar::Int(_)) => (real + margin).ceil(),
        (Easier::Down, Scalar::Float(_)) => rounded(real - margin, 6),
        (Easier::Up, Scalar::Float(_)) => rounded(real + margin, 6),
    };
    let eased = eased.max(low.as_f64()).min(high.as_f64());
    match value {
        Scalar::Int(_) => Scalar::Int(eased as i64),
        Scalar::Float(_) => Scalar::Float(eased),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary;
    use proptest::prelude::*;

    fn tested(axes: &Value, points: &[(i64, i64, Value)]) -> Boundary {
        let mut map = Boundary::new(axes, boundary::Options::default()).unwrap();
        for (input, output, answer) in points {
            let point = Point::default().with("input", *input).with("output", *output);
            let answer = boundary::Answer::parse(answer).unwrap();
            let _ = map.record(&point, &answer).unwrap();
        }
        map
    }

    fn answer(map: &Boundary, search: Option<&Value>, stopped: Option<&str>) -> Answer {
        let flags = |point: &Point, concurrency: bool| {
            let total = Quantity::Total.of(point).unwrap_or(0);
            let many = point.int("concurrency").filter(|_| concurrency);
            let many = many.map(|many| format!("--max-num-seqs={many}"));
            Ok(std::iter::once(format!("--max-model-len={total}"))
                .chain(many)
                .collect())
        };
        let context = Context {
            search,
            run: &Extras {
                stopped: stopped.map(str::to_owned),
                script: "adaptive".to_owned(),
                ..Extras::default()
            },
            flags: &flags,
            headroom: &|_| Some(3 << 30),
        };
        Answer::new(map, &context).unwrap()
    }

    fn lengths(points: &[(i64, i64, Value)]) -> Boundary {
        tested(&json!({ "input": [128, 8192], "output": [128, 4096] }), points)
    }

    #[test]
    fn what_was_verified_says_by_what_it_was_predicted_and_a_report_that_did_not_hold_is_named() {
        let map = lengths(&[
            (8192, 128, json!("ok")),
            (128, 4096, json!("ok")),
            (8192, 192, json!("oom")),
        ]);
        let sure = |by: &str, held: bool| {
            let search = json!({ "stopped": "verified", "probes": 9, "verified": { "by": by, "ends": 2, "middle": 1 },
                "predicted": { "report": { "tokens": 9000 }, "held": held } });
            answer(&map, Some(&search), None).sure
        };
        let kept = sure("report", true);
        assert!(
            kept.contains("predicted by the engine's own report") && !kept.contains("hold"),
            "{kept}"
        );
        let lost = sure("fitted", false);
        assert!(
            lost.contains("by a limit that agrees") && lost.contains("report did not hold"),
            "{lost}"
        );
    }

    #[test]
    fn the_limit_comes_first_with_the_engines_own_figure() {
        let of = |verdict: &str| json!({ "verdict": verdict, "cause": "kv_cache", "report": { "tokens": 8352 } });
        let map = lengths(&[
            (8192, 4096, of("refused")),
            (8192, 128, of("ok")),
            (4224, 4096, of("ok")),
            (8192, 192, of("refused")),
        ]);
        let search = json!({ "stopped": "coverage", "probes": 4, "starts": 1, "verified": { "ends": 2, "middle": 1 } });
        let answer = answer(&map, Some(&search), None);
        assert_eq!(answer.state, State::Limit);
        assert_eq!(
            answer.limit,
            "input + output ≤ 8,352 tokens (KV cache), confirmed to ±32"
        );
        assert!(
            answer.sure.contains("at 2 ends and in the middle, 4 probes"),
            "{}",
            answer.sure
        );
        assert_eq!(answer.run[0].flags, ["--max-model-len=8320"]);
        assert!(
            answer.room[0].starts_with("KV cache: 32 of 8,352 tokens left"),
            "{:?}",
            answer.room
        );
        assert!(
            answer.room[1].contains("outside the engine's share: 3.0 GiB"),
            "{:?}",
            answer.room
        );
    }

    #[test]
    fn a_range_that_fits_as_a_whole_is_no_limit() {
        let ok = json!({ "verdict": "ok", "report": { "tokens": 458_224 } });
        let answer = answer(&lengths(&[(8192, 4096, ok)]), None, None);
        assert_eq!(answer.state, State::NotReached);
        assert!(answer.limit.starts_with("limit not reached"), "{}", answer.limit);
        assert_eq!(
            answer.run[0].flags,
            ["--max-model-len=12288"],
            "concurrency was not asked"
        );
        assert_eq!(
            answer.next.as_deref(),
            Some("profiler run adaptive --set input=8192 --set output=4096")
        );
    }

    #[test]
    fn little_is_undecided_and_a_failing_smallest_point_is_not() {
        let one = answer(&lengths(&[(8192, 4096, json!("oom"))]), None, Some("stopped by Ctrl-C"));
        assert_eq!(one.state, State::Undecided);
        assert!(
            one.sure.starts_with("undecided: 1 probe, stopped by Ctrl-C"),
            "{}",
            one.sure
        );
        assert!(one.run.is_empty() && one.limit.starts_with("undecided"), "{one:?}");
        let none = answer(&lengths(&[(128, 128, json!("oom"))]), None, None);
        assert_eq!(none.state, State::NothingFits);
    }

    #[test]
    fn the_margin_leaves_an_output_to_a_long_input() {
        let points = [
            (8192, 512, "ok"),
            (4096, 600, "ok"),
            (8192, 1024, "oom"),
            (4096, 1024, "oom"),
        ];
        let points = points.map(|(input, output, verdict)| (input, output, json!(verdict)));
        let answer = answer(&lengths(&points), None, None);
        assert_eq!(answer.state, State::Table);
        assert_eq!(
            answer.run.last().unwrap().workload,
            "a request of 7,782 + 486 tokens (8,192 + 512 tokens fitted, less 5 %)"
        );
    }

    #[test]
    fn without_a_formula_the_largest_request_that_fitted_is_said() {
        let points = [(5000, 512, "ok"), (7000, 300, "oom"), (4096, 1024, "oom")];
        let points = points.map(|(input, output, verdict)| (input, output, json!(verdict)));
        let answer = answer(&lengths(&points), None, None);
        assert!(
            answer.limit.starts_with("a request of 5,000 + 512 tokens; no single"),
            "{}",
            answer.limit
        );
        assert_eq!(
            answer.run.last().unwrap().workload,
            "a request of 4,750 + 486 tokens (5,000 + 512 tokens fitted, less 5 %)"
        );
    }

    #[test]
    fn a_length_limit_is_the_servers_own() {
        let refused = json!({ "verdict": "refused", "cause": "length_limit" });
        let map = tested(
            &json!({ "input": [128, 8192], "output": [128, 128] }),
            &[(5872, 128, json!("ok")), (5873, 128, refused)],
        );
        let search = json!({ "probes": 2, "starts": 0, "seconds": 0.2 });
        let answer = answer(&map, Some(&search), None);
        assert_eq!(
            answer.limit,
            "input + output ≤ 6,000 tokens (the server's own limit; not memory); 6,001 is refused"
        );
        assert!(
            answer.sure.ends_with("2 probes"),
            "an attached server is not started: {}",
            answer.sure
        );
        assert_eq!(
            answer.next.as_deref(),
            Some("profiler run adaptive --set input=5872 --set output=128"),
            "how many at once"
        );
    }

    proptest! {
        /// Whatever was tested, flags are only given for points that fitted or are easier than one that did.
        #[test]
        fn what_is_recommended_was_tested_or_is_easier(
            weights in (0.2_f64..2.0, 0.2_f64..2.0),
            limit in 500.0_f64..9000.0,
            points in prop::collection::vec((128_i64..=8192, 128_i64..=4096), 1..40),
        ) {
            let fits = |input: i64, output: i64| weights.0 * input as f64 + weights.1 * output as f64 <= limit;
            let points: Vec<_> = points.iter().map(|(input, output)| {
                (*input, *output, json!(if fits(*input, *output) { "ok" } else { "oom" }))
            }).collect();
            let map = lengths(&points);
            for command in answer(&map, None, None).run {
                prop_assert_eq!(map.classify(&command.point).unwrap(), Class::Fits);
            }
        }
    }
}

#[cfg(test)]
mod advice_tests {
    use super::*;
    use crate::boundary::{Answer, Options, Verdict};
    use serde_json::json;

    fn boundary(axes: serde_json::Value, fitting: &[serde_json::Value]) -> Boundary {
        let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
        for point in fitting {
            let point: Point = serde_json::from_value(point.clone()).unwrap();
            boundary.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        }
        boundary
    }

    #[test]
    fn the_balanced_point_is_recommended_less_the_margin() {
        let boundary = boundary(
            json!({ "input": [128, 8192], "output": [128, 4096] }),
            &[
                json!({ "input": 8192, "output": 128 }),
                json!({ "input": 4000, "output": 2000 }),
                json!({ "input": 128, "output": 4096 }),
            ],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.safe.to_string(), "input=4000 output=2000");
        assert_eq!(advice.recommended.to_string(), "input=3800 output=1900");
    }

    #[test]
    fn the_margin_goes_to_the_easier_end_and_stays_in_the_search_space() {
        let boundary = boundary(
            json!({ "fraction": { "range": [0.5, 0.9], "easier": "up" }, "input": [100, 200] }),
            &[json!({ "fraction": 0.88, "input": 100 })],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.recommended.to_string(), "fraction=0.9 input=100");
    }

    #[test]
    fn few_concurrent_requests_are_not_halved() {
        let boundary = boundary(
            json!({ "input": [128, 8192], "concurrency": [1, 64] }),
            &[json!({ "input": 2000, "concurrency": 2 })],
        );
        let advice = advise(&boundary).unwrap().unwrap();
        assert_eq!(advice.recommended.to_string(), "concurrency=2 input=1900");
    }

    #[test]
    fn nothing_is_recommended_where_nothing_fits() {
        assert_eq!(advise(&boundary(json!({ "input": [1, 9] }), &[])).unwrap(), None);
    }
}
