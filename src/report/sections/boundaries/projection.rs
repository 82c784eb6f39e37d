//! Which axes a boundary chart shows: one as a strip, two as a plane, a third with a slider. Each further axis is held
//! at its easiest value. The axis of the slider is cut at some values; each probe is drawn on one of the cuts.

use std::collections::{BTreeMap, HashSet};

use crate::boundary::{Axis, Boundary, Easier, Point, Scalar};
use crate::report::Advice;
use crate::report::evidence::ProbeClass;

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

/// The axes of a boundary's chart; none for a boundary without axes.
pub(super) fn projection(boundary: &Boundary) -> Option<Projection<'_>> {
    let axes = boundary.lattice().axes();
    let (mut varied, mut fixed): (Vec<&Axis>, Vec<&Axis>) =
        axes.iter().partition(|axis| axis.range().0 < axis.range().1);
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
    let others = ranked.split_off(ranked.len().min(2));
    // In the order of the boundary.
    let mut plane = varied
        .into_iter()
        .filter(|axis| ranked.iter().any(|chosen| chosen.name() == axis.name()));
    Some(Projection {
        x: plane.next()?,
        y: plane.next(),
        slider: others.first().copied(),
        held: others.into_iter().skip(1).collect(),
        fixed,
    })
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

/// Maximum number of cuts.
const MAX_CUTS: usize = 12;

/// The values at which an axis is cut, ascending. Up to twelve: all probed values and both ends. Beyond that: quantiles
/// of the probed values. The safe and the recommended point always get a cut.
pub(super) fn cut_values(boundary: &Boundary, axis: &Axis, advice: Option<&Advice>) -> Vec<Scalar> {
    let (low, high) = axis.range();
    let at = |point: &Point| point.0.get(axis.name()).copied();
    let inside = |value: &Scalar| (low.as_f64()..=high.as_f64()).contains(&value.as_f64());
    let mut probed: Vec<Scalar> = boundary
        .records()
        .filter_map(|(point, _)| at(&point))
        .filter(inside)
        .collect();
    let advised: Vec<Scalar> = advice.map_or_else(Vec::new, |advice| {
        [&advice.safe, &advice.recommended].into_iter().filter_map(at).collect()
    });
    let required = sorted_unique([&[low, high], &advised[..]].concat());
    probed.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    let distinct = sorted_unique([&probed[..], &required[..]].concat());
    if distinct.len() <= MAX_CUTS {
        return distinct;
    }
    // More cuts where more probes are.
    let mut best = required.clone();
    for parts in MAX_CUTS - required.len()..=probed.len() {
        let more = (1..=parts).filter_map(|part| probed.get(part * probed.len() / (parts + 1)));
        let more = sorted_unique(required.iter().chain(more).copied().collect());
        match more.len() {
            MAX_CUTS => return more,
            // Quantiles may coincide.
            ..MAX_CUTS => best = more,
            _ => break,
        }
    }
    best
}

fn sorted_unique(mut values: Vec<Scalar>) -> Vec<Scalar> {
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values.dedup_by(|a, b| a.as_f64() == b.as_f64());
    values
}

/// The cut on which a probe is drawn: its own, or the nearest one that it constrains. A point that fits also fits at
/// easier values; one that fails also fails at harder ones.
pub(super) fn nearest_cut(axis: &Axis, cuts: &[Scalar], point: &Point, class: ProbeClass) -> Option<usize> {
    let own = difficulty(axis, *point.0.get(axis.name())?);
    let distance = |(_, cut): &(usize, &Scalar)| {
        let away = own - difficulty(axis, **cut);
        match class {
            ProbeClass::Fits if away < 0.0 => None,
            ProbeClass::Fails | ProbeClass::NotSent | ProbeClass::Clipped if away > 0.0 => None,
            _ => Some(away.abs()),
        }
    };
    let near = cuts.iter().enumerate().filter_map(|cut| Some((distance(&cut)?, cut.0)));
    near.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Answer, Options, Verdict};

    fn probed(values: impl Iterator<Item = i64>) -> Boundary {
        let axes = json!({ "concurrency": [1, 64], "input": [1, 100], "output": [1, 100] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        for value in values {
            let point = Point::default()
                .with("input", 5)
                .with("output", 5)
                .with("concurrency", value);
            map.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        }
        map
    }

    fn ints(values: &[Scalar]) -> Vec<f64> {
        values.iter().map(|value| value.as_f64()).collect()
    }

    #[test]
    fn few_values_are_all_cut_and_many_where_most_probes_are() {
        let map = probed([4, 8, 4, 8, 16].into_iter());
        let axis = &map.lattice().axes()[0];
        assert_eq!(ints(&cut_values(&map, axis, None)), [1.0, 4.0, 8.0, 16.0, 64.0]);
        let map = probed((1..=30).chain((1..=30).map(|_| 3)));
        let axis = &map.lattice().axes()[0];
        let many = ints(&cut_values(&map, axis, None));
        assert!(
            many.len() <= MAX_CUTS && many.first() == Some(&1.0) && many.last() == Some(&64.0),
            "{many:?}"
        );
        assert!(many.contains(&3.0), "{many:?}");
        let advice = Advice {
            safe: Point::default().with("concurrency", 29),
            recommended: Point::default().with("concurrency", 27),
        };
        let many = ints(&cut_values(&map, axis, Some(&advice)));
        assert!(
            many.len() == MAX_CUTS && many.contains(&29.0) && many.contains(&27.0),
            "{many:?}"
        );
    }

    #[test]
    fn probe_between_two_cuts_is_drawn_where_it_constrains() {
        let map = probed(std::iter::empty());
        let axis = &map.lattice().axes()[0];
        let cuts = [1, 4, 16].map(Scalar::Int);
        let point = |value| Point::default().with("concurrency", value);
        for (value, class, cut) in [
            (4, ProbeClass::Fits, Some(1)),
            (4, ProbeClass::Fails, Some(1)),
            (6, ProbeClass::Fits, Some(1)),
            (6, ProbeClass::Fails, Some(2)),
            (6, ProbeClass::Unclear, Some(1)),
            (64, ProbeClass::Fails, None),
            (64, ProbeClass::Fits, Some(2)),
        ] {
            assert_eq!(nearest_cut(axis, &cuts, &point(value), class), cut, "{value} {class:?}");
        }
        assert_eq!(nearest_cut(axis, &cuts, &Point::default(), ProbeClass::Fits), None);
    }
}
