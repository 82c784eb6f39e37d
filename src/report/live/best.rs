//! The largest point that is known to fit so far.

use serde_json::Value;

use crate::boundary::Point;

/// The largest point: of those that fit, the one whose coordinates multiply to the most.
#[derive(Debug, Default)]
pub(super) struct Best {
    /// Axes on which a smaller value is harder.
    falling: Vec<String>,
    found: Option<(f64, String)>,
}

impl Best {
    /// A boundary as it was described; points of several are not held against each other.
    pub(super) fn over(&mut self, described: &Value) {
        let axes = described["axes"].as_object().into_iter().flatten();
        let falling = axes
            .filter(|(_, axis)| axis["easier"] == "up")
            .map(|(name, _)| name.clone());
        *self = Self {
            falling: falling.collect(),
            found: None,
        };
    }

    /// One more point that fits.
    pub(super) fn fits(&mut self, point: &Point) {
        let part = |(axis, value): (&String, &crate::boundary::Scalar)| {
            let logarithm = value.as_f64().max(f64::MIN_POSITIVE).ln();
            if self.falling.contains(axis) {
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

    /// It, as text.
    pub(super) fn told(&self) -> Option<&str> {
        self.found.as_ref().map(|(_, point)| point.as_str())
    }
}
