//! The handle by which scripts share a boundary. Records its points in the run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhai::{Dynamic, Map};
use serde_json::{Value, json};

use super::limits::MAP;
use super::point_cost::PointCost;
use super::{Host, from_script, options};
use crate::boundary::{Answer, Boundary, Moves, Options, Point};
use crate::fault::{Fault, Kind, Result};
use crate::run::Event;

/// A boundary shared by every copy of its handle.
#[derive(Clone)]
pub struct BoundaryHandle(Arc<Shared>);

struct Shared {
    index: usize,
    /// Cost of the points recorded by earlier executions.
    resumed: Vec<PointCost>,
    map: Mutex<Boundary>,
    /// Points recorded by earlier executions and not again by this one, with their count.
    replayed: Mutex<BTreeMap<String, usize>>,
}

impl BoundaryHandle {
    /// Creates the script's next boundary and restores its points from earlier executions.
    pub(super) fn new(host: &Host, axes: Map, given: Map) -> Result<Self> {
        let described = from_script(&Dynamic::from(given.clone()))?;
        let axes = from_script(&Dynamic::from(axes))?;
        let mut map = Boundary::new(&axes, options::<Options>(given)?)?;
        let index = {
            let mut state = host.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.axes = Some(axes.clone());
            state.boundaries += 1;
            state.boundaries - 1
        };
        let mut replayed = BTreeMap::new();
        let mut resumed = Vec::new();
        for (point, answer) in host.run.points(index) {
            map.record(&point, &Answer::parse(&answer)?)?;
            resumed.push(PointCost::from_answer(&point, &answer));
            *replayed.entry(key(&point, &answer)).or_default() += 1;
        }
        host.run.note(Event::Boundary {
            index,
            axes: json!({ "axes": axes, "options": described }),
        })?;
        Ok(Self(Arc::new(Shared {
            index,
            resumed,
            map: Mutex::new(map),
            replayed: Mutex::new(replayed),
        })))
    }

    /// Locks the boundary.
    pub fn lock(&self) -> MutexGuard<'_, Boundary> {
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Index of the boundary in the script, from 0.
    pub(super) fn index(&self) -> usize {
        self.0.index
    }

    /// Points recorded by earlier executions, with their cost.
    pub(super) fn resumed(&self) -> &[PointCost] {
        &self.0.resumed
    }

    /// Forgets what earlier executions recorded for `point`: it is probed and recorded anew.
    pub(super) fn forget(&self, host: &Host, point: &Point) {
        host.run.forget_recorded(point);
        let mut replayed = self.0.replayed.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = format!("{point} ");
        replayed.retain(|key, _| !key.starts_with(&prefix));
    }

    /// Records an answer, and notes it in the run unless an earlier execution did.
    pub(super) fn record(&self, host: &Host, point: Point, given: Value) -> Result<Moves> {
        let answer = Answer::parse(&given)?;
        let mut replayed = self.0.replayed.lock().unwrap_or_else(PoisonError::into_inner);
        if !replayed.is_empty()
            && let Some(times) = replayed.get_mut(&key(&point, &given)).filter(|times| **times > 0)
        {
            *times -= 1;
            let overload = self.lock().options().overload;
            return Ok(answer.verdict.moves(answer.cause.as_deref(), overload));
        }
        drop(replayed);
        let moves = self.lock().record(&point, &answer)?;
        host.run.note(Event::Point {
            boundary: self.0.index,
            point,
            verdict: answer.verdict,
            cause: answer.cause,
            moves,
            answer: given,
        })?;
        Ok(moves)
    }
}

fn key(point: &Point, answer: &Value) -> String {
    format!("{point} {answer}")
}
