//! Three and more axes as slices: maps of the first two at some values of the third, the others at their easiest.

use std::collections::BTreeMap;

use super::ticks::format_value;
use super::{cells, map};
use crate::boundary::{Axis, Boundary, Scalar};
use crate::fault::Result;
use crate::report::Page;

/// Maximum number of slices.
const MAX_SLICES: usize = 3;

pub(super) fn draw(boundary: &Boundary, x: &Axis, y: &Axis, rest: &[Axis], page: Page) -> Result<Vec<String>> {
    let Some((third, others)) = rest.split_first() else {
        return Ok(Vec::new());
    };
    let mut through = boundary.smallest();
    let mut lines = Vec::new();
    for value in values(boundary, third) {
        through.0.insert(third.name().to_owned(), value);
        let fixed = others
            .iter()
            .map(|axis| format!(", {}={}", axis.name(), format_value(cells::easiest(axis))));
        lines.push(format!(
            "slice at {}={}{}",
            third.name(),
            format_value(value),
            fixed.collect::<String>()
        ));
        lines.extend(map::draw(boundary, x, y, &through, page)?);
        lines.push(String::new());
    }
    Ok(lines)
}

/// The values that were probed most; if there are fewer, also the ends of the axis.
fn values(boundary: &Boundary, axis: &Axis) -> Vec<Scalar> {
    let mut probed: BTreeMap<String, (usize, Scalar)> = BTreeMap::new();
    for (point, _) in boundary.records() {
        if let Some(value) = point.0.get(axis.name()) {
            probed.entry(value.to_string()).or_insert((0, *value)).0 += 1;
        }
    }
    let mut probed: Vec<(usize, Scalar)> = probed.into_values().collect();
    probed.sort_by(|(a, _), (b, _)| b.cmp(a));
    let (low, high) = axis.range();
    let mut values: Vec<Scalar> = probed.into_iter().map(|(_, value)| value).take(MAX_SLICES).collect();
    for end in [low, high] {
        if values.len() < MAX_SLICES && !values.contains(&end) {
            values.push(end);
        }
    }
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values
}
