//! What can be shown and compared: a run of ours, or a file that another tool left, in one form.

use serde::{Serialize, Serializer};

use super::FoundBoundary;
use crate::memory::Breakdown;
use crate::memory::compare::{Facts, Implausible};

/// One thing to show or to compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Subject {
    /// The file or folder as the user named it.
    pub title: String,
    /// What wrote it: `run`, or the name of a foreign format.
    pub format: &'static str,
    /// What such a thing holds, for people.
    pub holds: &'static str,
    /// The model, as the source names it.
    pub model: Option<String>,
    /// The engine and its version, as far as the source tells.
    pub engine: Option<String>,
    /// Whether anything in it was simulated.
    pub simulated: bool,
    /// The points that were tried, as a boundary that can be drawn.
    #[serde(serialize_with = "described")]
    pub boundary: Option<FoundBoundary>,
    /// What was measured: one for each configuration, in the order of the source.
    pub cases: Vec<Case>,
    /// What the reader must know about the figures: units that were decided, doubts, quirks of the source.
    pub notes: Vec<String>,
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
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Tokens.
    #[serde(rename = "tokens")]
    Tokens,
    /// Tokens a second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Requests a second.
    #[serde(rename = "requests/s")]
    RequestsPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// Watts.
    #[serde(rename = "W")]
    Watts,
    /// Degrees Celsius.
    #[serde(rename = "C")]
    Celsius,
    /// Things counted.
    #[serde(rename = "count")]
    Count,
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
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.push(Figure {
                name: name.to_owned(),
                value,
                unit,
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
