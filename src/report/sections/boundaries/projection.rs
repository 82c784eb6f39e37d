//! Which axes a boundary chart shows: one as a strip, two as a plane, a third with a slider. Each further axis is held
//! at its easiest value and gets its own chart.

use std::collections::{BTreeMap, HashSet};

use crate::boundary::{Axis, Boundary, Easier, Point, Scalar};

/// The axes of one chart.
#[derive(Clone, Debug)]
pub(super) struct Projection<'a> {
    /// Horizontal.
    pub(super) x: &'a Axis,
    /// Vertical; none for a strip.
    pub(super) y: Option<&'a Axis>,
    /// The axis by which panels differ.
    pub(super) slider: Option<&'a Axis>,
    /// Axes with several values, held at the easiest.
    pub(super) held: Vec<&'a Axis>,
    /// Axes with a single value.
    pub(super) fixed: Vec<&'a Axis>,
}

/// The charts of a boundary: one for each axis beyond the second.
pub(super) fn projections(boundary: &Boundary) -> Vec<Projection<'_>> {
    let axes = boundary.lattice().axes();
    let (mut varied, mut fixed): (Vec<&Axis>, Vec<&Axis>) = axes.iter().partition(|axis| {
        let (low, high) = axis.range();
        low.as_f64() < high.as_f64()
    });
    if varied.is_empty() {
        varied.extend((!fixed.is_empty()).then(|| fixed.remove(0)));
    }
    let probed_values = probed_values(boundary);
    let weight = |axis: &Axis| {
        // Lengths come first, then the axes with the most probed values.
        let length = matches!(axis.name(), "input" | "output");
        (length, probed_values.get(axis.name()).copied().unwrap_or(0))
    };
    let mut ranked = varied.clone();
    ranked.sort_by_key(|axis| std::cmp::Reverse(weight(axis)));
    let chosen = |axis: &&&Axis| ranked.iter().take(2).any(|chosen| chosen.name() == axis.name());
    let plane: Vec<&Axis> = varied.iter().filter(chosen).copied().collect();
    let others: Vec<&Axis> = ranked.into_iter().skip(2).collect();
    let held = |slider: Option<&'_ Axis>| {
        let held = others
            .iter()
            .filter(|axis| slider.is_none_or(|slider| slider.name() != axis.name()));
        held.copied().collect::<Vec<_>>()
    };
    let [x, y @ ..] = &plane[..] else { return Vec::new() };
    let project = |slider| Projection {
        x,
        y: y.first().copied(),
        slider,
        held: held(slider),
        fixed: fixed.clone(),
    };
    if others.is_empty() {
        return vec![project(None)];
    }
    others.iter().map(|axis| project(Some(axis))).collect()
}

/// The number of distinct probed values by axis.
fn probed_values(boundary: &Boundary) -> BTreeMap<String, usize> {
    let mut values: BTreeMap<String, HashSet<u64>> = BTreeMap::new();
    for (point, _) in boundary.records() {
        for (name, value) in point.0 {
            values.entry(name).or_default().insert(value.as_f64().to_bits());
        }
    }
    values.into_iter().map(|(name, values)| (name, values.len())).collect()
}

impl Projection<'_> {
    /// The axes shown: `input and output, by concurrency`.
    pub(super) fn axes_text(&self) -> String {
        let y = self.y.map_or_else(String::new, |axis| format!(" and {}", axis.name()));
        let by = self
            .slider
            .map_or_else(String::new, |axis| format!(", by {}", axis.name()));
        format!("{}{y}{by}", self.x.name())
    }

    pub(super) fn title(&self) -> String {
        let is_length = |axis: &Axis| matches!(axis.name(), "input" | "output");
        match (self.y, self.slider) {
            (None, _) => format!("Largest {} that fits", self.x.name()),
            (Some(y), by) if is_length(self.x) && is_length(y) => {
                let by = by.map_or_else(String::new, |axis| format!(", by {}", axis.name()));
                format!("Largest input and output that fit{by}")
            }
            _ => format!("What fits: {}", self.axes_text()),
        }
    }

    /// The values of the axes not shown: `batch=1, gpus=2`.
    pub(super) fn held_values(&self) -> Vec<String> {
        let held = self.held.iter().chain(&self.fixed);
        held.map(|axis| format!("{}={}", axis.name(), easiest(axis))).collect()
    }

    /// The easiest point of the plane; with a slider, at its value `at`.
    pub(super) fn slice_point(&self, boundary: &Boundary, at: Option<Scalar>) -> Point {
        let mut point = boundary.smallest();
        if let (Some(axis), Some(value)) = (self.slider, at) {
            point.0.insert(axis.name().to_owned(), value);
        }
        point
    }
}

pub(super) fn easiest(axis: &Axis) -> Scalar {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => low,
        Easier::Up => high,
    }
}

/// A value on a scale where larger is harder.
pub(super) fn difficulty(axis: &Axis, value: Scalar) -> f64 {
    match axis.easier() {
        Easier::Down => value.as_f64(),
        Easier::Up => -value.as_f64(),
    }
}
