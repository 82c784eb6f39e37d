//! Reads a run back from its folder: finished, failed, killed or still under way, complete or damaged.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::Value;

use super::folder::{Folder, not_a_run, not_found};
use super::journal::{self, JOURNAL};
use super::manifest::{MANIFEST, Manifest};
use super::recorded::{RecordedBoundary, RecordedRun};
use super::recover::{self, JournalSummary, ManifestFile};
use super::sessions::EngineSessions;
use super::{Event, event};
use crate::fault::{Fault, Kind, Result};
use crate::warning::Warning;

/// Largest number of boundaries of a run; a higher index is damage.
const MOST_BOUNDARIES: usize = 1 << 16;

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
        let manifest_file = recover::manifest(folder)?;
        let mut found = Self {
            not_started: matches!(&manifest_file, ManifestFile::Complete(manifest) if recover::not_started(folder, manifest)),
            ..Self::default()
        };
        let summary = match found.not_started {
            true => JournalSummary::default(),
            false => found.read_journal(folder),
        };
        let has_events = summary.last.is_some();
        // The end of a run is written to the journal before the manifest.
        let ended = matches!(&manifest_file, ManifestFile::Complete(manifest) if manifest.status != "running");
        if has_events && ended && !summary.has_end() {
            found.ends_early = true;
            let last = summary.last.as_deref().unwrap_or_default();
            found.missing.push(format!(
                "journal.jsonl ends early, at {last}: later events are missing, except what result.json contains"
            ));
        }
        let document = match (&manifest_file, found.missing.is_empty()) {
            (ManifestFile::Complete(_), true) => Value::Null,
            _ => found.read_result(folder),
        };
        match manifest_file {
            ManifestFile::Complete(manifest) => found.manifest = *manifest,
            ManifestFile::Partial(parts, why) => {
                if parts.is_empty() && !has_events && document.is_null() {
                    found.missing.insert(0, why);
                    return Err(unreadable(folder, &found.missing));
                }
                let (manifest, lost) = recover::fill_in(summary.manifest(folder, &document), parts);
                found.manifest = manifest;
                let names: Vec<&str> = lost.iter().map(String::as_str).collect();
                let note = format!("{why}; missing or reconstructed: {}", names.join(", "));
                found.missing.insert(0, note);
                found.lost = lost;
            }
        }
        if found.manifest.status == "done" && found.result.is_none() {
            let note = "the result of the script is neither in the journal nor in result.json";
            found.missing.push(note.to_owned());
        }
        found.stages = read_stages(folder, &mut found.missing);
        found.experiment_loads.append(&mut found.pending);
        if found.ends_early {
            found
                .missing
                .extend(recover::recover_points(&mut found.boundaries, found.result.as_ref()));
        }
        recover::drop_unreadable(&mut found);
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

    fn read_journal(&mut self, folder: &Folder) -> JournalSummary {
        let path = folder.path().join(JOURNAL);
        let (mut summary, mut sessions, mut damaged) =
            (JournalSummary::default(), EngineSessions::default(), Vec::new());
        let file = folder.file(JOURNAL);
        let is_absent = matches!(file, Ok(None));
        let read = file
            .and_then(|file| file.ok_or_else(|| not_found(&path)))
            .and_then(|file| {
                journal::read_lines(&file, &path, |number, entry| {
                    match entry {
                        Ok(entry) if boundary_index(&entry.event).is_none_or(|index| index < MOST_BOUNDARIES) => {
                            summary.add(&entry);
                            sessions.add(&entry.time, &entry.event);
                            self.last = Some(entry.time.clone());
                            self.totals.count(&entry.event);
                            self.apply(entry.event, entry.time);
                        }
                        Ok(_) => damaged.push(number),
                        Err(error) => {
                            damaged.push(number);
                            self.damage
                                .get_or_insert_with(|| journal::damaged(&path, number, &error));
                        }
                    }
                    Ok(())
                })
            });
        self.sessions = sessions.into_sessions();
        if !damaged.is_empty() {
            let lines = recover::ranges(&damaged);
            self.missing.push(format!(
                "journal.jsonl: {lines} cannot be read: these events are missing"
            ));
        }
        match read {
            Ok(extent) if extent.torn => self
                .missing
                .push("journal.jsonl: its last line is incomplete: the last event is missing".to_owned()),
            Ok(_) if summary.last.is_none() && damaged.is_empty() => self
                .missing
                .push("journal.jsonl is empty: all events are missing".to_owned()),
            Ok(_) => {}
            Err(fault) => {
                let what = match is_absent {
                    true => "journal.jsonl is not there".to_owned(),
                    false => format!("journal.jsonl cannot be read to its end ({})", fault.message),
                };
                self.missing
                    .push(format!("{what}: points, loads, experiments and warnings are missing"));
                self.damage = Some(fault);
            }
        }
        summary
    }

    /// Takes the result, fault and warnings that the journal lacks from `result.json`. Returns the document.
    fn read_result(&mut self, folder: &Folder) -> Value {
        let text = folder.read("result.json").unwrap_or_else(|fault| {
            self.missing.push(fault.message);
            None
        });
        let text = text.unwrap_or_default();
        let document: Value = serde_json::from_slice(&text).unwrap_or_default();
        if self.result.is_none() && self.fault.is_none() {
            let value = |key: &str| document.get(key).filter(|value| !value.is_null()).cloned();
            self.result = value("result");
            self.fault = value("fault");
        }
        let warnings = document["warnings"].as_array().into_iter().flatten();
        for warning in warnings.filter_map(|warning| Warning::deserialize(warning).ok()) {
            self.totals.count(&Event::Warning(warning));
        }
        document
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
                boundary.points.push((point, answer));
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

/// The error if nothing of a run can be read.
fn unreadable(folder: &Folder, missing: &[String]) -> Fault {
    if [MANIFEST, JOURNAL]
        .iter()
        .all(|name| matches!(folder.file(name), Ok(None)))
    {
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
        missing.push(format!(
            "memory/ cannot be read ({}): memory over time is missing",
            fault.message
        ));
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
