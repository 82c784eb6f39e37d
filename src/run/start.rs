//! Starts a run in a new folder, or resumes one.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::Run;
use super::attempt::{LOOK, begin_attempt, check_attempt};
use super::event::RunStatus;
use super::event::{Event, Totals};
use super::folder::{self, Folder};
use super::journal::Journal;
use super::manifest::{FOLDER_SCHEMA, Machine, Manifest, RunPlan};
use super::new_folder;
use super::remembered::{own_run, remember};
use super::replay::Replay;
use super::writer::{RunWriter, draw_seed, random};
use crate::fault::Result;
use crate::warning::Warning;

impl Run {
    /// Creates a run in a new folder: `out`, or `runs/TIME-NAME`; with `force_new`, `out` with a number if it is taken.
    /// Also returns a warning if a resume will need `--trust-script`.
    ///
    /// # Errors
    ///
    /// `usage` if `out` is taken.
    pub fn create(plan: &RunPlan, out: Option<&Path>, force_new: bool) -> Result<(Self, Vec<Warning>)> {
        let name = file_name(&plan.script.name);
        let folder = match plan.attempt.zip(out) {
            Some((attempt, out)) => {
                let folder = Folder::make(out)?;
                begin_attempt(&folder, attempt)?;
                folder
            }
            None => new_folder::create(out, &name, force_new)?,
        };
        folder.replace_text(Path::new("script.rhai"), &plan.text)?;
        let manifest = Manifest {
            schema: FOLDER_SCHEMA,
            profiler: env!("CARGO_PKG_VERSION").to_owned(),
            run: format!("{}-{name}-{:06x}", folder::stamp(), random() & 0xff_ffff),
            status: RunStatus::Running,
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
        let (journal, _) = Journal::open(&folder, |_, _| ())?;
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
    pub fn resume(folder: &Path, plan: &RunPlan) -> Result<(Self, Vec<Warning>)> {
        let folder = Folder::open(folder)?;
        if let Some(attempt) = plan.attempt {
            begin_attempt(&folder, attempt)?;
        }
        let (mut replay, mut totals) = (Replay::default(), Totals::default());
        let (journal, set_aside) = Journal::open(&folder, |engine, event| {
            totals.count(&event);
            replay.add(engine, event);
        })?;
        // Not earlier: until the journal was locked, another process could change it.
        let mut manifest = Manifest::read(&folder)?;
        manifest.status = RunStatus::Running;
        manifest.ended = None;
        manifest.amend(plan);
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
        plan: &RunPlan,
    ) -> Result<Self> {
        manifest.write(&folder)?;
        // Before this, a power failure may remove the names of journal and manifest, and with them all answers.
        folder.sync()?;
        Ok(Self {
            id: manifest.run.clone(),
            seed: manifest.seed.unwrap_or_default(),
            script: manifest.script.path.clone(),
            simulated: AtomicBool::new(manifest.simulated),
            finished: AtomicU64::new(replay.last_id()),
            replay: Mutex::new(replay),
            totals: Mutex::new(totals),
            writer: Some(RunWriter::new(folder, journal, manifest, plan)),
            ..Self::default()
        })
    }

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

/// Remembers that these texts are the user's own in this run. Returns a warning if that fails.
fn remember_texts(run: &str, plan: &RunPlan) -> Option<Warning> {
    let remembered = remember(plan.texts().map(|sha256| own_run(run, sha256)), "");
    let fault = remembered.err()?;
    let message = format!("resuming this run will need --trust-script: {}", fault.message);
    Some(Warning::new("not_remembered", message))
}

/// Replaces characters that do not belong in a file name.
fn file_name(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    let name = name.replace(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)), "-");
    if name.is_empty() { "script".to_owned() } else { name }
}
