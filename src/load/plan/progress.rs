//! Progress of a load: how many requests to issue, which ones are warm-up, and when it is finished. Also the stopping
//! rule by precision: measure until a confidence interval (by batch means) is narrow enough.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LoadPlan, PlannedRequest, Warmup};
use crate::experiment::t_quantile;
use crate::fault::{Fault, Result};
use crate::load::stats::{interpolated, mean};
use crate::load::{Control, RequestOutcome, RequestRecord};

/// Why a load ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The requested number of requests was issued.
    #[default]
    Requests,
    /// The duration was over.
    Duration,
    /// The confidence interval of the metric is narrow enough.
    Precision,
    /// The trace or the steps ended.
    Arrivals,
    /// The engine died.
    Died,
    /// The load was hopeless: the engine stalled, or request after request failed.
    GivenUp,
}

/// Progress of a load. Call [`LoadProgress::should_send`] for each planned request (ahead of time),
/// [`LoadProgress::issued`] for each issued one, and [`LoadProgress::ended`] for each ended one.
#[derive(Debug)]
pub struct LoadProgress {
    plan: Arc<LoadPlan>,
    monitor: Option<PrecisionMonitor>,
    /// Planned requests, and how many of them are known to be measured.
    planned: u64,
    counted: u64,
    /// The first measured request, as far as known before it is issued.
    first: Option<u64>,
    /// The first measured request, and when the measured part began.
    measurement_start: Option<(u64, Duration)>,
    /// There are no more requests than the planned ones.
    exhausted: bool,
    precise: bool,
}

impl LoadProgress {
    /// A load that has not started.
    pub fn new(plan: Arc<LoadPlan>) -> Self {
        Self {
            monitor: plan.stop.precision.map(PrecisionMonitor::new),
            planned: 0,
            counted: 0,
            first: None,
            // Without a warm-up the measured part begins at the start of the load, however late the first request
            // arrives.
            measurement_start: (plan.warmup == Warmup::NONE).then_some((0, Duration::ZERO)),
            exhausted: false,
            precise: false,
            plan,
        }
    }

    /// Whether to send this next request; false once the load has enough.
    pub fn should_send(&mut self, request: &PlannedRequest) -> bool {
        let counts = self.known_to_count(request);
        let requested = self.plan.stop.requests;
        let enough = self.total().is_some_and(|total| request.index >= total)
            || requested.is_some_and(|requested| counts && self.counted >= requested);
        if self.precise || enough {
            return false;
        }
        if counts {
            self.first.get_or_insert(request.index);
            self.counted += 1;
        }
        self.planned += 1;
        true
    }

    /// Call when there are no more requests than the planned ones.
    pub fn exhausted(&mut self) {
        self.exhausted = true;
    }

    /// Call when a request is issued. Returns whether the measured part begins with it, and the next command.
    pub fn issued(&mut self, index: u64, at: Duration) -> (bool, Control) {
        let is_open_loop = self.plan.arrivals.is_open_loop();
        let begins = match (self.measurement_start, self.plan.warmup) {
            (Some(_), _) => None,
            (None, Warmup::Time(time)) if is_open_loop => (self.first == Some(index)).then_some(time),
            (None, warmup) => (!warmup.covers(index, at)).then_some(at),
        };
        if let Some(from) = begins {
            self.measurement_start = Some((index, from));
        }
        // More requests than needed may have been planned before the measured part began.
        let enough = self.total().is_some_and(|total| index + 1 >= total);
        (
            begins.is_some(),
            if enough { Control::Drain } else { Control::Continue },
        )
    }

    /// Below this index, calls of [`LoadProgress::issued`] have no effect.
    pub fn quiet_until(&self) -> u64 {
        match (self.measurement_start, self.total()) {
            (None, _) => 0,
            (Some(_), None) => u64::MAX,
            (Some(_), Some(total)) => total.saturating_sub(1),
        }
    }

    /// Call when a request has ended. Returns the next command.
    pub fn ended(&mut self, record: &RequestRecord) -> Control {
        if self.precise || self.is_warmup(record.index) {
            return Control::Continue;
        }
        self.precise = self.monitor.as_mut().is_some_and(|monitor| monitor.add(record));
        if self.precise {
            Control::Drain
        } else {
            Control::Continue
        }
    }

    /// Whether an issued request belongs to the warm-up.
    pub fn is_warmup(&self, index: u64) -> bool {
        self.measurement_start.is_none_or(|(first, _)| index < first)
    }

    /// When the measured part began.
    pub fn measurement_start(&self) -> Option<Duration> {
        self.measurement_start.map(|(_, at)| at)
    }

    /// Why a load that was not aborted ended, given the number of issued requests.
    pub fn end(&self, issued: u64) -> EndReason {
        if self.precise {
            EndReason::Precision
        } else if self.total() == Some(issued) {
            EndReason::Requests
        } else if self.exhausted && self.planned == issued {
            EndReason::Arrivals
        } else {
            EndReason::Duration
        }
    }

    /// Half the relative width of the confidence interval watched by `precision`, at the last check.
    pub fn width(&self) -> Option<f64> {
        self.monitor.as_ref()?.width
    }

    /// Total number of requests, once the first measured one is known.
    fn total(&self) -> Option<u64> {
        let requests = self.plan.stop.requests?;
        let first = match (self.measurement_start, self.plan.warmup) {
            (Some((first, _)), _) => first,
            (None, Warmup::Requests(before)) => before,
            (None, _) => self.first?,
        };
        Some(first.saturating_add(requests))
    }

    /// Whether a request is known to be measured before it is issued.
    fn known_to_count(&self, request: &PlannedRequest) -> bool {
        match (self.plan.warmup, request.due) {
            (Warmup::Time(_), None) => self.measurement_start.is_some(),
            (warmup, due) => !warmup.covers(request.index, due.unwrap_or_default()),
        }
    }
}

/// Growth of the sample between two checks. Every check can stop too early by chance, so checks are rare: 20 for 10,000
/// requests.
const GROWTH: f64 = 1.25;

/// Minimum values per batch at the first check.
const MIN_BATCH: usize = 5;

/// The precision at which a load stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// The latency metric.
    pub metric: LatencyMetric,
    /// The statistic of it.
    pub statistic: Statistic,
    /// Half the width of its 95 % confidence interval as a share of its value: 0.05 is ±5 %.
    pub within: f64,
}

/// A latency metric with one value per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyMetric {
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
    /// Same as `p50`.
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
        let needed = share.map_or(0, |share| (1.0 / (1.0 - share)).ceil() as usize);
        BATCHES * needed.max(MIN_BATCH)
    }
}

impl LatencyMetric {
    /// The metric of a completed request, in milliseconds.
    pub fn value(self, record: &RequestRecord) -> Option<f64> {
        if record.outcome != RequestOutcome::Completed {
            return None;
        }
        match self {
            Self::TtftMs => record.ttft_ms(record.sent),
            Self::E2elMs => record.e2el_ms(record.sent),
            Self::TpotMs => record.tpot_ms(record.produced()),
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
            return mean(values);
        };
        let mut ascending = values.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        interpolated(&ascending, share)
    }
}

/// Collects the metric's values and checks the stopping rule.
#[derive(Clone, Debug, PartialEq)]
struct PrecisionMonitor {
    precision: Precision,
    values: Vec<f64>,
    next_check: usize,
    /// Half the relative width of the interval at the last check.
    width: Option<f64>,
}

impl PrecisionMonitor {
    fn new(precision: Precision) -> Self {
        Self {
            next_check: precision.first_check(),
            precision,
            values: Vec::new(),
            width: None,
        }
    }

    /// Adds an ended request. Returns whether the interval is narrow enough.
    fn add(&mut self, record: &RequestRecord) -> bool {
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
mod tests {
    use super::super::{Arrivals, Length, Schedule, Sizes, Stop};
    use super::*;

    fn plan(warmup: Warmup, requests: u64, open: bool) -> Arc<LoadPlan> {
        let arrivals = if open {
            Arrivals::Open {
                profile: super::super::RateProfile::constant(10.0).unwrap(),
                pattern: super::super::Pattern::Constant,
            }
        } else {
            Arrivals::Closed {
                concurrency: 2,
                ramp: Duration::ZERO,
            }
        };
        Arc::new(LoadPlan {
            arrivals,
            sizes: Sizes::Random {
                input: Length::Fixed(1),
                output: Length::Fixed(1),
            },
            warmup,
            stop: Stop {
                requests: Some(requests),
                ..Stop::default()
            },
        })
    }

    /// Simulates a load with one request every 0.1 s, planned `ahead` requests in advance. Returns the numbers of
    /// issued and warm-up requests, and when the measured part began.
    fn run(plan: &Arc<LoadPlan>, ahead: usize) -> (u64, u64, Option<Duration>) {
        let mut progress = LoadProgress::new(Arc::clone(plan));
        let mut schedule = Schedule::new(Arc::clone(plan), 1, 0);
        let mut waiting = std::collections::VecDeque::new();
        let mut issued = 0;
        loop {
            while waiting.len() < ahead
                && let Some(request) = schedule.next().filter(|request| progress.should_send(request))
            {
                waiting.push_back(request);
            }
            let Some(request) = waiting.pop_front() else { break };
            let at = Duration::from_millis(100) * u32::try_from(issued).unwrap();
            let (_, control) = progress.issued(request.index, at);
            issued += 1;
            if control > Control::Continue {
                break;
            }
        }
        assert_eq!(progress.end(issued), EndReason::Requests);
        let warm = (0..issued).filter(|index| progress.is_warmup(*index)).count() as u64;
        (issued, warm, progress.measurement_start())
    }

    #[test]
    fn measures_the_requested_number_with_any_warmup() {
        let (none, some) = (Warmup::NONE, Warmup::Requests(3));
        let time = Warmup::Time(Duration::from_millis(450));
        for open in [false, true] {
            for ahead in [1, 4, 100] {
                let tenths = |tenths: u64| Some(Duration::from_millis(100 * tenths));
                assert_eq!(run(&plan(none, 7, open), ahead), (7, 0, tenths(0)));
                assert_eq!(run(&plan(some, 7, open), ahead), (10, 3, tenths(3)));
                let (issued, warm, began) = run(&plan(time, 7, open), ahead);
                assert_eq!((issued, warm), (12, 5), "ahead {ahead}");
                assert_eq!(began, Some(Duration::from_millis(if open { 450 } else { 500 })));
            }
        }
    }
}

#[cfg(test)]
mod precision_tests {
    use std::time::Duration;

    use rand::Rng;

    use super::super::rng::{Purpose, rng};
    use super::*;
    use crate::load::Counts;

    fn record(ttft_ms: f64) -> RequestRecord {
        let at = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        RequestRecord {
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
            outcome: RequestOutcome::Completed,
            ..RequestRecord::default()
        }
    }

    fn precision(statistic: Statistic, within: f64) -> Precision {
        Precision {
            metric: LatencyMetric::TtftMs,
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
        let near = |metric: LatencyMetric, want: f64| assert!((metric.value(&record).unwrap() - want).abs() < 1e-6);
        near(LatencyMetric::TtftMs, 100.0);
        near(LatencyMetric::E2elMs, 120.0);
        near(LatencyMetric::TpotMs, 10.0);
        near(LatencyMetric::ItlMs, 10.0);
        let failed = RequestRecord {
            outcome: RequestOutcome::CutOff,
            ..record
        };
        assert_eq!(LatencyMetric::TtftMs.value(&failed), None);
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

    use super::super::rng::{Purpose, rng};
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
