//! A sample in order of time, split into blocks to estimate how many of its values are independent. Pure.
//!
//! Consecutive requests in a loaded engine are not independent: a full queue slows down every request in it. Intervals
//! that treat them as independent are too narrow. So the requests are split, in order of time, into 8 to 32 blocks
//! (each at least one wave of the concurrency, if there are enough), and the variance between blocks is compared with
//! that of independent values. Their ratio is the design effect, which reduces the effective sample size (batch means:
//! Law and Kelton, Simulation Modeling and Analysis; for ratios and percentiles the same with linearised block totals,
//! as in survey statistics: Woodruff 1952, Korn and Graubard 1998).

use super::quantiles::{t_quantile, variance_ratio_limit};

/// With fewer requests there are no blocks and values count as independent.
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
    pub(super) dof: usize,
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
    pub(super) fn effective_size(&self, variance: f64, transform: impl Fn(f64) -> f64) -> Option<EffectiveSize> {
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
        // Variance of the mean estimated from the blocks, divided by that of as many independent values.
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
        let half = t_quantile(effective_size.dof) * (variance / effective_size.values).sqrt();
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
        let uncertain = (t_quantile(whole - 1) / t_quantile(effective_size.dof)).powi(2);
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

#[cfg(test)]
mod tests {
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
