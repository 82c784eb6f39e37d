//! What happens in a run, as the journal keeps it: one JSON object a line, `event` first.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::boundary::{Moves, Point, Verdict};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The script made its `index`-th boundary (from 0) over these axes.
    Boundary {
        /// Which boundary of the script, from 0.
        index: usize,
        /// Its axes and options as given.
        axes: Value,
    },
    /// A point was recorded in a boundary.
    Point {
        /// Which boundary, from 0.
        boundary: usize,
        /// The point.
        point: Point,
        /// The verdict recorded.
        verdict: Verdict,
        /// Its cause, where it has one.
        cause: Option<String>,
        /// What it says about the boundary.
        moves: Moves,
        /// The whole answer as the script gave it.
        answer: Value,
    },
    /// A probe, load or experiment begins.
    Began {
        /// `probe`, `load` or `experiment`.
        kind: String,
        /// Its arguments: what a resume compares.
        args: Value,
    },
    /// It is finished; on disk before anything else begins. Also: results of another tool, or a file, were read.
    Done {
        /// `probe`, `load`, `experiment`, `results`, `file` or `estimate`.
        kind: String,
        /// Its arguments: what a resume compares.
        args: Value,
        /// Its answer.
        answer: Value,
    },
    /// It ended without an answer, and the script goes on.
    GivenUp {
        /// `experiment`.
        kind: String,
        /// Its arguments.
        args: Value,
    },
    /// The engine moves to another phase: `pulling`, `starting`, `loading`, `ready`, `probing`, `stopping`, `stopped`.
    Phase {
        /// The phase.
        phase: String,
        /// For people: the image, the model, the limits.
        detail: String,
    },
    /// A strategy tells how far it is.
    Progress {
        /// Points settled.
        done: u64,
        /// Points expected in all, where known.
        expected: Option<u64>,
        /// Share of the volume proven, 0 to 1.
        coverage: f64,
        /// About how many seconds are left, where the strategy has an estimate.
        #[serde(default)]
        seconds_left: Option<f64>,
    },
    /// A value that the script recorded by name.
    Record {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
    },
    /// Memory as it was seen just now, for the live view only: the series is in `memory/`.
    Memory {
        /// Bytes in use on the engine's devices.
        used: u64,
        /// Bytes that are there.
        total: u64,
    },
    /// How far a load is, for the live view only: its records are in `loads/`.
    Loading {
        /// Requests that ended.
        done: u64,
        /// Requests issued.
        issued: u64,
        /// Requests in all, where that is known.
        expected: Option<u64>,
        /// Requests that ended in the last second or so, a second.
        per_second: f64,
    },
    /// What `report(map)` found.
    Report {
        /// Which boundary, from 0.
        boundary: usize,
        /// The value that the script got.
        value: Value,
        /// As people see it; drawn anew by `profiler show`.
        #[serde(skip)]
        text: String,
    },
    /// Memory by component, for each device and in all.
    Breakdown {
        /// What the script calls it: the start, or the engine.
        name: String,
        /// [`crate::memory::Footprint`]: `#{ all, per_gpu, overhead, details }`.
        value: Value,
    },
    /// Settings of a knob against each other.
    Experiment {
        /// What the script calls it: the knob and the engine.
        name: String,
        /// [`crate::experiment::Experiment`].
        value: Value,
    },
    /// A result that the script shows in its own words.
    Shown {
        /// The result.
        value: Value,
        /// As people see it.
        text: String,
    },
    /// A picture that the script drew with `plot::…`.
    Plot {
        /// [`crate::report::plot::Plot`].
        value: Value,
    },
    /// Something that the reader of the results must know.
    Warning {
        /// The warning.
        text: String,
    },
    /// A line that the script printed.
    Print {
        /// The text.
        text: String,
    },
    /// What was launched: engine, versions, launch line, limits, image digest. Known only once an engine starts.
    Engine {
        /// The description.
        info: Value,
    },
    /// An engine cannot be started so: what a resume need not try again.
    StartFailed {
        /// The engine and its launch options: what a resume compares.
        args: Value,
        /// The limits of the start, why it failed, and what shows it.
        failure: Value,
    },
    /// A host took the run up again: what follows happened in another life.
    Resumed {
        /// Finished probes, loads and experiments found.
        answers: usize,
        /// Points found.
        points: usize,
    },
    /// The script ended.
    End {
        /// `done`, `failed` or `interrupted`.
        status: String,
        /// The result, or the fault.
        value: Value,
    },
}

/// Whether what is finished was measured here: results of another tool, a file and a model's architecture are only read.
pub(super) fn measures(kind: &str) -> bool {
    !matches!(kind, "results" | "file" | "estimate")
}

impl Event {
    /// Whether the journal keeps it.
    pub(super) fn kept(&self) -> bool {
        !matches!(self, Event::Memory { .. } | Event::Loading { .. })
    }

    /// Whether it must be on disk before anything else happens.
    pub(super) fn binding(&self) -> bool {
        matches!(
            self,
            Event::Done { .. } | Event::Engine { .. } | Event::StartFailed { .. } | Event::End { .. }
        )
    }
}
