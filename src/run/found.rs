//! What a run found, read from its folder: finished, failed, killed, or still under way.

use std::fs::File;
use std::path::Path;

use serde_json::Value;

use super::journal;
use super::keeper::refusal;
use super::manifest::Manifest;
use super::past::Recorded;
use super::plan::{self, Plan};
use super::stages;
use super::tally::Tally;
use super::{Event, document};
use crate::boundary::{Answer, Boundary, Options};
use crate::fault::{Fault, Kind, Result};

/// A boundary as the journal has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundBoundary {
    /// `#{ axes, options }` as given.
    pub described: Value,
    /// Its points in recording order.
    pub points: Vec<Recorded>,
    /// What `report(map)` gave, if it was called.
    pub report: Option<Value>,
}

/// What a run found.
#[derive(Debug)]
pub struct Found {
    /// The manifest.
    pub manifest: Manifest,
    /// The boundaries, in the order in which the script made them.
    pub boundaries: Vec<FoundBoundary>,
    /// Memory by component, as the script named it, the newest of each name: [`crate::memory::Footprint`]s.
    pub breakdowns: Vec<(String, Value)>,
    /// Memory by the stages of each engine's life, by the engine's name: [`crate::engine::Usage`]s with `sampling`.
    pub stages: Vec<(String, Value)>,
    /// Loads that were finished: their arguments and their answers.
    pub loads: Vec<(Value, Value)>,
    /// Named values that the script recorded.
    pub records: Vec<(String, Value)>,
    /// Probes, loads and experiments that were finished.
    pub finished: u64,
    /// When the last event happened, UTC.
    pub last: Option<String>,
    /// The fault that ended the last life, if one did.
    pub fault: Option<Value>,
    result: Option<Value>,
    tally: Tally,
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
    /// Reads the folder of a run. Nothing in it is changed, and its host is not disturbed.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut found = Self {
            manifest: Manifest::read(folder)?,
            boundaries: Vec::new(),
            breakdowns: Vec::new(),
            stages: stages::read(folder)?,
            loads: Vec::new(),
            records: Vec::new(),
            finished: 0,
            last: None,
            fault: None,
            result: None,
            tally: Tally::default(),
        };
        let path = folder.join("journal.jsonl");
        let file = File::open(&path).map_err(|error| Fault::io(&path, &error))?;
        journal::read(&file, &path, |entry| {
            found.last = Some(entry.time);
            found.tally.count(&entry.event);
            found.learn(entry.event);
        })?;
        Ok(found)
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

    /// Whether points were asked about, and not one is known to fit.
    #[must_use]
    pub fn nothing_fits(&self) -> bool {
        self.tally.nothing_fits()
    }

    /// Warnings, oldest first.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.tally.warnings()
    }

    /// The value of the script's last expression; none when it did not come to its end.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
    }

    /// The document that `--json` prints.
    #[must_use]
    pub fn document(&self) -> Value {
        let fault = self.fault.as_ref().unwrap_or(&Value::Null);
        let manifest = &self.manifest;
        document(
            manifest.simulated,
            Some(&manifest.run),
            &manifest.script.path,
            self.result.as_ref().ok_or(fault),
            self.warnings(),
        )
    }

    fn boundary(&mut self, index: usize) -> &mut FoundBoundary {
        if self.boundaries.len() <= index {
            self.boundaries.resize_with(index + 1, FoundBoundary::default);
        }
        &mut self.boundaries[index]
    }

    fn learn(&mut self, event: Event) {
        match event {
            Event::Boundary { index, axes } => self.boundary(index).described = axes,
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => self.boundary(boundary).points.push((point, answer)),
            Event::Report { boundary, value, .. } => self.boundary(boundary).report = Some(value),
            // A resumed script notes again what it noted before.
            Event::Breakdown { name, value } => match self.breakdowns.iter_mut().find(|(known, _)| *known == name) {
                Some((_, newest)) => *newest = value,
                None => self.breakdowns.push((name, value)),
            },
            Event::Record { name, value } => self.records.push((name, value)),
            Event::Done { kind, args, answer } => {
                self.finished += u64::from(kind != "results");
                if kind == "load" {
                    self.loads.push((args, answer));
                }
            }
            Event::Resumed { .. } => self.fault = None,
            Event::End { status, value } => match status.as_str() {
                "done" => self.result = Some(value),
                _ => self.fault = Some(value),
            },
            _ => {}
        }
    }
}
