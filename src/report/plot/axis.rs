//! Axes of a plot.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// An axis. Values are in `unit`; ticks are shown in a readable multiple (bytes as GiB).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The quantity: `output length`. The unit is added from `unit`.
    pub label: String,
    /// The unit of the values.
    #[serde(default)]
    pub unit: Unit,
    /// Linear or logarithmic.
    #[serde(default)]
    pub scale: Scale,
    /// First and last value; by default what the layers need.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Whether both ends of the range get a tick: those of a search range.
    #[serde(default)]
    pub ends: bool,
    /// Names of the positions 0, 1, 2, … of an axis of categories; empty for a numeric axis.
    #[serde(default)]
    pub names: Vec<String>,
}

/// How values are mapped to positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linearly.
    #[default]
    Linear,
    /// By their logarithm: all values must be above 0.
    Log,
}
