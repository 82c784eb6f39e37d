//! An axis with its scale, heading and ticks.

use super::extent::Extent;
use super::scale::AxisScale;
use super::ticks::{Tick, TickUnit};
use crate::report::plot::Axis;

pub(super) struct AxisLayout {
    pub(super) scale: AxisScale,
    pub(super) measure: TickUnit,
    pub(super) heading: String,
    /// Whether both ends have a tick.
    ends: bool,
    /// The names of its categories, if any.
    pub(super) names: Vec<String>,
}

impl AxisLayout {
    pub(super) fn new(axis: &Axis, extent: Extent, upwards: bool) -> Self {
        let scale = extent.scale(axis, upwards);
        let measure = TickUnit::new(
            axis.unit,
            scale.from.abs().max(scale.to.abs()),
            scale.log && extent.powers_of_two,
        );
        let name = if axis.names.is_empty() { measure.name } else { "" };
        let heading = match (axis.label.as_str(), name) {
            (label, "") => label.to_owned(),
            ("", name) => name.to_owned(),
            (label, name) if label == name || label.ends_with(name) => label.to_owned(),
            (label, name) => format!("{label}, {name}"),
        };
        Self {
            scale,
            measure,
            heading,
            ends: axis.ends && axis.names.is_empty(),
            names: axis.names.clone(),
        }
    }

    /// At most about `most` ticks, or all category names. Ticks closer than `min_gap` to a labelled end are dropped.
    pub(super) fn ticks(&self, most: usize, min_gap: f64) -> Vec<Tick> {
        if self.names.is_empty() {
            let ticks = self.measure.ticks(self.scale, most);
            return match self.ends {
                true => self.measure.with_ends(self.scale, ticks, min_gap),
                false => ticks,
            };
        }
        let named = self.names.iter().enumerate().map(|(at, name)| Tick {
            at: at as f64,
            label: name.clone(),
        });
        named.collect()
    }

    /// The ticks of a vertical axis of a height in pixels.
    pub(super) fn vertical_ticks(&self, height: f64) -> Vec<Tick> {
        let most = ((height / 34.0) as usize).clamp(3, 8);
        self.ticks(most, 18.0 / height)
    }
}
