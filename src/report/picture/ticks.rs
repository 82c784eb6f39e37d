//! Tick labels of a terminal map.

use super::cells::middle;
use crate::boundary::{Axis, Scalar};

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
