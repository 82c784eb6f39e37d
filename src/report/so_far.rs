//! A run that ended before its script finished: its results so far, what is missing, and how to resume it. The run
//! itself prints this when it is cut short, and `show` at any later time; both read it from the run's folder.

use serde_json::{Value, json};

use super::commands::resume;
use super::recorded_answer::Extras;
use super::sections::{jobs_text, missing};
use super::{Block, Fact, Page, breakdown, experiment, overview, run_findings, simulated_notice};
use crate::compare;
use crate::fault::{Fault, Result};
use crate::run::{Folder, RecordedBoundary, RecordedRun};

/// The results of a run that ended before its script finished.
pub struct SoFar<'a> {
    found: &'a RecordedRun,
    /// The reason why it ended.
    stopped: String,
    missing: Option<String>,
    /// The command that resumes the run, if it can be resumed.
    resume: Option<String>,
}

impl<'a> SoFar<'a> {
    /// `None` for a run whose script finished.
    pub fn new(found: &'a RecordedRun, folder: &Folder) -> Option<Self> {
        Some(Self {
            stopped: found.stopped()?,
            missing: missing(found, folder),
            resume: resume(found, folder),
            found,
        })
    }

    /// Replaces the command that resumes the run.
    pub fn with_command(self, resume: Option<String>) -> Self {
        Self { resume, ..self }
    }

    /// Adds to the document of the run: the result so far, why the run ended, what is missing, and the command that
    /// resumes it.
    pub fn add_to(&self, document: &mut Value) {
        document["result"] = self.result();
        document["stopped"] = json!(self.stopped);
        document["unfinished"] = json!(self.missing);
        document["resume"] = json!(self.resume);
    }

    /// The load that was cut short, if one was.
    pub fn under_way(&self) -> Option<String> {
        let load = self.found.loading.as_ref()?;
        let level = ["concurrency", "rate"]
            .iter()
            .find_map(|name| Some(format!(" at {name} {}", load.get(name)?)))
            .unwrap_or_default();
        Some(format!(
            "a load{level}, not included in the results; its responses are in `loads/` of the run's folder"
        ))
    }

    /// Facts: why the run ended, what is missing, and how to resume it.
    pub fn facts(&self) -> Block {
        let stopped = self.stopped.trim_start_matches("not finished: ");
        let mut facts = vec![Fact::new("not finished", stopped)];
        facts.extend(self.missing.as_ref().map(|missing| Fact::new("missing", missing)));
        facts.extend(self.under_way().map(|load| Fact::new("under way", load)));
        facts.extend(self.resume.as_ref().map(|command| Fact::code("resume with", command)));
        Block::Facts(facts)
    }

    /// The results so far that the run has not shown by itself, then [`SoFar::facts`].
    pub fn blocks(&self, page: Page) -> Vec<Block> {
        let mut blocks = results(self.found, page, true);
        blocks.push(self.facts());
        blocks
    }

    /// The result in the script's form, as far as it was measured; null if nothing was.
    fn result(&self) -> Value {
        let found = self.found;
        if let Some((value, _)) = &found.so_far {
            return value.clone();
        }
        let open = found.drawn().filter(|boundary| !boundary.points.is_empty());
        let mut findings: Vec<Value> = open.filter_map(|boundary| findings(found, boundary).ok()).collect();
        match findings.len() {
            0 if !found.jobs.is_empty() => json!({ "jobs": found.jobs }),
            0 => last_result(found),
            1 => findings.remove(0),
            _ => findings.into(),
        }
    }
}

/// The last result that the script showed by itself; null without one.
fn last_result(found: &RecordedRun) -> Value {
    let named = found.experiments.last().or(found.breakdowns.last());
    let shown = found.shown.last().map(|(value, _)| value);
    shown.or(named.map(|(_, value)| value)).cloned().unwrap_or_default()
}

fn findings(found: &RecordedRun, boundary: &RecordedBoundary) -> Result<Value> {
    Extras::of_run(found, boundary.report.clone()).findings(&boundary.rebuild()?)
}

/// The results of a run, its boundaries first. With `so_far`, only results that the run has not shown by itself.
pub fn results(found: &RecordedRun, page: Page, so_far: bool) -> Vec<Block> {
    let notice = || Block::notice(simulated_notice(found));
    let is_new = |value: &Value| !so_far || found.so_far.as_ref().is_some_and(|(latest, _)| latest == value);
    let mut blocks = Vec::new();
    for boundary in found.drawn() {
        if so_far && (boundary.report.is_some() || boundary.points.is_empty()) {
            continue;
        }
        let extras = Extras::of_run(found, boundary.report.clone());
        // An unreadable boundary must not hide the rest.
        let laid_out = boundary.rebuild().and_then(|rebuilt| overview(&rebuilt, &extras, page));
        let unreadable = |fault: Fault| format!("this boundary cannot be shown: {}", fault.message);
        blocks.extend(laid_out.unwrap_or_else(|fault| vec![Block::Text(unreadable(fault))]));
    }
    let breakdowns = found.breakdowns.iter().zip(found.footprints());
    for (_, (name, footprint)) in breakdowns.filter(|((_, value), _)| is_new(value)) {
        blocks.extend(notice());
        blocks.extend(breakdown(name, &footprint, page));
    }
    // The texts of shipped scripts begin with the finding.
    if blocks.is_empty()
        && found.experiments.is_empty()
        && found.shown.iter().all(|(value, _)| value["finding"].is_null())
    {
        let finding = run_findings(found).into_iter().next();
        blocks.extend(finding.map(Block::Finding));
    }
    for (_, text) in found.shown.iter().filter(|(value, _)| is_new(value)) {
        blocks.extend(notice());
        blocks.push(Block::Text(text.clone()));
    }
    if found.shown.is_empty()
        && let Ok(text) = jobs_text(&found.jobs.clone().into(), page)
    {
        blocks.extend((!text.is_empty()).then_some(Block::Text(text)));
    }
    let experiments = found.experiments.iter().zip(compare::experiments(found));
    for (_, (_, measured)) in experiments.filter(|((_, value), _)| is_new(value)) {
        blocks.extend(notice());
        blocks.extend(experiment(&measured, page));
    }
    blocks
}
