//! Statistics of the engine and its devices over the measured window of a load, and warnings about missing samples and
//! engine counts that disagree with the client's.
//!
//! A gauge is a value sampled over time; its statistics over a window are the time-weighted mean, the maximum, and growth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::energy::{MAX_GAP, PowerStats};
use super::timeline::share;
use super::{EngineMetrics, MetricsSample, Observations};
use crate::experiment::t_quantile;
use crate::fmt::list;
use crate::load::stats::concurrency_steps;
use crate::load::{RequestOutcome, RequestRecord};
use crate::warning::Warning;

/// Minimum growth of a queue, in requests.
const MIN_QUEUE_GROWTH: f64 = 1.0;

/// Minimum growth of KV cache usage (1 %).
const MIN_KV_GROWTH: f64 = 0.01;

/// Statistics of the engine and its devices over the window; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStats {
    /// KV cache usage, 0 to 1.
    pub kv_usage: Option<GaugeStats>,
    /// Running requests.
    pub running: Option<GaugeStats>,
    /// Mean running requests of each worker, if the metrics page tells several apart and they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running_each: Vec<f64>,
    /// Requests waiting in the engine.
    pub waiting: Option<GaugeStats>,
    /// Requests in flight as seen by the client; known for every engine.
    pub in_flight: Option<GaugeStats>,
    /// Preemptions in the window. If the engine reports only the number of currently preempted sequences, its maximum.
    pub preemptions: Option<u64>,
    /// Prefix cache hit rate in the window.
    pub prefix_hits: Option<f64>,
    /// Share of the drafted tokens that the model accepted in the window.
    #[serde(default)]
    pub accepted_drafts: Option<f64>,
    /// Memory.
    pub memory: Option<MemoryStats>,
    /// Power of the devices.
    pub power: Option<PowerStats>,
    /// Energy of all devices together in the window, in watt hours, including idle power.
    pub energy_wh: Option<f64>,
    /// Engine counters from the first to the last sample, including the warm-up.
    pub counted: EngineCounters,
    /// Quality of the sampling.
    pub timeline: SamplingStats,
}

/// Memory over a window, in bytes. Engines that allocate the KV cache at startup always hold the same amount; the used
/// part of it is reported separately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Source: `nvml`, `amd`, `host` or `sim`; `None` without samples.
    pub source: Option<String>,
    /// Peak on all devices together.
    pub peak: Option<u64>,
    /// Time-weighted mean.
    pub mean: Option<f64>,
    /// Capacity of the KV cache in tokens, as reported by the engine.
    pub pool_tokens: Option<u64>,
    /// Size of the KV cache in bytes, as reported by the engine.
    pub pool_bytes: Option<u64>,
    /// Tokens in use: usage times capacity.
    pub used_tokens: Option<GaugeStats>,
    /// Bytes in use.
    pub used_bytes: Option<GaugeStats>,
}

/// Engine counters over a load; `None` if not reported, if the engine restarted, or if it did not respond at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineCounters {
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Generated tokens.
    pub generated_tokens: Option<u64>,
    /// Finished requests by finish reason.
    pub finished: BTreeMap<String, u64>,
}

/// Quality of the polling of the engine's metrics page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplingStats {
    /// Path of the timeline in the run's folder; `None` if nothing is kept.
    pub file: Option<String>,
    /// Intended polls per second.
    pub hz: f64,
    /// Successful polls.
    pub samples: u64,
    /// Failed polls: gaps in the data.
    pub missed: u64,
    /// The slowest response, in milliseconds.
    pub slowest_ms: Option<f64>,
    /// The longest time between two responses within the window, in seconds.
    pub longest_gap: Option<f64>,
}

impl EngineStats {
    /// Computes the statistics between two times, in seconds since the start of the load.
    pub fn new(observed: &Observations, records: &[RequestRecord], from: f64, to: f64) -> Self {
        let gauge = |value: &dyn Fn(&EngineMetrics) -> Option<f64>| {
            Curve::from_samples(
                observed
                    .samples
                    .iter()
                    .map(|sample| (sample.at, sample.metrics.as_ref().and_then(value))),
            )
        };
        let level =
            |value: &dyn Fn(&EngineMetrics) -> Option<f64>, step| GaugeStats::new(&gauge(value), from, to, step);
        let count = |count: Option<u64>| count.map(|count| count as f64);
        let kv_usage = level(&|metrics| metrics.queue.kv_usage, MIN_KV_GROWTH);
        let power = PowerStats::new(&observed.power, from, to, MAX_GAP.max(observed.power_gap));
        let increase = |count: fn(&EngineMetrics) -> Option<u64>| increase(&observed.samples, count, from, to);
        let most_paused = || level(&|metrics| count(metrics.queue.paused), MIN_QUEUE_GROWTH).map(|paused| paused.max);
        let queries = increase(|metrics| metrics.prefix_queries).filter(|queries| *queries > 0);
        let drafted = increase(|metrics| metrics.drafted).filter(|drafted| *drafted > 0);
        Self {
            running: level(&|metrics| count(metrics.queue.running), MIN_QUEUE_GROWTH),
            running_each: uneven_workers(&observed.samples, from, to),
            waiting: level(&|metrics| count(metrics.queue.waiting), MIN_QUEUE_GROWTH),
            in_flight: GaugeStats::new(&in_flight(records), from, to, MIN_QUEUE_GROWTH),
            preemptions: increase(|metrics| metrics.queue.preemptions)
                .or_else(|| most_paused().map(|most| most as u64)),
            prefix_hits: queries
                .zip(increase(|metrics| metrics.prefix_hits))
                .map(|(queries, hits)| share(hits, queries)),
            accepted_drafts: drafted
                .zip(increase(|metrics| metrics.accepted))
                .map(|(drafted, accepted)| share(accepted, drafted)),
            memory: MemoryStats::new(observed, kv_usage, from, to),
            kv_usage,
            energy_wh: power.as_ref().map(PowerStats::energy_wh),
            power,
            counted: EngineCounters::new(observed),
            timeline: SamplingStats::new(observed, from, to),
        }
    }
}

impl MemoryStats {
    fn new(observed: &Observations, kv_usage: Option<GaugeStats>, from: f64, to: f64) -> Option<Self> {
        let here = || observed.memory.iter().filter(|used| used.to >= from && used.from <= to);
        // Between two samples, the value of the earlier one applies.
        let next = observed.memory.partition_point(|used| used.from <= from);
        let before = next.checked_sub(1).map(|before| observed.memory[before].bytes);
        let ends = observed
            .memory
            .iter()
            .flat_map(|used| [(used.from, used.bytes), (used.to, used.bytes)]);
        let curve = Curve::from_samples(ends.map(|(at, bytes)| (at, Some(bytes as f64))));
        let used = |whole: Option<u64>| Some(kv_usage?.scaled(whole? as f64));
        let memory = Self {
            source: observed.source.clone(),
            peak: here().map(|used| used.bytes).chain(before).max(),
            mean: curve.within(from, to).mean(),
            pool_tokens: observed.kv_tokens,
            pool_bytes: observed.kv_bytes,
            used_tokens: used(observed.kv_tokens),
            used_bytes: used(observed.kv_bytes),
        };
        (memory != Self::default()).then_some(memory)
    }
}

impl EngineCounters {
    fn new(observed: &Observations) -> Self {
        let mut states = observed.samples.iter().filter_map(|sample| sample.metrics.as_ref());
        let Some(first) = states.next() else {
            return Self::default();
        };
        // Without a response at the end, the requests finished since the last one are unknown: the engine died.
        if observed.samples.last().is_some_and(|sample| sample.metrics.is_none()) {
            return Self::default();
        }
        let last = states.next_back().unwrap_or(first);
        let increase = |count: fn(&EngineMetrics) -> Option<u64>| count(last)?.checked_sub(count(first)?);
        // A reason that had not occurred yet may be missing from the first page.
        let since = |how: &String| first.finished.get(how).copied().unwrap_or_default();
        let finished = last.finished.iter();
        Self {
            prompt_tokens: increase(|metrics| metrics.prompt_tokens),
            generated_tokens: increase(|metrics| metrics.generated_tokens),
            finished: finished
                .filter_map(|(how, count)| Some((how.clone(), count.checked_sub(since(how))?)))
                .collect(),
        }
    }
}

impl SamplingStats {
    fn new(observed: &Observations, from: f64, to: f64) -> Self {
        let answered = || observed.samples.iter().filter(|sample| sample.metrics.is_some());
        let answers = || answered().map(|sample| sample.at).filter(|at| *at >= from && *at <= to);
        let edges = [from].into_iter().chain(answers()).zip(answers().chain([to]));
        Self {
            file: None,
            hz: observed.hz,
            samples: answered().count() as u64,
            missed: observed
                .samples
                .iter()
                .filter(|sample| sample.metrics.is_none())
                .count() as u64,
            slowest_ms: observed
                .samples
                .iter()
                .map(|sample| (sample.at - sample.requested_at) * 1e3)
                .reduce(f64::max),
            longest_gap: answered()
                .next()
                .and_then(|_| edges.map(|(one, next)| next - one).reduce(f64::max)),
        }
    }
}

/// The increase of a counter in a window: from the last response before it to the first poll started after it.
fn increase(samples: &[MetricsSample], count: fn(&EngineMetrics) -> Option<u64>, from: f64, to: f64) -> Option<u64> {
    let counts: Vec<(f64, f64, u64)> = samples
        .iter()
        .filter_map(|sample| Some((sample.requested_at, sample.at, count(sample.metrics.as_ref()?)?)))
        .collect();
    let before = counts.iter().rev().find(|(_, at, _)| *at <= from).or(counts.first())?;
    let after = counts
        .iter()
        .find(|(requested_at, ..)| *requested_at >= to)
        .or(counts.last())?;
    // `None` if the counter fell because the engine restarted.
    after.2.checked_sub(before.2)
}

/// The mean running requests of each worker; empty if they are equal, within what an even router gives.
fn uneven_workers(samples: &[MetricsSample], from: f64, to: f64) -> Vec<f64> {
    let metrics = samples.iter().filter_map(|sample| sample.metrics.as_ref());
    let workers = metrics.map(|metrics| metrics.running_each.len()).max().unwrap_or(0);
    let mean = |worker: usize| {
        let running = |metrics: &EngineMetrics| metrics.running_each.get(worker).map(|running| *running as f64);
        let samples = samples
            .iter()
            .map(|sample| (sample.at, sample.metrics.as_ref().and_then(running)));
        Curve::from_samples(samples).within(from, to).mean()
    };
    let means: Vec<f64> = (0..workers).filter_map(mean).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    if most > UNEVEN * least + 1.0 { means } else { Vec::new() }
}

/// Workers differ if one runs this many times another's requests, and at least one more.
const UNEVEN: f64 = 1.2;

/// Requests in flight over time.
fn in_flight(records: &[RequestRecord]) -> Curve {
    let mut before = 0.0;
    let steps = concurrency_steps(records.iter().map(|record| (record.sent, record.ended)));
    let ends = steps.into_iter().flat_map(|(at, open)| {
        let (at, before) = (at.as_secs_f64(), std::mem::replace(&mut before, open as f64));
        [(at, Some(before)), (at, Some(open as f64))]
    });
    Curve::from_samples(ends)
}

/// Limits for the gap between metrics samples, in seconds and in polling periods. A gap above both causes a warning.
const MAX_GAP_SECONDS: f64 = 0.5;
const MAX_GAP_PERIODS: f64 = 5.0;

/// Finish reasons that count as completed, in the words of adapters.
const COMPLETED_REASONS: [&str; 4] = ["length", "stop", "success", "repetition"];

impl EngineStats {
    /// Warnings, each naming the affected metrics. `records` are all records of the load.
    pub fn warnings(&self, records: &[RequestRecord]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let sampling = &self.timeline;
        if sampling.missed > 0 {
            let message = format!(
                "{} of {} polls of the metrics page failed: `running`, `waiting`, `kv_usage` and `preemptions` use the others only",
                sampling.missed,
                sampling.missed + sampling.samples
            );
            warnings.push(Warning::new("failed_polls", message).sized(sampling.missed as f64));
        }
        if let Some(gap) = sampling
            .longest_gap
            .filter(|gap| *gap > MAX_GAP_SECONDS && *gap > MAX_GAP_PERIODS / sampling.hz)
        {
            let message = format!(
                "the metrics page gave no data for {gap:.2} s at a time: the maxima of `running`, `waiting` and `kv_usage` may have been missed"
            );
            warnings.push(Warning::new("metrics_gap", message).sized(gap));
        }
        if let Some(power) = self.power.as_ref().filter(|power| power.unseen_seconds > 0.0) {
            let message = format!(
                "no power was reported for {:.1} s of the window: `power` and `energy_wh` are interpolated there",
                power.unseen_seconds
            );
            warnings.push(Warning::new("power_gap", message).sized(power.unseen_seconds));
        }
        if !self.running_each.is_empty() {
            let means: Vec<String> = self.running_each.iter().map(|mean| format!("{mean:.1}")).collect();
            let message = format!(
                "the engine's workers ran {} requests on average: the load is not spread evenly, and more would fit if it were",
                list(&means)
            );
            warnings.push(Warning::new("uneven_workers", message));
        }
        warnings.extend(self.counted.disagreements(records));
        warnings
    }
}

impl EngineCounters {
    /// Requests that completed, as counted by the engine.
    pub fn completed(&self) -> Option<u64> {
        if let Some(all) = self.finished.get("all") {
            let badly = self.finished.get("abort").copied().unwrap_or_default();
            return Some(all.saturating_sub(badly));
        }
        let completed: Vec<u64> = COMPLETED_REASONS
            .iter()
            .filter_map(|how| self.finished.get(*how).copied())
            .collect();
        (!completed.is_empty()).then(|| completed.iter().sum())
    }

    /// Differences which show that the engine also served other requests, or counts differently.
    fn disagreements(&self, records: &[RequestRecord]) -> Vec<Warning> {
        let mut found = Vec::new();
        let completed = records
            .iter()
            .filter(|record| record.outcome == RequestOutcome::Completed);
        let (client, issued) = (completed.count() as u64, records.len() as u64);
        // A request that the client gave up on may have completed in the engine.
        if let Some(engine) = self.completed().filter(|engine| !(client..=issued).contains(engine)) {
            let message = format!(
                "the engine counts {engine} completed requests and the client {client}: it may serve other clients, and `running`, `waiting`, `kv_usage` \
                 and `preemptions` are of all together"
            );
            found.push(Warning::new("other_clients", message).sized(engine.abs_diff(client) as f64));
        }
        // If requests failed, the engine has generated more tokens than the client received.
        if client == issued {
            let counted = |count: fn(&RequestRecord) -> Option<u64>| records.iter().map(count).sum::<Option<u64>>();
            let kinds = [
                ("of prompts", self.prompt_tokens, counted(|record| record.counts.input)),
                (
                    "generated",
                    self.generated_tokens,
                    counted(|record| record.counts.output),
                ),
            ];
            for (kind, engine, answers) in kinds {
                if let (Some(engine), Some(answers)) = (engine, answers)
                    && engine != answers
                {
                    let message = format!(
                        "the metrics page counts {engine} tokens {kind} and the answers {answers}: throughputs are of the answers"
                    );
                    found.push(Warning::new("metrics_token_counts", message).sized(engine.abs_diff(answers) as f64));
                }
            }
        }
        found
    }
}

/// Number of blocks of a window for estimating growth.
const BLOCKS: u32 = 10;

/// Minimum number of blocks with data.
const FEWEST: usize = 5;

/// Statistics of a gauge over a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GaugeStats {
    /// Time-weighted mean; failed samples do not count.
    pub mean: f64,
    /// Maximum of the samples.
    pub max: f64,
    /// Growth per second: the slope of a straight line through the means of ten blocks of the window (batch means:
    /// neighbouring samples are correlated, block means hardly are). `None` with data in fewer than five blocks.
    pub growth: Option<f64>,
    /// Whether it grew over the window by at least `step`, with 97.5 % confidence; `None` as `growth`.
    pub grows: Option<bool>,
}

impl GaugeStats {
    /// From a curve between two times. `step` is the minimum growth that counts. `None` without data.
    pub(super) fn new(curve: &Curve, from: f64, to: f64, step: f64) -> Option<Self> {
        let window = curve.within(from, to);
        let trend = trend(curve, from, to);
        Some(Self {
            mean: window.mean()?,
            max: window.max()?,
            growth: trend.map(|(slope, _)| slope),
            grows: trend.map(|(_, least)| least * (to - from) >= step),
        })
    }

    /// Converts the statistics to another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            max: self.max * factor,
            growth: self.growth.map(|growth| growth * factor),
            grows: self.grows,
        }
    }
}

/// The slope of the least-squares line through the block means, and the lower end of its confidence interval.
fn trend(curve: &Curve, from: f64, to: f64) -> Option<(f64, f64)> {
    let width = (to - from) / f64::from(BLOCKS);
    if width <= 0.0 {
        return None;
    }
    let block = |number: u32| {
        let begin = from + width * f64::from(number);
        Some((begin + width / 2.0, curve.within(begin, begin + width).mean()?))
    };
    let means: Vec<(f64, f64)> = (0..BLOCKS).filter_map(block).collect();
    if means.len() < FEWEST {
        return None;
    }
    let count = means.len() as f64;
    let middle = |part: fn(&(f64, f64)) -> f64| means.iter().map(part).sum::<f64>() / count;
    let (x, y) = (middle(|mean| mean.0), middle(|mean| mean.1));
    let spread: f64 = means.iter().map(|mean| (mean.0 - x).powi(2)).sum();
    let slope = means.iter().map(|mean| (mean.0 - x) * (mean.1 - y)).sum::<f64>() / spread;
    let left: f64 = means
        .iter()
        .map(|mean| (mean.1 - y - slope * (mean.0 - x)).powi(2))
        .sum();
    let error = (left / (count - 2.0) / spread).sqrt();
    Some((slope, slope - t_quantile(count - 2.0) * error))
}

#[cfg(test)]
mod summary_tests {
    use super::*;
    use crate::load::engine_side::{EngineQueue, MemoryInUse};

    fn sample(at: f64, metrics: Option<EngineMetrics>) -> MetricsSample {
        MetricsSample {
            requested_at: at - 0.01,
            at,
            metrics,
        }
    }

    fn counting(preemptions: u64, queries: u64, hits: u64) -> Option<EngineMetrics> {
        Some(EngineMetrics {
            queue: EngineQueue {
                running: Some(4),
                waiting: Some(2),
                kv_usage: Some(0.5),
                preemptions: Some(preemptions),
                paused: None,
            },
            prefix_queries: Some(queries),
            prefix_hits: Some(hits),
            drafted: Some(queries),
            accepted: Some(hits),
            generated_tokens: Some(10 * preemptions),
            finished: BTreeMap::from([("length".to_owned(), preemptions)]),
            ..EngineMetrics::default()
        })
    }

    fn observed() -> Observations {
        Observations {
            hz: 1.0,
            samples: vec![
                sample(-1.0, counting(5, 100, 10)),
                sample(0.5, counting(6, 200, 60)),
                sample(1.5, None),
                sample(2.5, counting(9, 300, 160)),
                sample(3.5, counting(12, 300, 160)),
            ],
            source: Some("nvml".into()),
            memory: vec![
                MemoryInUse {
                    from: -2.0,
                    to: 0.9,
                    bytes: 50,
                },
                MemoryInUse {
                    from: 1.0,
                    to: 9.0,
                    bytes: 80,
                },
            ],
            kv_tokens: Some(1000),
            kv_bytes: Some(64_000),
            ..Observations::default()
        }
    }

    #[test]
    fn counters_are_window_increases() {
        let over = |from, to| {
            let averaged = EngineStats::new(&observed(), &[], from, to);
            (averaged.preemptions, averaged.prefix_hits)
        };
        assert_eq!(
            over(0.0, 3.0),
            (Some(7), Some(0.75)),
            "from the sample before to the one after"
        );
        assert_eq!(over(2.5, 3.5), (Some(3), None), "nothing was looked up");
        let drafts = EngineStats::new(&observed(), &[], 0.0, 3.0).accepted_drafts;
        assert_eq!(drafts, Some(0.75));
        let mut again = observed();
        again.samples.push(sample(4.5, counting(0, 0, 0)));
        let restarted = EngineStats::new(&again, &[], 0.0, 5.0);
        assert_eq!(
            (restarted.preemptions, restarted.prefix_hits),
            (None, None),
            "it was started again"
        );
    }

    #[test]
    fn gauge_statistics_and_kv_usage() {
        let averaged = EngineStats::new(&observed(), &[], 0.0, 3.0);
        let (running, usage) = (averaged.running.unwrap(), averaged.kv_usage.unwrap());
        assert_eq!((running.mean, running.max, usage.mean, usage.max), (4.0, 4.0, 0.5, 0.5));
        let memory = averaged.memory.unwrap();
        assert_eq!(
            (memory.peak, memory.pool_tokens, memory.pool_bytes),
            (Some(80), Some(1000), Some(64_000))
        );
        assert_eq!(
            memory.used_bytes.map(|used| (used.mean, used.max)),
            Some((32_000.0, 32_000.0))
        );
        assert_eq!(memory.used_tokens.map(|used| used.max), Some(500.0));
        assert_eq!(
            EngineStats::new(&observed(), &[], 0.0, 0.9).memory.unwrap().peak,
            Some(50)
        );
        let looking = averaged.timeline;
        assert_eq!(
            (looking.samples, looking.missed, looking.longest_gap),
            (4, 1, Some(2.0))
        );
    }

    #[test]
    fn engine_counters_cover_the_whole_load() {
        let counted = EngineStats::new(&observed(), &[], 0.0, 1.0).counted;
        assert_eq!((counted.generated_tokens, counted.prompt_tokens), (Some(70), None));
        assert_eq!(counted.finished, BTreeMap::from([("length".to_owned(), 7)]));
    }

    #[test]
    fn workers_are_shown_apart_where_they_differ() {
        let each = |running: [[u64; 2]; 3]| {
            let samples = running.into_iter().enumerate().map(|(at, running)| {
                let metrics = EngineMetrics {
                    running_each: running.to_vec(),
                    ..EngineMetrics::default()
                };
                sample(at as f64, Some(metrics))
            });
            let observed = Observations {
                hz: 1.0,
                samples: samples.collect(),
                ..Observations::default()
            };
            EngineStats::new(&observed, &[], 0.0, 2.0)
        };
        let even = each([[8, 8], [9, 7], [8, 8]]);
        assert!(even.running_each.is_empty() && even.warnings(&[]).is_empty());
        let uneven = each([[12, 4], [12, 4], [12, 4]]);
        assert_eq!(uneven.running_each, [12.0, 4.0]);
        assert!(uneven.warnings(&[])[0].message.contains("12.0 and 4.0"));
    }

    #[test]
    fn paused_sequences_replace_a_missing_preemption_counter() {
        let paused = |at, paused| {
            let mut metrics = EngineMetrics::default();
            metrics.queue.paused = Some(paused);
            sample(at, Some(metrics))
        };
        let observed = Observations {
            hz: 1.0,
            samples: vec![paused(0.0, 0), paused(1.0, 3), paused(2.0, 1)],
            ..Observations::default()
        };
        assert_eq!(EngineStats::new(&observed, &[], 0.0, 2.0).preemptions, Some(3));
        assert_eq!(EngineStats::new(&Observations::default(), &[], 0.0, 1.0).memory, None);
    }
}

#[cfg(test)]
mod warnings_tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::load::Counts;
    use crate::load::engine_side::{PowerStats, SamplingStats};

    fn record(outcome: RequestOutcome) -> RequestRecord {
        RequestRecord {
            index: 0,
            warmup: false,
            input: 10,
            output: 5,
            scheduled: Duration::ZERO,
            sent: Duration::ZERO,
            first_byte: None,
            first_token: None,
            last_token: None,
            ended: Duration::from_secs(1),
            itl_ms: Vec::new(),
            events: 0,
            tokens_seen: None,
            counts: Counts {
                input: Some(10),
                output: Some(5),
            },
            text: None,
            finish: None,
            outcome,
            ..RequestRecord::default()
        }
    }

    fn counted(finished: &[(&str, u64)], generated: u64) -> EngineStats {
        EngineStats {
            counted: EngineCounters {
                prompt_tokens: Some(20),
                generated_tokens: Some(generated),
                finished: finished
                    .iter()
                    .map(|(how, count)| ((*how).to_owned(), *count))
                    .collect(),
            },
            ..EngineStats::default()
        }
    }

    #[test]
    fn equal_counts_cause_no_warning() {
        let two = [record(RequestOutcome::Completed), record(RequestOutcome::Completed)];
        assert!(counted(&[("length", 2), ("abort", 0)], 10).warnings(&two).is_empty());
        assert!(counted(&[("all", 3), ("abort", 1)], 10).warnings(&two).is_empty());
        let cut = [record(RequestOutcome::Completed), record(RequestOutcome::CutOff)];
        for (well, tokens) in [(1, 7), (2, 10)] {
            assert!(counted(&[("length", well)], tokens).warnings(&cut).is_empty(), "{well}");
        }
        assert!(EngineStats::default().warnings(&two).is_empty(), "nothing counted");
    }

    #[test]
    fn different_counts_cause_a_warning() {
        let two = [record(RequestOutcome::Completed), record(RequestOutcome::Completed)];
        let warnings = counted(&[("length", 3), ("stop", 2)], 25).warnings(&two);
        assert!(
            warnings[0].message.contains("5 completed requests and the client 2"),
            "{warnings:?}"
        );
        assert!(
            warnings[1].message.contains("25 tokens generated and the answers 10"),
            "{warnings:?}"
        );
        assert_eq!(counted(&[("length", 1)], 10).warnings(&two).len(), 1, "one is missing");
    }

    #[test]
    fn missing_samples_name_the_affected_metrics() {
        let stats = EngineStats {
            timeline: SamplingStats {
                hz: 10.0,
                samples: 8,
                missed: 2,
                longest_gap: Some(2.25),
                ..SamplingStats::default()
            },
            power: Some(PowerStats {
                mean: 1.0,
                max: 1.0,
                busy_percent: None,
                per_gpu: BTreeMap::new(),
                unseen_seconds: 3.0,
            }),
            ..EngineStats::default()
        };
        let warnings = stats.warnings(&[]);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(
            warnings[0]
                .message
                .starts_with("2 of 10 polls of the metrics page failed: `running`, `waiting`, `kv_usage`")
        );
        assert!(warnings[1].message.contains("2.25 s at a time"));
        assert!(warnings[2].message.contains("`energy_wh`"));
    }
}

#[cfg(test)]
mod gauge_tests {
    use proptest::prelude::*;

    use super::*;

    /// Ten samples a second for ten seconds.
    fn looks(value: impl Fn(f64) -> f64) -> Curve {
        Curve::from_samples(
            (0..=100)
                .map(|look| f64::from(look) / 10.0)
                .map(|at| (at, Some(value(at)))),
        )
    }

    #[test]
    fn growing_queue_differs_from_fluctuating_queue() {
        let grows = |value: &dyn Fn(f64) -> f64| GaugeStats::new(&looks(value), 0.0, 10.0, 1.0).unwrap();
        let growing = grows(&|at| 5.0 * at + (3.0 * at).sin());
        assert_eq!(growing.grows, Some(true));
        assert!((growing.growth.unwrap() - 5.0).abs() < 0.2, "{growing:?}");
        assert_eq!(grows(&|at| 20.0 + 8.0 * (3.0 * at).sin()).grows, Some(false));
        assert_eq!(grows(&|_| 7.0).grows, Some(false));
        assert_eq!(grows(&|at| 0.05 * at).grows, Some(false), "half a request is none");
        assert_eq!(grows(&|at| 50.0 - 5.0 * at).grows, Some(false));
    }

    #[test]
    fn too_few_samples_give_no_growth() {
        let short = GaugeStats::new(&looks(|at| at), 0.0, 100.0, 1.0).unwrap();
        assert_eq!((short.growth, short.grows), (None, None), "one block of ten");
        assert_eq!(GaugeStats::new(&Curve::default(), 0.0, 1.0, 1.0), None);
        assert_eq!(GaugeStats::new(&looks(|_| 3.0), 5.0, 5.0, 1.0).unwrap().growth, None);
    }

    proptest! {
        /// The growth of a straight line is its slope in any window.
        #[test]
        fn straight_line_has_its_slope(slope in -50.0_f64..50.0, from in 0.0_f64..4.0, length in 1.0_f64..5.0) {
            let level = GaugeStats::new(&looks(|at| 1000.0 + slope * at), from, from + length, 1.0).unwrap();
            prop_assert!((level.growth.unwrap() - slope).abs() < 1e-6);
            let middle = 1000.0 + slope * (from + length / 2.0);
            prop_assert!((level.mean - middle).abs() < 1e-6);
        }
    }
}
