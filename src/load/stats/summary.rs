//! Summary statistics of a sample: mean, spread and percentiles with confidence intervals. Pure.
//!
//! Values that a sample cannot support are omitted: the p99 of twenty requests would just be the maximum. A percentile
//! is supported if its interval exists (see [`super::percentile::rank_interval`] for the required sample sizes).

use serde::{Deserialize, Serialize};

use super::percentile::{interpolated, min_sample_size, rank_interval};
use super::sample::{Sample, count};

/// Summary of a sample, in the sample's unit. `None` if the sample cannot support a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median of the sample, even of one value. `p50` is the supported estimate for the population.
    pub median: Option<f64>,
    /// Standard deviation (divisor n, as in numpy and vLLM's bench); needs 2 values.
    pub std: Option<f64>,
    /// 50th percentile; needs 6 independent values.
    pub p50: Option<f64>,
    /// 90th percentile; needs 29.
    pub p90: Option<f64>,
    /// 95th percentile; needs 59.
    pub p95: Option<f64>,
    /// 99th percentile; needs 299.
    pub p99: Option<f64>,
    /// 99.9th percentile; needs 2995.
    pub p99_9: Option<f64>,
    /// Confidence intervals.
    pub ci: Intervals,
}

/// 95 % confidence intervals, low and high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the mean, by Student's t; needs 2 independent values.
    pub mean: Option<[f64; 2]>,
    /// Of the 50th percentile, by order statistics as all percentiles.
    pub p50: Option<[f64; 2]>,
    /// Of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Of the 95th percentile.
    pub p95: Option<[f64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile.
    pub p99_9: Option<[f64; 2]>,
}

/// A percentile and its interval.
type Percentile = (Option<f64>, Option<[f64; 2]>);

impl Summary {
    /// From one value per request in order of time.
    #[must_use]
    pub fn from_values(values: Vec<f64>) -> Self {
        Self::from_sample(&Sample::per_request(values, 1))
    }

    pub(super) fn from_sample(sample: &Sample) -> Self {
        let mut ascending = sample.values.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        let mean = mean(&ascending);
        let percentile = |share| percentile(sample, &ascending, share);
        let (p50, p90, p95, p99, p99_9) = (
            percentile(0.5),
            percentile(0.9),
            percentile(0.95),
            percentile(0.99),
            percentile(0.999),
        );
        Self {
            n: ascending.len(),
            mean,
            median: interpolated(&ascending, 0.5),
            std: mean.and_then(|mean| deviation(&ascending, mean)),
            p50: p50.0,
            p90: p90.0,
            p95: p95.0,
            p99: p99.0,
            p99_9: p99_9.0,
            ci: Intervals {
                mean: mean.and_then(|mean| sample.interval(mean)),
                p50: p50.1,
                p90: p90.1,
                p95: p95.1,
                p99: p99.1,
                p99_9: p99_9.1,
            },
        }
    }
}

/// The percentile and its interval, both or neither.
fn percentile(sample: &Sample, ascending: &[f64], share: f64) -> Percentile {
    let both = || {
        let n = ascending.len();
        let value = interpolated(ascending, share).filter(|_| n >= min_sample_size(share))?;
        let effective = sample.effective(share, value)?.min(n);
        let (low, high) = rank_interval(effective, share)?;
        let low = ascending[place(low, effective, n, f64::floor)];
        let high = ascending[place(high, effective, n, f64::ceil)];
        Some((value, [low.min(value), high.max(value)]))
    };
    both().map_or((None, None), |(value, interval)| (Some(value), Some(interval)))
}

/// The index among `n` values that corresponds to `rank` among `effective` values.
fn place(rank: usize, effective: usize, n: usize, round: fn(f64) -> f64) -> usize {
    let among = if effective == n {
        rank
    } else {
        round(count(rank) * count(n + 1) / count(effective + 1)) as usize
    };
    among.clamp(1, n) - 1
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (squares / count(values.len())).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: Option<f64>, want: f64) {
        let got = got.unwrap();
        assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn empty_sample_supports_nothing() {
        assert_eq!(Summary::from_values(Vec::new()), Summary::default());
    }

    #[test]
    fn one_value_has_a_mean_and_no_deviation() {
        let one = Summary::from_values(vec![7.0]);
        assert_eq!(
            (one.mean, one.median, one.std, one.p50, one.ci),
            (Some(7.0), Some(7.0), None, None, Intervals::default())
        );
    }

    #[test]
    fn deviation_and_interval_match_the_textbook() {
        let four = Summary::from_values(vec![2.0, 4.0, 4.0, 6.0]);
        close(four.std, 2.0_f64.sqrt());
        let [low, high] = four.ci.mean.unwrap();
        assert!(
            (low - 1.4015).abs() < 0.005 && (high - 6.5985).abs() < 0.005,
            "{low} {high}"
        );
    }

    #[test]
    fn percentile_and_interval_exist_together() {
        let summary_of = |n: u32| Summary::from_values((0..n).map(|at| f64::from(at * 7919 % n)).collect());
        for (n, p50, p90, p95, p99) in [
            (5, false, false, false, false),
            (6, true, false, false, false),
            (29, true, true, false, false),
            (59, true, true, true, false),
            (298, true, true, true, false),
            (299, true, true, true, true),
        ] {
            let summary = summary_of(n);
            let figures = [summary.p50, summary.p90, summary.p95, summary.p99].map(|value| value.is_some());
            let ci = summary.ci;
            let intervals = [ci.p50, ci.p90, ci.p95, ci.p99].map(|interval| interval.is_some());
            assert_eq!((figures, intervals), ([p50, p90, p95, p99], figures), "{n}");
        }
    }

    #[test]
    fn groups_give_an_interval() {
        let (slow, fast) = ([1.0_f32; 500], [3.0_f32; 500]);
        let groups = Sample::per_token([slow.as_slice(), fast.as_slice()], 1);
        let pooled = Summary::from_sample(&groups);
        close(pooled.mean, 2.0);
        close(pooled.median, 2.0);
        assert_eq!(
            pooled.p99, None,
            "two requests cannot say what one in a hundred gaps is"
        );
        let [low, high] = pooled.ci.mean.unwrap();
        assert!(high - low > 20.0, "two groups say little: {low} to {high}");
    }
}
