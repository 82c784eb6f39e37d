//! Events of a run, and totals counted from them. The journal stores each event as one line of JSON.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use profiler_search::names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Operation, OperationKind, PointAnswer};
use super::asked::AskedServer;
use crate::boundary::{Cause, Moves, Point, Verdict};
use crate::warning::Warning;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The script created a boundary.
    Boundary {
        /// Index of the boundary in the script, from 0.
        index: usize,
        /// Its axes and options as given.
        axes: Value,
    },
    /// A point was recorded in a boundary.
    Point {
        /// Index of the boundary, from 0.
        boundary: usize,
        /// The point.
        point: Point,
        /// Its verdict.
        verdict: Verdict,
        /// The cause of the verdict, if it has one.
        cause: Option<Cause>,
        /// Whether the point fits, fails, or is inconclusive.
        moves: Moves,
        /// The complete answer that the script recorded. The journal omits the parts that equal the probe's answer, and
        /// refers to that answer by `id`.
        answer: Value,
    },
    /// A probe, load or experiment started.
    Began {
        /// A kind that takes time.
        kind: OperationKind,
        /// Its arguments; a resume looks the answer up by them.
        args: Value,
        /// Whether a resume takes the answers within this experiment, if it did not finish. Otherwise all of it is
        /// repeated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_parts: bool,
    },
    /// A probe, load or experiment finished, or a file or another tool's results were read. Synced to disk at once.
    Done {
        /// Its kind and its answer.
        #[serde(flatten)]
        operation: Operation,
        /// Its arguments; a resume looks the answer up by them.
        args: Value,
        /// Its number in the run, from 1.
        id: u64,
    },
    /// An experiment ended without an answer; the script continues.
    GivenUp {
        /// The kind.
        kind: OperationKind,
        /// Its arguments.
        args: Value,
    },
    /// The engine entered a phase.
    Phase {
        /// The phase.
        phase: EnginePhase,
        /// Text for people: the image, the model, the limits.
        detail: String,
    },
    /// Progress reported by a search strategy.
    Progress {
        /// Points decided.
        done: u64,
        /// Expected number of points, if known.
        expected: Option<u64>,
        /// Resolved share of the search range, 0 to 1: known to fit or to fail.
        resolved: f64,
        /// Estimated seconds left, if the strategy has an estimate.
        seconds_left: Option<f64>,
    },
    /// A value that the script recorded by name.
    Record {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
    },
    /// Current memory use, for the live view only. The series is in `memory/`.
    Memory {
        /// Bytes in use on the engine's devices.
        used: u64,
        /// Capacity of those devices in bytes.
        total: u64,
    },
    /// Progress of a load, for the live view only. The records are in `loads/`.
    Loading {
        /// Requests that ended.
        done: u64,
        /// Requests issued.
        issued: u64,
        /// Total number of requests, if known.
        expected: Option<u64>,
        /// Requests completed per second since the load began: equally long requests end in bursts, so that the last
        /// second says nothing.
        per_second: f64,
    },
    /// The loads that the script runs next, for the live view only.
    Planned {
        /// Their options, as `engine.load` takes them.
        loads: Vec<Value>,
    },
    /// A point that an earlier execution recorded in the newest boundary, for the live view only.
    Restored {
        /// The point.
        point: Point,
        /// Its answer.
        answer: Value,
    },
    /// The requests of a probe were sent, for the live view only.
    Sent {
        /// Seconds after which unfinished requests fail.
        timeout: f64,
    },
    /// The newest log line of an engine that is starting, for the live view only.
    Log {
        /// The line.
        line: String,
    },
    /// The lines that a script shows while it waits, replacing its earlier lines; for the live view only.
    Watch {
        /// Lines of text, most important first.
        lines: Vec<String>,
    },
    /// The result of `report(map)`.
    Report {
        /// Index of the boundary, from 0.
        boundary: usize,
        /// The value that the script got.
        value: Value,
        /// Text for people. Not stored: `profiler show` renders it again.
        #[serde(skip)]
        text: String,
    },
    /// Memory by component, per device and in total.
    Breakdown {
        /// Its name in the script: the start, or the engine.
        name: String,
        /// [`crate::memory::Footprint`]: `#{ all, per_gpu, overhead, details }`.
        value: Value,
        /// For a partial result: what is still to be measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// A comparison of settings of one parameter.
    Experiment {
        /// Its name in the script: the parameter and the engine.
        name: String,
        /// [`crate::experiment::Experiment`].
        value: Value,
        /// For a partial result: what is still to be measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// A result for which the script supplies the text.
    Shown {
        /// The result.
        value: Value,
        /// Text for people.
        text: String,
        /// For a partial result: what is still to be measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// A chart drawn with `plot::…`.
    Plot {
        /// [`crate::report::plot::Plot`].
        value: Value,
    },
    /// A warning that readers of the results must see.
    Warning(Warning),
    /// A line that the script printed.
    Print {
        /// The text.
        text: String,
    },
    /// A progress line of a script, not a result.
    Note {
        /// The text.
        text: String,
    },
    /// A started engine: versions, launch line, limits, image digest.
    Engine {
        /// The description.
        info: Value,
    },
    /// An engine failed to start with these options; a resume does not retry it.
    StartFailed {
        /// The engine and its launch options; a resume looks the failure up by them.
        args: Value,
        /// The limits of the start, the cause of the failure, and the evidence.
        failure: Value,
    },
    /// An attempt at the run began. All following events belong to it.
    Attempt {
        /// Its number. Later attempts have higher numbers.
        number: u64,
    },
    /// The run was resumed: all following events belong to another execution.
    Resumed {
        /// Number of finished probes, loads and experiments that were found.
        answers: usize,
        /// Number of points that were found.
        points: usize,
    },
    /// The script ended.
    End {
        /// How it ended.
        status: RunStatus,
        /// The result, or the fault.
        value: Value,
    },
}

/// The status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It runs, or was killed.
    #[default]
    Running,
    /// The script ended normally.
    Done,
    /// The script failed.
    Failed,
    /// A signal ended it.
    Interrupted,
    /// Its time was over (`--max-time`).
    OutOfTime,
}

names!(RunStatus { Running "running", Done "done", Failed "failed", Interrupted "interrupted", OutOfTime "out_of_time", });

/// A phase of an engine's life, as the live view shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnginePhase {
    /// Waiting for a server that does not answer yet (`--wait`).
    Waiting,
    /// Pulling its image.
    Pulling,
    /// Downloading its model.
    Downloading,
    /// Starting its container or process.
    Starting,
    /// Loading the model into memory.
    Loading,
    /// It answers.
    Ready,
    /// Running a probe or a load.
    Probing,
    /// Measuring a setting of an experiment inside the engine's container.
    Measuring,
    /// It is being ended.
    Stopping,
    /// It ended.
    Stopped,
}

names!(EnginePhase {
    Waiting "waiting",
    Pulling "pulling",
    Downloading "downloading",
    Starting "starting",
    Loading "loading",
    Ready "ready",
    Probing "probing",
    Measuring "measuring",
    Stopping "stopping",
    Stopped "stopped",
});

thread_local! {
    static ENGINE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The number (from 1) of the engine that this thread works for, if several are probed at the same time. Events of the
/// thread are assigned to it.
pub fn engine_number() -> Option<u64> {
    ENGINE.get()
}

/// Runs `work`, assigning the events of this thread to engine `number`.
pub fn for_engine<T>(number: u64, work: impl FnOnce() -> T) -> T {
    /// Restores the previous engine, also after a panic.
    struct Leave(Option<u64>);
    impl Drop for Leave {
        fn drop(&mut self) {
            ENGINE.set(self.0);
        }
    }
    let _leave = Leave(ENGINE.replace(Some(number)));
    work()
}

impl Event {
    /// Whether the event is stored in the journal.
    pub(super) fn in_journal(&self) -> bool {
        use Event::{Loading, Log, Memory, Planned, Restored, Sent, Watch};
        let only_live = matches!(
            self,
            Memory { .. } | Loading { .. } | Planned { .. } | Restored { .. } | Sent { .. } | Log { .. } | Watch { .. }
        );
        !only_live
    }

    /// Whether this is a partial result, which is shown only if the run ends before a later one.
    pub(super) fn is_so_far(&self) -> bool {
        let missing = match self {
            Event::Breakdown { missing, .. } | Event::Experiment { missing, .. } | Event::Shown { missing, .. } => {
                missing
            }
            _ => return false,
        };
        missing.is_some()
    }

    /// Whether the event must be synced to disk before the run continues.
    pub(super) fn must_sync(&self) -> bool {
        matches!(
            self,
            Event::Done { .. } | Event::Engine { .. } | Event::StartFailed { .. } | Event::End { .. }
        )
    }
}

/// Totals, counted from the events.
#[derive(Debug, Default)]
pub struct Totals {
    points: u64,
    fits: u64,
    /// Probes, loads and experiments finished.
    finished: u64,
    /// The distinct warnings, in order.
    pub warnings: Vec<Warning>,
    /// Peak memory use while a point was probed, by boundary and point, if it was measured.
    peaks: HashMap<(usize, String), u64>,
    /// Bytes of memory of the engine's devices.
    total: Option<u64>,
    /// Whether that memory is the host's, not a GPU's.
    pub(super) on_host: bool,
    /// The simulated models and GPUs, as [`simulated`] describes them.
    simulated: BTreeSet<String>,
    /// The servers that were measured, and their models, in order.
    pub asked: Vec<AskedServer>,
    /// Whether a start failed.
    pub(super) start_failed: bool,
}

impl Totals {
    /// Adds an event. Returns false for a repeated warning.
    pub(super) fn count(&mut self, event: &Event) -> bool {
        match event {
            Event::Point {
                boundary,
                point,
                moves,
                answer,
                ..
            } => {
                self.points += 1;
                self.fits += u64::from(*moves == Moves::Fits);
                let peak = PointAnswer::read(answer).ok().and_then(|answer| answer.peak);
                if let Some(peak) = peak {
                    self.peaks.insert((*boundary, point.to_string()), peak);
                }
            }
            Event::Done { operation, .. } => self.finished += u64::from(operation.measures()),
            Event::Memory { total, .. } => self.total = Some(*total),
            Event::Engine { info } => {
                self.total = info.get("memory_total").and_then(Value::as_u64).or(self.total);
                self.on_host = info.get("memory_source").is_some_and(|source| source == "host");
                self.simulated.extend(simulated(info));
                self.asked
                    .extend(AskedServer::from_engine(info).filter(|asked| !self.asked.contains(asked)));
            }
            Event::StartFailed { .. } => self.start_failed = true,
            Event::Warning(warning) => {
                if self.warnings.contains(warning) {
                    return false;
                }
                self.warnings.push(warning.clone());
            }
            _ => {}
        }
        true
    }

    /// Whether points were tested and none fits.
    pub fn nothing_fits(&self) -> bool {
        self.points > 0 && self.fits == 0
    }

    /// Whether something was measured: a point was tested, or a request finished.
    pub fn has_measured(&self) -> bool {
        self.points > 0 || self.finished > 0
    }

    /// Bytes of device memory left while a point of a boundary was probed.
    pub(super) fn headroom(&self, boundary: usize, point: &Point) -> Option<u64> {
        let peak = self.peaks.get(&(boundary, point.to_string()))?;
        Some(self.total?.saturating_sub(*peak))
    }

    /// Descriptions of the simulated engines.
    pub fn simulated(&self) -> Vec<String> {
        self.simulated.iter().cloned().collect()
    }
}

/// Describes a simulated engine: `Llama-3.1-8B-Instruct, 24 GB card (profile llama-8b-24gb-vllm)`; `None` for a real
/// engine. Only the profile is known before the start.
fn simulated(engine: &Value) -> Option<String> {
    let text = |pointer: &str| engine.pointer(pointer).and_then(Value::as_str);
    let profile = text("/launched/profile").or_else(|| text("/launch/sim/profile"))?;
    let (Some(model), Some(gpu)) = (text("/info/model"), text("/launched/gpu")) else {
        return Some(format!("profile {profile}"));
    };
    let model = model.rsplit('/').next().unwrap_or(model);
    Some(format!("{model}, {gpu} (profile {profile})"))
}
