//! Totals of a run: warnings, points, memory peaks.

use std::collections::HashMap;

use serde_json::Value;

use super::Event;
use super::event::measures;
use crate::boundary::{Moves, Point};

/// Totals, counted from the events.
#[derive(Debug, Default)]
pub(super) struct Totals {
    points: u64,
    fits: u64,
    /// Probes, loads and experiments finished.
    finished: u64,
    warnings: Vec<String>,
    /// Peak memory use while a point was probed, by boundary and point, if it was measured.
    peaks: HashMap<(usize, String), u64>,
    /// Bytes of memory of the engine's devices.
    total: Option<u64>,
}

impl Totals {
    /// Adds an event. Returns false for a repeated warning.
    pub(super) fn count(&mut self, event: &Event) -> bool {
        match event {
            Event::Point {
                boundary,
                point,
                moves,
                answer,
                ..
            } => {
                self.points += 1;
                self.fits += u64::from(*moves == Moves::Fits);
                if let Some(peak) = answer.get("peak").and_then(Value::as_u64) {
                    self.peaks.insert((*boundary, point.to_string()), peak);
                }
            }
            Event::Done { kind, .. } => self.finished += u64::from(measures(kind)),
            Event::Memory { total, .. } => self.total = Some(*total),
            Event::Engine { info } => {
                self.total = info.get("memory_total").and_then(Value::as_u64).or(self.total);
            }
            Event::Warning { text } => {
                if self.warnings.contains(text) {
                    return false;
                }
                self.warnings.push(text.clone());
            }
            _ => {}
        }
        true
    }

    /// Whether points were tested and none fits.
    pub(super) fn nothing_fits(&self) -> bool {
        self.points > 0 && self.fits == 0
    }

    pub(super) fn has_measured(&self) -> bool {
        self.points > 0 || self.finished > 0
    }

    /// Bytes left while a point of a boundary was probed.
    pub(super) fn headroom(&self, boundary: usize, point: &Point) -> Option<u64> {
        let peak = self.peaks.get(&(boundary, point.to_string()))?;
        Some(self.total?.saturating_sub(*peak))
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
