//! Percentiles of a sample, and the interval in which the population's percentile lies, whatever its distribution. Pure.

/// How sure an interval is.
const COVERAGE: f64 = 0.95;

/// The percentile of ascending values by linear interpolation between closest ranks: numpy's default, and so vLLM's bench.
/// `None` of no values.
pub(super) fn linear(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = share * ascending.len().checked_sub(1)? as f64;
    let below = ascending[rank.floor() as usize];
    let above = ascending[rank.ceil() as usize];
    Some(below + (above - below) * rank.fract())
}

/// The place, from 0, of the percentile by nearest rank: the smallest value that at least `share` of `n` values do not exceed. No two
/// values are mixed, so that an infinite one spoils no finite one.
pub(super) fn nearest(n: usize, share: f64) -> Option<usize> {
    // What is a whole number but for the rounding of `share` stays one.
    let rank = (share * n as f64 - 1e-9).ceil() as usize;
    rank.max(1).min(n).checked_sub(1)
}

/// The ranks, from 1, of the two values of `n` between which the percentile of the population lies with a probability of at least 95 %,
/// whatever the distribution; `None` where not even the smallest and the largest value do.
///
/// The number of values below the percentile is binomial, so the interval from rank `a` to rank `b` holds it with the probability that
/// this number is from `a` to `b` − 1 (David and Nagaraja, Order Statistics, 2003, 7.1). Of all such intervals this is the one of the
/// fewest ranks: it grows from the likeliest number to the likelier side. It exists from 6 values on for p50, 29 for p90, 59 for p95,
/// 299 for p99 and 2995 for p99.9: where 1 − share^n − (1 − share)^n reaches 95 % (Wilks 1941).
pub(super) fn ranks(n: usize, share: f64) -> Option<(usize, usize)> {
    if n < 2 {
        return None;
    }
    let odds = share / (1.0 - share);
    let likeliest = (((n + 1) as f64 * share) as usize).clamp(1, n - 1);
    let (mut low, mut high) = (likeliest, likeliest);
    let mut covered = binomial(n, likeliest, share);
    // The probability of one fewer than `low`, and of one more than `high`; none beyond the sample.
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

/// The fewest values of which [`ranks`] gives an interval.
pub(super) fn least(share: f64) -> usize {
    let covered = |n: &usize| 1.0 - share.powf(*n as f64) - (1.0 - share).powf(*n as f64) >= COVERAGE;
    // The heavier tail alone needs so many; where the lighter one weighs too, it is one more.
    let tail = share.max(1.0 - share);
    let from = ((1.0 - COVERAGE).ln() / tail.ln()).floor() as usize;
    (from..).find(covered).unwrap_or(usize::MAX)
}

/// The probability of `k` successes among `n`.
fn binomial(n: usize, k: usize, share: f64) -> f64 {
    let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    (ways + k as f64 * share.ln() + (n - k) as f64 * (1.0 - share).ln()).exp()
}

/// The logarithm of n!: summed up to 20, else Stirling's series, exact to twelve digits.
fn ln_factorial(n: usize) -> f64 {
    if n <= 20 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let x = n as f64;
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3))
}

#[cfg(test)]
mod tests;
