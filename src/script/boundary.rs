//! The handle that scripts share a boundary with: records its points in the run, restores them on a resume, and reports
//! it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};

use rhai::{Dynamic, Map};
use serde_json::{Value, json};

use super::meter::MAP;
use super::signature::misspelt_axis;
use super::{Host, from_script, options};
use crate::answer::{AnswerContext, Findings, RunFacts};
use crate::boundary::{Boundary, BoundsReport, JsonText, Moves, Options, Point, Verdict};
use crate::cost::Spent;
use crate::engine::{Limits, production_flags};
use crate::fault::{Fault, Kind, Result};
use crate::report::{Extras, overview, simulated_line, text, with_model};
use crate::run::{Event, PointAnswer, RecordedRun};
use crate::task::lock;

/// A boundary shared by every copy of its handle.
#[derive(Clone)]
pub struct BoundaryHandle(pub(super) Arc<Shared>);

pub(super) struct Shared {
    /// Index of the boundary in the script, from 0.
    pub(super) index: usize,
    /// The question that the range answers, as the script describes it.
    question: Value,
    /// Number of points recorded by earlier executions.
    pub(super) resumed: usize,
    /// Cost of every recorded point.
    spent: Mutex<Vec<PointCost>>,
    map: Mutex<Boundary>,
    /// Points recorded by earlier executions but not yet by this one, with a hash of the answer, and their count.
    replayed: Mutex<BTreeMap<(String, u64), usize>>,
}

impl BoundaryHandle {
    /// Creates the script's next boundary and restores its points from earlier executions.
    pub(super) fn new(host: &Host, axes: Map, mut given: Map) -> Result<Self> {
        let question = from_script(&given.remove("question").unwrap_or_default())?;
        let described = from_script(&Dynamic::from(given.clone()))?;
        if let Some(fault) = axes.keys().find_map(|name| misspelt_axis(name)) {
            return Err(fault);
        }
        let axes = from_script(&Dynamic::from(axes))?;
        let mut map = Boundary::new(&axes, options::<Options>(given)?)?;
        let index = {
            let mut state = lock(&host.state);
            state.axes = Some(axes.clone());
            state.boundaries += 1;
            state.boundaries - 1
        };
        let mut replayed = BTreeMap::new();
        let mut spent = Vec::new();
        host.run.note(Event::Boundary {
            index,
            axes: json!({ "axes": axes, "options": described, "question": question }),
        })?;
        for (point, answer) in host.run.points(index) {
            let read = PointAnswer::read(&answer)?;
            map.record(&point, &read.judged)?;
            spent.push(PointCost::new(&point, read));
            *replayed.entry(key(&point, &answer)).or_default() += 1;
            host.run.note(Event::Restored { point, answer })?;
        }
        Ok(Self(Arc::new(Shared {
            index,
            question,
            resumed: spent.len(),
            spent: Mutex::new(spent),
            map: Mutex::new(map),
            replayed: Mutex::new(replayed),
        })))
    }

    /// Locks the boundary.
    pub fn lock(&self) -> MutexGuard<'_, Boundary> {
        lock(&self.0.map)
    }

    /// Fails if a list of all points would exceed the limits of a script's value.
    pub(super) fn check_listable(&self) -> Result<()> {
        /// Entries of a row: point, verdict, cause, moves, evidence.
        const ROW: usize = 5;
        let boundary = self.lock();
        let (points, most) = (boundary.records().len(), MAP / (ROW + boundary.lattice().axes().len()));
        if points <= most {
            return Ok(());
        }
        let message = format!("{points} points are too many for a list, which can hold {most}");
        Err(Fault::new(Kind::Limit, message)
            .hint("`frontier()` and `failing()` return the important ones; the journal has all"))
    }

    /// When each point was recorded, UTC, by the point as text; the latest time of each. Empty without a run's folder,
    /// whose journal has the times.
    pub(super) fn times(&self, host: &Host) -> HashMap<String, String> {
        let found = host.run.folder().and_then(|folder| RecordedRun::read(folder).ok());
        let found = found.and_then(|mut found| found.boundaries.get_mut(self.0.index).map(std::mem::take));
        let points = found
            .into_iter()
            .flat_map(|found| found.points.into_iter().zip(found.times));
        points.map(|((point, _), time)| (point.to_string(), time)).collect()
    }

    /// Every recorded point with its cost.
    pub(super) fn spent(&self) -> MutexGuard<'_, Vec<PointCost>> {
        lock(&self.0.spent)
    }

    /// Forgets the records of earlier executions for `point`, so that it is probed and recorded again.
    pub(super) fn forget(&self, host: &Host, point: &Point) {
        host.run.forget_recorded(point);
        let mut replayed = lock(&self.0.replayed);
        let forgotten = point.to_string();
        replayed.retain(|(point, _), _| *point != forgotten);
    }

    /// Records an answer, and notes it in the run unless an earlier execution did.
    pub(super) fn record(&self, host: &Host, point: Point, given: Value) -> Result<Moves> {
        let (is_map, read) = (given.is_object(), PointAnswer::read(&given)?);
        let answer = &read.judged;
        let mut replayed = lock(&self.0.replayed);
        if !replayed.is_empty()
            && let Some(times) = replayed.get_mut(&key(&point, &given)).filter(|times| **times > 0)
        {
            *times -= 1;
            let overload = self.lock().options().overload;
            return Ok(answer.verdict.moves(answer.cause.as_ref(), overload));
        }
        drop(replayed);
        let moves = self.lock().record(&point, answer)?;
        host.run.note(Event::Point {
            boundary: self.0.index,
            point: point.clone(),
            verdict: answer.verdict,
            cause: answer.cause.clone(),
            moves,
            answer: given,
        })?;
        // A bare verdict has no cost: a million of them would only take memory.
        if is_map {
            self.spent().push(PointCost::new(&point, read));
        }
        Ok(moves)
    }

    /// Reports the progress of a search after `probes` probes of `expected`; `seconds_left` is its estimate of the
    /// remaining time.
    pub(super) fn note_progress(
        &self,
        host: &Host,
        probes: u64,
        expected: Option<u64>,
        seconds_left: Option<f64>,
    ) -> Result<()> {
        let volume = self.lock().volume()?;
        host.run.note(Event::Progress {
            done: probes,
            expected,
            resolved: 1.0 - volume.open as f64 / volume.total.max(1) as f64,
            seconds_left,
        })
    }
}

fn key(point: &Point, answer: &Value) -> (String, u64) {
    let mut hash = DefaultHasher::new();
    answer.to_string().hash(&mut hash);
    (point.to_string(), hash.finish())
}

/// Summarizes a boundary, with the statistics of its search, and notes the report in the run.
pub(super) fn report(host: &Host, map: &BoundaryHandle, mut search: Option<Value>) -> Result<Findings> {
    map.check_listable()?;
    let boundary = map.lock();
    let engine = host.state().engine.upgrade();
    let flags = |point: &Point, concurrency: bool| match (&engine, Limits::of_point(point)) {
        (Some(engine), Ok(limits)) => production_flags(engine.first(), limits, concurrency),
        // Flags exist only for an engine and for axes that are lengths.
        _ => Ok(Vec::new()),
    };
    if let Some(Value::Object(search)) = &mut search
        && !map.0.question.is_null()
    {
        search.insert("question".to_owned(), map.0.question.clone());
    }
    let asked = host.run.asked();
    let parameters = host.state().params.clone().map(Value::Object);
    let run = RunFacts {
        stopped: None,
        script: host.settings.script.display().to_string(),
        declared: RunFacts::declared_in(parameters.as_ref()),
        set: with_model(host.settings.set.clone(), parameters.as_ref(), &asked),
        allow: host.settings.allow.clone(),
        on_host: host.run.on_host(),
        asked: asked.iter().map(ToString::to_string).collect(),
    };
    let context = AnswerContext {
        search: search.as_ref(),
        run: &run,
        flags: &flags,
        headroom: &|safe| host.run.headroom(map.0.index, safe),
    };
    let findings = Findings::new(&boundary, &context)?;
    let value = serde_json::to_value(&findings).map_err(Fault::internal)?;
    let extras = Extras {
        run,
        report: Some(value.clone()),
        simulated: (host.run.simulated()).then(|| simulated_line(&host.run.simulated_engines())),
    };
    let page = host.settings.page;
    let text = text(&overview(&boundary, &extras, page)?, page);
    let stopped = search.is_some_and(|search| search["stopped"] == "server");
    let ended = boundary
        .records()
        .last()
        .filter(|(_, record)| stopped && record.ended_server())
        .map(|(point, record)| match record.verdict {
            Verdict::Timeout => format!("the server did not answer {point} in time"),
            _ => format!("the server died at {point}"),
        });
    drop(boundary);
    host.run.note(Event::Report {
        boundary: map.0.index,
        value,
        text,
    })?;
    // The findings are shown, but the run is not done, so that it can be resumed.
    match ended {
        Some(what) => Err(Fault::missing(
            what,
            "see the server's log, restart it and resume the run, or count such points as failing: \
             `--search.crash fails`; a slow server gets more time in a new run: `--request-timeout 600`",
        )),
        None => Ok(findings),
    }
}

/// The cost of one point, including retries.
#[derive(Clone, Debug, PartialEq)]
pub struct PointCost {
    /// The point.
    pub point: JsonText,
    /// Its verdict.
    pub verdict: Verdict,
    /// Probes, starts and time.
    pub spent: Spent,
    /// Limits reported by the engine.
    pub report: Option<BoundsReport>,
    /// Peak memory, bytes.
    pub peak: Option<f64>,
}

impl PointCost {
    fn new(point: &Point, answer: PointAnswer) -> Self {
        Self {
            point: JsonText::from(&json!(point)),
            verdict: answer.judged.verdict,
            spent: answer.spent,
            report: answer.judged.report,
            peak: answer.peak.map(|bytes| bytes as f64),
        }
    }
}
