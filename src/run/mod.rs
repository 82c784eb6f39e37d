//! A run of a script and its folder: manifest, journal, logs, series, result; and how to resume it.
//!
//! Everything that happens goes through [`Run`] as an [`Event`]: the journal stores it, listeners (the live view) show
//! it. A run that is killed can be resumed; each time is one execution of it. [`Run::replay`] then answers from the
//! journal what earlier executions finished. `create` starts and resumes runs, `plan` checks what must be unchanged,
//! `writer` writes the folder, `reader` reads it, and [`Folder`] opens every file in it.

mod clock;
mod create;
mod event;
mod experiment_depth;
mod folder;
mod journal;
mod manifest;
mod plan;
mod reader;
mod recover_manifest;
mod recover_points;
mod replay;
mod script_files;
mod secrets;
mod sessions;
mod stages;
mod totals;
mod validate;
mod writer;

pub use event::Event;
pub use folder::Folder;
pub(crate) use folder::read_line;
pub use manifest::{Machine, Manifest, SCHEMA, Script};
pub use plan::Plan;
pub use reader::{RecordedBoundary, RecordedRun};
pub use replay::RecordedPoint;
pub use secrets::{add_secrets, has_hidden, hide};
pub use sessions::{EngineSession, Measurement};

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use crate::boundary::Point;
use crate::csv;
use crate::fault::{Fault, Kind, Result};
use replay::Replay;
use totals::Totals;
use writer::RunWriter;

/// Called with every event as it happens.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// A run under way.
#[derive(Default)]
pub struct Run {
    id: String,
    seed: u64,
    script: String,
    listeners: Mutex<Vec<Listener>>,
    simulated: AtomicBool,
    replay: Mutex<Replay>,
    ordinals: Mutex<BTreeMap<String, u64>>,
    started_files: script_files::StartedFiles,
    totals: Mutex<Totals>,
    writer: Option<RunWriter>,
}

impl Run {
    /// A run without a folder: for the REPL, `check`, and tests.
    #[must_use]
    pub fn ephemeral(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            seed: create::draw_seed(),
            ..Self::default()
        }
    }

    /// The run's id: `<UTC time>-<script>-<random>`. Containers and processes carry it as a label; a resume keeps it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The random seed: given by the user, or drawn and recorded.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The run's folder, unless it is ephemeral.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.writer.as_ref().map(|writer| writer.folder.path())
    }

    /// Opens `SUBFOLDER/NAME` for appending, and returns its path; `None` if the run has no folder.
    ///
    /// A file of that name from an earlier execution is kept: the new one is numbered.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be opened.
    pub fn append(&self, subfolder: &str, name: &str) -> Result<Option<(PathBuf, File)>> {
        let Some((folder, name)) = self.locate(subfolder, name)? else {
            return Ok(None);
        };
        let file = folder.append(&name)?;
        Ok(Some((folder.path().join(name), file)))
    }

    /// Writes `SUBFOLDER/NAME` atomically, named as by [`Run::append`]; returns its path.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn write(
        &self,
        subfolder: &str,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.locate(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace(&name, write)?;
        Ok(Some(folder.path().join(name)))
    }

    /// Writes a JSON document like [`Run::write`].
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn write_json(&self, subfolder: &str, name: &str, document: &Value) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.locate(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace_json(&name, document)?;
        Ok(Some(folder.path().join(name)))
    }

    /// Creates the folder `SUBFOLDER/NAME`, named as by [`Run::append`]; returns its path.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be created.
    pub fn make_folder(&self, subfolder: &str, name: &str) -> Result<Option<PathBuf>> {
        let located = self.locate(subfolder, name)?;
        located.map(|(folder, name)| folder.make_folder(&name)).transpose()
    }

    /// The run's folder, and the name in it for a file of this execution.
    fn locate(&self, subfolder: &str, name: &str) -> Result<Option<(&Folder, PathBuf)>> {
        match &self.writer {
            Some(writer) => Ok(Some((&writer.folder, writer.name(subfolder, name)?))),
            None => Ok(None),
        }
    }

    /// Writes rows as `tables/NAME.csv` and `tables/NAME.json`, each atomically replacing the table of that name.
    /// Returns the CSV file; `None` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name with other characters than letters, digits, `_` and `-`; `io` and `missing` if it cannot be
    /// written.
    pub fn keep_table(&self, name: &str, columns: &[String], rows: &[Map<String, Value>]) -> Result<Option<PathBuf>> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(
                Fault::usage(format!("`{name}` is not a valid table name")).hint("use letters, digits, `_` and `-`")
            );
        }
        let Some(RunWriter { folder, .. }) = &self.writer else {
            return Ok(None);
        };
        let file = |extension: &str| Path::new("tables").join(format!("{name}.{extension}"));
        folder.replace_json(&file("json"), &rows)?;
        folder.replace_text(&file("csv"), &secrets::hide(&csv::write(columns, rows)))?;
        Ok(Some(folder.path().join(file("csv"))))
    }

    /// Reads a CSV file of the run's own folder, by its relative path; empty if the run has no folder.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file elsewhere, whether it exists or not; `io` if it cannot be read.
    pub fn read_table(&self, file: &str) -> Result<Vec<Map<String, Value>>> {
        let Some(RunWriter { folder, .. }) = &self.writer else {
            return Ok(Vec::new());
        };
        let elsewhere = || {
            Fault::not_allowed(
                format!("no file `{file}` in the run's folder"),
                "give a path from a load's answer, such as `timeline.file`, or one in `tables/`",
            )
        };
        // `keep_table` returns a path that includes the folder's.
        let inside = Path::new(file);
        let inside = inside.strip_prefix(folder.path()).unwrap_or(inside);
        let bytes = match folder.read(inside) {
            Ok(Some(bytes)) => bytes,
            Err(fault) if fault.kind != Kind::Usage => return Err(fault),
            _ => return Err(elsewhere()),
        };
        let broken = |why: String| Fault::new(Kind::Io, format!("`{file}` is not a table: {why}"));
        let text = String::from_utf8(bytes).map_err(|error| broken(error.to_string()))?;
        csv::table(&text).map_err(broken)
    }

    /// Writes a document for another tool as `STEM_<UTC time>.json` and returns the file; `None` if the run has no
    /// folder.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be written.
    pub fn export(&self, stem: &str, document: &Value) -> Result<Option<PathBuf>> {
        self.write_json("", &format!("{stem}_{}.json", clock::compact()), document)
    }

    /// Stores an imported module by its name: `std/search.rhai`, or a path relative to the script's folder.
    ///
    /// # Errors
    ///
    /// `usage` if an earlier execution imported another text under that name.
    pub fn module(&self, name: &str, text: &str, sha256: &str) -> Result<()> {
        match &self.writer {
            Some(writer) => writer.module(name, text, sha256),
            None => Ok(()),
        }
    }

    /// Records the parameters of the script.
    pub fn set_parameters(&self, parameters: &Value) {
        self.amend(|manifest| manifest.parameters = Some(parameters.clone()));
    }

    /// Records the machine's GPUs, by UUID, and their driver version.
    pub fn set_gpus(&self, gpus: Vec<Value>, driver: Option<String>) {
        self.amend(|manifest| {
            manifest.gpus = gpus;
            manifest.driver = driver;
        });
    }

    /// The answer of the k-th call of `kind` with these arguments, if an earlier execution finished it. Each call
    /// advances k.
    #[must_use]
    pub fn replay(&self, kind: &str, args: &Value) -> Option<Value> {
        lock(&self.replay).answer(kind, args)
    }

    /// Discards the answers of earlier executions that a boundary recorded for this point, so that it is probed again.
    pub fn forget_recorded(&self, point: &Point) {
        lock(&self.replay).forget(point);
    }

    /// The next number for this kind, from 1. The sequence is the same in every execution.
    #[must_use]
    pub fn ordinal(&self, kind: &str) -> u64 {
        let mut ordinals = lock(&self.ordinals);
        let number = ordinals.entry(kind.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// The `failure` of each [`Event::StartFailed`] with these `args` in earlier executions.
    #[must_use]
    pub fn failed_starts(&self, args: &Value) -> Vec<Value> {
        lock(&self.replay).failed_starts(args)
    }

    /// Removes and returns the points that earlier executions recorded in the boundary of that index, in order.
    #[must_use]
    pub fn points(&self, boundary: usize) -> Vec<RecordedPoint> {
        lock(&self.replay).points(boundary)
    }

    /// Writes an event to the journal and calls the listeners. An [`Event::Done`] is on disk when this returns.
    ///
    /// # Errors
    ///
    /// `missing` if the disk is full; `usage` if a resumed run starts another engine than before.
    pub fn note(&self, event: Event) -> Result<()> {
        if !lock(&self.totals).count(&event) {
            return Ok(());
        }
        let written = match &self.writer {
            Some(writer) if event.in_journal() => writer.note(&event),
            _ => Ok(()),
        };
        for listener in lock(&self.listeners).iter() {
            listener(&event);
        }
        written
    }

    /// Notes a warning, once per text.
    pub fn warn(&self, text: impl Into<String>) -> Result<()> {
        self.note(Event::Warning { text: text.into() })
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
    #[must_use]
    pub fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }

    /// Whether points were tested and none fits.
    #[must_use]
    pub fn nothing_fits(&self) -> bool {
        lock(&self.totals).nothing_fits()
    }

    /// Bytes of memory left while a point of a boundary was probed; `None` if memory was not measured.
    #[must_use]
    pub fn headroom(&self, boundary: usize, point: &Point) -> Option<u64> {
        lock(&self.totals).headroom(boundary, point)
    }

    /// Whether anything was measured in any execution: a point recorded, or a probe, load or experiment finished.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        lock(&self.totals).has_measured()
    }

    /// Whether nothing has happened yet: the journal is empty, and nothing was measured or written by the script.
    #[must_use]
    pub fn not_started(&self) -> bool {
        self.writer.as_ref().is_some_and(RunWriter::not_started)
    }

    /// Removes a run that has not started: its own files, and the folder if nothing else is in it. With `parent`, also
    /// removes the folder of all runs if it is empty. Returns whether the folder is gone.
    #[must_use]
    pub fn discard(&self, parent: bool) -> bool {
        let Some(folder) = self.folder().filter(|_| self.not_started()) else {
            return false;
        };
        for name in ["script.rhai", "journal.jsonl", "manifest.json"] {
            let _ = std::fs::remove_file(folder.join(name));
        }
        let _ = std::fs::remove_dir_all(folder.join("modules"));
        let removed = std::fs::remove_dir(folder).is_ok();
        if let Some(runs) = folder.parent().filter(|_| removed && parent) {
            // Fails if it is not empty.
            let _ = std::fs::remove_dir(runs);
        }
        removed
    }

    /// Ends the run: `done` with its result, `failed` or `interrupted` with the fault. Returns the document for
    /// `--json`.
    pub fn end(&self, status: &str, value: Value) -> Result<Value> {
        let document = self.document(if status == "done" { Ok(&value) } else { Err(&value) });
        self.note(Event::End {
            status: status.to_owned(),
            value,
        })?;
        if let Some(writer) = &self.writer {
            writer.end(status, &document)?;
        }
        Ok(document)
    }

    /// The document that `--json` prints, for a result or for the fault that ended the run.
    #[must_use]
    pub fn document(&self, ended: std::result::Result<&Value, &Value>) -> Value {
        let totals = lock(&self.totals);
        document(self.simulated(), Some(&self.id), &self.script, ended, totals.warnings())
    }

    fn amend(&self, change: impl FnOnce(&mut Manifest)) {
        if let Some(writer) = &self.writer {
            writer.amend(change);
        }
    }
}

/// The document that `--json` prints if the run could not be created.
#[must_use]
pub fn failure_document(script: &str, fault: &Value) -> Value {
    document(false, None, script, Err(fault), &[])
}

/// The document of `result.json` and `--json`. If the script did not finish, `result` is null and `fault` says why, if
/// known.
fn document(
    simulated: bool,
    run: Option<&str>,
    script: &str,
    ended: std::result::Result<&Value, &Value>,
    warnings: &[String],
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
