//! Long curves in little room: reduced for a chart without losing a peak or a gap, or one character for each column of
//! a line; and progress bars.
//!
//! A reduced curve keeps the first, lowest, highest and last point of each column (M4: Jugel et al., "M4: A
//! Visualization-Oriented Time Series Data Aggregation", VLDB 2014).

use super::Page;

/// One character per height from 0 to 1; a blank where there is no value.
pub(super) fn sparkline(heights: &[Option<f64>], page: Page) -> String {
    let levels: &[char] = page.pick(
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        &['_', '.', ':', '-', '=', '+', '*', '#'],
    );
    let level = |height: &Option<f64>| {
        let Some(height) = height else { return ' ' };
        let at = (height.clamp(0.0, 1.0) * levels.len() as f64).ceil() as usize;
        levels[at.clamp(1, levels.len()) - 1]
    };
    heights.iter().map(level).collect()
}

/// A bar of `columns` columns, filled to a share from 0 to 1.
pub(super) fn bar(share: f64, columns: usize, page: Page) -> String {
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    let (filled, empty) = page.pick(("█", "░"), ("#", "."));
    format!("{}{}", filled.repeat(full), empty.repeat(columns - full))
}

/// The highest value in each of `columns` equal intervals. A value holds from its time to the next one's.
pub(super) fn max_per_column(values: &[(f64, f64)], end: f64, columns: usize) -> Vec<Option<f64>> {
    let mut heights: Vec<Option<f64>> = vec![None; columns];
    let Some((begin, _)) = values.first().copied() else {
        return heights;
    };
    for (index, (from, value)) in values.iter().enumerate() {
        let to = values.get(index + 1).map_or(end, |(next, _)| *next);
        for height in &mut heights[column(*from, begin, end, columns)..=column(to, begin, end, columns)] {
            *height = Some(height.map_or(*value, |highest| highest.max(*value)));
        }
    }
    heights
}

/// The column of a time.
pub(super) fn column(at: f64, begin: f64, end: f64, columns: usize) -> usize {
    let share = if end > begin { (at - begin) / (end - begin) } else { 0.0 };
    ((share.clamp(0.0, 1.0) * columns as f64) as usize).min(columns.saturating_sub(1))
}

/// Keeps the extremes of each of `columns` columns of equal width; x must not fall. A gap (y is none) stays a gap.
pub fn reduced(points: &[(f64, Option<f64>)], columns: usize) -> Vec<(f64, Option<f64>)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let width = (last.0 - first.0) / columns.max(1) as f64;
    if points.len() <= 2 * columns || width <= 0.0 {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    let mut from = 0;
    let mut column = 1_u32;
    while from < points.len() {
        let end = first.0 + f64::from(column) * width;
        let to = from + points[from..].partition_point(|point| point.0 < end);
        // Points at the very end belong to the last column.
        let to = if column as usize >= columns { points.len() } else { to };
        keep(&points[from..to], &mut kept);
        from = to;
        column += 1;
    }
    kept
}

/// Appends the points of one column that must be kept.
fn keep(points: &[(f64, Option<f64>)], kept: &mut Vec<(f64, Option<f64>)>) {
    if points.is_empty() {
        return;
    }
    let values = || {
        points
            .iter()
            .enumerate()
            .filter_map(|(index, point)| Some((index, point.1?)))
    };
    let lowest = values().min_by(|a, b| a.1.total_cmp(&b.1));
    let highest = values().max_by(|a, b| a.1.total_cmp(&b.1));
    let gap = points.iter().position(|point| point.1.is_none());
    let extremes = [lowest.map(|low| low.0), highest.map(|high| high.0), gap];
    let mut indices = vec![0, points.len() - 1];
    indices.extend(extremes.into_iter().flatten());
    indices.sort_unstable();
    indices.dedup();
    kept.extend(indices.into_iter().map(|index| points[index]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_peak_is_visible() {
        let mut values: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 0.1)).collect();
        values[4_321].1 = 1.0;
        let heights = max_per_column(&values, 10_000.0, 40);
        let page = Page {
            unicode: true,
            ..Page::default()
        };
        let drawn = sparkline(&heights, page);
        assert_eq!((drawn.matches('█').count(), drawn.chars().count()), (1, 40), "{drawn}");
        assert!(sparkline(&heights, Page::default()).is_ascii());
        assert_eq!(sparkline(&[None, Some(0.0), Some(2.0)], page), " ▁█");
        assert!(max_per_column(&[], 1.0, 3).iter().all(Option::is_none));
    }

    #[test]
    fn a_bar_is_as_long_as_it_is_full() {
        assert_eq!(bar(0.5, 4, Page::default()), "##..");
        assert_eq!(bar(7.0, 4, Page::default()), "####");
    }
}

#[cfg(test)]
mod reduced_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!(reduced(&points, 2), points);
        assert!(reduced(&[], 2).is_empty());
        let one_moment: Vec<_> = (0..9).map(|at| (1.0, Some(f64::from(at)))).collect();
        assert_eq!(reduced(&one_moment, 2), one_moment);
    }

    proptest! {
        #[test]
        fn every_column_keeps_its_extremes_and_gaps(
            values in prop::collection::vec((0_u32..4, prop::option::weighted(0.9, 0_u32..1000)), 1..400),
            columns in 1_usize..40,
        ) {
            let mut at = 0;
            let points: Vec<(f64, Option<f64>)> = values.iter().map(|&(after, value)| {
                at += after;
                (f64::from(at), value.map(f64::from))
            }).collect();
            let kept = reduced(&points, columns);
            prop_assert!(kept.len() <= (5 * columns).max(2 * columns) || kept.len() == points.len());
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            prop_assert!(kept.iter().all(|point| points.contains(point)));
            prop_assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
            let width = f64::from(at) - points[0].0;
            let width = width / columns as f64;
            // Uses the same rounded column edges.
            let column = |x: f64| (1..columns).filter(|&edge| x >= points[0].0 + edge as f64 * width).count();
            let extremes = |points: &[(f64, Option<f64>)], index: usize| {
                let of = || points.iter().filter(|point| column(point.0) == index);
                let values: Vec<f64> = of().filter_map(|point| point.1).collect();
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                (low, values.iter().copied().fold(-1.0, f64::max), of().any(|point| point.1.is_none()))
            };
            for index in 0..columns {
                prop_assert_eq!(extremes(&kept, index), extremes(&points, index));
            }
        }
    }
}
