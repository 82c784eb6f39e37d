//! Reads a run back from its folder: finished, failed, killed or still under way, complete or damaged.
//!
//! The journal is the truth. A lost manifest is derived from it, and says less. What is damaged is left out and noted.

use std::path::Path;

use serde_json::Value;

use super::folder::{Folder, not_a_run, not_found};
use super::journal::{self, JOURNAL};
use super::manifest::{MANIFEST, Manifest, SCHEMA, Script};
use super::recorded::{RecordedBoundary, RecordedRun};
use super::sessions::EngineSessions;
use super::{Event, event};
use crate::boundary::{Answer, JsonText};
use crate::experiment::Experiment;
use crate::fault::{Fault, Kind, Result};
use crate::memory::Footprint;

/// Largest number of boundaries of a run; a higher index is damage.
const MOST_BOUNDARIES: usize = 1 << 16;

/// Most damaged lines whose numbers are listed.
const MOST_LISTED: usize = 10;

/// Fields of the manifest that do not follow from the journal.
const NOT_IN_JOURNAL: &str =
    "driver, gpus, host, max_operations, modules, parameters, permissions, profiler, script, seed, set";

impl RecordedRun {
    /// Reads a run's folder as far as possible; [`RecordedRun::missing`] lists the damage. Changes nothing in the
    /// folder, so it may be in use.
    ///
    /// # Errors
    ///
    /// `usage` if it is not a run's folder or has another schema; `io` if nothing in it can be read.
    pub fn read(folder: &Path) -> Result<Self> {
        Self::from_folder(&Folder::open(folder)?)
    }

    /// Reads an open folder like [`RecordedRun::read`].
    ///
    /// # Errors
    ///
    /// As [`RecordedRun::read`].
    pub fn from_folder(folder: &Folder) -> Result<Self> {
        let read = Manifest::read(folder);
        if let Err(fault) = &read
            && fault.kind == Kind::Usage
            && folder.has(MANIFEST)
        {
            return Err(fault.clone());
        }
        let mut found = Self {
            not_started: read.as_ref().is_ok_and(|manifest| manifest.not_started(folder)),
            ..Self::default()
        };
        let derived = match found.not_started {
            true => Manifest::default(),
            false => found.read_journal(folder),
        };
        match read {
            Ok(manifest) => {
                // The end of a run is written to the journal before the manifest.
                found.ends_early = manifest.status != "running" && derived.ended.is_none();
                if let Some(last) = found.last.as_ref().filter(|_| found.ends_early) {
                    let note = format!("journal.jsonl ends early, at {last}: later events are missing");
                    found.missing.push(note);
                }
                found.manifest = manifest;
            }
            Err(fault) => {
                let why = match folder.has(MANIFEST) {
                    true => format!("manifest.json cannot be read ({})", fault.message),
                    false => "manifest.json is not there".to_owned(),
                };
                found.missing.insert(0, format!("{why}; not known: {NOT_IN_JOURNAL}"));
                if found.last.is_none() {
                    return Err(unreadable(folder, &found.missing));
                }
                found.manifest_lost = true;
                found.manifest = named_by_folder(derived, folder);
            }
        }
        if found.done() && found.result.is_none() {
            let note = "the result of the script is not in the journal".to_owned();
            found.missing.push(note);
        }
        found.stages = read_stages(folder, &mut found.missing);
        found.experiment_loads.append(&mut found.pending);
        drop_unreadable(&mut found);
        Ok(found)
    }

    /// Reads a run's folder for a resume: it must be undamaged, except for a torn last line.
    ///
    /// # Errors
    ///
    /// `usage` and `io` if it is damaged.
    pub fn read_intact(folder: &Path) -> Result<Self> {
        let folder = Folder::open(folder)?;
        Manifest::read(&folder)?;
        let mut found = Self::from_folder(&folder)?;
        found.damage.take().map_or(Ok(found), Err)
    }

    /// Reads the journal; returns the manifest as far as it follows from it.
    fn read_journal(&mut self, folder: &Folder) -> Manifest {
        let path = folder.path().join(JOURNAL);
        let (mut sessions, mut damaged) = (EngineSessions::default(), Vec::new());
        let mut derived = Manifest {
            status: "running".to_owned(),
            ..Manifest::default()
        };
        let file = folder.file(JOURNAL);
        let is_absent = matches!(file, Ok(None));
        let file = file.and_then(|file| file.ok_or_else(|| not_found(&path)));
        let read = file.and_then(|file| {
            journal::read_lines(&file, &path, |number, entry| {
                match entry {
                    Ok(entry) if boundary_index(&entry.event).is_none_or(|index| index < MOST_BOUNDARIES) => {
                        derived.add(&entry);
                        sessions.add(&entry.time, entry.engine, &entry.event);
                        self.last = Some(entry.time.clone());
                        self.totals.count(&entry.event);
                        self.apply(entry.event, entry.time);
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.damage
                            .get_or_insert_with(|| journal::damaged(&path, number, &error));
                    }
                }
                damaged.push(number);
                Ok(())
            })
        });
        self.sessions = sessions.sessions;
        let mut note = |note: String| self.missing.push(format!("journal.jsonl: {note}"));
        if !damaged.is_empty() {
            let lines = if damaged.len() == 1 { "line" } else { "lines" };
            let (listed, more) = damaged.split_at(damaged.len().min(MOST_LISTED));
            let more = if more.is_empty() { "" } else { " and more" };
            let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
            let listed = listed.join(", ");
            note(format!(
                "{lines} {listed}{more} cannot be read: these events are missing"
            ));
        }
        match &read {
            Ok(extent) if let Some(distrust) = &extent.distrust => note(distrust.to_string()),
            Ok(extent) if extent.torn => note("its last line is incomplete: the last event is missing".to_owned()),
            Ok(_) if self.last.is_none() && damaged.is_empty() => {
                note("it is empty: all events are missing".to_owned());
            }
            Ok(_) => {}
            Err(_) if is_absent => note("it is not there: all events are missing".to_owned()),
            Err(fault) => {
                let why = &fault.message;
                note(format!("it cannot be read to its end ({why}): events are missing"));
            }
        }
        match read {
            Ok(extent) => self.without_checksums = extent.unchecked,
            Err(fault) => self.damage = Some(fault),
        }
        derived
    }

    fn boundary(&mut self, index: usize) -> &mut RecordedBoundary {
        if self.boundaries.len() <= index {
            self.boundaries.resize_with(index + 1, RecordedBoundary::default);
        }
        &mut self.boundaries[index]
    }

    fn apply(&mut self, event: Event, time: String) {
        let top_level = self.experiment_depth.is_top_level(&event);
        match event {
            Event::Boundary { index, axes } => self.boundary(index).described = axes,
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => {
                let boundary = self.boundary(boundary);
                boundary.points.push((point, JsonText::from(&answer)));
                boundary.times.push(time);
            }
            Event::Report { boundary, value, .. } => self.boundary(boundary).report = Some(value),
            Event::Breakdown { name, value } => replace_named(&mut self.breakdowns, name, value),
            Event::Experiment { name, value } => replace_named(&mut self.experiments, name, value),
            Event::Shown { value, text } => {
                self.shown.retain(|(other, _)| *other != value);
                self.shown.push((value, text));
            }
            Event::Plot { value } => {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                replace_named(&mut self.plots, name, value);
            }
            Event::Record { name, value } => self.records.push((name, value)),
            Event::Done { kind, args, answer } => {
                self.finished += u64::from(event::measures(&kind));
                match kind.as_str() {
                    "load" if top_level => self.loads.push((args, answer)),
                    "load" => self.pending.push((args, answer)),
                    "job" => self.jobs.push(answer),
                    "experiment" => self.experiment_loads.append(&mut self.pending),
                    _ => {}
                }
            }
            Event::Engine { .. } | Event::StartFailed { .. } => self.starts += 1,
            Event::Resumed { .. } => {
                self.fault = None;
                self.pending.clear();
            }
            Event::End { status, value } => match status.as_str() {
                "done" => self.result = Some(value),
                _ => self.fault = Some(value),
            },
            _ => {}
        }
    }
}

fn boundary_index(event: &Event) -> Option<usize> {
    match event {
        Event::Boundary { index: boundary, .. } | Event::Point { boundary, .. } | Event::Report { boundary, .. } => {
            Some(*boundary)
        }
        _ => None,
    }
}

/// A manifest that follows from a journal, with what the folder itself says: its name, and the copy of the script.
fn named_by_folder(derived: Manifest, folder: &Folder) -> Manifest {
    let path = std::fs::canonicalize(folder.path()).unwrap_or_else(|_| folder.path().to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Manifest {
        schema: SCHEMA,
        run: name,
        script: Script {
            name: "script".to_owned(),
            path: "script.rhai".to_owned(),
            ..Script::default()
        },
        ..derived
    }
}

/// The error if nothing of a run can be read.
fn unreadable(folder: &Folder, missing: &[String]) -> Fault {
    let is_absent = |name: &str| matches!(folder.file(name), Ok(None));
    if is_absent(MANIFEST) && is_absent(JOURNAL) {
        return not_a_run(folder.path());
    }
    let message = format!(
        "nothing of the run in `{}` can be read: {}",
        folder.path().display(),
        missing.join("; ")
    );
    Fault::new(Kind::Io, message).hint("what is in `logs/` and `memory/` may still help")
}

/// Replaces an entry of that name: a resumed script notes the same names again.
fn replace_named(named: &mut Vec<(String, Value)>, name: String, value: Value) {
    match named.iter_mut().find(|(other, _)| *other == name) {
        Some((_, newest)) => *newest = value,
        None => named.push((name, value)),
    }
}

const MARK: &str = ".usage";

/// The engines in the order of their starts, each with its stages. Null stands for an unreadable file, such as one of a
/// killed run; it is noted in `missing`.
fn read_stages(folder: &Folder, missing: &mut Vec<String>) -> Vec<(String, Value)> {
    let files = folder.names("memory").unwrap_or_else(|fault| {
        let why = fault.message;
        missing.push(format!("memory/ cannot be read ({why}): memory over time is missing"));
        Vec::new()
    });
    let mut names: Vec<(String, String)> = files.iter().filter_map(|file| engine_of(file)).collect();
    // `engine-10` comes after `engine-9`.
    names.sort_by_key(|(name, _)| (name.len(), name.clone()));
    let stages = names.into_iter().map(|(name, file)| {
        let (text, why) = match folder.read(format!("memory/{file}")) {
            Ok(text) => (text.unwrap_or_default(), format!("memory/{file} is incomplete")),
            Err(fault) => (Vec::new(), fault.message),
        };
        let usage: Value = serde_json::from_slice(&text).unwrap_or_default();
        if usage.is_null() {
            missing.push(format!("{why}: memory of {name} by stage is missing"));
        }
        (name, usage)
    });
    stages.collect()
}

/// Splits a file name into engine and file: `engine-1` for `engine-1.usage.json`, `engine-1-2` for
/// `engine-1.usage-2.json` of a resumed run.
fn engine_of(file: &str) -> Option<(String, String)> {
    let (engine, copy) = file.strip_suffix(".json")?.split_once(MARK)?;
    let is_usage = copy.is_empty() || copy.strip_prefix('-').is_some_and(|copy| copy.parse::<u32>().is_ok());
    is_usage.then(|| (format!("{engine}{copy}"), file.to_owned()))
}

/// Keeps boundaries that can be rebuilt, and breakdowns and experiments that can be parsed.
fn drop_unreadable(run: &mut RecordedRun) {
    let several = run.boundaries.len() > 1;
    for (index, boundary) in run.boundaries.iter_mut().enumerate() {
        let name = match several {
            true => format!("boundary {}", index + 1),
            false => "the boundary".to_owned(),
        };
        let note = drop_bad_points(boundary);
        run.missing.extend(note.map(|note| format!("{name}: {note}")));
    }
    let missing = &mut run.missing;
    let mut keep = |what: &str, name: &str, readable: bool| {
        if !readable {
            missing.push(format!("the {what} `{name}` is damaged: skipped"));
        }
        readable
    };
    let is_footprint = |value: &Value| serde_json::from_value::<Footprint>(value.clone()).is_ok();
    let is_experiment = |value: &Value| Experiment::read(value, |_| None).is_ok();
    run.breakdowns
        .retain(|(name, value)| keep("breakdown", name, is_footprint(value)));
    run.experiments
        .retain(|(name, value)| keep("experiment", name, is_experiment(value)));
}

/// Drops the axes of a boundary if they are damaged, else the points that do not fit them. Returns a note about it.
fn drop_bad_points(boundary: &mut RecordedBoundary) -> Option<String> {
    let points = std::mem::take(&mut boundary.points);
    let times = std::mem::take(&mut boundary.times);
    let all = points.len();
    let Some(rebuilt) = boundary.rebuild().ok().filter(|_| !boundary.described.is_null()) else {
        boundary.described = Value::Null;
        boundary.points = points;
        // Without any data it may only be a gap in the numbering.
        let lost = all > 0 || boundary.report.is_some();
        return lost.then(|| format!("its axes are lost or damaged: its {all} points cannot be shown as a boundary"));
    };
    for (recorded, time) in points.into_iter().zip(times) {
        if Answer::parse(&recorded.1.value()).is_ok() && rebuilt.recorded(&recorded.0).is_ok() {
            boundary.points.push(recorded);
            boundary.times.push(time);
        }
    }
    let lost = all - boundary.points.len();
    (lost > 0).then(|| format!("{lost} of its {all} points are damaged: skipped"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_files_of_every_execution_are_found() {
        let engine = |file| engine_of(file).map(|(engine, _)| engine);
        assert_eq!(engine("engine-1.usage.json").as_deref(), Some("engine-1"));
        assert_eq!(engine("engine-1.usage-2.json").as_deref(), Some("engine-1-2"));
        assert_eq!(engine("engine-1.usage-old.json"), None);
        assert_eq!(engine("engine-1.csv"), None);
    }
}
