//! How a run begins: in a fresh folder, or where an earlier life of it ended.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::files::Begun;
use super::folder::Folder;
use super::journal::{self, JOURNAL, Journal};
use super::keeper::{Keeper, refusal};
use super::manifest::{Machine, Manifest, SCHEMA};
use super::past::Past;
use super::plan::{self, Plan};
use super::tally::Tally;
use super::{Event, Run, clock};
use crate::fault::Result;

impl Run {
    /// A new run in a fresh folder: `out`, or `runs/TIME-NAME`, numbered where that is taken.
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
        // First, as it makes the folder that of a run: one that is killed from here on can be taken up.
        manifest.write(&folder)?;
        let journal = Journal::create(&folder)?;
        Self::keep(folder, journal, manifest, Past::default(), Tally::default())
    }

    /// Takes a run up where it ended, however it ended. `module` gives the hash of a module as it is now.
    ///
    /// # Errors
    ///
    /// `usage` with the differences when it would not be the same run, and when another host is using the folder.
    pub fn resume(folder: &Path, plan: &Plan, module: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let folder = Folder::open(folder)?;
        // Before the lock, so that what is no run at all is called that.
        Manifest::read(&folder)?;
        let path = folder.path().join(JOURNAL);
        let file = Journal::open(&folder)?;
        let mut manifest = Manifest::read(&folder)?;
        let differences = plan::differences(&manifest, plan, module);
        if !differences.is_empty() {
            return Err(refusal(&differences));
        }
        let (mut past, mut tally) = (Past::default(), Tally::default());
        let whole = journal::read(&file, &path, |entry| {
            tally.count(&entry.event);
            past.learn(entry.event);
        })?;
        let journal = Journal::reopen(file, &path, whole)?;
        manifest.status = "running".to_owned();
        manifest.ended = None;
        manifest.allow(plan);
        let (answers, points) = past.size();
        let run = Self::keep(folder, journal, manifest, past, tally)?;
        // One that was killed before its first event begins only now.
        if whole > 0 {
            run.note(Event::Resumed { answers, points })?;
        }
        Ok(run)
    }

    fn keep(folder: Folder, journal: Journal, manifest: Manifest, past: Past, tally: Tally) -> Result<Self> {
        Ok(Self {
            id: manifest.run.clone(),
            seed: manifest.seed.unwrap_or_default(),
            script: manifest.script.path.clone(),
            simulated: AtomicBool::new(manifest.simulated),
            past: Mutex::new(past),
            ordinals: Mutex::default(),
            begun: Begun::default(),
            tally: Mutex::new(tally),
            listeners: Mutex::default(),
            keeper: Some(Keeper::new(folder, journal, manifest.clone(), manifest.engines)?),
        })
    }
}

/// A seed that is easily typed.
pub(super) fn draw_seed() -> u64 {
    random() >> 32
}

/// The standard library draws these keys from the system's source.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A script's name as part of a file name.
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
