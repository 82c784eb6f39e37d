//! A run of a script and its folder: manifest, journal, logs, series, result; and how to resume it.
//!
//! Everything that happens goes through [`Run`] as an [`Event`]: the journal stores it, listeners (the live view) show
//! it. A killed run can be resumed; each attempt is one execution of it. [`Run::replay`] then answers finished
//! operations of earlier executions from the journal.
//!
//! `start` starts and resumes runs, `writer` writes the folder, and `manifest` checks that the plan is unchanged.
//! `probe_answer` is a probe's answer as the journal has it, `answer` an answer with the point that refers to it.
//! `recorded` reads the folder into a [`RecordedRun`]; [`Folder`] opens every file in it.

mod answer;
mod asked;
mod attempt;
mod decoded;
mod disk;
mod event;
mod files;
mod folder;
mod jobs;
mod journal;
mod keys;
mod manifest;
mod new_folder;
mod pack;
mod probe_answer;
mod recorded;
mod reference;
mod remembered;
mod replay;
mod secrets;
mod sessions;
mod start;
mod writer;

pub use answer::{Operation, OperationKind, PointAnswer};
pub use asked::AskedServer;
pub use disk::{BoundedFile, DiskUse, WrittenFile};
pub use event::{EnginePhase, Event, RunStatus, Totals, engine_number, for_engine};
pub use folder::Folder;
pub use jobs::JobFolder;
pub(crate) use journal::JOURNAL;
pub(crate) use manifest::MANIFEST;
pub use manifest::{Machine, Manifest, RunPlan, SCHEMA, Script, completed};
pub use new_folder::check_free;
pub use pack::{is_pack, pack};
pub use probe_answer::ProbeAnswer;
pub use recorded::{RecordedBoundary, RecordedLoad, RecordedRun};
pub use remembered::{forget_allowed, is_remembered, own_run, remember};
pub use replay::RecordedPoint;
pub use secrets::{
    HIDDEN, add_secrets, add_secrets_of, can_be_hidden, has_hidden, hide, hide_json, hide_keys, hide_url,
    hide_variable, hide_variables, hide_words, holds_secret, is_secret_name, named_secrets,
};
pub use sessions::{EngineSession, Measurement};
pub(crate) use writer::random;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::boundary::Point;
pub use crate::evidence::{Allocation, Evidence, Limits, SlotLimit};
use crate::fault::{Fault, Result};
use crate::file::sha256;
use crate::task::lock;
use crate::warning::Warning;
use replay::Replay;
use writer::RunWriter;

/// Called with every event as it happens.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// Lets the user choose: takes the question and the choices. Returns `None` if nobody can answer, or if the user
/// chooses nothing.
pub type Choose = Box<dyn Fn(&str, &[String]) -> Result<Option<String>> + Send + Sync>;

/// A run under way.
#[derive(Default)]
pub struct Run {
    id: String,
    seed: u64,
    script: String,
    listeners: Mutex<Vec<Listener>>,
    simulated: AtomicBool,
    replay: Mutex<Replay>,
    /// The id of the operation that finished last.
    finished: AtomicU64,
    ordinals: Mutex<BTreeMap<String, u64>>,
    /// The script's files that were already written in this execution.
    started_files: Mutex<HashSet<PathBuf>>,
    totals: Mutex<Totals>,
    /// In a resumed run, hashes of further scripts that the user trusts.
    trusted: OnceLock<Vec<String>>,
    choose: OnceLock<Choose>,
    writer: Option<RunWriter>,
}

impl Run {
    /// A run without a folder: for the REPL, `check`, and tests.
    pub fn ephemeral(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            seed: writer::draw_seed(),
            ..Self::default()
        }
    }

    /// The run's id: `<UTC time>-<script>-<random>`. Containers and processes carry it as a label; a resume keeps it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The random seed: given by the user, or drawn and recorded.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The run's folder, unless it is ephemeral.
    pub fn folder(&self) -> Option<&Path> {
        self.writer.as_ref().map(|writer| writer.folder.path())
    }

    /// Restricts modules to texts that ran in this run before on this machine, or that have one of these hashes.
    pub fn trust_only(&self, sha256: Vec<String>) {
        // A process resumes one run, so this is set once.
        let _ = self.trusted.set(sha256);
    }

    /// Stores an imported module by its name: `std/search.rhai`, or a path relative to the script's folder.
    ///
    /// # Errors
    ///
    /// `usage` if an earlier execution imported another text under that name; `not_allowed` for an untrusted module.
    pub fn module(&self, name: &str, text: &str, sha256: &str) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        if !name.starts_with("std/") {
            let own = own_run(&self.id, sha256);
            if let Some(trusted) = self.trusted.get()
                && !trusted.iter().any(|trusted| trusted == sha256)
                && !is_remembered(&own)
            {
                return Err(Fault::not_allowed(
                    format!("this run has not used the module `{name}` as it is now"),
                    format!("read it; if you trust it, resume with `--trust-script sha256:{sha256}`"),
                ));
            }
            // A failure to remember was already reported when the run began.
            let _ = remember([own], "");
        }
        writer.module(name, text, sha256)
    }

    /// Records that loads send what the file of this name has.
    ///
    /// # Errors
    ///
    /// `usage` if it had another text before: the results of both would stand side by side.
    pub fn input(&self, name: &str, text: &str) -> Result<()> {
        match &self.writer {
            // A script may write its own prompts, each time others.
            Some(writer) if !is_below(name, writer.folder.path()) => writer.input(name, sha256(text)),
            _ => Ok(()),
        }
    }

    /// Records the parameters of the script.
    pub fn set_parameters(&self, parameters: &Value) {
        self.amend(|manifest| manifest.parameters = Some(parameters.clone()));
    }

    /// Records permissions that the user gave during the run, in the syntax of `--allow`: repeating the run needs them.
    pub fn permit(&self, words: impl IntoIterator<Item = String>) {
        self.amend(|manifest| manifest.permit(words));
    }

    /// Records the machine's GPUs, by UUID, and their driver version.
    pub fn set_gpus(&self, gpus: Vec<Value>, driver: Option<String>) {
        self.amend(|manifest| {
            manifest.gpus = gpus;
            manifest.driver = driver;
        });
    }

    /// Returns the answer of the k-th call of `kind` with these arguments, if an earlier execution finished it. Each
    /// call advances k.
    pub fn replay(&self, kind: OperationKind, args: &Value) -> Option<Value> {
        lock(&self.replay).answer(kind, args)
    }

    /// Answers a probe, load or experiment from the journal if an earlier execution finished it. Otherwise runs `work`,
    /// and journals its answer before returning it in the form for scripts. If an experiment fails, its measurements
    /// are given up, and a resume repeats all of it.
    ///
    /// # Errors
    ///
    /// Errors of `work`; `missing` if the journal cannot be written.
    pub fn measure<E: From<Fault>>(
        &self,
        kind: OperationKind,
        args: Value,
        work: impl FnOnce() -> Result<Operation, E>,
    ) -> Result<Value, E> {
        match self.replay(kind, &args) {
            Some(answer) => Ok(answer),
            None => self.measure_anew(kind, args, false, work),
        }
    }

    /// Like [`Run::measure`], for an experiment. `in_parts`: where it failed or was cut off, a resume repeats only the
    /// probes and loads in it that were not answered.
    ///
    /// # Errors
    ///
    /// As [`Run::measure`].
    pub fn measure_trial<E: From<Fault>>(
        &self,
        args: Value,
        in_parts: bool,
        work: impl FnOnce() -> Result<Operation, E>,
    ) -> Result<Value, E> {
        let kind = OperationKind::Experiment;
        // An equal trial may have finished before the one that was cut off, whose parts are for a later call.
        if let Some(answer) = self.replay(kind, &args) {
            return Ok(answer);
        }
        lock(&self.replay).enter(&args);
        let measured = self.measure_anew(kind, args, in_parts, work);
        lock(&self.replay).leave();
        measured
    }

    fn measure_anew<E: From<Fault>>(
        &self,
        kind: OperationKind,
        args: Value,
        in_parts: bool,
        work: impl FnOnce() -> Result<Operation, E>,
    ) -> Result<Value, E> {
        self.note(Event::Began {
            kind,
            args: args.clone(),
            in_parts,
        })?;
        match work() {
            Ok(operation) => Ok(self.finish(args, operation)?),
            Err(error) => {
                if kind == OperationKind::Experiment {
                    self.note(Event::GivenUp { kind, args })?;
                }
                Err(error)
            }
        }
    }

    /// Journals a finished operation, and returns its answer for scripts.
    ///
    /// # Errors
    ///
    /// As [`Run::note`].
    pub fn finish(&self, args: Value, operation: Operation) -> Result<Value> {
        let id = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = operation.for_script(id);
        self.note(Event::Done { id, args, operation })?;
        Ok(answer)
    }

    /// The trials of earlier executions that this one did not ask for yet, `#{ what, ended }`: in the order in which they
    /// ended, then those that were cut off.
    pub fn earlier_trials(&self) -> Vec<Value> {
        lock(&self.replay).trials()
    }

    /// The points of probes that earlier executions finished, but that no boundary recorded and that were not replayed
    /// yet.
    pub fn unrecorded(&self) -> Vec<Value> {
        lock(&self.replay).unrecorded()
    }

    /// Discards the answers of earlier executions that a boundary recorded for this point, so that it is probed again.
    pub fn forget_recorded(&self, point: &Point) {
        lock(&self.replay).forget(point);
    }

    /// The next number for this kind, from 1. The sequence is the same in every execution.
    pub fn ordinal(&self, kind: &str) -> u64 {
        let mut ordinals = lock(&self.ordinals);
        let number = ordinals.entry(kind.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// The `failure` of each [`Event::StartFailed`] with these `args` in earlier executions.
    pub fn failed_starts(&self, args: &Value) -> Vec<Value> {
        lock(&self.replay).failed_starts(args)
    }

    /// Removes and returns the points that earlier executions recorded in boundary number `boundary`, in order.
    pub fn points(&self, boundary: usize) -> impl Iterator<Item = (Point, Value)> + use<> {
        lock(&self.replay).points(boundary)
    }

    /// Writes an event to the journal and then notifies listeners, so they never see an event that a crash could lose.
    /// Partial results are not passed on to listeners. An [`Event::Done`] is on disk when this returns.
    ///
    /// # Errors
    ///
    /// `missing` if the disk is full; `usage` if a resumed run starts another engine than before.
    pub fn note(&self, event: Event) -> Result<()> {
        if !lock(&self.totals).count(&event) {
            return Ok(());
        }
        if let Some(writer) = self.writer.as_ref().filter(|_| event.in_journal()) {
            writer.note(&event)?;
        }
        if event.is_so_far() {
            return Ok(());
        }
        for listener in lock(&self.listeners).iter() {
            listener(&event);
        }
        Ok(())
    }

    /// Adds a warning, unless it equals an earlier one.
    pub fn warn(&self, warning: impl Into<Warning>) -> Result<()> {
        self.note(Event::Warning(warning.into()))
    }

    /// The disk that this run uses; `None` if it has no folder.
    pub fn disk_use(&self) -> Option<DiskUse> {
        Some(self.writer.as_ref()?.disk.used())
    }

    /// Adds a listener.
    pub fn listen(&self, listener: Listener) {
        lock(&self.listeners).push(listener);
    }

    /// Marks all output of this run as SIMULATED.
    pub fn set_simulated(&self) {
        if !self.simulated.swap(true, Ordering::Relaxed) {
            self.amend(|manifest| manifest.simulated = true);
        }
    }

    /// Whether anything in this run was simulated.
    pub fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }

    /// Descriptions of the simulated engines, one for each kind; empty if there are none yet.
    pub fn simulated_engines(&self) -> Vec<String> {
        lock(&self.totals).simulated()
    }

    /// Whether points were tested and none fits.
    pub fn nothing_fits(&self) -> bool {
        lock(&self.totals).nothing_fits()
    }

    /// Bytes of memory left while a point of a boundary was probed; `None` if memory was not measured.
    pub fn headroom(&self, boundary: usize, point: &Point) -> Option<u64> {
        lock(&self.totals).headroom(boundary, point)
    }

    /// Whether the engine's memory is the host's, not a GPU's.
    pub fn on_host(&self) -> bool {
        lock(&self.totals).on_host
    }

    /// The servers that were measured, and their models, in order.
    pub fn asked(&self) -> Vec<AskedServer> {
        lock(&self.totals).asked.clone()
    }

    /// Sets the function that puts questions to the user. Without it, [`Run::choose`] returns `None`.
    pub fn choose_with(&self, choose: Choose) {
        // Set once, since a run has one terminal.
        let _ = self.choose.set(choose);
    }

    /// Asks the user to choose; `None` if nobody can answer, or if the user chooses nothing.
    ///
    /// # Errors
    ///
    /// `interrupted` if a signal arrives while waiting.
    pub fn choose(&self, question: &str, choices: &[String]) -> Result<Option<String>> {
        self.choose.get().map_or(Ok(None), |choose| choose(question, choices))
    }

    /// The description of an engine that this run started earlier with the same options.
    pub fn recorded_engine(&self, options: &Value) -> Option<Value> {
        self.writer.as_ref()?.engine(options)
    }

    /// Whether anything was measured in any execution: a point recorded, or a probe, load or experiment finished.
    pub fn has_measured(&self) -> bool {
        lock(&self.totals).has_measured()
    }

    /// Whether the run has only read files so far: nothing was measured, and the script wrote nothing.
    pub fn not_started(&self) -> bool {
        self.writer.as_ref().is_some_and(RunWriter::not_started)
    }

    /// Whether it is an attempt with a number, as the jobs of a fleet are.
    pub fn is_attempt(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.attempt.is_some())
    }

    /// Whether no engine became ready and nothing was measured: the run cannot do its work, and there is nothing to
    /// resume.
    pub fn nothing_asked(&self) -> bool {
        let totals = lock(&self.totals);
        self.writer.is_some() && !totals.has_measured() && totals.asked.is_empty() && !totals.start_failed
    }

    /// Removes the folder of a run without findings, if it holds only the run's own files. With `parent`, also removes
    /// the folder of all runs if it is empty. Returns whether the folder is gone.
    pub fn discard(&self, parent: bool) -> bool {
        let Some(folder) = self.folder().filter(|_| self.not_started() || self.nothing_asked()) else {
            return false;
        };
        const FILES: [&str; 3] = ["script.rhai", "journal.jsonl", "manifest.json"];
        // The log is that of a container that keeps running.
        const FOLDERS: [&str; 3] = ["modules", "jobs", "logs"];
        // The script's own files are kept, and with them the run; a numbered attempt has a file of its own.
        let is_foreign = |entry: std::fs::DirEntry| FILES.iter().chain(&FOLDERS).all(|own| entry.file_name() != *own);
        if std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(is_foreign)) {
            return false;
        }
        for name in FILES {
            let _ = std::fs::remove_file(folder.join(name));
        }
        for name in FOLDERS {
            let _ = std::fs::remove_dir_all(folder.join(name));
        }
        let removed = std::fs::remove_dir(folder).is_ok();
        if let Some(runs) = folder.parent().filter(|_| removed && parent) {
            // Fails if it is not empty.
            let _ = std::fs::remove_dir(runs);
        }
        removed
    }

    /// Ends the run: `done` with its result, any other status with the fault. Returns the document for
    /// `--json`.
    pub fn end(&self, status: RunStatus, value: Value) -> Result<Value> {
        let document = self.document(if status == RunStatus::Done {
            Ok(&value)
        } else {
            Err(&value)
        });
        self.note(Event::End { status, value })?;
        if let Some(writer) = &self.writer {
            writer.end(status, &document)?;
        }
        Ok(document)
    }

    /// Replaces the run's `result.json`.
    pub fn replace_document(&self, document: &Value) -> Result<()> {
        match &self.writer {
            Some(writer) => writer.folder.replace_json(Path::new("result.json"), document),
            None => Ok(()),
        }
    }

    /// The document that `--json` prints, for a result or for the fault that ended the run.
    pub fn document(&self, ended: std::result::Result<&Value, &Value>) -> Value {
        let totals = lock(&self.totals);
        document(self.simulated(), Some(&self.id), &self.script, ended, &totals.warnings)
    }

    fn amend(&self, change: impl FnOnce(&mut Manifest)) {
        if let Some(writer) = &self.writer {
            writer.amend(change);
        }
    }
}

fn is_below(name: &str, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(Path::new(name))
        .zip(real(folder))
        .is_some_and(|(name, folder)| name.starts_with(folder))
}

/// The document that `--json` prints if the run could not be created.
pub fn failure_document(script: &str, fault: &Value) -> Value {
    document(false, None, script, Err(fault), &[])
}

/// The document of `result.json` and `--json`. If the script did not finish, `result` is null and `fault` gives the
/// reason, if known.
fn document(
    simulated: bool,
    run: Option<&str>,
    script: &str,
    ended: std::result::Result<&Value, &Value>,
    warnings: &[Warning],
) -> Value {
    let mut document = json!({
        "schema": SCHEMA,
        "simulated": simulated,
        "run": run,
        "script": script,
        "result": ended.ok(),
        "warnings": warnings,
    });
    if let Err(fault) = ended
        && !fault.is_null()
    {
        document["fault"] = fault.clone();
    }
    document
}
