//! Cells of a map: which values they stand for, which probes fall into them, and their tick labels.

use std::collections::BTreeMap;

use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Scalar, Scale};
use crate::report::findings::axis_position;

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

/// Index and label of a few of `count` cells, the first and the last included.
pub(super) fn ticks(axis: &Axis, count: usize, most: usize) -> Vec<(usize, String)> {
    let most = most.clamp(2, count.max(2));
    let mut ticks: Vec<(usize, String)> = (0..most)
        .map(|number| number * (count - 1) / (most - 1))
        .map(|index| (index, label(axis, index, count)))
        .collect();
    ticks.dedup_by_key(|(index, _)| *index);
    ticks
}

/// The first and last cell show the ends of the axis, others their middle.
fn label(axis: &Axis, index: usize, count: usize) -> String {
    let (low, high) = axis.range();
    if index == 0 {
        format_value(low)
    } else if index + 1 == count {
        format_value(high)
    } else {
        format_value(middle(axis, index, count))
    }
}

pub(super) fn format_value(value: Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => {
            let short = format!("{value:.4}");
            short.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// A line with each label below its cell, as far as they do not touch; the first cell is at column `left`.
pub(super) fn ruler(axis: &Axis, count: usize, left: usize) -> String {
    let mut line = " ".repeat(left);
    let widest = ticks(axis, count, 2)
        .iter()
        .map(|(_, text)| text.len())
        .max()
        .unwrap_or(1);
    let ticks = ticks(axis, count, (count / (widest + 3)).clamp(2, 6));
    let last = ticks.len() - 1;
    for (number, (index, text)) in ticks.into_iter().enumerate() {
        // The last label ends below the last cell, so that the line is no wider than the map.
        let start = if number == last {
            (left + index + 1).saturating_sub(text.len())
        } else {
            left + index
        };
        if number > 0 && start <= line.len() {
            continue;
        }
        line.extend(std::iter::repeat_n(' ', start.saturating_sub(line.len())));
        line.push_str(&text);
    }
    line
}
