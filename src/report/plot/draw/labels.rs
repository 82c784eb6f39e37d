//! Places labels so that they do not overlap: along a line, or in rows.

/// A label and where it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// The position of what it labels.
    pub(super) at: f64,
    pub(super) width: f64,
    pub(super) text: String,
}

/// Moves labels apart as little as possible, so that none overlaps another, and within limits if they all fit. `wanted`
/// are their middles, `high` their heights; the result is in the same order.
pub(super) fn spread(wanted: &[f64], high: &[f64], low: f64, end: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let distance = |one: usize, other: usize| f64::midpoint(high[one], high[other]);
    let mut places = wanted.to_vec();
    let mut before: Option<usize> = None;
    for &index in &order {
        let least = before.map_or(low, |before| places[before] + distance(before, index));
        places[index] = places[index].max(least);
        before = Some(index);
    }
    let mut after: Option<usize> = None;
    for &index in order.iter().rev() {
        let most = after.map_or(end, |after| places[after] - distance(index, after));
        places[index] = places[index].min(most);
        after = Some(index);
    }
    places
}

/// Puts labels into rows, the nearest row first; returns each with its left end and row. Drops those without room.
pub(super) fn stack_rows(mut labels: Vec<Label>, low: f64, high: f64, rows: usize) -> Vec<(Label, f64, usize)> {
    labels.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut ends = vec![f64::NEG_INFINITY; rows];
    let mut placed = Vec::new();
    for label in labels {
        let left = (label.at - label.width / 2.0).min(high - label.width).max(low);
        let row = ends.iter().position(|end| *end + 8.0 <= left);
        if let Some(row) = row {
            ends[row] = left + label.width;
            placed.push((label, left, row));
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spread_places_keep_their_distance(wanted in prop::collection::vec(0.0..100.0_f64, 0..8)) {
            // Every other label has two lines.
            let high: Vec<f64> = (0..wanted.len()).map(|index| if index % 2 == 0 { 5.0 } else { 10.0 }).collect();
            let places = spread(&wanted, &high, 0.0, 100.0);
            let mut labels: Vec<(f64, f64)> = places.iter().copied().zip(high).collect();
            labels.sort_by(|one, other| one.0.total_cmp(&other.0));
            let clear = |pair: &[(f64, f64)]| pair[1].0 - pair[0].0 > f64::midpoint(pair[0].1, pair[1].1) - 1e-9;
            prop_assert!(labels.windows(2).all(clear), "{labels:?}");
            prop_assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)), "{places:?}");
        }

        #[test]
        fn labels_of_one_row_do_not_touch(wanted in prop::collection::vec((0.0..500.0_f64, 5.0..120.0_f64), 0..20)) {
            let labels = wanted.iter().map(|(at, wide)| Label { at: *at, width: *wide, text: String::new() }).collect();
            let placed = stack_rows(labels, 0.0, 500.0, 2);
            for row in 0..2 {
                let ends: Vec<(f64, f64)> = placed.iter().filter(|label| label.2 == row).map(|(label, left, _)| (*left, left + label.width)).collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
                prop_assert!(ends.iter().all(|(left, right)| *left >= 0.0 && *right <= 500.0 + 1e-9));
            }
        }
    }
}
