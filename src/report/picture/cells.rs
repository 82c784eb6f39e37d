//! Cells of a picture: which values they stand for, and which probes fall into them.

use std::collections::BTreeMap;

use super::Shade;
use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Scalar, Scale};
use crate::fault::Result;
use crate::report::advice::position;

/// The middle of cell `index` of `count` along an axis, at a value that the axis has.
pub(super) fn middle(axis: &Axis, index: usize, count: usize) -> Scalar {
    let (low, high) = axis.range();
    let share = (index as f64 + 0.5) / count as f64;
    let real = between(axis, low.as_f64(), high.as_f64(), share);
    match low {
        Scalar::Int(_) => Scalar::Int(real.round() as i64),
        Scalar::Float(_) => Scalar::Float(real),
    }
}

/// The value at a share of the way from the lowest to the highest, as the scale has it.
pub(super) fn between(axis: &Axis, low: f64, high: f64, share: f64) -> f64 {
    match axis.scale() {
        Scale::Linear => low + (high - low) * share,
        Scale::Log => low * (high / low).powf(share),
    }
}

/// The cell that a value falls into; none when it lies outside the box.
pub(super) fn cell(axis: &Axis, value: Scalar, count: usize) -> Option<usize> {
    let (low, high) = axis.range();
    let real = value.as_f64();
    if !(low.as_f64()..=high.as_f64()).contains(&real) {
        return None;
    }
    let index = (position(axis, real) * count as f64) as usize;
    Some(index.min(count - 1))
}

/// How many cells an axis is worth: no more than it has values.
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

/// What is known of a point, and of an open one whether it is predicted to fit.
pub(super) fn shade(boundary: &Boundary, point: &Point) -> Result<Shade> {
    Ok(match boundary.classify(point)? {
        Class::Fits => Shade::Fits,
        Class::Fails if boundary.is_in_band(point)? => Shade::Band,
        Class::Fails => Shade::Fails,
        Class::Unknown if boundary.is_likely(point)? => Shade::Likely,
        Class::Unknown => Shade::Open,
    })
}

/// What the probes said, by cell. Where several share one, a failing one is shown, then a fitting one.
pub(super) fn probes<K: Ord>(boundary: &Boundary, place: impl Fn(&Point) -> Option<K>) -> BTreeMap<K, Class> {
    let rank = |class: Class| match class {
        Class::Unknown => 0,
        Class::Fits => 1,
        Class::Fails => 2,
    };
    let mut probes: BTreeMap<K, Class> = BTreeMap::new();
    for (point, record) in boundary.records() {
        let Some(at) = place(&point) else { continue };
        let said = match record.moves {
            Moves::Fits => Class::Fits,
            Moves::Fails => Class::Fails,
            Moves::None => Class::Unknown,
        };
        let shown = probes.entry(at).or_insert(said);
        if rank(said) > rank(*shown) {
            *shown = said;
        }
    }
    probes
}

/// The value of an axis that is easiest.
pub(super) fn easiest(axis: &Axis) -> Scalar {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => low,
        Easier::Up => high,
    }
}
