//! The common form of everything that can be shown and compared: a run, or a file of another tool.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::memory::Breakdown;
use crate::memory::compare::{Facts, Implausible};
use crate::run::RecordedBoundary;
pub use crate::unit::Unit;

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
    #[must_use]
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
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
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
    #[derive(Serialize)]
    struct Row<'a> {
        point: &'a crate::boundary::Point,
        answer: &'a serde_json::Value,
    }
    #[derive(Serialize)]
    struct BoundaryJson<'a> {
        axes: &'a serde_json::Value,
        points: Vec<Row<'a>>,
    }
    let serialize_boundary = boundary.as_ref().map(|boundary| BoundaryJson {
        axes: &boundary.described["axes"],
        points: boundary
            .points
            .iter()
            .map(|(point, answer)| Row { point, answer })
            .collect(),
    });
    serialize_boundary.serialize(serializer)
}
