//! Which axes a picture of a boundary shows: one as a strip, two as a plane, a third by a slider; any further one is held at its easiest, and has
//! a picture of its own.

use std::collections::{BTreeMap, HashSet};

use crate::boundary::{Axis, Boundary, Easier, Point, Scalar};

/// What one picture shows.
#[derive(Clone, Debug)]
pub(super) struct Sight<'a> {
    /// To the right.
    pub(super) x: &'a Axis,
    /// Upwards; none for a strip.
    pub(super) y: Option<&'a Axis>,
    /// By which axis its panels differ.
    pub(super) slider: Option<&'a Axis>,
    /// Axes that have several values, and are held at the easiest.
    pub(super) held: Vec<&'a Axis>,
    /// Axes that have a single value.
    pub(super) fixed: Vec<&'a Axis>,
}

/// The pictures of a boundary: one for each axis beyond the second.
pub(super) fn sights(boundary: &Boundary) -> Vec<Sight<'_>> {
    let axes = boundary.lattice().axes();
    let (mut varied, mut fixed): (Vec<&Axis>, Vec<&Axis>) = axes.iter().partition(|axis| {
        let (low, high) = axis.range();
        low.as_f64() < high.as_f64()
    });
    if varied.is_empty() {
        varied.extend((!fixed.is_empty()).then(|| fixed.remove(0)));
    }
    let asked = asked(boundary);
    let weight = |axis: &Axis| {
        // Lengths are what people think in; of others, what was looked at most.
        let length = matches!(axis.name(), "input" | "output");
        (length, asked.get(axis.name()).copied().unwrap_or(0))
    };
    let mut ranked = varied.clone();
    ranked.sort_by_key(|axis| std::cmp::Reverse(weight(axis)));
    let chosen = |axis: &&&Axis| ranked.iter().take(2).any(|chosen| chosen.name() == axis.name());
    let plane: Vec<&Axis> = varied.iter().filter(chosen).copied().collect();
    let others: Vec<&Axis> = ranked.into_iter().skip(2).collect();
    let sight = |slider: Option<&'_ Axis>| {
        let held = others
            .iter()
            .filter(|axis| slider.is_none_or(|slider| slider.name() != axis.name()));
        held.copied().collect::<Vec<_>>()
    };
    let [x, y @ ..] = &plane[..] else { return Vec::new() };
    let of = |slider| Sight {
        x,
        y: y.first().copied(),
        slider,
        held: sight(slider),
        fixed: fixed.clone(),
    };
    if others.is_empty() {
        return vec![of(None)];
    }
    others.iter().map(|axis| of(Some(axis))).collect()
}

/// How many values of each axis were asked.
fn asked(boundary: &Boundary) -> BTreeMap<String, usize> {
    let mut values: BTreeMap<String, HashSet<u64>> = BTreeMap::new();
    for (point, _) in boundary.records() {
        for (name, value) in point.0 {
            values.entry(name).or_default().insert(value.as_f64().to_bits());
        }
    }
    values.into_iter().map(|(name, values)| (name, values.len())).collect()
}

impl Sight<'_> {
    /// The axes that it shows: `input and output, by concurrency`.
    pub(super) fn over(&self) -> String {
        let y = self.y.map_or_else(String::new, |axis| format!(" and {}", axis.name()));
        let by = self
            .slider
            .map_or_else(String::new, |axis| format!(", by {}", axis.name()));
        format!("{}{y}{by}", self.x.name())
    }

    /// What the picture is of.
    pub(super) fn title(&self) -> String {
        let lengths = |axis: &Axis| matches!(axis.name(), "input" | "output");
        match (self.y, self.slider) {
            (None, _) => format!("Largest {} that fits", self.x.name()),
            (Some(y), by) if lengths(self.x) && lengths(y) => {
                let by = by.map_or_else(String::new, |axis| format!(", by {}", axis.name()));
                format!("Largest input and output that fit{by}")
            }
            _ => format!("What fits: {}", self.over()),
        }
    }

    /// Where the axes that it does not show are held: `batch=1, gpus=2`.
    pub(super) fn elsewhere(&self) -> Vec<String> {
        let held = self.held.iter().chain(&self.fixed);
        held.map(|axis| format!("{}={}", axis.name(), easiest(axis))).collect()
    }

    /// The easiest point of the picture's plane; with a slider at this value.
    pub(super) fn through(&self, boundary: &Boundary, at: Option<Scalar>) -> Point {
        let mut point = boundary.smallest();
        if let (Some(axis), Some(value)) = (self.slider, at) {
            point.0.insert(axis.name().to_owned(), value);
        }
        point
    }
}

/// The easiest value of an axis.
pub(super) fn easiest(axis: &Axis) -> Scalar {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => low,
        Easier::Up => high,
    }
}

/// A value so that what is harder is larger.
pub(super) fn hard(axis: &Axis, value: Scalar) -> f64 {
    match axis.easier() {
        Easier::Down => value.as_f64(),
        Easier::Up => -value.as_f64(),
    }
}
