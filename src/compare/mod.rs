//! Reads runs, and files of other tools, into one form that can be compared: [`ComparisonInput`].
//!
//! [`import`] reads the files of other tools, [`export`] writes files that they read. `direction` knows which
//! direction of a metric is better.

mod direction;
pub mod export;
mod from_run;
pub mod import;
pub mod load_metrics;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::experiment::{self, Experiment};
use crate::fault::Result;
use crate::load::stats::Spread;
use crate::memory::Breakdown;
use crate::memory::compare::{Facts, Implausible};
use crate::run::{RecordedBoundary, RecordedRun, is_pack};
pub use crate::unit::Unit;
pub use direction::Direction;
pub use load_metrics::LoadMetric;

/// Opens a run's folder or a packed run, or a file of another tool.
pub fn open(path: &Path) -> Result<ComparisonInput> {
    if path.is_dir() || is_pack(path) {
        let found = RecordedRun::read(path)?;
        return Ok(ComparisonInput::from_run(&found, &path.display().to_string()));
    }
    import::read(path)
}

/// Whether higher values of an experiment's metric are better; `None` where neither side is, or none is known.
pub fn higher_is_better(metric: &experiment::Metric) -> Option<bool> {
    // Those of one level of a sweep are called `output_throughput at 8`.
    let name = metric.name.split(" at ").next().unwrap_or_default();
    match Direction::of_metric(name, metric.unit)? {
        Direction::More => Some(true),
        Direction::Less => Some(false),
        Direction::Neutral => None,
    }
}

/// Reads an experiment of a journal or a script.
///
/// # Errors
///
/// `usage` for anything else.
pub fn read_experiment(value: &Value) -> Result<Experiment> {
    Experiment::read(value, higher_is_better)
}

/// A run or a file, to show or to compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparisonInput {
    /// The file or folder as the user named it.
    pub title: String,
    /// Its writer: `run`, or the name of another tool's format.
    pub format: &'static str,
    /// What such a thing holds, for people.
    pub holds: &'static str,
    /// How it ended, if it is a run that did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// The model, as the source names it.
    pub model: Option<String>,
    /// The engine and its version, if known.
    pub engine: Option<String>,
    /// Whether anything in it was simulated.
    pub simulated: bool,
    /// Other properties of the setup by name: the GPU, the script, its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// The tested points, as a boundary that can be drawn.
    #[serde(serialize_with = "serialize_boundary")]
    pub boundary: Option<RecordedBoundary>,
    /// The measurements: one case per configuration, in the order of the source.
    pub cases: Vec<Case>,
    /// What readers must know about the numbers: decisions on units, doubts, quirks of the source.
    pub notes: Vec<String>,
}

impl ComparisonInput {
    /// Whether it has no measurement at all.
    pub fn is_empty(&self) -> bool {
        let points = self.boundary.as_ref().map_or(0, |boundary| boundary.points.len());
        let is_empty = |case: &Case| case.breakdown.is_none() && case.figures.is_empty();
        points == 0 && self.cases.iter().all(is_empty)
    }
}

/// The measurements of one configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Case {
    /// Its coordinates, or its name in the source. Cases with equal names are compared.
    pub name: String,
    /// Memory by component, of all devices together.
    pub breakdown: Option<Breakdown>,
    /// Named metrics in display order.
    pub figures: Vec<Metric>,
    /// Facts about the model and the setup that explain differences.
    pub facts: Facts,
    /// Values that are impossible.
    pub implausible: Vec<Implausible>,
}

/// One named metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The source's own name if it has one, without the unit unless that belongs to the name (`mean_ttft_ms`).
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// The 95 % confidence interval, low and high, in `unit`; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Whether it is a percentile that too few independent requests support: it is shown, but nothing is concluded from it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thin: bool,
}

impl Case {
    /// An empty case of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// One case of several repeats: the means of the metrics that all have, with intervals. A single one is itself.
    pub(super) fn mean(mut repeats: Vec<Self>) -> Self {
        if repeats.len() < 2 {
            return repeats.pop().unwrap_or_default();
        }
        let first = &repeats[0];
        let mean = |figure: &Metric| {
            let same = repeats
                .iter()
                .map(|case| case.figures.iter().find(|other| other.name == figure.name));
            let same: Vec<&Metric> = same.collect::<Option<_>>()?;
            let spread = Spread::from_values(same.iter().map(|one| Some(one.value)))?;
            Some(Metric {
                value: spread.mean,
                interval: spread.ci,
                thin: same.iter().any(|one| one.thin),
                ..figure.clone()
            })
        };
        Self {
            name: first.name.clone(),
            facts: first.facts.clone(),
            figures: first.figures.iter().filter_map(mean).collect(),
            ..Self::default()
        }
    }

    /// Adds a metric, if it has a finite value.
    pub(super) fn metric(&mut self, name: &str, value: Option<f64>, unit: Unit) {
        self.metric_with_interval(name, value, unit, None);
    }

    /// The same with a confidence interval.
    pub(super) fn metric_with_interval(
        &mut self,
        name: &str,
        value: Option<f64>,
        unit: Unit,
        interval: Option<[f64; 2]>,
    ) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.push(Metric {
                name: name.to_owned(),
                value,
                unit,
                interval,
                thin: false,
            });
        }
    }
}

/// Serializes a boundary: its axes, and its points with the answers as they were read.
fn serialize_boundary<S: Serializer>(boundary: &Option<RecordedBoundary>, serializer: S) -> Result<S::Ok, S::Error> {
    let document = boundary.as_ref().map(|boundary| {
        let points = boundary.points.iter();
        let points = points.map(|(point, answer)| json!({ "point": point, "answer": answer }));
        json!({ "axes": boundary.described["axes"], "points": points.collect::<Vec<_>>() })
    });
    document.serialize(serializer)
}
