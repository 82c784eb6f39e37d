//! A run as read back from its folder, whether finished, failed, killed or under way, complete or damaged; with its
//! end, its results and its warnings.
//!
//! The journal is authoritative. A lost manifest is derived from it, with fewer fields. Damaged parts are left out and
//! noted.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::answer::Operation;
use super::answer::OperationKind;
use super::event::RunStatus;
use super::event::Totals;
use super::folder::{Folder, not_a_run, not_found};
use super::journal::{self, JOURNAL};
use super::manifest::{FOLDER_SCHEMA, MANIFEST, Manifest, Script};
use super::replay::{ExperimentDepth, RecordedPoint};
use super::sessions::{EngineSession, EngineSessions};
use super::{Event, document};
use crate::boundary::{Answer, Boundary, JsonText, Options};
use crate::experiment::Experiment;
use crate::fault::{Fault, Kind, Result};
use crate::load::LoadAnswer;
use crate::memory::Footprint;
use crate::outside;
use crate::telemetry::Settled;
use crate::warning::Warning;

/// A boundary as recorded in the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedBoundary {
    /// `#{ axes, options }` as the script gave them.
    pub described: Value,
    /// Its points in the order of recording.
    pub points: Vec<RecordedPoint>,
    /// When each point was recorded, UTC.
    pub times: Vec<String>,
    /// The result of `report(map)`, if it was called.
    pub report: Option<Value>,
}

/// A run as read from its folder.
#[derive(Debug, Default)]
pub struct RecordedRun {
    /// The manifest. If its file is lost or damaged, the part that follows from the journal.
    pub manifest: Manifest,
    /// The boundaries, in the order of creation.
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
    pub loads: Vec<RecordedLoad>,
    /// Loads that finished within experiments: arguments and answers.
    pub experiment_loads: Vec<RecordedLoad>,
    /// The configurations of a batch: the arguments with `launch` and `trial`, and the answer with its `verdict`.
    pub configurations: Vec<(Value, Value)>,
    /// The findings of the run's jobs, in the order in which the jobs ended.
    pub jobs: Vec<Value>,
    /// Values recorded by the script, by name.
    pub records: Vec<(String, Value)>,
    /// The latest partial result, which is also in `shown`, `experiments` or `breakdowns`, and what was still to be
    /// measured; `None` if a later result replaced it.
    pub so_far: Option<(Value, String)>,
    /// The options of the load under way.
    pub loading: Option<Value>,
    /// Number of finished probes, loads and experiments.
    pub finished: u64,
    /// Number of engine starts, including failed ones.
    pub starts: u64,
    /// Memory before the starts of engines that served one probe or load each, by the start.
    pub isolated: Vec<Settled>,
    /// Time of the last event, UTC.
    pub last: Option<String>,
    /// The fault that ended the last execution, if there was one.
    pub fault: Option<Value>,
    /// Whether the manifest's file is lost or damaged. Fields that do not follow from the journal are then unknown.
    pub manifest_lost: bool,
    /// Whether the run ended but its journal lacks the end. Counts are then lower bounds.
    pub ends_early: bool,
    /// The damaged parts of the folder, and what is missing as a result.
    pub missing: Vec<String>,
    /// Whether the run has a manifest and nothing else: it was killed at the start, or is just starting.
    pub not_started: bool,
    result: Option<Value>,
    /// Totals of all events: the warnings, the simulated engines, whether any point fits.
    pub totals: Totals,
    experiment_depth: ExperimentDepth,
    /// The first damage of the journal that prevents a resume.
    damage: Option<Fault>,
    /// Loads of the experiments under way, by engine.
    pending: BTreeMap<Option<u64>, Vec<RecordedLoad>>,
    /// The newest experiment of each engine: what it tries.
    trials: BTreeMap<Option<u64>, Value>,
}

/// A load's arguments and its answer.
pub type RecordedLoad = (Value, LoadAnswer);

impl RecordedBoundary {
    /// Rebuilds the boundary with its points.
    pub fn rebuild(&self) -> Result<Boundary> {
        let unreadable = |error| Fault::new(Kind::Io, format!("a boundary of this run cannot be read: {error}"));
        let options = match &self.described["options"] {
            Value::Null => Options::default(),
            options => Options::deserialize(options).map_err(unreadable)?,
        };
        let mut boundary = Boundary::new(&self.described["axes"], options)?;
        for (point, answer) in &self.points {
            boundary.record(point, &Answer::parse(&answer.value())?)?;
        }
        Ok(boundary)
    }
}

impl RecordedRun {
    /// The boundaries whose axes are known, so that they can be drawn.
    pub fn drawn(&self) -> impl Iterator<Item = &RecordedBoundary> {
        self.boundaries.iter().filter(|boundary| !boundary.described.is_null())
    }

    /// The readable breakdowns, by name. Unreadable ones were left out and noted.
    pub fn footprints(&self) -> impl Iterator<Item = (&str, Footprint)> {
        let breakdowns = self.breakdowns.iter();
        breakdowns.filter_map(|(name, value)| Some((name.as_str(), Footprint::deserialize(value).ok()?)))
    }

    /// Whether the script finished.
    pub fn done(&self) -> bool {
        self.manifest.done()
    }

    /// Whether the script finished and the journal holds all of its findings.
    pub fn complete(&self) -> bool {
        self.done() && !self.ends_early
    }

    /// How the run ended, for people: `done`, `failed: …`, `interrupted: …`, `out of time: …`, `not finished: …`.
    pub fn ended(&self) -> String {
        let fault = self.fault.as_ref().and_then(|fault| fault["message"].as_str());
        match (self.manifest.status, fault) {
            _ if self.not_started => {
                "not started: nothing was recorded yet; it was killed at the start, or is just starting; --resume starts it"
                    .to_owned()
            }
            (RunStatus::Running, _) => "not finished: still running, or killed; --resume continues it".to_owned(),
            (status, Some(fault)) if status.name() != fault => format!("{}: {fault}", status.name().replace('_', " ")),
            (status, _) => status.name().replace('_', " "),
        }
    }

    /// Why the run ended before its script did: `stopped by Ctrl-C`, `failed: …`, `not finished: …`; `None` if the
    /// script finished.
    pub fn stopped(&self) -> Option<String> {
        let ended = self.ended();
        let why = match self.manifest.status {
            RunStatus::Interrupted | RunStatus::OutOfTime => ended.split_once(": ").map(|(_, why)| why.to_owned()),
            _ => None,
        };
        (!self.done()).then(|| why.unwrap_or(ended))
    }

    /// The first part of [`RecordedRun::ended`], for tables: `done`, `failed`, `not finished`.
    pub fn state(&self) -> String {
        let ended = self.ended();
        ended.split(':').next().unwrap_or_default().to_owned()
    }

    /// Whether everything that a resume needs is undamaged.
    pub fn can_resume(&self) -> bool {
        self.damage.is_none() && !self.manifest_lost
    }

    /// The warnings of each finished load, oldest first.
    pub fn load_warnings(&self) -> Vec<Vec<Warning>> {
        let warnings = |(_, answer): &RecordedLoad| answer.stats.warnings.clone();
        self.loads.iter().chain(&self.experiment_loads).map(warnings).collect()
    }

    /// The value of the script's last expression; `None` if the script did not finish.
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
    }

    /// The result of the script, or of a run that is cut short the result so far.
    pub fn result_so_far(&self) -> Option<&Value> {
        self.result().or(self.so_far.as_ref().map(|(value, _)| value))
    }

    /// The document that `--json` prints, with `missing` if the folder is damaged.
    pub fn document(&self) -> Value {
        let fault = self.fault.as_ref().unwrap_or(&Value::Null);
        let manifest = &self.manifest;
        let mut document = document(
            manifest.simulated,
            Some(&manifest.run),
            &manifest.script.path,
            self.result.as_ref().ok_or(fault),
            &self.totals.warnings,
        );
        if !self.missing.is_empty() {
            document["missing"] = self.missing.clone().into();
        }
        document
    }

    /// The document with all measurements: points, loads, experiments, breakdowns, records, and memory by stage.
    pub fn everything(&self) -> Value {
        let named = |named: &[(String, Value)]| Value::Object(named.iter().cloned().collect());
        let boundary = |boundary: &RecordedBoundary| {
            let RecordedBoundary {
                described,
                points,
                times,
                report,
            } = boundary;
            let points = points.iter().zip(times);
            let points =
                points.map(|((point, answer), time)| json!({ "point": point, "answer": answer, "time": time }));
            json!({
                "axes": described["axes"], "options": described["options"], "question": described["question"],
                "points": points.collect::<Vec<_>>(), "report": report,
            })
        };
        let load = |(args, answer): &RecordedLoad| json!({ "args": args, "answer": answer });
        let record = |(name, value): &(String, Value)| json!({ "name": name, "value": value });
        let mut document = self.document();
        document["status"] = self.manifest.status.name().into();
        document["manifest"] = json!(self.manifest);
        let parts = [
            ("boundaries", self.boundaries.iter().map(boundary).collect()),
            ("loads", self.loads.iter().map(load).collect()),
            ("experiments", named(&self.experiments)),
            ("breakdowns", named(&self.breakdowns)),
            ("records", self.records.iter().map(record).collect()),
            ("memory", named(&self.stages)),
        ];
        let there = |value: &Value| value.as_array().is_none_or(|list| !list.is_empty()) && *value != json!({});
        for (name, value) in parts.into_iter().filter(|(_, value)| there(value)) {
            document[name] = value;
        }
        document
    }
}

/// Largest number of boundaries of a run; a higher index is damage.
const MOST_BOUNDARIES: usize = 1 << 16;

/// Most damaged lines whose numbers are listed.
const MOST_LISTED: usize = 10;

/// Fields of the manifest that do not follow from the journal.
const NOT_IN_JOURNAL: &str =
    "driver, gpus, host, max_operations, modules, parameters, permissions, profiler, script, seed, set";

impl RecordedRun {
    /// Reads a run's folder as far as possible; [`RecordedRun::missing`] lists the damage. Changes nothing in the
    /// folder, so the run may still be under way.
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
        let derived = if found.not_started {
            Manifest::default()
        } else {
            found.read_journal(folder)
        };
        match read {
            Ok(manifest) => {
                // The end of a run is written to the journal before the manifest.
                found.ends_early = manifest.status != RunStatus::Running && derived.ended.is_none();
                if let Some(last) = found.last.as_ref().filter(|_| found.ends_early) {
                    let note = format!("journal.jsonl ends early, at {last}: later events are missing");
                    found.missing.push(note);
                }
                found.manifest = manifest;
            }
            Err(fault) => {
                let why = if folder.has(MANIFEST) {
                    format!("manifest.json cannot be read ({})", fault.message)
                } else {
                    "manifest.json is not there".to_owned()
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
        for (engine, mut own) in std::mem::take(&mut found.pending) {
            name_trial(&mut own, found.trials.get(&engine).unwrap_or(&Value::Null));
            found.experiment_loads.append(&mut own);
        }
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
            status: RunStatus::Running,
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
                        self.apply(entry.engine, entry.event, entry.time);
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
            Ok(extent) if let Some(distrust) = &extent.distrust => note(distrust.clone()),
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
        if let Err(fault) = read {
            self.damage = Some(fault);
        }
        derived
    }

    fn boundary(&mut self, index: usize) -> &mut RecordedBoundary {
        if self.boundaries.len() <= index {
            self.boundaries.resize_with(index + 1, RecordedBoundary::default);
        }
        &mut self.boundaries[index]
    }

    fn apply(&mut self, engine: Option<u64>, event: Event, time: String) {
        let top_level = self.experiment_depth.is_top_level(engine, &event);
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
            Event::Breakdown { name, value, missing } => {
                self.so_far = missing.map(|missing| (value.clone(), missing));
                replace_named(&mut self.breakdowns, name, value);
            }
            Event::Experiment { name, value, missing } => {
                self.so_far = missing.map(|missing| (value.clone(), missing));
                replace_named(&mut self.experiments, name, value);
            }
            Event::Shown { value, text, missing } => {
                let replaced = self.so_far.take();
                let is_replaced = |other: &Value| replaced.as_ref().is_some_and(|(before, _)| before == other);
                self.shown.retain(|(other, _)| *other != value && !is_replaced(other));
                self.so_far = missing.map(|missing| (value.clone(), missing));
                self.shown.push((value, text));
            }
            Event::Plot { value } => {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                replace_named(&mut self.plots, name, value);
            }
            Event::Record { name, value } => self.records.push((name, value)),
            Event::Began {
                kind: OperationKind::Load,
                args,
                ..
            } => self.loading = args.get("load").cloned(),
            Event::Began {
                kind: OperationKind::Experiment,
                args,
                ..
            } => drop(self.trials.insert(engine, args["trial"].clone())),
            Event::Done { args, operation, .. } => {
                self.finished += u64::from(operation.measures());
                self.loading = None;
                self.isolated.extend(match &operation {
                    Operation::Probe(answer) => answer.isolated,
                    Operation::Load(answer) => answer.isolated,
                    _ => None,
                });
                match operation {
                    Operation::Load(answer) if top_level => self.loads.push((args, *answer)),
                    Operation::Load(answer) => self.pending.entry(engine).or_default().push((args, *answer)),
                    Operation::Job(answer) => self.jobs.push(answer),
                    Operation::Experiment(answer) => {
                        let own = self.pending.entry(engine).or_default();
                        name_trial(own, &args["trial"]);
                        if top_level {
                            self.experiment_loads.append(own);
                        }
                        if args["trial"]["point"].is_object() && answer["verdict"].is_string() {
                            self.configurations.push((args, answer));
                        }
                    }
                    _ => {}
                }
            }
            Event::Engine { .. } | Event::StartFailed { .. } => self.starts += 1,
            Event::Resumed { .. } => {
                self.fault = None;
                self.loading = None;
                let depth = &self.experiment_depth;
                self.pending.retain(|engine, _| depth.counts_in_parts(*engine));
            }
            Event::End { status, value } => match status {
                RunStatus::Done => self.result = Some(value),
                _ => self.fault = Some(value),
            },
            _ => {}
        }
    }
}

/// Loads within an experiment are known by what it tried.
fn name_trial(loads: &mut [RecordedLoad], trial: &Value) {
    for (args, _) in loads.iter_mut().filter(|(args, _)| args["trial"].is_null()) {
        args["trial"] = trial.clone();
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
        schema: FOLDER_SCHEMA,
        run: name,
        script: Script {
            name: "script".to_owned(),
            path: "script.rhai".to_owned(),
            ..Script::default()
        },
        ..derived
    }
}

/// The error if no part of a run can be read.
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

/// Replaces the entry with that name, since a resumed script records the same names again.
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
        let usage: Value = outside::json(&text).unwrap_or_default();
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
        let name = if several {
            format!("boundary {}", index + 1)
        } else {
            "the boundary".to_owned()
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

/// Drops the axes of a boundary if they are damaged, or else the points that do not fit them. Returns a note about the
/// loss.
fn drop_bad_points(boundary: &mut RecordedBoundary) -> Option<String> {
    let points = std::mem::take(&mut boundary.points);
    let times = std::mem::take(&mut boundary.times);
    let all = points.len();
    let Some(rebuilt) = boundary.rebuild().ok().filter(|_| !boundary.described.is_null()) else {
        boundary.described = Value::Null;
        boundary.points = points;
        // Without any data, the boundary may just be a gap in the numbering.
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
    fn loads_of_trials_at_the_same_time_belong_to_their_own() {
        let args = |name: &str| json!({ "trial": { "setting": name } });
        let began = |name| Event::Began {
            kind: OperationKind::Experiment,
            args: args(name),
            in_parts: true,
        };
        let done = |args, operation| Event::Done { id: 1, args, operation };
        let load = || done(json!({}), Operation::Load(Box::default()));
        let ended = |name| done(args(name), Operation::Experiment(json!({})));
        let mut run = RecordedRun::default();
        let of_both = [began("a"), load(), load(), ended("a")];
        let events = of_both.into_iter().map(|event| (1, event));
        let mut events: Vec<_> = events.collect();
        events.splice(1..1, [(2, began("b")), (2, load()), (2, ended("b"))]);
        for (engine, event) in events {
            run.apply(Some(engine), event, String::new());
        }
        let trials = run.experiment_loads.iter().map(|(load, _)| &load["trial"]["setting"]);
        assert_eq!(trials.collect::<Vec<_>>(), ["b", "a", "a"]);
    }

    #[test]
    fn usage_files_of_every_execution_are_found() {
        let engine = |file| engine_of(file).map(|(engine, _)| engine);
        assert_eq!(engine("engine-1.usage.json").as_deref(), Some("engine-1"));
        assert_eq!(engine("engine-1.usage-2.json").as_deref(), Some("engine-1-2"));
        assert_eq!(engine("engine-1.usage-old.json"), None);
        assert_eq!(engine("engine-1.csv"), None);
    }
}
