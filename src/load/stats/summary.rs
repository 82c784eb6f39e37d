//! Summary statistics of a sample: mean, standard deviation and percentiles with confidence intervals. Pure.
//!
//! A percentile without an interval is thin: the p99 of twenty requests is just their maximum. It is reported and
//! marked (see [`rank_interval`] for the required sample sizes), but no conclusion is drawn from it.
//!
//! Consecutive requests in a loaded engine are not independent: a full queue slows down every request in it. Intervals
//! that treat them as independent are too narrow. The requests are therefore split, in order of time, into 8 to 32
//! blocks (each at least one wave of the concurrency, if there are enough), and the variance between blocks is compared
//! with the variance of independent values. Their ratio is the design effect, which reduces the effective sample size
//! (batch means: Law and Kelton, Simulation Modeling and Analysis; for ratios and percentiles with linearised block
//! totals, as in survey statistics: Woodruff 1952, Korn and Graubard 1998).

use serde::{Deserialize, Serialize};

use crate::experiment::t_quantile;

/// Summary of a sample, in the sample's unit. `None` if the sample has no such value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median; of an even number of values the mean of the middle two, as in vLLM's bench. Supported by 6 independent values.
    pub median: Option<f64>,
    /// Standard deviation (divisor n, as in numpy and vLLM's bench); needs 2 values.
    pub std: Option<f64>,
    /// 90th percentile by nearest rank, as the next ones; of 2 values or more. Supported by 29.
    pub p90: Option<f64>,
    /// 95th percentile; supported by 59.
    pub p95: Option<f64>,
    /// 99th percentile; supported by 299.
    pub p99: Option<f64>,
    /// 99.9th percentile; supported by 2995.
    pub p99_9: Option<f64>,
    /// Confidence intervals.
    pub ci: Intervals,
    /// Thin percentiles: reported, but without an interval.
    #[serde(default)]
    pub thin: Thin,
}

/// 95 % confidence intervals, low and high: of the mean by Student's t, which needs 2 independent values, and of
/// percentiles by order statistics.
pub type Intervals = Statistics<Option<[f64; 2]>>;

/// Percentiles that are reported although too few independent values support them.
pub type Thin = Percentiles<bool>;

/// A value for the mean and for each percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics<T> {
    /// For the mean.
    pub mean: T,
    /// For the median.
    pub median: T,
    /// For the 90th percentile.
    pub p90: T,
    /// For the 95th percentile.
    pub p95: T,
    /// For the 99th percentile.
    pub p99: T,
    /// For the 99.9th percentile.
    pub p99_9: T,
}

/// A value for each percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles<T> {
    /// For the median.
    pub median: T,
    /// For the 90th percentile.
    pub p90: T,
    /// For the 95th percentile.
    pub p95: T,
    /// For the 99th percentile.
    pub p99: T,
    /// For the 99.9th percentile.
    pub p99_9: T,
}

impl Summary {
    /// From one value per request in order of time.
    pub fn from_values(values: Vec<f64>) -> Self {
        Self::from_sample(&Sample::per_request(values, 1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n == 0
    }

    pub(super) fn from_sample(sample: &Sample) -> Self {
        let mut ascending = sample.values.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        let mean = mean(&ascending);
        let median = interpolated(&ascending, 0.5);
        let ranked = |share| {
            let at = nearest_rank(ascending.len(), share).filter(|_| ascending.len() >= 2)?;
            Some(ascending[at])
        };
        let [p90, p95, p99, p99_9] = [0.9, 0.95, 0.99, 0.999].map(ranked);
        let interval = |share, value: Option<f64>| interval(sample, &ascending, share, value?);
        let ci = Statistics {
            mean: mean.and_then(|mean| sample.interval(mean)),
            median: interval(0.5, median),
            p90: interval(0.9, p90),
            p95: interval(0.95, p95),
            p99: interval(0.99, p99),
            p99_9: interval(0.999, p99_9),
        };
        let thin = |value: Option<f64>, interval: Option<[f64; 2]>| value.is_some() && interval.is_none();
        Self {
            n: ascending.len(),
            mean,
            median,
            std: mean.and_then(|mean| deviation(&ascending, mean)),
            p90,
            p95,
            p99,
            p99_9,
            thin: Percentiles {
                median: thin(median, ci.median),
                p90: thin(p90, ci.p90),
                p95: thin(p95, ci.p95),
                p99: thin(p99, ci.p99),
                p99_9: thin(p99_9, ci.p99_9),
            },
            ci,
        }
    }
}

/// The interval of a percentile with this value.
fn interval(sample: &Sample, ascending: &[f64], share: f64, value: f64) -> Option<[f64; 2]> {
    let n = ascending.len();
    let effective = sample.effective(share, value)?.min(n);
    let (low, high) = rank_interval(effective, share)?;
    let low = ascending[place(low, effective, n, f64::floor)];
    let high = ascending[place(high, effective, n, f64::ceil)];
    Some([low.min(value), high.max(value)])
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

pub(in crate::load) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (squares / count(values.len())).sqrt())
}

/// With fewer requests there are no blocks, and values count as independent.
const MIN_REQUESTS: usize = 16;

/// Minimum and maximum number of blocks.
const BLOCKS: (usize, usize) = (8, 32);

#[derive(Debug, Default)]
pub(super) struct Sample {
    /// In order of time.
    pub(super) values: Vec<f64>,
    // Index where each block ends.
    ends: Vec<usize>,
    // Several values per request: they are correlated, whatever the blocks show.
    grouped: bool,
}

/// How many independent values a sample is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EffectiveSize {
    /// Number of independent values.
    pub(super) values: f64,
    /// Degrees of freedom of the variance estimate.
    dof: usize,
}

impl Sample {
    /// One value per request in order of time. `wave` is the concurrency.
    pub(super) fn per_request(values: Vec<f64>, wave: usize) -> Self {
        let ends = blocks(values.len(), wave);
        Self {
            values,
            ends,
            grouped: false,
        }
    }

    /// One value per load; loads are independent.
    pub(super) fn per_load(values: Vec<f64>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// Several values per request, requests in order of time. `wave` is the concurrency.
    pub(super) fn per_token<'a>(groups: impl IntoIterator<Item = &'a [f32]>, wave: usize) -> Self {
        let mut sizes = Vec::new();
        let mut values = Vec::new();
        for group in groups.into_iter().filter(|group| !group.is_empty()) {
            values.extend(group.iter().map(|value| f64::from(*value)));
            sizes.push(values.len());
        }
        let mut ends = blocks(sizes.len(), wave);
        if ends.is_empty() {
            ends = (1..=sizes.len()).collect();
        }
        Self {
            values,
            ends: ends.iter().map(|end| sizes[end - 1]).collect(),
            grouped: true,
        }
    }

    /// The effective sample size for the mean of `transform(value)`, whose variance would be `variance` for independent
    /// values. `None` for a single value or the values of a single request.
    fn effective_size(&self, variance: f64, transform: impl Fn(f64) -> f64) -> Option<EffectiveSize> {
        let all = count(self.values.len());
        let independent = EffectiveSize {
            values: all,
            dof: self.values.len().checked_sub(1).filter(|dof| *dof > 0)?,
        };
        let Some(dof) = self.ends.len().checked_sub(1).filter(|dof| *dof > 0) else {
            return (!self.grouped).then_some(independent);
        };
        if variance <= 0.0 {
            return Some(independent);
        }
        let mean = self.values.iter().map(|value| transform(*value)).sum::<f64>() / all;
        let mut squares = 0.0;
        let mut start = 0;
        for end in &self.ends {
            let total: f64 = self.values[start..*end]
                .iter()
                .map(|value| transform(*value) - mean)
                .sum();
            squares += total * total;
            start = *end;
        }
        let blocks = count(self.ends.len());
        // The variance of the mean estimated from the blocks, divided by that of an equal number of independent values.
        let effect = blocks / (blocks - 1.0) * squares / (all * variance);
        if !self.grouped && effect <= variance_ratio_limit(dof) {
            return Some(independent);
        }
        Some(EffectiveSize {
            values: all / effect.max(1.0),
            dof,
        })
    }

    /// The 95 % confidence interval of the mean by Student's t.
    pub(super) fn interval(&self, mean: f64) -> Option<[f64; 2]> {
        let all = count(self.values.len());
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / (all - 1.0).max(1.0);
        let effective_size = self.effective_size(variance, |value| value)?;
        let half = t_quantile(count(effective_size.dof)) * (variance / effective_size.values).sqrt();
        Some([mean - half, mean + half])
    }

    /// The effective sample size for the percentile `share` with the value `threshold`.
    pub(super) fn effective(&self, share: f64, threshold: f64) -> Option<usize> {
        let below = |value: f64| if value <= threshold { 1.0 } else { 0.0 };
        let effective_size = self.effective_size(share * (1.0 - share), below)?;
        let whole = self.values.len();
        if effective_size.dof + 1 == whole {
            return Some(whole);
        }
        // A variance with few degrees of freedom is itself uncertain (Korn and Graubard 1998).
        let uncertain = (t_quantile(count(whole - 1)) / t_quantile(count(effective_size.dof))).powi(2);
        Some((effective_size.values * uncertain) as usize)
    }
}

/// The index where each block ends.
fn blocks(requests: usize, wave: usize) -> Vec<usize> {
    if requests < MIN_REQUESTS {
        return Vec::new();
    }
    let blocks = (requests / wave.max(1)).clamp(BLOCKS.0, BLOCKS.1);
    (1..=blocks).map(|block| block * requests / blocks).collect()
}

pub(super) fn count(values: usize) -> f64 {
    values as f64
}

/// Confidence level of all intervals.
const COVERAGE: f64 = 0.95;

/// Percentile of ascending values by linear interpolation between closest ranks, as numpy and vLLM's bench do. `None`
/// for no values.
pub(in crate::load) fn interpolated(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = share * ascending.len().checked_sub(1)? as f64;
    let below = ascending[rank.floor() as usize];
    let above = ascending[rank.ceil() as usize];
    Some(below + (above - below) * rank.fract())
}

/// Index of the nearest-rank percentile: the smallest value that at least `share` of `n` values do not exceed. Does not
/// interpolate, so an infinite value does not affect a finite one.
pub(super) fn nearest_rank(n: usize, share: f64) -> Option<usize> {
    // Do not round up because of a floating-point error in `share`.
    let rank = (share * n as f64 - 1e-9).ceil() as usize;
    rank.max(1).min(n).checked_sub(1)
}

/// The ranks (from 1) of two of `n` values that enclose the population's percentile with at least 95 % confidence, for
/// any distribution. `None` if even the smallest and the largest value do not.
///
/// The number of values below the percentile is binomial, so the interval from rank `a` to rank `b` covers it with the
/// probability that this number is between `a` and `b` − 1 (David and Nagaraja, Order Statistics, 2003, 7.1). Picks the
/// interval with the fewest ranks: it grows from the likeliest number to the likelier side. It exists from 6 values on
/// for p50, 29 for p90, 59 for p95, 299 for p99 and 2995 for p99.9: where 1 − share^n − (1 − share)^n reaches 95 %
/// (Wilks 1941).
pub(super) fn rank_interval(n: usize, share: f64) -> Option<(usize, usize)> {
    if n < 2 {
        return None;
    }
    let odds = share / (1.0 - share);
    let likeliest = (((n + 1) as f64 * share) as usize).clamp(1, n - 1);
    let (mut low, mut high) = (likeliest, likeliest);
    let mut covered = binomial(n, likeliest, share);
    // The probability of one fewer than `low`, and of one more than `high`; `None` outside the sample.
    let fewer = |low: usize, at: f64| (low > 1).then(|| at * low as f64 / ((n - low + 1) as f64 * odds));
    let more = |high: usize, at: f64| (high < n - 1).then(|| at * (n - high) as f64 * odds / (high + 1) as f64);
    let (mut below, mut above) = (fewer(low, covered), more(high, covered));
    while covered < COVERAGE {
        let down = match (below, above) {
            (None, None) => return None,
            (below, above) => below.unwrap_or(-1.0) > above.unwrap_or(-1.0),
        };
        if down {
            let at = below?;
            (low, covered) = (low - 1, covered + at);
            below = fewer(low, at);
        } else {
            let at = above?;
            (high, covered) = (high + 1, covered + at);
            above = more(high, at);
        }
    }
    Some((low, high + 1))
}

/// The smallest sample for which [`rank_interval`] returns an interval.
pub(in crate::load) fn min_sample_size(share: f64) -> usize {
    let covered = |n: &usize| 1.0 - share.powf(*n as f64) - (1.0 - share).powf(*n as f64) >= COVERAGE;
    // A lower bound from the heavier tail alone; with the lighter tail it may be one more.
    let tail = share.max(1.0 - share);
    let from = ((1.0 - COVERAGE).ln() / tail.ln()).floor() as usize;
    (from..).find(covered).unwrap_or(usize::MAX)
}

/// The probability of `k` successes in `n` trials.
fn binomial(n: usize, k: usize, share: f64) -> f64 {
    let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    (ways + k as f64 * share.ln() + (n - k) as f64 * (1.0 - share).ln()).exp()
}

/// ln(n!): exact sum up to 20, otherwise Stirling's series, accurate to twelve digits.
fn ln_factorial(n: usize) -> f64 {
    if n <= 20 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let x = n as f64;
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3))
}

/// One-sided 95 % quantile of the normal distribution.
const Z_ONE_SIDED: f64 = 1.644_853_627;

/// The 95 % quantile of a sample variance divided by the true variance (chi-square over its degrees of freedom), by
/// Wilson and Hilferty (1931), accurate to 1 % from 5 degrees of freedom on.
fn variance_ratio_limit(dof: usize) -> f64 {
    let spread = 2.0 / (9.0 * dof.max(1) as f64);
    (1.0 - spread + Z_ONE_SIDED * spread.sqrt()).powi(3)
}

#[cfg(test)]
mod summary_tests {
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
            (one.mean, one.median, one.std, one.p90, one.ci),
            (Some(7.0), Some(7.0), None, None, Intervals::default())
        );
        assert!(one.thin.median && !one.thin.p90);
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
    fn a_percentile_without_an_interval_is_there_and_thin() {
        let summary_of = |n: u32| Summary::from_values((0..n).map(|at| f64::from(at * 7919 % n)).collect());
        for (n, thin) in [
            (2, [true, true, true, true]),
            (5, [true, true, true, true]),
            (6, [false, true, true, true]),
            (29, [false, false, true, true]),
            (59, [false, false, false, true]),
            (298, [false, false, false, true]),
            (299, [false, false, false, false]),
        ] {
            let Summary {
                median,
                p90,
                p95,
                p99,
                ci,
                thin: marks,
                ..
            } = summary_of(n);
            assert_eq!([marks.median, marks.p90, marks.p95, marks.p99], thin, "{n}");
            for (value, interval, thin) in [
                (median, ci.median, thin[0]),
                (p90, ci.p90, thin[1]),
                (p95, ci.p95, thin[2]),
                (p99, ci.p99, thin[3]),
            ] {
                let value = value.unwrap();
                assert!(
                    interval.is_none_or(|[low, high]| low <= value && value <= high) && interval.is_none() == thin,
                    "{n}"
                );
            }
        }
    }

    /// For 320 requests in ten waves with one value each, p90 is known no better than for ten requests.
    #[test]
    fn waves_of_equal_values_are_thin() {
        let values: Vec<f64> = (0..320).map(|at| f64::from((at / 32) * 7 % 10)).collect();
        let summary = Summary::from_sample(&Sample::per_request(values, 32));
        assert!(summary.thin.p90 && summary.p90 == Some(8.0), "{summary:?}");
    }

    #[test]
    fn groups_give_an_interval() {
        let (slow, fast) = ([1.0_f32; 500], [3.0_f32; 500]);
        let groups = Sample::per_token([slow.as_slice(), fast.as_slice()], 1);
        let pooled = Summary::from_sample(&groups);
        close(pooled.mean, 2.0);
        close(pooled.median, 2.0);
        assert!(pooled.thin.p99, "two requests cannot say what one in a hundred gaps is");
        let [low, high] = pooled.ci.mean.unwrap();
        assert!(high - low > 20.0, "two groups say little: {low} to {high}");
    }
}

#[cfg(test)]
mod sample_tests {
    use super::*;

    #[test]
    fn blocks_contain_whole_waves_if_possible() {
        assert_eq!(blocks(15, 1), Vec::<usize>::new());
        assert_eq!(blocks(16, 1).len(), 16);
        assert_eq!(blocks(1000, 1).len(), 32);
        assert_eq!(blocks(640, 64), (1..=10).map(|block| block * 64).collect::<Vec<_>>());
        assert_eq!(blocks(64, 64).len(), 8, "one wave: better than none");
    }

    #[test]
    fn equal_values_in_a_wave_count_once() {
        let values: Vec<f64> = (0..320).map(|at| f64::from((at / 32) * 7 % 10)).collect();
        let sample = Sample::per_request(values, 32);
        let effective_size = sample.effective_size(8.25, |value| value).unwrap();
        assert!(
            effective_size.dof == 9 && effective_size.values < 12.0,
            "{effective_size:?}"
        );
    }

    #[test]
    fn one_request_gives_no_variance_between_requests() {
        let gaps = [10.0_f32; 100];
        let sample = Sample::per_token([gaps.as_slice()], 1);
        assert_eq!(sample.effective_size(1.0, |value| value), None);
        assert_eq!(sample.interval(10.0), None);
    }
}

#[cfg(test)]
mod quantiles_tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (dof, table) in [(7, 14.067), (15, 24.996), (31, 44.985)] {
            let got = variance_ratio_limit(dof) * f64::from(u32::try_from(dof).unwrap());
            assert!((got / table - 1.0).abs() < 0.01, "{dof}: {got}");
        }
    }
}

#[cfg(test)]
mod percentile_tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

    #[test]
    fn minimum_sample_sizes() {
        for (share, expected) in SHARES.into_iter().zip([6, 29, 59, 299, 2995]) {
            assert_eq!(min_sample_size(share), expected);
            assert!(rank_interval(expected - 1, share).is_none() && rank_interval(expected, share).is_some());
        }
    }

    #[test]
    fn ranks_match_the_binomial_distribution() {
        // Of 100 values, 41 to 60 are below the median with probability 0.9540, 41 to 59 with 0.9431.
        assert_eq!(rank_interval(100, 0.5), Some((41, 61)));
        // 6 values: all but the two ends, 1 - 2 / 64.
        assert_eq!(rank_interval(6, 0.5), Some((1, 6)));
        // A million values: np ± 1.96 sqrt(np(1 - p)) within a few ranks.
        let (low, high) = rank_interval(1_000_000, 0.99).unwrap();
        assert!(
            low.abs_diff(989_805) < 5 && high.abs_diff(990_196) < 5,
            "{low} to {high}"
        );
    }

    proptest! {
        #[test]
        fn interval_has_its_coverage(n in 2_usize..2000, which in 0_usize..5) {
            let share = SHARES[which];
            if let Some((low, high)) = rank_interval(n, share) {
                let covered: f64 = (low..high).map(|k| binomial(n, k, share)).sum();
                prop_assert!(covered >= COVERAGE - 1e-9, "{covered}");
                // The interval contains the value itself.
                let rank = nearest_rank(n, share).unwrap() + 1;
                prop_assert!(low <= rank && rank <= high, "{low} <= {rank} <= {high}");
            } else {
                prop_assert!(n < min_sample_size(share));
            }
        }

        #[test]
        fn nearest_rank_definition(n in 1_usize..3000, which in 0_usize..5) {
            let rank = nearest_rank(n, SHARES[which]).unwrap() + 1;
            let share = |rank: usize| rank as f64 / n as f64;
            prop_assert!(share(rank) >= SHARES[which] - 1e-9);
            prop_assert!(rank == 1 || share(rank - 1) < SHARES[which]);
        }
    }

    #[test]
    fn empty_sample_has_no_percentile() {
        assert_eq!(
            (interpolated(&[], 0.5), nearest_rank(0, 0.5), rank_interval(0, 0.5)),
            (None, None, None)
        );
    }
}
