//! The handle by which scripts share a boundary, and what the run keeps of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhai::{Dynamic, Map};
use serde_json::{Value, json};

use super::limits::MAP;
use super::spent::Spent;
use super::{Host, from_script, options};
use crate::boundary::{Answer, Boundary, Moves, Options, Point};
use crate::fault::{Fault, Kind, Result};
use crate::run::Event;

/// A boundary shared by every copy of its handle.
#[derive(Clone)]
pub struct BoundaryHandle(Arc<Shared>);

struct Shared {
    index: usize,
    /// What an earlier life of the run recorded, as it cost.
    resumed: Vec<Spent>,
    map: Mutex<Boundary>,
    /// Points that an earlier life of this run recorded, and how often: recorded again, they are the same.
    kept: Mutex<BTreeMap<String, usize>>,
}

impl BoundaryHandle {
    /// Makes the script's next boundary: told to the run, and holding what it held before a resume.
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
        let mut kept = BTreeMap::new();
        let mut resumed = Vec::new();
        for (point, answer) in host.run.points(index) {
            map.record(&point, &Answer::parse(&answer)?)?;
            resumed.push(Spent::of(&point, &answer));
            *kept.entry(key(&point, &answer)).or_default() += 1;
        }
        host.run.note(Event::Boundary {
            index,
            axes: json!({ "axes": axes, "options": described }),
        })?;
        Ok(Self(Arc::new(Shared {
            index,
            resumed,
            map: Mutex::new(map),
            kept: Mutex::new(kept),
        })))
    }

    /// The boundary itself, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Boundary> {
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a list of more points than a script's value may hold, before the memory for it is taken.
    pub(super) fn listable(&self) -> Result<()> {
        /// Entries of a row: point, verdict, cause, moves, evidence.
        const ROW: usize = 5;
        let boundary = self.lock();
        let (points, most) = (boundary.records().len(), MAP / (ROW + boundary.lattice().axes().len()));
        if points <= most {
            return Ok(());
        }
        let message = format!("{points} points are too many for one list, which ends at {most}");
        Err(Fault::new(Kind::Limit, message)
            .hint("`frontier()` and `failing()` give those that matter; the journal keeps them all"))
    }

    /// Which boundary of the script it is, from 0.
    pub(super) fn index(&self) -> usize {
        self.0.index
    }

    /// The points that an earlier life of the run recorded, and what they cost.
    pub(super) fn resumed(&self) -> &[Spent] {
        &self.0.resumed
    }

    /// From here on a probe of `point` is a new one, and so is its record, whatever an earlier life of the run has of it.
    pub(super) fn again(&self, host: &Host, point: &Point) {
        host.run.again(point);
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of_point = format!("{point} ");
        kept.retain(|key, _| !key.starts_with(&of_point));
    }

    /// Records an answer and notes it, unless an earlier life of the run did.
    pub(super) fn record(&self, host: &Host, point: Point, given: Value) -> Result<Moves> {
        let answer = Answer::parse(&given)?;
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.is_empty()
            && let Some(times) = kept.get_mut(&key(&point, &given)).filter(|times| **times > 0)
        {
            *times -= 1;
            let overload = self.lock().options().overload;
            return Ok(answer.verdict.moves(answer.cause.as_deref(), overload));
        }
        drop(kept);
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
