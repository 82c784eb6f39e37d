//! Summaries of samples: mean, spread, percentiles, and an interval for the mean. Pure.
//!
//! A figure that a sample cannot support is not given: p99 of twenty requests is the largest of them, whatever it is called.

use serde::{Deserialize, Serialize};

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_985;

/// A sample in figures, in the unit of the sample. `None` where the sample cannot support the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// The middle, as `p50`.
    pub median: Option<f64>,
    /// Standard deviation of the sample (divisor n − 1); needs 2 values.
    pub std: Option<f64>,
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 90th percentile; needs 10 values.
    pub p90: Option<f64>,
    /// 95th percentile; needs 20 values.
    pub p95: Option<f64>,
    /// 99th percentile; needs 100 values.
    pub p99: Option<f64>,
    /// 99.9th percentile; needs 1000 values.
    pub p99_9: Option<f64>,
    /// 95 % confidence interval of the mean by Student's t, low and high; needs 2 independent values.
    pub ci: Option<[f64; 2]>,
}

impl Summary {
    /// Of independent values.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Self {
        let ci = interval(&values);
        Self {
            ci,
            ..Self::figures(values)
        }
    }

    /// Of values that come in groups, as the gaps between one request's tokens do. Within a group they depend on each other,
    /// so the interval is that of the groups' means; everything else is of the pooled values.
    #[must_use]
    pub fn of_groups(groups: &[Vec<f64>]) -> Self {
        let means: Vec<f64> = groups.iter().filter_map(|group| mean(group)).collect();
        Self {
            ci: interval(&means),
            ..Self::figures(groups.concat())
        }
    }

    fn figures(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        // A percentile needs at least one value beyond it.
        let supported =
            |share: f64, least: usize| (values.len() >= least).then(|| percentile(&values, share)).flatten();
        Self {
            mean: mean(&values),
            median: supported(0.5, 1),
            std: deviation(&values),
            p50: supported(0.5, 1),
            p90: supported(0.9, 10),
            p95: supported(0.95, 20),
            p99: supported(0.99, 100),
            p99_9: supported(0.999, 1000),
            ci: None,
        }
    }
}

/// The percentile of ascending values by linear interpolation between closest ranks, as numpy's default and so vLLM's bench.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is within the sample"
)]
fn percentile(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = share * ascending.len().checked_sub(1)? as f64;
    let below = ascending[rank.floor() as usize];
    let above = ascending[rank.ceil() as usize];
    Some(below + (above - below) * rank.fract())
}

#[expect(clippy::cast_precision_loss, reason = "a count of values")]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[expect(clippy::cast_precision_loss, reason = "a count of values")]
fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values).filter(|_| values.len() >= 2)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "a count of values")]
fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let half = student(values.len() - 1.min(values.len())) * deviation(values)? / (values.len() as f64).sqrt();
    let middle = mean(values)?;
    Some([middle - half, middle + half])
}

/// The two-sided 95 % quantile of Student's t: exact for one and two degrees of freedom, else the expansion of
/// Abramowitz and Stegun 26.7.5, within 0.2 %.
#[expect(clippy::cast_precision_loss, reason = "a count of values")]
fn student(freedom: usize) -> f64 {
    match freedom {
        0 | 1 => 12.706_205,
        2 => 4.302_653,
        _ => {
            let n = freedom as f64;
            let power = |exponent: i32| Z.powi(exponent);
            Z + (power(3) + Z) / (4.0 * n)
                + (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / (96.0 * n.powi(2))
                + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * Z) / (384.0 * n.powi(3))
                + (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * Z)
                    / (92_160.0 * n.powi(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: Option<f64>, want: f64) {
        let got = got.unwrap();
        assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn nothing_supports_nothing() {
        assert_eq!(Summary::of(Vec::new()), Summary::default());
    }

    #[test]
    fn one_value_has_a_mean_and_no_spread() {
        let one = Summary::of(vec![7.0]);
        assert_eq!(
            (one.mean, one.median, one.std, one.p90, one.ci),
            (Some(7.0), Some(7.0), None, None, None)
        );
    }

    #[test]
    fn percentiles_interpolate_as_numpy_does() {
        let ten = Summary::of((1..=10).map(f64::from).collect());
        close(ten.median, 5.5);
        close(ten.p90, 9.1);
        assert_eq!(ten.p95, None);
        let thousand = Summary::of((1..=1000).map(f64::from).collect());
        close(thousand.p99, 990.01);
        close(thousand.p99_9, 999.001);
    }

    #[test]
    fn spread_and_interval_are_the_textbook_ones() {
        let four = Summary::of(vec![2.0, 4.0, 4.0, 6.0]);
        close(four.std, 1.632_993_162);
        let [low, high] = four.ci.unwrap();
        assert!(
            (low - 1.4015).abs() < 0.005 && (high - 6.5985).abs() < 0.005,
            "{low} {high}"
        );
    }

    #[test]
    fn students_quantiles_are_near_the_tables() {
        for (freedom, table) in [(3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)] {
            assert!(
                (student(freedom) / table - 1.0).abs() < 0.002,
                "{freedom}: {}",
                student(freedom)
            );
        }
    }

    #[test]
    fn groups_give_an_interval_of_their_means() {
        let groups = [vec![1.0; 500], vec![3.0; 500]];
        let pooled = Summary::of_groups(&groups);
        close(pooled.mean, 2.0);
        close(pooled.p99, 3.0);
        let [low, high] = pooled.ci.unwrap();
        assert!(high - low > 20.0, "two groups say little: {low} to {high}");
    }
}
