//! Fewer points for the same picture: of a line's points in one column of pixels, the first, the lowest, the highest and the last are all that is seen.

use super::path::At;

/// Tenths of a pixel in a column.
const COLUMN: i32 = 5;

/// The points that are seen, in their order. Their x must not fall. No highest or lowest value is lost, and no gap between columns is bridged
/// from elsewhere than before.
pub(super) fn thin(points: &[At]) -> Vec<At> {
    let mut kept = Vec::with_capacity(points.len().min(8192));
    let mut rest = points;
    while let Some(first) = rest.first() {
        let column = first.0.div_euclid(COLUMN);
        let end = rest
            .iter()
            .position(|point| point.0.div_euclid(COLUMN) != column)
            .unwrap_or(rest.len());
        let (here, after) = rest.split_at(end);
        rest = after;
        if here.len() <= 4 {
            kept.extend_from_slice(here);
            continue;
        }
        let by = |index: &usize| here[*index].1;
        let low = (0..here.len()).min_by_key(by).unwrap_or(0);
        let high = (0..here.len()).max_by_key(by).unwrap_or(0);
        let mut seen = [0, low, high, here.len() - 1];
        seen.sort_unstable();
        for (index, at) in seen.iter().enumerate() {
            if index == 0 || seen[index - 1] != *at {
                kept.push(here[*at]);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{At, COLUMN, thin};

    /// The lowest and highest value of each column.
    fn extremes(points: &[At]) -> BTreeMap<i32, (i32, i32)> {
        let mut columns: BTreeMap<i32, (i32, i32)> = BTreeMap::new();
        for (x, y) in points {
            let column = columns.entry(x.div_euclid(COLUMN)).or_insert((*y, *y));
            *column = (column.0.min(*y), column.1.max(*y));
        }
        columns
    }

    proptest! {
        #[test]
        fn every_extreme_survives(mut points in prop::collection::vec((-100..2000_i32, -5000..5000_i32), 0..3000)) {
            points.sort_by_key(|point| point.0);
            let kept = thin(&points);
            prop_assert_eq!(extremes(&kept), extremes(&points));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
            prop_assert!(kept.len() <= 4 * extremes(&points).len());
            // In the order in which they came.
            let mut left = points.iter();
            prop_assert!(kept.iter().all(|point| left.any(|other| other == point)));
        }
    }

    #[test]
    fn a_hundred_thousand_points_become_a_few_thousand() {
        let mut points: Vec<At> = (0..100_000).map(|at| (at / 12, 500)).collect();
        points[54_321].1 = 7;
        let kept = thin(&points);
        assert!(kept.len() < 7000, "{}", kept.len());
        assert!(kept.contains(&(54_321 / 12, 7)));
    }
}
