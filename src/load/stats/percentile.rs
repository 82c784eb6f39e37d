//! Percentiles of a sample and their distribution-free confidence intervals. Pure.

/// Confidence level of all intervals.
const COVERAGE: f64 = 0.95;

/// Percentile of ascending values by linear interpolation between closest ranks, as numpy and vLLM's bench do. `None`
/// for no values.
pub(super) fn interpolated(ascending: &[f64], share: f64) -> Option<f64> {
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

/// The ranks (from 1) of the two values among `n` that enclose the population's percentile with at least 95 %
/// confidence, for any distribution. `None` if even the smallest and the largest value do not.
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
pub(super) fn min_sample_size(share: f64) -> usize {
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

#[cfg(test)]
mod tests;
