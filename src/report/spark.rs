//! Sparklines and progress bars of one line.

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
