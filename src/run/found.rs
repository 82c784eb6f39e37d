//! What a run found, read from its folder: finished, failed, killed, or still under way; whole, or as far as it can be read.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::folder::{Folder, absent, not_a_run};
use super::journal::{self, JOURNAL};
use super::keeper::refusal;
use super::lives::{Life, Lives};
use super::manifest::{MANIFEST, Manifest};
use super::nesting::Nesting;
use super::past::Recorded;
use super::plan::{self, Plan};
use super::restore;
use super::salvage::{self, Clues, Kept};
use super::tally::Tally;
use super::{Event, document};
use super::{sift, stages};
use crate::boundary::{Answer, Boundary, Options};
use crate::fault::{Fault, Kind, Result};

/// Boundaries of a run at most; a number beyond is damage.
const MOST_BOUNDARIES: usize = 1 << 16;

/// A boundary as the journal has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundBoundary {
    /// `#{ axes, options }` as given.
    pub described: Value,
    /// Its points in recording order.
    pub points: Vec<Recorded>,
    /// When each of them was recorded, UTC.
    pub times: Vec<String>,
    /// What `report(map)` gave, if it was called.
    pub report: Option<Value>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Found {
    /// The manifest; where it is lost, what else tells of the run, and the rest empty.
    pub manifest: Manifest,
    /// The boundaries, in the order in which the script made them.
    pub boundaries: Vec<FoundBoundary>,
    /// Memory by component, as the script named it, the newest of each name: [`crate::memory::Footprint`]s.
    pub breakdowns: Vec<(String, Value)>,
    /// Settings of a knob against each other, as the script named it, the newest of each name: [`crate::experiment::Experiment`]s.
    pub experiments: Vec<(String, Value)>,
    /// Memory by the stages of each engine's life, by the engine's name: [`crate::engine::Usage`]s with `sampling`.
    pub stages: Vec<(String, Value)>,
    /// The starts of its engines, oldest first, and what was asked of each.
    pub lives: Vec<Life>,
    /// Results that the script showed in its own words: the value and the text, as it was drawn then.
    pub shown: Vec<(Value, String)>,
    /// Pictures that the script drew, the newest of each name: [`crate::report::plot::Plot`]s.
    pub plots: Vec<(String, Value)>,
    /// Loads that were finished by themselves, not within an experiment: their arguments and their answers.
    pub loads: Vec<(Value, Value)>,
    /// Loads that were finished within experiments: their arguments and their answers.
    pub inner_loads: Vec<(Value, Value)>,
    /// Named values that the script recorded.
    pub records: Vec<(String, Value)>,
    /// Probes, loads and experiments that were finished.
    pub finished: u64,
    /// Starts of engines, those that failed among them.
    pub starts: u64,
    /// When the last event happened, UTC.
    pub last: Option<String>,
    /// The fault that ended the last life, if one did.
    pub fault: Option<Value>,
    /// Members of the manifest that its file does not tell; the rest of the folder may.
    pub lost: BTreeSet<String>,
    /// Whether the run ended and its journal does not have that end: what it counts are the least.
    pub ends_early: bool,
    /// What is broken in the folder, each with what is therefore not told.
    pub missing: Vec<String>,
    /// Whether the run has a manifest and nothing else yet: it was killed as it began, or begins just now.
    pub unbegun: bool,
    result: Option<Value>,
    tally: Tally,
    nesting: Nesting,
    /// The first thing in the journal that hinders going on with the run.
    damage: Option<Fault>,
    /// Loads of the experiment under way: one that was cut short is done again whole.
    pending: Vec<(Value, Value)>,
}

impl FoundBoundary {
    /// The boundary itself, with its points.
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

impl Found {
    /// Reads the folder of a run, as far as it can be read: what is broken is in [`Found::missing`]. Nothing in it is changed, and its host is not
    /// disturbed.
    ///
    /// # Errors
    ///
    /// `usage` where it is no folder of a run, or that of another version; `io` where nothing in it can be read.
    pub fn read(folder: &Path) -> Result<Self> {
        Self::of(&Folder::open(folder)?)
    }

    /// The same of an open folder.
    ///
    /// # Errors
    ///
    /// As [`Found::read`].
    pub fn of(folder: &Folder) -> Result<Self> {
        let kept = salvage::manifest(folder)?;
        let mut found = Self {
            unbegun: matches!(&kept, Kept::Whole(manifest) if salvage::is_unbegun(folder, manifest)),
            ..Self::default()
        };
        let clues = match found.unbegun {
            true => Clues::default(),
            false => found.hear(folder),
        };
        let heard = clues.last.is_some();
        // The end of a run is in its journal before it is in its manifest.
        let ended = matches!(&kept, Kept::Whole(manifest) if manifest.status != "running");
        if heard && ended && !clues.has_end() {
            found.ends_early = true;
            let last = clues.last.as_deref().unwrap_or_default();
            found.missing.push(format!(
                "journal.jsonl ends early, at {last}: what happened after that is told only as far as result.json has it"
            ));
        }
        let document = match (&kept, found.missing.is_empty()) {
            (Kept::Whole(_), true) => Value::Null,
            _ => found.recall(folder),
        };
        match kept {
            Kept::Whole(manifest) => found.manifest = *manifest,
            Kept::Part(parts, why) => {
                if parts.is_empty() && !heard && document.is_null() {
                    found.missing.insert(0, why);
                    return Err(unreadable(folder, &found.missing));
                }
                let (manifest, lost) = salvage::complete(clues.manifest(folder, &document), parts);
                found.manifest = manifest;
                let names: Vec<&str> = lost.iter().map(String::as_str).collect();
                let note = format!(
                    "{why}: {}, as far as the rest of the folder does not tell it",
                    names.join(", ")
                );
                found.missing.insert(0, note);
                found.lost = lost;
            }
        }
        if found.manifest.status == "done" && found.result.is_none() {
            let note = "the result of the script is neither in the journal nor in result.json";
            found.missing.push(note.to_owned());
        }
        found.stages = stages::read(folder, &mut found.missing);
        found.inner_loads.append(&mut found.pending);
        if found.ends_early {
            found
                .missing
                .extend(restore::restore(&mut found.boundaries, found.result.as_ref()));
        }
        sift::sift(&mut found);
        Ok(found)
    }

    /// Reads the folder of a run that is to go on, which must be whole but for a last line that was being written.
    ///
    /// # Errors
    ///
    /// `usage` and `io` where it is not.
    pub fn whole(folder: &Path) -> Result<Self> {
        let folder = Folder::open(folder)?;
        Manifest::read(&folder)?;
        let mut found = Self::of(&folder)?;
        found.damage.take().map_or(Ok(found), Err)
    }

    /// Reads the journal.
    fn hear(&mut self, folder: &Folder) -> Clues {
        let path = folder.path().join(JOURNAL);
        let (mut clues, mut lives, mut damaged) = (Clues::default(), Lives::default(), Vec::new());
        let file = folder.file(JOURNAL);
        let is_absent = matches!(file, Ok(None));
        let read = file
            .and_then(|file| file.ok_or_else(|| absent(&path)))
            .and_then(|file| {
                journal::lines(&file, &path, |number, entry| {
                    match entry {
                        Ok(entry) if boundary_of(&entry.event).is_none_or(|index| index < MOST_BOUNDARIES) => {
                            clues.learn(&entry);
                            lives.learn(&entry.time, &entry.event);
                            self.last = Some(entry.time.clone());
                            self.tally.count(&entry.event);
                            self.learn(entry.event, entry.time);
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
        self.lives = lives.into_lives();
        if !damaged.is_empty() {
            let lines = sift::ranges(&damaged);
            self.missing.push(format!(
                "journal.jsonl: {lines} cannot be read: what happened then is not told"
            ));
        }
        match read {
            Ok(extent) if extent.torn => self
                .missing
                .push("journal.jsonl: its last line is not whole: what happened last is not told".to_owned()),
            Ok(_) if clues.last.is_none() && damaged.is_empty() => self
                .missing
                .push("journal.jsonl is empty: nothing that happened is told".to_owned()),
            Ok(_) => {}
            Err(fault) => {
                let what = match is_absent {
                    true => "journal.jsonl is not there".to_owned(),
                    false => format!("journal.jsonl cannot be read to its end ({})", fault.message),
                };
                self.missing
                    .push(format!("{what}: points, loads, experiments and warnings are not told"));
                self.damage = Some(fault);
            }
        }
        clues
    }

    /// Takes from `result.json` what the journal should have told; gives the document.
    fn recall(&mut self, folder: &Folder) -> Value {
        let text = folder.read("result.json").unwrap_or_else(|fault| {
            self.missing.push(fault.message);
            None
        });
        let text = text.unwrap_or_default();
        let document: Value = serde_json::from_slice(&text).unwrap_or_default();
        if self.result.is_none() && self.fault.is_none() {
            let told = |key: &str| document.get(key).filter(|value| !value.is_null()).cloned();
            self.result = told("result");
            self.fault = told("fault");
        }
        for text in document["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            self.tally.count(&Event::Warning { text: text.to_owned() });
        }
        document
    }

    /// Refuses with the differences where `plan` is not what ran; `module` gives the hash of a module as it is now.
    pub fn check(&self, plan: &Plan, module: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        match plan::differences(&self.manifest, plan, module) {
            differences if differences.is_empty() => Ok(()),
            differences => Err(refusal(&differences)),
        }
    }

    /// Whether the script came to its end.
    #[must_use]
    pub fn done(&self) -> bool {
        self.manifest.status == "done"
    }

    /// How it ended, for people: `done`, `failed: …`, `interrupted: …`, `not finished: …`.
    #[must_use]
    pub fn ended(&self) -> String {
        let fault = self.fault.as_ref().and_then(|fault| fault["message"].as_str());
        match (self.manifest.status.as_str(), fault) {
            _ if self.unbegun => {
                "not begun: nothing was recorded yet; it was killed as it began, or begins just now; --resume begins it"
                    .to_owned()
            }
            ("running", _) => "not finished: still under way, or killed; --resume goes on with it".to_owned(),
            (status, Some(fault)) if status != fault => format!("{status}: {fault}"),
            (status, _) => status.to_owned(),
        }
    }

    /// The same in a word or two, for tables: `done`, `failed`, `not finished`.
    #[must_use]
    pub fn state(&self) -> String {
        let ended = self.ended();
        ended.split(':').next().unwrap_or_default().to_owned()
    }

    /// Whether points were asked about, and not one is known to fit.
    #[must_use]
    pub fn nothing_fits(&self) -> bool {
        self.tally.nothing_fits()
    }

    /// Whether anything was measured: a point recorded, or a probe, load or experiment finished.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.tally.has_measured()
    }

    /// Whether nothing that a resume needs is damaged.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        self.damage.is_none() && self.lost.is_empty()
    }

    /// Warnings, oldest first.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.tally.warnings()
    }

    /// The warnings of each finished load, oldest first.
    #[must_use]
    pub fn load_warnings(&self) -> Vec<Vec<String>> {
        let told = |(_, answer): &(Value, Value)| {
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            warnings.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        self.loads.iter().chain(&self.inner_loads).map(told).collect()
    }

    /// The value of the script's last expression; none when it did not come to its end.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
    }

    /// The document that `--json` prints; of a broken folder also what is missing.
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

    /// The document with everything else that the run measured: how it ended, its points, loads, experiments, breakdowns, records, and memory by stage.
    #[must_use]
    pub fn everything(&self) -> Value {
        let named = |named: &[(String, Value)]| named.iter().cloned().collect::<Map<_, _>>();
        let points = |boundary: &FoundBoundary| {
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

    fn boundary(&mut self, index: usize) -> &mut FoundBoundary {
        if self.boundaries.len() <= index {
            self.boundaries.resize_with(index + 1, FoundBoundary::default);
        }
        &mut self.boundaries[index]
    }

    fn learn(&mut self, event: Event, time: String) {
        let outside = self.nesting.outside(&event);
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
            Event::Breakdown { name, value } => renew(&mut self.breakdowns, name, value),
            Event::Experiment { name, value } => renew(&mut self.experiments, name, value),
            Event::Shown { value, text } => {
                self.shown.retain(|(known, _)| *known != value);
                self.shown.push((value, text));
            }
            Event::Plot { value } => {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                renew(&mut self.plots, name, value);
            }
            Event::Record { name, value } => self.records.push((name, value)),
            Event::Done { kind, args, answer } => {
                self.finished += u64::from(super::event::measures(&kind));
                match kind.as_str() {
                    "load" if outside => self.loads.push((args, answer)),
                    "load" => self.pending.push((args, answer)),
                    "experiment" => self.inner_loads.append(&mut self.pending),
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

/// The boundary that an event belongs to.
fn boundary_of(event: &Event) -> Option<usize> {
    match event {
        Event::Boundary { index: boundary, .. } | Event::Point { boundary, .. } | Event::Report { boundary, .. } => {
            Some(*boundary)
        }
        _ => None,
    }
}

/// There is nothing to tell: it is no run, or nothing of it is left.
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

/// A resumed script notes again what it noted before.
fn renew(named: &mut Vec<(String, Value)>, name: String, value: Value) {
    match named.iter_mut().find(|(known, _)| *known == name) {
        Some((_, newest)) => *newest = value,
        None => named.push((name, value)),
    }
}
