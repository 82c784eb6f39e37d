//! The distribution of values: over GPUs at one moment, or over time.
//!
//! Pure. The standard deviation is that of the population, by Welford's recurrence with weights (West 1979,
//! doi:10.1145/359146.359153), which stays accurate where squares of byte counts would not.

use serde::Serialize;

/// The distribution of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of values.
    pub looks: u64,
    /// Minimum.
    pub lowest: u64,
    /// The mean.
    pub mean: f64,
    /// Population standard deviation; 0 for a single value.
    pub std: f64,
    /// Maximum.
    pub highest: u64,
}

impl Spread {
    /// From pairs of value and frequency; `None` without values.
    #[must_use]
    pub fn from_weighted(values: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
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
    fn empty_input_has_no_spread() {
        assert_eq!(Spread::from_weighted([]), None);
        assert_eq!(Spread::from_weighted([(7, 0)]), None);
        let one = Spread::from_weighted([(7, 3)]).unwrap();
        assert_eq!((one.lowest, one.highest, one.looks), (7, 7, 3));
        assert!((one.mean - 7.0).abs() < 1e-12 && one.std.abs() < 1e-12);
    }

    proptest! {
        /// In integers, n Σx² - (Σx)² is n² times the variance, without rounding.
        #[test]
        fn matches_exact_integer_arithmetic(values in prop::collection::vec((0_u64..1 << 38, 1_u64..50), 1..40)) {
            let spread = Spread::from_weighted(values.iter().copied()).unwrap();
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
