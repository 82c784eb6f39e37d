//! What can be shown and compared: a run of ours, or a file that another tool left, in one form.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::memory::Breakdown;
use crate::memory::compare::{Facts, Implausible};
use crate::run::FoundBoundary;
pub use crate::unit::Unit;

/// One thing to show or to compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparisonInput {
    /// The file or folder as the user named it.
    pub title: String,
    /// What wrote it: `run`, or the name of a foreign format.
    pub format: &'static str,
    /// What such a thing holds, for people.
    pub holds: &'static str,
    /// How it ended, of a run that did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// The model, as the source names it.
    pub model: Option<String>,
    /// The engine and its version, as far as the source tells.
    pub engine: Option<String>,
    /// Whether anything in it was simulated.
    pub simulated: bool,
    /// What else is known of how it was made, by name: the GPU, the script, its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// The points that were tried, as a boundary that can be drawn.
    #[serde(serialize_with = "described")]
    pub boundary: Option<FoundBoundary>,
    /// What was measured: one for each configuration, in the order of the source.
    pub cases: Vec<Case>,
    /// What the reader must know about the figures: units that were decided, doubts, quirks of the source.
    pub notes: Vec<String>,
}

impl ComparisonInput {
    /// Whether it has no figure at all: no point with an answer, and nothing measured.
    #[must_use]
    pub fn empty(&self) -> bool {
        let points = self.boundary.as_ref().map_or(0, |boundary| boundary.points.len());
        let bare = |case: &Case| case.breakdown.is_none() && case.figures.is_empty();
        points == 0 && self.cases.iter().all(bare)
    }
}

/// What was measured of one configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Case {
    /// What it is called: its coordinates, or its name in the source. Equal names of two subjects are compared.
    pub name: String,
    /// Memory by component, of all devices together.
    pub breakdown: Option<Breakdown>,
    /// Single figures, by name, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// What is known of the model and the setting: it explains differences.
    pub facts: Facts,
    /// What cannot be as the source says.
    pub implausible: Vec<Implausible>,
}

/// One named figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name: the source's own where it has one, without the unit unless that belongs to the name (`mean_ttft_ms`).
    pub name: String,
    /// Its value, in `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// Where it lies with 95 % confidence, low and high, in its unit; none where the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl Case {
    /// A case of that name with nothing in it.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a figure, where there is one.
    pub(super) fn figure(&mut self, name: &str, value: Option<f64>, unit: Unit) {
        self.within(name, value, unit, None);
    }

    /// The same with the interval in which it lies.
    pub(super) fn within(&mut self, name: &str, value: Option<f64>, unit: Unit, interval: Option<[f64; 2]>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.push(Figure {
                name: name.to_owned(),
                value,
                unit,
                interval,
            });
        }
    }
}

/// A boundary in JSON: its axes, and its points with the answers as they were read.
fn described<S: Serializer>(boundary: &Option<FoundBoundary>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        point: &'a crate::boundary::Point,
        answer: &'a serde_json::Value,
    }
    #[derive(Serialize)]
    struct Described<'a> {
        axes: &'a serde_json::Value,
        points: Vec<Row<'a>>,
    }
    let described = boundary.as_ref().map(|boundary| Described {
        axes: &boundary.described["axes"],
        points: boundary
            .points
            .iter()
            .map(|(point, answer)| Row { point, answer })
            .collect(),
    });
    described.serialize(serializer)
}
