//! A sample in the order of time, cut into blocks: how much of it is really independent. Pure.
//!
//! Requests that follow each other in a loaded engine are not independent: a full queue is slow for all who stand in it. An interval
//! that counts them as independent is too narrow. So the requests are cut, in the order of time, into 8 to 32 blocks (of a whole wave of
//! the concurrency where there are enough), and the spread between blocks is set against what independent values would give: their
//! ratio is the design effect, by which the sample counts as smaller (batch means: Law and Kelton, Simulation Modeling and Analysis;
//! for ratios and percentiles the same with the linearised block totals, as in surveys: Woodruff 1952, Korn and Graubard 1998).

use super::student::{student, variance_by_chance};

/// Requests below which there are no blocks: then single values count as independent.
const LEAST: usize = 16;

/// Blocks, at least and at most.
const BLOCKS: (usize, usize) = (8, 32);

/// Values, and the blocks that they come in.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// In the order of time.
    pub(super) values: Vec<f64>,
    // Where each block ends.
    ends: Vec<usize>,
    // Values of one request depend on each other, whatever the blocks show.
    grouped: bool,
}

/// How much a sample is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worth {
    /// So many independent values say as much.
    pub(super) values: f64,
    /// Degrees of freedom of the variance that it rests on.
    pub(super) freedom: usize,
}

impl Sample {
    /// One value a request, in the order of time. `wave`: requests at once.
    pub(super) fn single(values: Vec<f64>, wave: usize) -> Self {
        let ends = blocks(values.len(), wave);
        Self {
            values,
            ends,
            grouped: false,
        }
    }

    /// One value a load: loads are independent of each other.
    pub(super) fn loads(values: Vec<f64>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// The values of each request, requests in the order of time. `wave`: requests at once.
    pub(super) fn grouped<'a>(groups: impl IntoIterator<Item = &'a [f32]>, wave: usize) -> Self {
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

    /// What the sample is worth for the mean of `of(value)`, where independent values have the variance `variance`; `None` where that
    /// cannot be told: a single value, or the values of a single request.
    pub(super) fn worth(&self, variance: f64, of: impl Fn(f64) -> f64) -> Option<Worth> {
        let all = count(self.values.len());
        let independent = Worth {
            values: all,
            freedom: self.values.len().checked_sub(1).filter(|freedom| *freedom > 0)?,
        };
        let Some(freedom) = self.ends.len().checked_sub(1).filter(|freedom| *freedom > 0) else {
            return (!self.grouped).then_some(independent);
        };
        if variance <= 0.0 {
            return Some(independent);
        }
        let mean = self.values.iter().map(|value| of(*value)).sum::<f64>() / all;
        let mut squares = 0.0;
        let mut start = 0;
        for end in &self.ends {
            let total: f64 = self.values[start..*end].iter().map(|value| of(*value) - mean).sum();
            squares += total * total;
            start = *end;
        }
        let blocks = count(self.ends.len());
        // The variance of the mean by the blocks, over that of as many independent values.
        let effect = blocks / (blocks - 1.0) * squares / (all * variance);
        if !self.grouped && effect <= variance_by_chance(freedom) {
            return Some(independent);
        }
        Some(Worth {
            values: all / effect.max(1.0),
            freedom,
        })
    }

    /// The mean's 95 % interval by Student's t.
    pub(super) fn interval(&self, mean: f64) -> Option<[f64; 2]> {
        let all = count(self.values.len());
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / (all - 1.0).max(1.0);
        let worth = self.worth(variance, |value| value)?;
        let half = student(worth.freedom) * (variance / worth.values).sqrt();
        Some([mean - half, mean + half])
    }

    /// How many independent values say as much of the percentile `share`, whose figure is `figure`.
    pub(super) fn effective(&self, share: f64, figure: f64) -> Option<usize> {
        let below = |value: f64| if value <= figure { 1.0 } else { 0.0 };
        let worth = self.worth(share * (1.0 - share), below)?;
        let whole = self.values.len();
        if worth.freedom + 1 == whole {
            return Some(whole);
        }
        // A variance of few degrees of freedom is itself uncertain (Korn and Graubard 1998).
        let uncertain = (student(whole - 1) / student(worth.freedom)).powi(2);
        Some((worth.values * uncertain) as usize)
    }
}

/// Where blocks of `requests` end.
fn blocks(requests: usize, wave: usize) -> Vec<usize> {
    if requests < LEAST {
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
    fn blocks_hold_whole_waves_where_there_are_enough() {
        assert_eq!(blocks(15, 1), Vec::<usize>::new());
        assert_eq!(blocks(16, 1).len(), 16);
        assert_eq!(blocks(1000, 1).len(), 32);
        assert_eq!(blocks(640, 64), (1..=10).map(|block| block * 64).collect::<Vec<_>>());
        assert_eq!(blocks(64, 64).len(), 8, "one wave: better than none");
    }

    #[test]
    fn waves_of_equal_values_are_worth_no_more_than_their_number() {
        let values: Vec<f64> = (0..320).map(|at| f64::from((at / 32) * 7 % 10)).collect();
        let sample = Sample::single(values, 32);
        let worth = sample.worth(8.25, |value| value).unwrap();
        assert!(worth.freedom == 9 && worth.values < 12.0, "{worth:?}");
    }

    #[test]
    fn one_request_says_nothing_of_the_spread_between_requests() {
        let gaps = [10.0_f32; 100];
        let sample = Sample::grouped([gaps.as_slice()], 1);
        assert_eq!(sample.worth(1.0, |value| value), None);
        assert_eq!(sample.interval(10.0), None);
    }
}
