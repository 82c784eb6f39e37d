//! One execution of a script and the folder it leaves: manifest, journal, logs, series, result; and resuming it.
//!
//! Everything that happens goes through [`Run`] as an [`Event`]: the journal keeps it, listeners (the live view) show it.
//! What was finished before a kill is answered from the journal by [`Run::replay`]. `begin` makes runs and takes them up
//! again, `plan` tells what must be the same then, `keeper` writes the folder, `found` reads it, and [`Folder`] opens every
//! file in it.

mod begin;
mod clock;
mod event;
mod files;
mod folder;
mod found;
mod journal;
mod keeper;
mod lives;
mod manifest;
mod nesting;
mod past;
mod plan;
mod restore;
mod salvage;
mod secrets;
mod sift;
mod stages;
mod tally;

pub use event::Event;
pub use folder::Folder;
pub(crate) use folder::read_line;
pub use found::{Found, FoundBoundary};
pub use lives::{Asked, Life};
pub use manifest::{Machine, Manifest, SCHEMA, Script};
pub use past::Recorded;
pub use plan::Plan;
pub use secrets::{conceal, hide, lacks};

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
use keeper::Keeper;
use past::Past;
use tally::Tally;

/// Somebody who is told of every event as it happens.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// A run under way.
#[derive(Default)]
pub struct Run {
    id: String,
    seed: u64,
    script: String,
    listeners: Mutex<Vec<Listener>>,
    simulated: AtomicBool,
    past: Mutex<Past>,
    ordinals: Mutex<BTreeMap<String, u64>>,
    begun: files::Begun,
    tally: Mutex<Tally>,
    keeper: Option<Keeper>,
}

impl Run {
    /// A run that leaves no folder: the REPL, `check`, and tests.
    #[must_use]
    pub fn ephemeral(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            seed: begin::draw_seed(),
            ..Self::default()
        }
    }

    /// The run's id: `<UTC time>-<script>`, with what makes it unique. Containers and processes carry it; a resume keeps it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The seed of everything random: the user's, or one drawn and recorded.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The run's folder, unless it is ephemeral.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.keeper.as_ref().map(|keeper| keeper.folder.path())
    }

    /// Opens `SUBFOLDER/NAME` of the run's folder to write at its end, and gives its path; none where the run leaves no folder.
    ///
    /// What an earlier life of the run left under that name stays: the file of this life is then numbered.
    ///
    /// # Errors
    ///
    /// `io` and `missing` when it cannot be opened.
    pub fn append(&self, subfolder: &str, name: &str) -> Result<Option<(PathBuf, File)>> {
        let Some((folder, name)) = self.place(subfolder, name)? else {
            return Ok(None);
        };
        let file = folder.append(&name)?;
        Ok(Some((folder.path().join(name), file)))
    }

    /// Writes `SUBFOLDER/NAME` of the run's folder, whole or not at all, named as by [`Run::append`]; gives its path.
    ///
    /// # Errors
    ///
    /// `io` and `missing` when it cannot be written.
    pub fn write(
        &self,
        subfolder: &str,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.place(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace(&name, write)?;
        Ok(Some(folder.path().join(name)))
    }

    /// Writes a document as [`Run::write`] does.
    ///
    /// # Errors
    ///
    /// `io` and `missing` when it cannot be written.
    pub fn write_json(&self, subfolder: &str, name: &str, document: &Value) -> Result<Option<PathBuf>> {
        let Some((folder, name)) = self.place(subfolder, name)? else {
            return Ok(None);
        };
        folder.replace_json(&name, document)?;
        Ok(Some(folder.path().join(name)))
    }

    /// Makes the folder `SUBFOLDER/NAME`, named as by [`Run::append`]; gives its path.
    ///
    /// # Errors
    ///
    /// `io` and `missing` when it cannot be made.
    pub fn make_folder(&self, subfolder: &str, name: &str) -> Result<Option<PathBuf>> {
        let place = self.place(subfolder, name)?;
        place.map(|(folder, name)| folder.make_folder(&name)).transpose()
    }

    /// The run's folder, and the name in it of a file of this life of the run.
    fn place(&self, subfolder: &str, name: &str) -> Result<Option<(&Folder, PathBuf)>> {
        match &self.keeper {
            Some(keeper) => Ok(Some((&keeper.folder, keeper.name(subfolder, name)?))),
            None => Ok(None),
        }
    }

    /// Keeps rows of figures as `tables/NAME.csv` and `tables/NAME.json`, in the place of what was kept under that name: whoever reads them sees all
    /// rows of before or all of now. Gives the CSV file; none where the run leaves no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that is no plain word; `io` and `missing` when they cannot be written.
    pub fn keep_table(&self, name: &str, columns: &[String], rows: &[Map<String, Value>]) -> Result<Option<PathBuf>> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(Fault::usage(format!("`{name}` is no name of a table"))
                .hint("give a word of letters, digits, `_` and `-`"));
        }
        let Some(Keeper { folder, .. }) = &self.keeper else {
            return Ok(None);
        };
        let file = |extension: &str| Path::new("tables").join(format!("{name}.{extension}"));
        folder.replace_json(&file("json"), &rows)?;
        folder.replace_text(&file("csv"), &secrets::hide(&csv::write(columns, rows)))?;
        Ok(Some(folder.path().join(file("csv"))))
    }

    /// The rows of a CSV file of the run's own folder, named relative to it: nothing where the run leaves no folder.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file elsewhere, whether it exists or not; `io` when it cannot be read.
    pub fn read_table(&self, file: &str) -> Result<Vec<Map<String, Value>>> {
        let Some(Keeper { folder, .. }) = &self.keeper else {
            return Ok(Vec::new());
        };
        let elsewhere = || {
            Fault::not_allowed(
                format!("no file `{file}` in the run's folder"),
                "give one as a load names it, such as `timeline.file`, or one of `tables/`",
            )
        };
        // `keep_table` gives the path with that of the folder.
        let inside = Path::new(file);
        let inside = inside.strip_prefix(folder.path()).unwrap_or(inside);
        let bytes = match folder.read(inside) {
            Ok(Some(bytes)) => bytes,
            Err(fault) if fault.kind != Kind::Usage => return Err(fault),
            _ => return Err(elsewhere()),
        };
        let broken = |why: String| Fault::new(Kind::Io, format!("`{file}` is no table: {why}"));
        let text = String::from_utf8(bytes).map_err(|error| broken(error.to_string()))?;
        csv::table(&text).map_err(broken)
    }

    /// Writes a document for another tool as `STEM_<UTC time>.json`, and gives the file; none where the run leaves no folder.
    ///
    /// # Errors
    ///
    /// `io` and `missing` when it cannot be written.
    pub fn export(&self, stem: &str, document: &Value) -> Result<Option<PathBuf>> {
        self.write_json("", &format!("{stem}_{}.json", clock::compact()), document)
    }

    /// Keeps a module as it runs, by its name: `std/search.rhai`, or a path from the script's folder.
    ///
    /// # Errors
    ///
    /// `usage` when an earlier life of the run had another text under that name.
    pub fn module(&self, name: &str, text: &str, sha256: &str) -> Result<()> {
        match &self.keeper {
            Some(keeper) => keeper.module(name, text, sha256),
            None => Ok(()),
        }
    }

    /// Keeps the parameters that the script runs with.
    pub fn set_parameters(&self, parameters: &Value) {
        self.amend(|manifest| manifest.parameters = Some(parameters.clone()));
    }

    /// Keeps what the machine has: its GPUs, by UUID, and the version of their driver.
    pub fn set_gpus(&self, gpus: Vec<Value>, driver: Option<String>) {
        self.amend(|manifest| {
            manifest.gpus = gpus;
            manifest.driver = driver;
        });
    }

    /// The answer of the k-th call of `kind` with these arguments, where an earlier life of this run finished it.
    /// Each call moves on to the next k.
    #[must_use]
    pub fn replay(&self, kind: &str, args: &Value) -> Option<Value> {
        lock(&self.past).answer(kind, args)
    }

    /// From here on, probes of this point that boundaries recorded in earlier lives are no answers any more: it is asked again.
    pub fn again(&self, point: &Point) {
        lock(&self.past).again(point);
    }

    /// The next number for something of this kind, from 1: the same in every life of the run.
    #[must_use]
    pub fn ordinal(&self, kind: &str) -> u64 {
        let mut ordinals = lock(&self.ordinals);
        let number = ordinals.entry(kind.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// The starts of this engine that failed in earlier lives of this run: the `failure` of each [`Event::StartFailed`] with these `args`.
    #[must_use]
    pub fn failed_starts(&self, args: &Value) -> Vec<Value> {
        lock(&self.past).failed_starts(args)
    }

    /// The points that the boundary of that index held in earlier lives of this run, with their whole answers, in recording
    /// order. They are given once.
    #[must_use]
    pub fn points(&self, boundary: usize) -> Vec<Recorded> {
        lock(&self.past).points(boundary)
    }

    /// Keeps an event and tells the listeners. An [`Event::Done`] is on disk when this returns.
    ///
    /// # Errors
    ///
    /// `missing` when the disk is full; `usage` when a resumed run starts another engine than before.
    pub fn note(&self, event: Event) -> Result<()> {
        if !lock(&self.tally).count(&event) {
            return Ok(());
        }
        let kept = match &self.keeper {
            Some(keeper) if event.kept() => keeper.note(&event),
            _ => Ok(()),
        };
        for listener in lock(&self.listeners).iter() {
            listener(&event);
        }
        kept
    }

    /// Keeps a warning; the same text is kept once.
    pub fn warn(&self, text: impl Into<String>) -> Result<()> {
        self.note(Event::Warning { text: text.into() })
    }

    /// Adds a listener.
    pub fn listen(&self, listener: Listener) {
        lock(&self.listeners).push(listener);
    }

    /// From here on every output of this run says SIMULATED.
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

    /// Whether points were asked about, and not one is known to fit.
    #[must_use]
    pub fn nothing_fits(&self) -> bool {
        lock(&self.tally).nothing_fits()
    }

    /// Bytes of memory that were left while a point of a boundary was probed; none where memory was not measured.
    #[must_use]
    pub fn headroom(&self, boundary: usize, point: &Point) -> Option<u64> {
        lock(&self.tally).headroom(boundary, point)
    }

    /// Whether anything was measured, in this life or an earlier one: a point recorded, or a probe, load or experiment finished.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        lock(&self.tally).has_measured()
    }

    /// Whether nothing happened yet: the journal is empty, and nothing was measured or written by the script.
    #[must_use]
    pub fn is_unbegun(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_unbegun)
    }

    /// Removes what a run that did not begin left: its own files, and the folder where nothing else is in it; `parent`: also that of all runs, where it is
    /// empty. Says whether the folder is gone.
    #[must_use]
    pub fn discard(&self, parent: bool) -> bool {
        let Some(folder) = self.folder().filter(|_| self.is_unbegun()) else {
            return false;
        };
        for name in ["script.rhai", "journal.jsonl", "manifest.json"] {
            let _ = std::fs::remove_file(folder.join(name));
        }
        let _ = std::fs::remove_dir_all(folder.join("modules"));
        let gone = std::fs::remove_dir(folder).is_ok();
        if let Some(runs) = folder.parent().filter(|_| gone && parent) {
            // It goes only where nothing is in it.
            let _ = std::fs::remove_dir(runs);
        }
        gone
    }

    /// Ends the run: `done` with its result, `failed` or `interrupted` with the fault. Gives the document that `--json` prints.
    pub fn end(&self, status: &str, value: Value) -> Result<Value> {
        let document = self.document(if status == "done" { Ok(&value) } else { Err(&value) });
        self.note(Event::End {
            status: status.to_owned(),
            value,
        })?;
        if let Some(keeper) = &self.keeper {
            keeper.end(status, &document)?;
        }
        Ok(document)
    }

    /// The document that `--json` prints: of a result, or of the fault that the run ended with.
    #[must_use]
    pub fn document(&self, ended: std::result::Result<&Value, &Value>) -> Value {
        let tally = lock(&self.tally);
        document(self.simulated(), Some(&self.id), &self.script, ended, tally.warnings())
    }

    fn amend(&self, change: impl FnOnce(&mut Manifest)) {
        if let Some(keeper) = &self.keeper {
            keeper.amend(change);
        }
    }
}

/// The document that `--json` prints of a run that did not even begin.
#[must_use]
pub fn stillborn(script: &str, fault: &Value) -> Value {
    document(false, None, script, Err(fault), &[])
}

/// The document of `result.json` and `--json`. Of a run that did not come to its end, the result is null and `fault` says why, if
/// that is known.
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
