//! The metrics of a load: the one table of their names, units and directions. The names are those of vLLM's bench.

use super::{Case, Direction, Unit};
use crate::load::stats::{Intervals, LatencySpreads, RepeatStats, Spread};
use crate::load::{LoadAnswer, Summary};

/// A metric with one value per load.
pub(super) struct LoadMetric {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Direction,
    value: fn(&LoadAnswer) -> Option<f64>,
    /// Its variation between repeats.
    spread: fn(&RepeatStats) -> Option<Spread>,
}

/// A latency: its name and where a load has it.
type Latency = (
    &'static str,
    fn(&LoadAnswer) -> &Summary,
    fn(&RepeatStats) -> &LatencySpreads,
);

/// A statistic of a latency.
struct Statistic {
    name: &'static str,
    value: fn(&Summary) -> Option<f64>,
    interval: fn(&Intervals) -> Option<[f64; 2]>,
    spread: fn(&LatencySpreads) -> Option<Spread>,
}

pub(super) const LOAD_METRICS: [LoadMetric; 11] = {
    use Direction::{Less, More, Neutral};
    const fn metric(
        name: &'static str,
        unit: Unit,
        better: Direction,
        value: fn(&LoadAnswer) -> Option<f64>,
        spread: fn(&RepeatStats) -> Option<Spread>,
    ) -> LoadMetric {
        LoadMetric {
            name,
            unit,
            better,
            value,
            spread,
        }
    }
    [
        metric(
            "request_throughput",
            Unit::RequestsPerSecond,
            More,
            |load| load.stats.rates.request_throughput,
            |repeats| repeats.request_throughput,
        ),
        metric(
            "output_throughput",
            Unit::TokensPerSecond,
            More,
            |load| load.stats.rates.output_throughput,
            |repeats| repeats.output_throughput,
        ),
        metric(
            "total_token_throughput",
            Unit::TokensPerSecond,
            More,
            |load| load.stats.rates.total_token_throughput,
            |repeats| repeats.total_token_throughput,
        ),
        metric(
            "issued",
            Unit::Count,
            Neutral,
            |load| Some(load.stats.issued as f64),
            |_| None,
        ),
        metric(
            "completed",
            Unit::Count,
            Neutral,
            |load| Some(load.stats.completed as f64),
            |_| None,
        ),
        metric(
            "failed",
            Unit::Count,
            Less,
            |load| Some(load.stats.failed as f64),
            |_| None,
        ),
        metric(
            "cut_off",
            Unit::Count,
            Less,
            |load| Some(load.stats.cut_off as f64),
            |_| None,
        ),
        metric(
            "preemptions",
            Unit::Count,
            Less,
            |load| load.engine.preemptions.map(|count| count as f64),
            |_| None,
        ),
        metric(
            "duration",
            Unit::Seconds,
            Neutral,
            |load| Some(load.stats.duration),
            |_| None,
        ),
        metric(
            "peak_memory",
            Unit::Bytes,
            Less,
            |load| Some(load.engine.memory.as_ref()?.peak? as f64),
            |_| None,
        ),
        metric(
            "request_goodput",
            Unit::RequestsPerSecond,
            More,
            |load| load.stats.goodput?.request_throughput,
            |repeats| repeats.goodput,
        ),
    ]
};

const LATENCIES: [Latency; 4] = [
    (
        "ttft_ms",
        |load| &load.stats.latencies.ttft_ms,
        |repeats| &repeats.ttft_ms,
    ),
    (
        "tpot_ms",
        |load| &load.stats.latencies.tpot_ms,
        |repeats| &repeats.tpot_ms,
    ),
    ("itl_ms", |load| &load.stats.latencies.itl_ms, |repeats| &repeats.itl_ms),
    (
        "e2el_ms",
        |load| &load.stats.latencies.e2el_ms,
        |repeats| &repeats.e2el_ms,
    ),
];

const STATISTICS: [Statistic; 7] = [
    Statistic {
        name: "mean",
        value: |sample| sample.mean,
        interval: |ci| ci.mean,
        spread: |repeats| repeats.mean,
    },
    Statistic {
        name: "median",
        value: |sample| sample.median,
        interval: |ci| ci.p50,
        spread: |repeats| repeats.median,
    },
    Statistic {
        name: "std",
        value: |sample| sample.std,
        interval: |_| None,
        spread: |_| None,
    },
    Statistic {
        name: "p90",
        value: |sample| sample.p90,
        interval: |ci| ci.p90,
        spread: |repeats| repeats.p90,
    },
    Statistic {
        name: "p95",
        value: |sample| sample.p95,
        interval: |ci| ci.p95,
        spread: |repeats| repeats.p95,
    },
    Statistic {
        name: "p99",
        value: |sample| sample.p99,
        interval: |ci| ci.p99,
        spread: |repeats| repeats.p99,
    },
    Statistic {
        name: "p99_9",
        value: |sample| sample.p99_9,
        interval: |ci| ci.p99_9,
        spread: |repeats| repeats.p99_9,
    },
];

/// Adds every metric of a load to a case. Intervals are those between repeats if there are some, else those within the load.
pub(super) fn add(case: &mut Case, load: &LoadAnswer) {
    let repeats = load.repeats.as_ref().map(|repeats| &repeats.stats);
    for metric in &LOAD_METRICS {
        let interval = repeats.and_then(metric.spread).and_then(|spread| spread.ci);
        case.metric_with_interval(metric.name, (metric.value)(load), metric.unit, interval);
    }
    for (latency, summary, spreads) in LATENCIES {
        let summary = summary(load);
        for statistic in &STATISTICS {
            let between = repeats.and_then(|repeats| (statistic.spread)(spreads(repeats))?.ci);
            case.metric_with_interval(
                &format!("{}_{latency}", statistic.name),
                (statistic.value)(summary),
                Unit::Milliseconds,
                between.or_else(|| (statistic.interval)(&summary.ci)),
            );
        }
    }
}
