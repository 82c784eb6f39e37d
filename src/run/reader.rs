//! Reads a run back from its folder: finished, failed, killed or still under way, complete or damaged.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::experiment_depth::ExperimentDepth;
use super::folder::{Folder, not_a_run, not_found};
use super::journal::{self, JOURNAL};
use super::manifest::{MANIFEST, Manifest};
use super::plan::{self, Plan};
use super::recover_manifest::{self, JournalSummary, ManifestFile};
use super::recover_points;
use super::replay::RecordedPoint;
use super::sessions::{EngineSession, EngineSessions};
use super::totals::Totals;
use super::writer::refusal;
use super::{Event, document};
use super::{stages, validate};
use crate::boundary::{Answer, Boundary, Options};
use crate::fault::{Fault, Kind, Result};

/// Largest number of boundaries of a run; a higher index is damage.
const MOST_BOUNDARIES: usize = 1 << 16;

/// A boundary as recorded in the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedBoundary {
    /// `#{ axes, options }` as the script gave them.
    pub described: Value,
    /// Its points in the order in which they were recorded.
    pub points: Vec<RecordedPoint>,
    /// When each point was recorded, UTC.
    pub times: Vec<String>,
    /// The result of `report(map)`, if it was called.
    pub report: Option<Value>,
}

/// A run as read from its folder.
#[derive(Debug, Default)]
pub struct RecordedRun {
    /// The manifest. If its file is lost, reconstructed from the other files as far as possible.
    pub manifest: Manifest,
    /// The boundaries, in the order in which the script created them.
    pub boundaries: Vec<RecordedBoundary>,
    /// Memory by component ([`crate::memory::Footprint`]), by name; the latest of each name.
    pub breakdowns: Vec<(String, Value)>,
    /// Comparisons of settings ([`crate::experiment::Experiment`]), by name; the latest of each name.
    pub experiments: Vec<(String, Value)>,
    /// Memory by stage of each engine ([`crate::engine::Usage`] with `sampling`), by the engine's name.
    pub stages: Vec<(String, Value)>,
    /// The engine starts, oldest first, with the measurements of each.
    pub sessions: Vec<EngineSession>,
    /// Results for which the script supplied the text: the value and the text.
    pub shown: Vec<(Value, String)>,
    /// Charts drawn by the script ([`crate::report::plot::Plot`]), by name; the latest of each name.
    pub plots: Vec<(String, Value)>,
    /// Loads that finished outside of experiments: arguments and answers.
    pub loads: Vec<(Value, Value)>,
    /// Loads that finished within experiments: arguments and answers.
    pub experiment_loads: Vec<(Value, Value)>,
    /// Values recorded by the script, by name.
    pub records: Vec<(String, Value)>,
    /// Number of finished probes, loads and experiments.
    pub finished: u64,
    /// Number of engine starts, including failed ones.
    pub starts: u64,
    /// Time of the last event, UTC.
    pub last: Option<String>,
    /// The fault that ended the last execution, if one did.
    pub fault: Option<Value>,
    /// Fields of the manifest that its file does not contain; some are reconstructed.
    pub lost: BTreeSet<String>,
    /// Whether the run ended but its journal lacks the end: counts are lower limits.
    pub ends_early: bool,
    /// What is damaged in the folder, and what is therefore missing.
    pub missing: Vec<String>,
    /// Whether the run has a manifest and nothing else: it was killed at the start, or is just starting.
    pub not_started: bool,
    result: Option<Value>,
    totals: Totals,
    experiment_depth: ExperimentDepth,
    /// The first damage of the journal that prevents a resume.
    damage: Option<Fault>,
    /// Loads of the experiment under way. An interrupted experiment is repeated completely.
    pending: Vec<(Value, Value)>,
}

impl RecordedBoundary {
    /// Rebuilds the boundary with its points.
    pub fn rebuild(&self) -> Result<Boundary> {
        let options = self.described.get("options").filter(|options| !options.is_null());
        let options = match options {
            Some(options) => serde_json::from_value(options.clone())
                .map_err(|error| Fault::new(Kind::Io, format!("a boundary of this run cannot be read: {error}")))?,
            None => Options::default(),
        };
        let mut boundary = Boundary::new(&self.described["axes"], options)?;
        for (point, answer) in &self.points {
            boundary.record(point, &Answer::parse(answer)?)?;
        }
        Ok(boundary)
    }
}

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
        let manifest_file = recover_manifest::manifest(folder)?;
        let mut found = Self {
            not_started: matches!(&manifest_file, ManifestFile::Complete(manifest) if recover_manifest::not_started(folder, manifest)),
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
                let (manifest, lost) = recover_manifest::fill_in(summary.manifest(folder, &document), parts);
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
        found.stages = stages::read(folder, &mut found.missing);
        found.experiment_loads.append(&mut found.pending);
        if found.ends_early {
            found.missing.extend(recover_points::recover_points(
                &mut found.boundaries,
                found.result.as_ref(),
            ));
        }
        validate::drop_unreadable(&mut found);
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
            let lines = validate::ranges(&damaged);
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
        for text in document["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            self.totals.count(&Event::Warning { text: text.to_owned() });
        }
        document
    }

    /// Fails, listing the differences, if `plan` is not the plan of this run. `module` returns the current hash of a
    /// module.
    pub fn check(&self, plan: &Plan, module: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        match plan::differences(&self.manifest, plan, module) {
            differences if differences.is_empty() => Ok(()),
            differences => Err(refusal(&differences)),
        }
    }

    /// Whether the script finished.
    #[must_use]
    pub fn done(&self) -> bool {
        self.manifest.status == "done"
    }

    /// How the run ended, for people: `done`, `failed: …`, `interrupted: …`, `not finished: …`.
    #[must_use]
    pub fn ended(&self) -> String {
        let fault = self.fault.as_ref().and_then(|fault| fault["message"].as_str());
        match (self.manifest.status.as_str(), fault) {
            _ if self.not_started => {
                "not started: nothing was recorded yet; it was killed at the start, or is just starting; --resume starts it"
                    .to_owned()
            }
            ("running", _) => "not finished: still running, or killed; --resume continues it".to_owned(),
            (status, Some(fault)) if status != fault => format!("{status}: {fault}"),
            (status, _) => status.to_owned(),
        }
    }

    /// The first part of [`RecordedRun::ended`], for tables: `done`, `failed`, `not finished`.
    #[must_use]
    pub fn state(&self) -> String {
        let ended = self.ended();
        ended.split(':').next().unwrap_or_default().to_owned()
    }

    /// Whether points were tested and none fits.
    #[must_use]
    pub fn nothing_fits(&self) -> bool {
        self.totals.nothing_fits()
    }

    /// Whether anything was measured: a point recorded, or a probe, load or experiment finished.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.totals.has_measured()
    }

    /// Whether everything that a resume needs is undamaged.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        self.damage.is_none() && self.lost.is_empty()
    }

    /// Warnings, oldest first.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.totals.warnings()
    }

    /// The warnings of each finished load, oldest first.
    #[must_use]
    pub fn load_warnings(&self) -> Vec<Vec<String>> {
        let texts = |(_, answer): &(Value, Value)| {
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            warnings.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        self.loads.iter().chain(&self.experiment_loads).map(texts).collect()
    }

    /// The value of the script's last expression; `None` if the script did not finish.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
    }

    /// The document that `--json` prints, with `missing` if the folder is damaged.
    #[must_use]
    pub fn document(&self) -> Value {
        let fault = self.fault.as_ref().unwrap_or(&Value::Null);
        let manifest = &self.manifest;
        let mut document = document(
            manifest.simulated,
            Some(&manifest.run),
            &manifest.script.path,
            self.result.as_ref().ok_or(fault),
            self.warnings(),
        );
        if !self.missing.is_empty() {
            document["missing"] = self.missing.clone().into();
        }
        document
    }

    /// The document with all measurements: points, loads, experiments, breakdowns, records, and memory by stage.
    #[must_use]
    pub fn everything(&self) -> Value {
        let named = |named: &[(String, Value)]| named.iter().cloned().collect::<Map<_, _>>();
        let points = |boundary: &RecordedBoundary| {
            let points = boundary.points.iter().zip(boundary.times.iter());
            let points =
                points.map(|((point, answer), time)| json!({ "point": point, "answer": answer, "time": time }));
            points.collect::<Vec<_>>()
        };
        let boundaries = self.boundaries.iter().map(|boundary| {
            let (described, report) = (&boundary.described, &boundary.report);
            json!({ "axes": described["axes"], "options": described["options"], "points": points(boundary), "report": report })
        });
        let loads = self
            .loads
            .iter()
            .map(|(args, answer)| json!({ "args": args, "answer": answer }));
        let records = self
            .records
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }));
        let mut document = self.document();
        document["status"] = self.manifest.status.clone().into();
        document["manifest"] = json!(self.manifest);
        let parts = [
            ("boundaries", boundaries.collect::<Vec<_>>().into()),
            ("loads", loads.collect::<Vec<_>>().into()),
            ("experiments", named(&self.experiments).into()),
            ("breakdowns", named(&self.breakdowns).into()),
            ("records", records.collect::<Vec<_>>().into()),
            ("memory", named(&self.stages).into()),
        ];
        let there = |value: &Value| value.as_array().is_none_or(|list| !list.is_empty()) && *value != json!({});
        for (name, value) in parts.into_iter().filter(|(_, value)| there(value)) {
            document[name] = value;
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
                self.finished += u64::from(super::event::measures(&kind));
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
