//! Tracks the largest point known to fit.

use serde_json::Value;

use crate::boundary::Point;

/// The fitting point with the largest product of coordinates.
#[derive(Debug, Default)]
pub(super) struct LargestFitting {
    /// Axes on which smaller values are harder.
    inverted: Vec<String>,
    found: Option<(f64, String)>,
}

impl LargestFitting {
    /// Starts over for a new boundary: points of different boundaries are not compared.
    pub(super) fn start_boundary(&mut self, described: &Value) {
        let axes = described["axes"].as_object().into_iter().flatten();
        let inverted = axes
            .filter(|(_, axis)| axis["easier"] == "up")
            .map(|(name, _)| name.clone());
        *self = Self {
            inverted: inverted.collect(),
            found: None,
        };
    }

    pub(super) fn add(&mut self, point: &Point) {
        let part = |(axis, value): (&String, &crate::boundary::Scalar)| {
            let logarithm = value.as_f64().max(f64::MIN_POSITIVE).ln();
            if self.inverted.contains(axis) {
                -logarithm
            } else {
                logarithm
            }
        };
        let size: f64 = point.0.iter().map(part).sum();
        if self.found.as_ref().is_none_or(|(largest, _)| size > *largest) {
            self.found = Some((size, point.to_string()));
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.found.as_ref().map(|(_, point)| point.as_str())
    }
}
