//! Creates a run in a new folder, or resumes one in an existing folder.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::folder::Folder;
use super::journal::{self, JOURNAL, Journal};
use super::manifest::{Machine, Manifest, SCHEMA};
use super::plan::{self, Plan};
use super::replay::Replay;
use super::script_files::StartedFiles;
use super::totals::Totals;
use super::writer::{RunWriter, refusal};
use super::{Event, Run, clock};
use crate::fault::Result;

impl Run {
    /// Creates a run in a new folder: `out`, or `runs/TIME-NAME`, with a number appended if that exists.
    pub fn create(plan: &Plan, out: Option<&Path>) -> Result<Self> {
        let name = file_name(&plan.script.name);
        let folder = Folder::create(out, &name)?;
        folder.replace_text(Path::new("script.rhai"), &plan.text)?;
        let manifest = Manifest {
            schema: SCHEMA,
            profiler: env!("CARGO_PKG_VERSION").to_owned(),
            run: format!("{}-{name}-{:06x}", clock::stamp(), random() & 0xff_ffff),
            status: "running".to_owned(),
            started: clock::now(),
            ended: None,
            script: plan.script.clone(),
            modules: Default::default(),
            set: plan.set.clone(),
            parameters: None,
            seed: Some(plan.seed.unwrap_or_else(draw_seed)),
            permissions: plan.permissions.clone(),
            shared_gpu: plan.shared_gpu,
            max_operations: plan.max_operations,
            simulated: false,
            engines: Vec::new(),
            gpus: Vec::new(),
            driver: None,
            host: Machine::own(),
        };
        // The manifest marks the folder as a run's: a run that is killed after this line can be resumed.
        manifest.write(&folder)?;
        let journal = Journal::create(&folder)?;
        Self::with_writer(folder, journal, manifest, Replay::default(), Totals::default())
    }

    /// Resumes a run, however it ended. `module` returns the current hash of a module.
    ///
    /// # Errors
    ///
    /// `usage`, listing the differences, if `plan` is not the plan of that run; `usage` if another process uses the
    /// folder.
    pub fn resume(folder: &Path, plan: &Plan, module: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let folder = Folder::open(folder)?;
        // Checked before the lock is taken, so that a folder of something else is reported as such.
        Manifest::read(&folder)?;
        let path = folder.path().join(JOURNAL);
        let file = Journal::open(&folder)?;
        let mut manifest = Manifest::read(&folder)?;
        let differences = plan::differences(&manifest, plan, module);
        if !differences.is_empty() {
            return Err(refusal(&differences));
        }
        let (mut replay, mut totals) = (Replay::default(), Totals::default());
        let complete_bytes = journal::read(&file, &path, |entry| {
            totals.count(&entry.event);
            replay.add(entry.event);
        })?;
        let journal = Journal::reopen(file, &path, complete_bytes)?;
        manifest.status = "running".to_owned();
        manifest.ended = None;
        manifest.allow(plan);
        let (answers, points) = replay.size();
        let run = Self::with_writer(folder, journal, manifest, replay, totals)?;
        // A run that was killed before its first event has nothing to resume.
        if complete_bytes > 0 {
            run.note(Event::Resumed { answers, points })?;
        }
        Ok(run)
    }

    fn with_writer(
        folder: Folder,
        journal: Journal,
        manifest: Manifest,
        replay: Replay,
        totals: Totals,
    ) -> Result<Self> {
        Ok(Self {
            id: manifest.run.clone(),
            seed: manifest.seed.unwrap_or_default(),
            script: manifest.script.path.clone(),
            simulated: AtomicBool::new(manifest.simulated),
            replay: Mutex::new(replay),
            ordinals: Mutex::default(),
            started_files: StartedFiles::default(),
            totals: Mutex::new(totals),
            listeners: Mutex::default(),
            writer: Some(RunWriter::new(folder, journal, manifest.clone(), manifest.engines)?),
        })
    }
}

/// A random seed of 32 bits, so that it is easy to type.
pub(super) fn draw_seed() -> u64 {
    random() >> 32
}

/// `RandomState` is seeded by the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Replaces the characters of a script's name that do not belong in a file name.
fn file_name(name: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().take(64).map(allowed).collect();
    if name.is_empty() { "script".to_owned() } else { name }
}
