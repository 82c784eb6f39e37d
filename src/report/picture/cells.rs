//! Cells of a map: which values they stand for, and which probes fall into them.

use std::collections::BTreeMap;

use super::Shade;
use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Scalar, Scale};
use crate::fault::Result;
use crate::report::advice::axis_position;

/// The value at the middle of cell `index` of `count`, rounded if the axis has integers.
pub(super) fn middle(axis: &Axis, index: usize, count: usize) -> Scalar {
    let (low, high) = axis.range();
    let share = (index as f64 + 0.5) / count as f64;
    let real = interpolate(axis, low.as_f64(), high.as_f64(), share);
    match low {
        Scalar::Int(_) => Scalar::Int(real.round() as i64),
        Scalar::Float(_) => Scalar::Float(real),
    }
}

/// Interpolates between two values on the axis' scale.
pub(super) fn interpolate(axis: &Axis, low: f64, high: f64, share: f64) -> f64 {
    match axis.scale() {
        Scale::Linear => low + (high - low) * share,
        Scale::Log => low * (high / low).powf(share),
    }
}

/// The cell of a value; none if it lies outside the search range.
pub(super) fn cell(axis: &Axis, value: Scalar, count: usize) -> Option<usize> {
    let (low, high) = axis.range();
    let real = value.as_f64();
    if !(low.as_f64()..=high.as_f64()).contains(&real) {
        return None;
    }
    let index = (axis_position(axis, real) * count as f64) as usize;
    Some(index.min(count - 1))
}

/// The number of cells of an axis: at most `most`, and no more than it has values.
pub(super) fn count(axis: &Axis, most: usize) -> usize {
    let (low, high) = axis.range();
    match (low, high) {
        (Scalar::Int(low), Scalar::Int(high)) => {
            usize::try_from(high - low + 1).map_or(most, |values| values.min(most))
        }
        _ => most,
    }
    .max(1)
}

pub(super) fn shade(boundary: &Boundary, point: &Point) -> Result<Shade> {
    Ok(match boundary.classify(point)? {
        Class::Fits => Shade::Fits,
        Class::Fails if boundary.is_in_band(point)? => Shade::Band,
        Class::Fails => Shade::Fails,
        Class::Unknown if boundary.is_likely(point)? => Shade::Likely,
        Class::Unknown => Shade::Open,
    })
}

/// Probe results by cell. If several share a cell, a failing one is shown, then a fitting one.
pub(super) fn probes<K: Ord>(boundary: &Boundary, place: impl Fn(&Point) -> Option<K>) -> BTreeMap<K, Class> {
    let rank = |class: Class| match class {
        Class::Unknown => 0,
        Class::Fits => 1,
        Class::Fails => 2,
    };
    let mut probes: BTreeMap<K, Class> = BTreeMap::new();
    for (point, record) in boundary.records() {
        let Some(at) = place(&point) else { continue };
        let class = match record.moves {
            Moves::Fits => Class::Fits,
            Moves::Fails => Class::Fails,
            Moves::None => Class::Unknown,
        };
        let shown = probes.entry(at).or_insert(class);
        if rank(class) > rank(*shown) {
            *shown = class;
        }
    }
    probes
}

pub(super) fn easiest(axis: &Axis) -> Scalar {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => low,
        Easier::Up => high,
    }
}
