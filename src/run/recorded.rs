//! A run as read back from its folder, and what it says about its end, its results and its warnings.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::document;
use super::event::Totals;
use super::manifest::Manifest;
use super::replay::{ExperimentDepth, RecordedPoint};
use super::sessions::EngineSession;
use crate::boundary::{Answer, Boundary, Options};
use crate::fault::{Fault, Kind, Result};
use crate::load::LoadAnswer;
use crate::memory::Footprint;
use crate::warning::Warning;

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
    /// The manifest. If its file is lost or damaged, as far as it follows from the journal.
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
    /// What the run's jobs found, in the order in which they ended.
    pub jobs: Vec<Value>,
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
    /// Whether the manifest's file is lost or damaged: what does not follow from the journal is not known.
    pub manifest_lost: bool,
    /// Whether the run ended but its journal lacks the end: counts are lower limits.
    pub ends_early: bool,
    /// Whether the journal has no checksums, as an older version wrote it: a change to it cannot be noticed.
    pub without_checksums: bool,
    /// What is damaged in the folder, and what is therefore missing.
    pub missing: Vec<String>,
    /// Whether the run has a manifest and nothing else: it was killed at the start, or is just starting.
    pub not_started: bool,
    pub(super) result: Option<Value>,
    /// Totals of all events: the warnings, what was simulated, whether anything fits.
    pub totals: Totals,
    pub(super) experiment_depth: ExperimentDepth,
    /// The first damage of the journal that prevents a resume.
    pub(super) damage: Option<Fault>,
    /// Loads of the experiment under way. An interrupted experiment is repeated completely.
    pub(super) pending: Vec<(Value, Value)>,
}

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
    /// The boundaries that can be drawn: those whose axes are known.
    pub fn drawn(&self) -> impl Iterator<Item = &RecordedBoundary> {
        self.boundaries.iter().filter(|boundary| !boundary.described.is_null())
    }

    /// The breakdowns by name. Those that cannot be read were left out, and noted.
    pub fn footprints(&self) -> impl Iterator<Item = (&str, Footprint)> {
        let breakdowns = self.breakdowns.iter();
        breakdowns.filter_map(|(name, value)| Some((name.as_str(), Footprint::deserialize(value).ok()?)))
    }

    /// Whether the script finished.
    pub fn done(&self) -> bool {
        self.manifest.done()
    }

    /// Whether the script finished and nothing is left to do: the journal holds all that it found.
    pub fn complete(&self) -> bool {
        self.done() && !self.ends_early
    }

    /// How the run ended, for people: `done`, `failed: …`, `interrupted: …`, `not finished: …`.
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
        let warnings = |(_, answer): &(Value, Value)| LoadAnswer::read(answer).stats.warnings;
        self.loads.iter().chain(&self.experiment_loads).map(warnings).collect()
    }

    /// The value of the script's last expression; `None` if the script did not finish.
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
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
        let load = |(args, answer): &(Value, Value)| json!({ "args": args, "answer": answer });
        let record = |(name, value): &(String, Value)| json!({ "name": name, "value": value });
        let mut document = self.document();
        document["status"] = self.manifest.status.clone().into();
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
