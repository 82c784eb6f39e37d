//! Writes the folder of a run under way: journal, manifest, modules and result.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::attempt::check_attempt;
use super::disk::{Disk, RESERVE};
use super::event::Event;
use super::event::RunStatus;
use super::folder::{self, Folder};
use super::journal::Journal;
use super::manifest::{self, Manifest, RunPlan};
use crate::fault::Result;
use crate::task::lock;
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
    pub(super) fn new(folder: Folder, journal: Journal, manifest: Manifest, plan: &RunPlan) -> Self {
        Self {
            disk: Arc::new(Disk::new(folder.path(), plan.max_disk)),
            attempt: plan.attempt,
            folder,
            names: Mutex::default(),
            state: Mutex::new(State {
                journal,
                stale: false,
                engines_before: manifest.engines.clone(),
                manifest,
            }),
        }
    }

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
            if before == sha256 {
                return Ok(());
            }
            return Err(manifest::refusal(&[format!("the module `{name}` has changed")]));
        }
        self.folder.replace_text(&module_file(name), text)?;
        state.manifest.modules.insert(name.to_owned(), sha256.to_owned());
        state.stale = true;
        self.refresh(&mut state)
    }

    pub(super) fn input(&self, name: &str, sha256: String) -> Result<()> {
        let mut state = self.lock();
        match state.manifest.inputs.get(name) {
            Some(before) if *before == sha256 => return Ok(()),
            Some(_) => return Err(manifest::refusal(&[format!("the file `{name}` has changed")])),
            None => state.manifest.inputs.insert(name.to_owned(), sha256),
        };
        state.stale = true;
        self.refresh(&mut state)
    }

    /// Writes the result and the final manifest.
    pub(super) fn end(&self, status: RunStatus, document: &Value) -> Result<()> {
        self.folder.replace_json(Path::new("result.json"), document)?;
        let mut state = self.lock();
        state.manifest.status = status;
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

/// A random seed of 32 bits, so that it is easy to type.
pub(super) fn draw_seed() -> u64 {
    random() >> 32
}

/// A random number. The operating system seeds `RandomState`.
pub(crate) fn random() -> u64 {
    match world::current() {
        Some(world) => world.random(),
        None => RandomState::new().hash_one(std::process::id()),
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
