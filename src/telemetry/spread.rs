//! How values spread: over GPUs at one moment, or over time on one of them.
//!
//! Pure. The deviation is that of the whole population, by Welford's recurrence with weights (West 1979, doi:10.1145/359146.359153),
//! which stays exact where squares of byte counts would not.

use serde::Serialize;

/// How values spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many values.
    pub looks: u64,
    /// The lowest.
    pub lowest: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of all of them, not of a sample: 0 for a single value.
    pub std: f64,
    /// The highest.
    pub highest: u64,
}

impl Spread {
    /// The spread of values that occur so often each; none where nothing occurs.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut spread: Option<Self> = None;
        let mut squares = 0.0;
        for (value, times) in values.into_iter().filter(|(_, times)| *times > 0) {
            let seen = spread.get_or_insert(Self {
                looks: 0,
                lowest: value,
                mean: 0.0,
                std: 0.0,
                highest: value,
            });
            seen.looks += times;
            seen.lowest = seen.lowest.min(value);
            seen.highest = seen.highest.max(value);
            let distance = value as f64 - seen.mean;
            seen.mean += distance * times as f64 / seen.looks as f64;
            squares += times as f64 * distance * (value as f64 - seen.mean);
        }
        spread.map(|spread| Self {
            std: (squares / spread.looks as f64).max(0.0).sqrt(),
            ..spread
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([(7, 0)]), None);
        let one = Spread::of([(7, 3)]).unwrap();
        assert_eq!((one.lowest, one.highest, one.looks), (7, 7, 3));
        assert!((one.mean - 7.0).abs() < 1e-12 && one.std.abs() < 1e-12);
    }

    proptest! {
        /// In whole numbers: n Σx² - (Σx)² is n² times the variance, with no rounding at all.
        #[test]
        fn it_is_what_whole_numbers_say(values in prop::collection::vec((0_u64..1 << 38, 1_u64..50), 1..40)) {
            let spread = Spread::of(values.iter().copied()).unwrap();
            let sum = |power: u32| values.iter().map(|&(value, times)| u128::from(value).pow(power) * u128::from(times)).sum::<u128>();
            let looks: u64 = values.iter().map(|(_, times)| times).sum();
            prop_assert_eq!(spread.looks, looks);
            prop_assert_eq!(Some(spread.lowest), values.iter().map(|(value, _)| *value).min());
            prop_assert_eq!(Some(spread.highest), values.iter().map(|(value, _)| *value).max());
            let mean = sum(1) as f64 / looks as f64;
            prop_assert!((spread.mean - mean).abs() <= mean * 1e-12);
            let variance = (u128::from(looks) * sum(2) - sum(1) * sum(1)) as f64 / (looks as f64).powi(2);
            prop_assert!((spread.std - variance.sqrt()).abs() <= variance.sqrt() * 1e-9 + 1e-3, "{} {}", spread.std, variance.sqrt());
        }
    }
}
