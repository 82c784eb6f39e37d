//! Axes: what a picture is measured along.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// An axis. Its values are in `unit`; ticks are written as people read them (bytes as GiB).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What is measured: `output length`. The unit is added from `unit`.
    pub label: String,
    /// In what the values are.
    #[serde(default)]
    pub unit: Unit,
    /// How they are spread.
    #[serde(default)]
    pub scale: Scale,
    /// From where to where; what the layers need without it.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Whether both ends of the range are named: those of a box that was searched.
    #[serde(default)]
    pub ends: bool,
    /// Names of the places 0, 1, 2, … of an axis of categories; empty for one of numbers.
    #[serde(default)]
    pub names: Vec<String>,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm: all values must be above 0.
    Log,
}
