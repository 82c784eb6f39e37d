//! Writes a run's folder: starts a run in a new folder or resumes one, and writes journal, manifest, modules and result.
//!
//! A scheduler may start a run twice, for example after it loses contact with a node that is still alive. Each start is
//! an attempt with a number, stored in the folder's file `attempt` and in the journal. A later attempt waits until the
//! earlier one ends before it writes; an earlier one that comes back writes nothing more.

use std::collections::HashMap;
use std::fs::TryLockError;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::event::Totals;
use super::files::{Disk, RESERVE};
use super::folder::Folder;
use super::journal::{JOURNAL, Journal, Replay};
use super::manifest::{FOLDER_SCHEMA, Machine, Manifest, Plan};
use super::remembered::{own_run, remember};
use super::{Event, Run, folder, manifest};
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;
use crate::warning::Warning;
use crate::world;

/// Writes the folder of a run under way.
pub(super) struct RunWriter {
    pub(super) folder: Folder,
    pub(super) disk: Arc<Disk>,
    /// The number of this attempt, if `--attempt` was given.
    pub(super) attempt: Option<u64>,
    /// File names of this execution, by requested name.
    names: Mutex<HashMap<PathBuf, PathBuf>>,
    state: Mutex<State>,
}

struct State {
    journal: Journal,
    manifest: Manifest,
    /// Whether the manifest on disk is outdated.
    stale: bool,
    /// Engines of earlier executions; a resume must start the same ones.
    engines_before: Vec<Value>,
}

impl RunWriter {
    /// The file name to use in this execution: numbered if an earlier execution left a file with that name.
    pub(super) fn name(&self, subfolder: &str, name: &str) -> Result<PathBuf> {
        let wanted = Path::new(subfolder).join(name);
        let mut names = lock(&self.names);
        if let Some(name) = names.get(&wanted) {
            return Ok(name.clone());
        }
        let free = self.folder.free_name(&wanted)?;
        names.insert(wanted, free.clone());
        Ok(free)
    }

    /// The newest engine with these options.
    pub(super) fn engine(&self, options: &Value) -> Option<Value> {
        let state = self.lock();
        let mut engines = state.manifest.engines.iter().rev();
        engines.find(|engine| engine["options"] == *options).cloned()
    }

    pub(super) fn not_started(&self) -> bool {
        self.lock().manifest.not_started(&self.folder)
    }

    /// Writes an event to the journal; engines are also added to the manifest.
    pub(super) fn note(&self, event: &Event) -> Result<()> {
        if let Some(own) = self.attempt.filter(|_| event.must_sync()) {
            check_attempt(&self.folder, own)?;
        }
        let mut state = self.lock();
        if let Event::Engine { info } = event {
            let differences = manifest::engine_differences(&state.engines_before, info);
            if !differences.is_empty() {
                return Err(manifest::refusal(&differences));
            }
            state.stale |= state.manifest.add_engine(info);
        }
        state.journal.append(event, |line| match event {
            Event::End { .. } => Ok(()),
            Event::Done { .. } => self.disk.claim(line, RESERVE),
            _ => self.disk.claim(line, 0),
        })?;
        self.refresh(&mut state)
    }

    /// Changes the manifest, which is written with the next event.
    pub(super) fn amend(&self, change: impl FnOnce(&mut Manifest)) {
        let mut state = self.lock();
        change(&mut state.manifest);
        state.stale = true;
    }

    /// Stores the text of an imported module. On a resume, it must be unchanged.
    pub(super) fn module(&self, name: &str, text: &str, sha256: &str) -> Result<()> {
        let mut state = self.lock();
        if let Some(before) = state.manifest.modules.get(name) {
            return match before == sha256 {
                true => Ok(()),
                false => Err(manifest::refusal(&[format!("the module `{name}` has changed")])),
            };
        }
        self.folder.replace_text(&module_file(name), text)?;
        state.manifest.modules.insert(name.to_owned(), sha256.to_owned());
        state.stale = true;
        self.refresh(&mut state)
    }

    /// Writes the result and the final manifest.
    pub(super) fn end(&self, status: &str, document: &Value) -> Result<()> {
        self.folder.replace_json(Path::new("result.json"), document)?;
        let mut state = self.lock();
        state.manifest.status = status.to_owned();
        state.manifest.ended = Some(folder::now());
        state.stale = true;
        self.refresh(&mut state)
    }

    fn refresh(&self, state: &mut State) -> Result<()> {
        if state.stale {
            state.manifest.write(&self.folder)?;
            state.stale = false;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The path for a module's text. The module's name may contain a leading `/` and `..`.
fn module_file(name: &str) -> PathBuf {
    let parts = Path::new(name).components();
    let plain = parts.filter(|part| matches!(part, Component::Normal(_)));
    Path::new("modules").join(plain.collect::<PathBuf>())
}

impl Run {
    /// Creates a run in a new folder: `out`, or `runs/TIME-NAME`; with `force_new`, `out` with a number if it is taken.
    /// Also returns a warning if a resume will need `--trust-script`.
    ///
    /// # Errors
    ///
    /// `usage` if `out` is taken.
    pub fn create(plan: &Plan, out: Option<&Path>, force_new: bool) -> Result<(Self, Vec<Warning>)> {
        let name = file_name(&plan.script.name);
        let folder = match plan.attempt.zip(out) {
            Some((attempt, out)) => {
                let folder = Folder::make(out)?;
                begin_attempt(&folder, attempt)?;
                folder
            }
            None => Folder::create(out, &name, force_new)?,
        };
        folder.replace_text(Path::new("script.rhai"), &plan.text)?;
        let manifest = Manifest {
            schema: FOLDER_SCHEMA,
            profiler: env!("CARGO_PKG_VERSION").to_owned(),
            run: format!("{}-{name}-{:06x}", folder::stamp(), random() & 0xff_ffff),
            status: "running".to_owned(),
            started: folder::now(),
            script: plan.script.clone(),
            set: plan.set.clone(),
            seed: Some(plan.seed.unwrap_or_else(draw_seed)),
            permissions: plan.permissions.clone(),
            shared_gpu: plan.shared_gpu,
            insecure: plan.insecure,
            max_operations: plan.max_operations,
            host: Machine::own(),
            ..Manifest::default()
        };
        let warnings = remember_texts(&manifest.run, plan).into_iter().collect();
        // The manifest marks the folder as a run's: a run that is killed after this line can be resumed.
        manifest.write(&folder)?;
        let (journal, _) = Journal::open(&folder, |_| ())?;
        let run = Self::with_writer(folder, journal, manifest, Replay::default(), Totals::default(), plan)?;
        run.note_attempt()?;
        Ok((run, warnings))
    }

    /// Resumes a run, however it ended. The caller has checked `plan` with [`Manifest::check`]. Also returns warnings:
    /// those of [`Run::create`], and a note if part of the journal is not trusted and is measured again.
    ///
    /// # Errors
    ///
    /// `usage` if another process uses the folder.
    pub fn resume(folder: &Path, plan: &Plan) -> Result<(Self, Vec<Warning>)> {
        let folder = Folder::open(folder)?;
        if let Some(attempt) = plan.attempt {
            begin_attempt(&folder, attempt)?;
        }
        let (mut replay, mut totals) = (Replay::default(), Totals::default());
        let (journal, set_aside) = Journal::open(&folder, |event| {
            totals.count(&event);
            replay.add(event);
        })?;
        // Not earlier: until the journal was locked, another process could change it.
        let mut manifest = Manifest::read(&folder)?;
        manifest.status = "running".to_owned();
        manifest.ended = None;
        manifest.allow(plan);
        let (answers, points) = replay.size();
        let has_begun = !journal.is_empty();
        let run = Self::with_writer(folder, journal, manifest, replay, totals, plan)?;
        // A run that was killed before its first event has nothing to resume.
        if has_begun {
            run.note(Event::Resumed { answers, points })?;
        }
        run.note_attempt()?;
        let mut warnings = Vec::from_iter(set_aside.map(|note| Warning::new("journal_damaged", note)));
        for warning in &warnings {
            run.warn(warning.clone())?;
        }
        warnings.extend(remember_texts(&run.id, plan));
        Ok((run, warnings))
    }

    /// Writes the manifest and returns the run that it describes.
    fn with_writer(
        folder: Folder,
        journal: Journal,
        manifest: Manifest,
        replay: Replay,
        totals: Totals,
        plan: &Plan,
    ) -> Result<Self> {
        manifest.write(&folder)?;
        // Before this, a power failure may remove the names of journal and manifest, and with them all answers.
        folder.sync()?;
        let state = State {
            journal,
            manifest: manifest.clone(),
            stale: false,
            engines_before: manifest.engines,
        };
        Ok(Self {
            id: manifest.run,
            seed: manifest.seed.unwrap_or_default(),
            script: manifest.script.path,
            simulated: AtomicBool::new(manifest.simulated),
            finished: AtomicU64::new(replay.last_id()),
            replay: Mutex::new(replay),
            totals: Mutex::new(totals),
            writer: Some(RunWriter {
                disk: Arc::new(Disk::new(folder.path(), plan.max_disk)),
                attempt: plan.attempt,
                folder,
                names: Mutex::default(),
                state: Mutex::new(state),
            }),
            ..Self::default()
        })
    }
}

/// Remembers that these texts are the user's own in this run. Returns a warning if that fails.
fn remember_texts(run: &str, plan: &Plan) -> Option<Warning> {
    let remembered = remember(plan.texts().map(|sha256| own_run(run, sha256)), "");
    let fault = remembered.err()?;
    let message = format!("going on with this run will need --trust-script: {}", fault.message);
    Some(Warning::new("not_remembered", message))
}

/// A random seed of 32 bits, so that it is easy to type.
pub(super) fn draw_seed() -> u64 {
    random() >> 32
}

/// A random number. The operating system seeds `RandomState`.
fn random() -> u64 {
    match world::current() {
        Some(world) => world.random(),
        None => RandomState::new().hash_one(std::process::id()),
    }
}

/// Replaces characters that do not belong in a file name.
fn file_name(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    let name = name.replace(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)), "-");
    if name.is_empty() { "script".to_owned() } else { name }
}

const ATTEMPT: &str = "attempt";

/// How long a later attempt waits for an earlier one to stop what it started.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often an attempt checks for a later one, and a later one checks whether the earlier has ended.
const LOOK: Duration = Duration::from_millis(500);

/// The number of the latest attempt; 0 if there was none.
pub(super) fn latest_attempt(folder: &Folder) -> Result<u64> {
    let text = folder.read(ATTEMPT)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).trim().parse().unwrap_or_default())
}

/// Fails if a later attempt has begun.
fn check_attempt(folder: &Folder, own: u64) -> Result<()> {
    let (latest, path) = (latest_attempt(folder)?, folder.path().display());
    if latest > own {
        let message = format!("attempt {latest} goes on with the run in `{path}`: this is attempt {own}");
        return Err(Fault::new(Kind::Interrupted, message));
    }
    Ok(())
}

/// Makes this attempt the latest, and waits until an earlier one ends.
fn begin_attempt(folder: &Folder, own: u64) -> Result<()> {
    check_attempt(folder, own)?;
    folder.replace_text(ATTEMPT.as_ref(), &format!("{own}\n"))?;
    let journal = folder.append(JOURNAL.as_ref())?;
    let begun = Instant::now();
    while let Err(TryLockError::WouldBlock) = journal.try_lock() {
        if begun.elapsed() > PATIENCE {
            // Opening the journal reports the conflict.
            break;
        }
        std::thread::sleep(LOOK);
        check_attempt(folder, own)?;
    }
    Ok(())
}

impl Run {
    /// Returns when a later attempt at this run has begun; never for a run without attempts.
    pub async fn superseded(&self) {
        let attempt = self.writer.as_ref().and_then(|writer| Some((writer, writer.attempt?)));
        let Some((writer, own)) = attempt else {
            return std::future::pending().await;
        };
        while check_attempt(&writer.folder, own).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Notes the attempt's number, if it has one.
    fn note_attempt(&self) -> Result<()> {
        match self.writer.as_ref().and_then(|writer| writer.attempt) {
            Some(number) => self.note(Event::Attempt { number }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_stay_below_their_folder() {
        assert_eq!(module_file("/abs/../lib/a.rhai"), Path::new("modules/abs/lib/a.rhai"));
    }
}
