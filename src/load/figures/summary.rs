//! A sample in figures: mean, spread and percentiles, each with the interval in which it lies. Pure.
//!
//! A figure that a sample cannot support is not given, and neither is its interval: p99 of twenty requests is the largest of them,
//! whatever it is called. A percentile is supported where its interval exists ([`super::percentile::ranks`] says from how many values on).

use serde::{Deserialize, Serialize};

use super::percentile::{least, linear, ranks};
use super::sample::{Sample, count};

/// A sample in figures, in the unit of the sample. `None` where the sample cannot support the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// The middle of the sample, of one value too. Of the population it says what `p50` says.
    pub median: Option<f64>,
    /// Standard deviation of the values (divisor n, as numpy's default and so vLLM's bench); needs 2 of them.
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
    /// The interval of each.
    pub ci: Intervals,
}

/// 95 % confidence intervals, low and high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the mean, by Student's t; needs 2 independent values.
    pub mean: Option<[f64; 2]>,
    /// Of the 50th percentile, by order statistics as the following.
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
    /// Of one value a request, in the order of time.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Self {
        Self::of_sample(&Sample::single(values, 1))
    }

    /// Of a sample.
    pub(super) fn of_sample(sample: &Sample) -> Self {
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
            median: linear(&ascending, 0.5),
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

/// The percentile and its interval, both or none.
fn percentile(sample: &Sample, ascending: &[f64], share: f64) -> Percentile {
    let both = || {
        let n = ascending.len();
        let figure = linear(ascending, share).filter(|_| n >= least(share))?;
        let effective = sample.effective(share, figure)?.min(n);
        let (low, high) = ranks(effective, share)?;
        let low = ascending[place(low, effective, n, f64::floor)];
        let high = ascending[place(high, effective, n, f64::ceil)];
        Some((figure, [low.min(figure), high.max(figure)]))
    };
    both().map_or((None, None), |(figure, interval)| (Some(figure), Some(interval)))
}

/// The place, from 0, among `n` values of what is at `rank` among `effective`.
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
    fn nothing_supports_nothing() {
        assert_eq!(Summary::of(Vec::new()), Summary::default());
    }

    #[test]
    fn one_value_has_a_mean_and_no_spread() {
        let one = Summary::of(vec![7.0]);
        assert_eq!(
            (one.mean, one.median, one.std, one.p50, one.ci),
            (Some(7.0), Some(7.0), None, None, Intervals::default())
        );
    }

    #[test]
    fn spread_and_interval_are_the_textbook_ones() {
        let four = Summary::of(vec![2.0, 4.0, 4.0, 6.0]);
        close(four.std, 2.0_f64.sqrt());
        let [low, high] = four.ci.mean.unwrap();
        assert!(
            (low - 1.4015).abs() < 0.005 && (high - 6.5985).abs() < 0.005,
            "{low} {high}"
        );
    }

    #[test]
    fn a_percentile_and_its_interval_are_both_there_or_neither() {
        let of = |n: u32| Summary::of((0..n).map(|at| f64::from(at * 7919 % n)).collect());
        for (n, p50, p90, p95, p99) in [
            (5, false, false, false, false),
            (6, true, false, false, false),
            (29, true, true, false, false),
            (59, true, true, true, false),
            (298, true, true, true, false),
            (299, true, true, true, true),
        ] {
            let summary = of(n);
            let figures = [summary.p50, summary.p90, summary.p95, summary.p99].map(|figure| figure.is_some());
            let ci = summary.ci;
            let intervals = [ci.p50, ci.p90, ci.p95, ci.p99].map(|interval| interval.is_some());
            assert_eq!((figures, intervals), ([p50, p90, p95, p99], figures), "{n}");
        }
    }

    #[test]
    fn groups_give_an_interval_of_their_spread() {
        let (slow, fast) = ([1.0_f32; 500], [3.0_f32; 500]);
        let groups = Sample::grouped([slow.as_slice(), fast.as_slice()], 1);
        let pooled = Summary::of_sample(&groups);
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
