//! An axis with its scale: its heading, and its ticks.

use super::along::Along;
use super::extent::Extent;
use super::ticks::{Measure, Tick};
use crate::report::plot::Axis;

/// An axis with its scale.
pub(super) struct Scaled {
    pub(super) along: Along,
    pub(super) measure: Measure,
    pub(super) heading: String,
    /// Whether both ends are named.
    ends: bool,
    /// The names of its places, if it is one of categories.
    pub(super) names: Vec<String>,
}

impl Scaled {
    pub(super) fn of(axis: &Axis, extent: Extent, upwards: bool) -> Self {
        let along = extent.along(axis, upwards);
        let measure = Measure::of(
            axis.unit,
            along.from.abs().max(along.to.abs()),
            along.log && extent.twos,
        );
        let name = if axis.names.is_empty() { measure.name } else { "" };
        let heading = match (axis.label.as_str(), name) {
            (label, "") => label.to_owned(),
            ("", name) => name.to_owned(),
            (label, name) if label == name || label.ends_with(name) => label.to_owned(),
            (label, name) => format!("{label}, {name}"),
        };
        Self {
            along,
            measure,
            heading,
            ends: axis.ends && axis.names.is_empty(),
            names: axis.names.clone(),
        }
    }

    /// Its ticks, about `most` of them at most; all its names, where it has names. Beside an end that is named, none is closer than `apart`.
    pub(super) fn ticks(&self, most: usize, apart: f64) -> Vec<Tick> {
        if self.names.is_empty() {
            let ticks = self.measure.ticks(self.along, most);
            return match self.ends {
                true => self.measure.with_ends(self.along, ticks, apart),
                false => ticks,
            };
        }
        let named = self.names.iter().enumerate().map(|(at, name)| Tick {
            at: at as f64,
            label: name.clone(),
        });
        named.collect()
    }

    /// The ticks of an upright axis of so many pixels.
    pub(super) fn upright(&self, height: f64) -> Vec<Tick> {
        let most = ((height / 34.0) as usize).clamp(3, 8);
        self.ticks(most, 18.0 / height)
    }
}
