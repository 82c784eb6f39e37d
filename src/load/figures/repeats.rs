//! Several loads of the same kind: how far their figures are apart. Pure.

use serde::{Deserialize, Serialize};

use super::sample::Sample;
use super::{Figures, Summary};

/// The figures of several loads. `None`: not every load could support the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// Loads.
    pub runs: u64,
    /// Completed requests a second.
    pub request_throughput: Option<Spread>,
    /// Tokens read a second.
    pub input_throughput: Option<Spread>,
    /// Tokens generated a second.
    pub output_throughput: Option<Spread>,
    /// Both together.
    pub total_token_throughput: Option<Spread>,
    /// Good requests a second.
    pub goodput: Option<Spread>,
    /// Time to first token.
    pub ttft_ms: Spreads,
    /// Time per output token after the first.
    pub tpot_ms: Spreads,
    /// Gaps between events.
    pub itl_ms: Spreads,
    /// To the last token.
    pub e2el_ms: Spreads,
}

/// The figures of a latency over several loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spreads {
    /// Of the means.
    pub mean: Option<Spread>,
    /// Of the medians.
    pub median: Option<Spread>,
    /// Of the 90th percentiles.
    pub p90: Option<Spread>,
    /// Of the 95th percentiles.
    pub p95: Option<Spread>,
    /// Of the 99th percentiles.
    pub p99: Option<Spread>,
    /// Of the 99.9th percentiles.
    pub p99_9: Option<Spread>,
}

/// One figure over several loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation between loads (divisor n − 1: few loads stand for all that there could be); needs 2.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Coefficient of variation: the standard deviation as a share of the mean.
    pub cv: Option<f64>,
    /// 95 % confidence interval of the mean by Student's t, low and high; needs 2.
    pub ci: Option<[f64; 2]>,
}

impl Repeats {
    /// Of loads of the same kind, one after the other.
    #[must_use]
    pub fn of(loads: &[Figures]) -> Self {
        let spread = |figure: fn(&Figures) -> Option<f64>| Spread::of(loads.iter().map(figure));
        let spreads = |summary: fn(&Figures) -> &Summary| Spreads::of(loads, summary);
        Self {
            runs: loads.len() as u64,
            request_throughput: spread(|load| load.rates.request_throughput),
            input_throughput: spread(|load| load.rates.input_throughput),
            output_throughput: spread(|load| load.rates.output_throughput),
            total_token_throughput: spread(|load| load.rates.total_token_throughput),
            goodput: spread(|load| load.goodput.as_ref()?.request_throughput),
            ttft_ms: spreads(|load| &load.latencies.ttft_ms),
            tpot_ms: spreads(|load| &load.latencies.tpot_ms),
            itl_ms: spreads(|load| &load.latencies.itl_ms),
            e2el_ms: spreads(|load| &load.latencies.e2el_ms),
        }
    }
}

impl Spreads {
    fn of(loads: &[Figures], summary: fn(&Figures) -> &Summary) -> Self {
        let spread = |figure: fn(&Summary) -> Option<f64>| Spread::of(loads.iter().map(|load| figure(summary(load))));
        Self {
            mean: spread(|summary| summary.mean),
            median: spread(|summary| summary.median),
            p90: spread(|summary| summary.p90),
            p95: spread(|summary| summary.p95),
            p99: spread(|summary| summary.p99),
            p99_9: spread(|summary| summary.p99_9),
        }
    }
}

impl Spread {
    /// Of one figure of each load; `None` where a load lacks it, or there is none.
    pub fn of(figures: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = figures.collect::<Option<_>>()?;
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (values.len() >= 2).then(|| (squares / (n - 1.0)).sqrt());
        Some(Self {
            mean,
            std,
            min,
            max,
            cv: std.filter(|_| mean > 0.0).map(|std| std / mean),
            ci: Sample::loads(values).interval(mean),
        })
    }
}
