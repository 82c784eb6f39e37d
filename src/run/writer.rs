//! Writes a run's folder: journal, manifest, modules, result.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::folder::Folder;
use super::journal::Journal;
use super::manifest::Manifest;
use super::{Event, clock, plan, recover_manifest};
use crate::fault::{Fault, Result};

/// Writes the folder of a run under way.
pub(super) struct RunWriter {
    pub(super) folder: Folder,
    /// File names of this execution, by the name that was asked for.
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
    /// Takes over the folder and writes the manifest.
    pub(super) fn new(
        folder: Folder,
        journal: Journal,
        manifest: Manifest,
        engines_before: Vec<Value>,
    ) -> Result<Self> {
        manifest.write(&folder)?;
        Ok(Self {
            folder,
            names: Mutex::default(),
            state: Mutex::new(State {
                journal,
                manifest,
                stale: false,
                engines_before,
            }),
        })
    }

    /// The name for a file of this execution: numbered if an earlier execution left a file of that name.
    pub(super) fn name(&self, subfolder: &str, name: &str) -> Result<PathBuf> {
        let wanted = Path::new(subfolder).join(name);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(&wanted) {
            return Ok(name.clone());
        }
        let free = self.folder.free_name(&wanted)?;
        names.insert(wanted, free.clone());
        Ok(free)
    }

    pub(super) fn not_started(&self) -> bool {
        recover_manifest::not_started(&self.folder, &self.lock().manifest)
    }

    /// Writes an event to the journal, and engines also to the manifest.
    pub(super) fn note(&self, event: &Event) -> Result<()> {
        let mut state = self.lock();
        if let Event::Engine { info } = event {
            let differences = plan::engine_differences(&state.engines_before, info);
            if !differences.is_empty() {
                return Err(refusal(&differences));
            }
            if !plan::contains_engine(&state.manifest.engines, info) {
                state.manifest.engines.push(info.clone());
                state.stale = true;
            }
        }
        state.journal.append(event)?;
        self.refresh(&mut state)
    }

    /// Changes the manifest, which is written with the next event.
    pub(super) fn amend(&self, change: impl FnOnce(&mut Manifest)) {
        let mut state = self.lock();
        change(&mut state.manifest);
        state.stale = true;
    }

    /// Stores the text of an imported module. On a resume it must be unchanged.
    pub(super) fn module(&self, name: &str, text: &str, sha256: &str) -> Result<()> {
        let mut state = self.lock();
        match state.manifest.modules.get(name) {
            Some(before) if before == sha256 => return Ok(()),
            Some(_) => return Err(refusal(&[format!("the module `{name}` has changed")])),
            None => {}
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
        state.manifest.ended = Some(clock::now());
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a module's text is stored. Its name may contain a leading `/` and `..`.
fn module_file(name: &str) -> PathBuf {
    let parts = Path::new(name).components();
    let plain = parts.filter(|part| matches!(part, Component::Normal(_)));
    Path::new("modules").join(plain.collect::<PathBuf>())
}

/// The error if a run cannot be resumed with this plan.
pub(super) fn refusal(differences: &[String]) -> Fault {
    Fault::usage(format!("this is not the same run: {}", differences.join("; ")))
        .hint("resume it with the original script and parameters, or start a new run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_stay_below_their_folder() {
        assert_eq!(module_file("/abs/../lib/a.rhai"), Path::new("modules/abs/lib/a.rhai"));
    }
}
