//! Stopping rule: measure until a confidence interval (by batch means) is narrow enough.

use serde::{Deserialize, Serialize};

use crate::experiment::t_quantile;
use crate::fault::{Fault, Result};
use crate::load::stats::interpolated;
use crate::load::{Outcome, Record};

/// Growth of the sample between two checks. Every check can stop too early by chance, so there are few: 20 for 10,000
/// requests.
const GROWTH: f64 = 1.25;

/// Minimum values per batch at the first check.
const MIN_BATCH: usize = 5;

/// The precision at which a load stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// The latency metric.
    pub metric: Metric,
    /// The statistic of it.
    pub statistic: Statistic,
    /// Half the width of its 95 % confidence interval as a share of its value: 0.05 is ±5 %.
    pub within: f64,
}

/// A latency metric with one value per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token.
    TtftMs,
    /// Time per output token after the first.
    TpotMs,
    /// Mean inter-token latency of a request.
    ItlMs,
    /// E2E latency.
    E2elMs,
}

/// A statistic of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// The same as `p50`.
    Median,
    /// 50th percentile.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
}

impl Precision {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// `usage` with a hint if they are invalid.
    pub fn check(&self) -> Result<()> {
        if self.within > 0.0 && self.within < 1.0 {
            return Ok(());
        }
        Err(Fault::usage(format!("option `precision.within` is {}", self.within))
            .hint("give the share that the interval may reach to either side, such as 0.05 for ±5 %"))
    }

    /// Completed requests before the first check: enough per batch for the statistic.
    pub fn first_check(&self) -> usize {
        let share = self.statistic.share();
        // A percentile needs a value beyond it in each batch.
        let needed = share.map_or(0.0, |share| (1.0 / (1.0 - share)).ceil());
        let needed = needed as usize;
        BATCHES * needed.max(MIN_BATCH)
    }
}

impl Metric {
    /// The metric of a completed request, in milliseconds.
    pub fn value(self, record: &Record) -> Option<f64> {
        if record.outcome != Outcome::Completed {
            return None;
        }
        match self {
            Self::TtftMs => record.ttft_ms(record.sent),
            Self::E2elMs => record.e2el_ms(record.sent),
            Self::TpotMs => record.tpot_ms(record.counts.output.or(record.tokens_seen).unwrap_or(record.events)),
            Self::ItlMs => {
                let gaps = &record.itl_ms;
                (!gaps.is_empty()).then(|| gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / gaps.len() as f64)
            }
        }
    }
}

impl Statistic {
    /// The percentile as a share; `None` for the mean.
    fn share(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::Median | Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }

    /// Computes the statistic of values in any order.
    fn compute(self, values: &[f64]) -> Option<f64> {
        let Some(share) = self.share() else {
            return (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        };
        let mut ascending = values.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        interpolated(&ascending, share)
    }
}

/// Collects the metric's values and checks the stopping rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrecisionMonitor {
    precision: Precision,
    values: Vec<f64>,
    next_check: usize,
    width: Option<f64>,
}

impl PrecisionMonitor {
    pub(super) fn new(precision: Precision) -> Self {
        Self {
            next_check: precision.first_check(),
            precision,
            values: Vec::new(),
            width: None,
        }
    }

    /// Adds an ended request. Returns whether the interval is narrow enough.
    pub(super) fn add(&mut self, record: &Record) -> bool {
        self.values.extend(self.precision.metric.value(record));
        if self.values.len() < self.next_check {
            return false;
        }
        let grown = (self.values.len() as f64 * GROWTH).ceil() as usize;
        self.next_check = grown;
        self.width = batch_means(&self.values, |values| self.precision.statistic.compute(values))
            .filter(|(middle, _)| *middle > 0.0)
            .map(|(middle, half)| half / middle);
        self.width.is_some_and(|width| width <= self.precision.within)
    }

    /// Half the relative width of the interval at the last check.
    pub(super) fn width(&self) -> Option<f64> {
        self.width
    }
}

/// Number of batches. Between 10 and 30 it hardly matters (Schmeiser, "Batch size effects in the analysis of simulation
/// output", 1982).
const BATCHES: usize = 20;

/// The statistic of a series, and half the width of its 95 % confidence interval.
///
/// Latencies of neighbouring requests are correlated, because they share the engine's state; an interval that treats
/// them as independent is too narrow. The series is split into consecutive batches, whose statistics are nearly
/// independent. The remainder at the end (fewer values than batches) is ignored. `None` with fewer than two values per
/// batch.
fn batch_means(values: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<(f64, f64)> {
    let size = values.len() / BATCHES;
    if size < 2 {
        return None;
    }
    let batches: Vec<f64> = values
        .chunks_exact(size)
        .take(BATCHES)
        .map(&statistic)
        .collect::<Option<_>>()?;
    let count = BATCHES as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((statistic(values)?, t_quantile(count - 1.0) * (variance / count).sqrt()))
}

#[cfg(test)]
mod precision_tests {
    use std::time::Duration;

    use rand::Rng;

    use super::super::{Purpose, rng};
    use super::*;
    use crate::load::Counts;

    fn record(ttft_ms: f64) -> Record {
        let at = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        Record {
            index: 0,
            warmup: false,
            input: 1,
            output: 3,
            scheduled: at(0.0),
            sent: at(5.0),
            first_byte: None,
            first_token: Some(at(5.0 + ttft_ms)),
            last_token: Some(at(25.0 + ttft_ms)),
            ended: at(26.0 + ttft_ms),
            itl_ms: vec![8.0, 12.0],
            events: 3,
            tokens_seen: None,
            counts: Counts {
                input: Some(1),
                output: Some(3),
            },
            text: None,
            finish: None,
            outcome: Outcome::Completed,
        }
    }

    fn precision(statistic: Statistic, within: f64) -> Precision {
        Precision {
            metric: Metric::TtftMs,
            statistic,
            within,
        }
    }

    /// The number of requests after which the load stops, with latencies around 100 ms.
    fn requests_needed(precision: Precision, most: usize) -> Option<usize> {
        let mut monitor = PrecisionMonitor::new(precision);
        let mut rng = rng(3, Purpose::Arrivals);
        (1..=most).find(|_| monitor.add(&record(50.0 + 100.0 * f64::from(rng.next_u32()) / f64::from(u32::MAX))))
    }

    #[test]
    fn metrics_match_vllm_bench() {
        let record = record(100.0);
        let near = |metric: Metric, want: f64| assert!((metric.value(&record).unwrap() - want).abs() < 1e-6);
        near(Metric::TtftMs, 100.0);
        near(Metric::E2elMs, 120.0);
        near(Metric::TpotMs, 10.0);
        near(Metric::ItlMs, 10.0);
        let failed = Record {
            outcome: Outcome::CutOff,
            ..record
        };
        assert_eq!(Metric::TtftMs.value(&failed), None);
    }

    #[test]
    fn narrower_interval_needs_more_requests() {
        let wide = requests_needed(precision(Statistic::Mean, 0.10), 100_000).unwrap();
        let precise = requests_needed(precision(Statistic::Mean, 0.01), 100_000).unwrap();
        // A uniform latency of 100 ± 50 has a standard deviation of 29: ±1 % of the mean needs 3200 requests.
        assert!(wide < 300 && (1500..8000).contains(&precise), "{wide} {precise}");
        assert_eq!(requests_needed(precision(Statistic::Mean, 0.001), 5000), None);
    }

    #[test]
    fn extreme_percentile_needs_more_values_before_the_first_check() {
        assert_eq!(precision(Statistic::Mean, 0.1).first_check(), 100);
        assert_eq!(precision(Statistic::P99, 0.1).first_check(), 2000);
        assert!(requests_needed(precision(Statistic::P99, 0.05), 10_000).unwrap() >= 2000);
    }

    #[test]
    fn invalid_precision_is_an_error() {
        for within in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(precision(Statistic::Mean, within).check().is_err(), "{within}");
        }
    }
}

#[cfg(test)]
mod batches_tests {
    use rand::Rng;

    use super::super::{Purpose, rng};
    use super::*;

    fn mean(values: &[f64]) -> Option<f64> {
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn too_few_values_give_none() {
        assert_eq!(batch_means(&[1.0; 39], mean), None);
        assert_eq!(batch_means(&[1.0; 40], mean), Some((1.0, 0.0)));
    }

    #[test]
    fn interval_coverage_with_correlated_values() {
        let mut rng = rng(5, Purpose::Arrivals);
        let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        let mut held = 0;
        for _ in 0..400 {
            // An autoregressive series around 0 with coefficient 0.7.
            let mut value = 0.0;
            let series: Vec<f64> = (0..2000)
                .map(|_| {
                    value = 0.7 * value + uniform();
                    value
                })
                .collect();
            let (middle, half) = batch_means(&series, mean).unwrap();
            held += usize::from(middle.abs() <= half);
        }
        assert!((368..=392).contains(&held), "{held} of 400");
    }
}
