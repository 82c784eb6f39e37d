//! Downsamples the pixels of a line: in one column only the first, lowest, highest and last point are visible.

use super::path::PixelPoint;

/// Width of a column in tenths of a pixel.
const COLUMN: i32 = 5;

/// The visible points, in their order; x must not fall. Keeps every highest and lowest value, and where the line enters
/// and leaves each column.
pub(super) fn downsample(points: &[PixelPoint]) -> Vec<PixelPoint> {
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
        let mut visible = [0, low, high, here.len() - 1];
        visible.sort_unstable();
        for (index, at) in visible.iter().enumerate() {
            if index == 0 || visible[index - 1] != *at {
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

    use super::{COLUMN, PixelPoint, downsample};

    /// The lowest and highest value of each column.
    fn extremes(points: &[PixelPoint]) -> BTreeMap<i32, (i32, i32)> {
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
            let kept = downsample(&points);
            prop_assert_eq!(extremes(&kept), extremes(&points));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
            prop_assert!(kept.len() <= 4 * extremes(&points).len());
            // In the original order.
            let mut left = points.iter();
            prop_assert!(kept.iter().all(|point| left.any(|other| other == point)));
        }
    }

    #[test]
    fn a_hundred_thousand_points_become_a_few_thousand() {
        let mut points: Vec<PixelPoint> = (0..100_000).map(|at| (at / 12, 500)).collect();
        points[54_321].1 = 7;
        let kept = downsample(&points);
        assert!(kept.len() < 7000, "{}", kept.len());
        assert!(kept.contains(&(54_321 / 12, 7)));
    }
}
