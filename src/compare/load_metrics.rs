//! The metrics of a load: the single table of their names, headings, units and directions, in display order.
//! Comparisons, thresholds, CSV, pages and scripts read it. Names follow vLLM's bench.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Case, Direction, Unit};
use crate::fmt::{GIB, json_number};
use crate::load::stats::{Intervals, LatencySpreads, RepeatStats, Spread, Thin};
use crate::load::{LoadAnswer, Summary};

/// A metric with one value per load.
pub struct LoadMetric {
    /// Its name in JSON, CSV and thresholds.
    pub name: String,
    /// Its displayed heading, with the unit.
    pub heading: String,
    /// Its unit. Shares are from 0 to 1 in JSON and CSV, and displayed in per cent.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Direction,
    source: MetricSource,
}

enum MetricSource {
    /// Summed over the loads of one level.
    Count(fn(&LoadAnswer) -> Option<u64>),
    Value(fn(&LoadAnswer) -> Option<f64>),
    /// The highest value of all loads of one level.
    Highest(fn(&LoadAnswer) -> Option<f64>),
    /// A value that has a confidence interval if the load was repeated.
    Repeated(fn(&LoadAnswer) -> Option<f64>, fn(&RepeatStats) -> Option<Spread>),
    Latency(&'static Latency, &'static Statistic),
}

/// A latency: its name, its heading, and the accessors of its values in a load.
struct Latency {
    name: &'static str,
    heading: &'static str,
    summary: fn(&LoadAnswer) -> &Summary,
    spreads: fn(&RepeatStats) -> &LatencySpreads,
}

/// A statistic of a latency.
struct Statistic {
    name: &'static str,
    heading: &'static str,
    value: fn(&Summary) -> Option<f64>,
    interval: fn(&Intervals) -> Option<[f64; 2]>,
    spread: fn(&LatencySpreads) -> Option<Spread>,
    /// `None`: never thin.
    thin: Option<fn(&Thin) -> bool>,
}

macro_rules! latency {
    ($name:ident, $heading:literal) => {
        Latency {
            name: stringify!($name),
            heading: $heading,
            summary: |load| &load.stats.latencies.$name,
            spreads: |repeats| &repeats.$name,
        }
    };
}

macro_rules! percentile {
    ($name:ident, $heading:literal) => {
        Statistic {
            name: stringify!($name),
            heading: $heading,
            value: |sample| sample.$name,
            interval: |ci| ci.$name,
            spread: |repeats| repeats.$name,
            thin: Some(|thin| thin.$name),
        }
    };
}

const LATENCIES: [Latency; 5] = [
    latency!(ttft_ms, "TTFT, ms"),
    latency!(tpot_ms, "TPOT, ms"),
    latency!(itl_ms, "ITL per event, ms"),
    latency!(token_itl_ms, "ITL per token, ms"),
    latency!(e2el_ms, "E2E, ms"),
];

const STATISTICS: [Statistic; 7] = [
    Statistic {
        name: "mean",
        heading: "mean",
        value: |sample| sample.mean,
        interval: |ci| ci.mean,
        spread: |repeats| repeats.mean,
        thin: None,
    },
    percentile!(median, "median"),
    Statistic {
        name: "std",
        heading: "std",
        value: |sample| sample.std,
        interval: |_| None,
        spread: |_| None,
        thin: None,
    },
    percentile!(p90, "p90"),
    percentile!(p95, "p95"),
    percentile!(p99, "p99"),
    percentile!(p99_9, "p99.9"),
];

/// Rows of the table: name, heading, unit, better direction, and the accessor of the value in a load.
macro_rules! metrics {
    ($($name:ident $heading:literal $unit:ident $better:ident $source:ident($($of:expr),+);)*) => {
        [$(LoadMetric {
            name: stringify!($name).to_owned(),
            heading: $heading.to_owned(),
            unit: Unit::$unit,
            better: Direction::$better,
            source: MetricSource::$source($($of),+),
        }),*]
    };
}

static METRICS: LazyLock<Vec<LoadMetric>> = LazyLock::new(|| {
    let first = metrics! {
        issued "requests" Count Neutral Count(|load| Some(load.stats.issued));
        completed "completed" Count Neutral Count(|load| Some(load.stats.completed));
        failed "failed" Count Less Count(|load| Some(load.stats.failed));
        cut_off "cut off" Count Less Count(|load| Some(load.stats.cut_off));
        short "short answers" Count Less Count(|load| Some(load.stats.short));
        rejected "rejected" Count Less Count(|load| Some(load.stats.rejected));
        waited "waited for rejections, s" Seconds Less Value(|load| Some(load.stats.waited));
        duration "duration, s" Seconds Neutral Value(|load| Some(load.stats.duration).filter(|seconds| *seconds > 0.0));
        request_throughput "requests/s" RequestsPerSecond More
            Repeated(|load| load.stats.rates.request_throughput, |repeats| repeats.request_throughput);
        input_throughput "input tokens/s" TokensPerSecond More
            Repeated(|load| load.stats.rates.input_throughput, |repeats| repeats.input_throughput);
        output_throughput "output tokens/s" TokensPerSecond More
            Repeated(|load| load.stats.rates.output_throughput, |repeats| repeats.output_throughput);
        total_token_throughput "total tokens/s" TokensPerSecond More
            Repeated(|load| load.stats.rates.total_token_throughput, |repeats| repeats.total_token_throughput);
        steady_output_throughput "steady output tokens/s" TokensPerSecond More
            Value(|load| load.stats.steady.as_ref()?.rates.output_throughput);
        mean_output "output tokens, mean" Count Neutral
            Value(|load| Some(load.stats.rates.output_throughput? / load.stats.rates.request_throughput.filter(|rate| *rate > 0.0)?));
        hidden_tokens "hidden output tokens" Count Neutral Count(|load| load.stats.tokens.hidden);
        median_first_visible_ms "median time to first visible token, ms" Milliseconds Less
            Value(|load| load.stats.first_visible_ms.median);
        good "good requests" Count More Count(|load| Some(load.stats.goodput?.counts.good));
        good_share "goodput, %" Percent More Value(|load| load.stats.goodput?.counts.share);
        request_goodput "goodput, requests/s" RequestsPerSecond More
            Repeated(|load| load.stats.goodput?.counts.request_throughput, |repeats| repeats.goodput);
    };
    let latencies = LATENCIES.iter().flat_map(|latency| {
        STATISTICS.iter().map(move |statistic| LoadMetric {
            name: format!("{}_{}", statistic.name, latency.name),
            heading: format!("{} {}", statistic.heading, latency.heading),
            unit: Unit::Milliseconds,
            better: match statistic.name {
                "std" => Direction::Neutral,
                _ => Direction::Less,
            },
            source: MetricSource::Latency(latency, statistic),
        })
    });
    let last = metrics! {
        repeats "repeats" Count Neutral Count(|load| Some(load.repeats.as_ref()?.stats.runs));
        cv_output_throughput "std of output tokens/s, %" Percent Neutral
            Value(|load| load.repeats.as_ref()?.stats.output_throughput?.cv);
        cv_median_ttft_ms "std of median TTFT, %" Percent Neutral
            Value(|load| load.repeats.as_ref()?.stats.ttft_ms.median?.cv);
        kv_usage "KV cache used, %" Percent Neutral Highest(|load| Some(load.engine.kv_usage?.max));
        running "running, max" Count Neutral Highest(|load| Some(load.engine.running?.max));
        waiting "waiting, max" Count Neutral Highest(|load| Some(load.engine.waiting?.max));
        mean_waiting "waiting, mean" Count Neutral Value(|load| Some(load.engine.waiting?.mean));
        preemptions "preemptions" Count Less Count(|load| load.engine.preemptions);
        prefix_hits "prefix cache hits, %" Percent Neutral Value(|load| load.engine.prefix_hits);
        accepted_drafts "accepted drafts, %" Percent More Value(|load| load.engine.accepted_drafts);
        peak_memory "peak memory, GiB" Bytes Less Highest(|load| Some(load.engine.memory.as_ref()?.peak? as f64));
        power "power, W" Watts Neutral Value(|load| Some(load.engine.power.as_ref()?.mean));
        energy_wh "energy, Wh" Count Neutral Value(|load| load.engine.energy_wh);
        cost_input "$/1M input tokens" Count Less Value(|load| load.cost.per_million_input);
        cost_output "$/1M output tokens" Count Less Value(|load| load.cost.per_million_output);
        cost_total "$/1M total tokens" Count Less Value(|load| load.cost.per_million_total);
        wh_output "Wh per 1M output tokens" Count Less Value(|load| load.cost.wh_per_million_output);
        wh_total "Wh per 1M total tokens" Count Less Value(|load| load.cost.wh_per_million_total);
    };
    first.into_iter().chain(latencies).chain(last).collect()
});

impl LoadMetric {
    /// All metrics, in display order.
    pub fn all() -> &'static [Self] {
        &METRICS
    }

    /// The metric of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|metric| metric.name == name)
    }

    /// The value of one load.
    pub fn value(&self, load: &LoadAnswer) -> Option<f64> {
        match &self.source {
            MetricSource::Count(count) => count(load).map(|count| count as f64),
            MetricSource::Value(value) | MetricSource::Highest(value) | MetricSource::Repeated(value, _) => value(load),
            MetricSource::Latency(latency, statistic) => (statistic.value)((latency.summary)(load)),
        }
        .filter(|value| value.is_finite())
    }

    /// Its 95 % confidence interval: between the repeats if there are some, else within the load.
    pub fn interval(&self, load: &LoadAnswer) -> Option<[f64; 2]> {
        let repeats = load.repeats.as_ref().map(|repeats| &repeats.stats);
        match &self.source {
            MetricSource::Count(_) | MetricSource::Value(_) | MetricSource::Highest(_) => None,
            MetricSource::Repeated(_, spread) => spread(repeats?)?.ci,
            MetricSource::Latency(latency, statistic) => repeats
                .and_then(|repeats| (statistic.spread)((latency.spreads)(repeats))?.ci)
                .or_else(|| (statistic.interval)(&(latency.summary)(load).ci)),
        }
    }

    /// Whether it is a percentile that too few independent requests support.
    pub fn thin(&self, load: &LoadAnswer) -> bool {
        match &self.source {
            MetricSource::Latency(latency, Statistic { thin: Some(thin), .. }) => thin(&(latency.summary)(load).thin),
            _ => false,
        }
    }

    /// One value for several loads of the same level: the sum of counts, the highest of maxima, else the mean; `None`
    /// if a load lacks it.
    pub fn combined(&self, loads: &[LoadAnswer]) -> Option<f64> {
        let values: Vec<f64> = loads.iter().map(|load| self.value(load)).collect::<Option<_>>()?;
        let sum: f64 = values.iter().sum();
        match (&self.source, values.len()) {
            (_, 0) => None,
            (MetricSource::Count(_), _) => Some(sum),
            (MetricSource::Highest(_), _) => values.into_iter().max_by(f64::total_cmp),
            (_, n) => Some(sum / n as f64),
        }
    }

    /// Whether tables give it an interval and mark thin values.
    pub fn is_percentile(&self) -> bool {
        matches!(&self.source, MetricSource::Latency(_, Statistic { thin: Some(_), .. }))
    }

    /// The factor from its value in JSON to the displayed one: bytes to GiB, shares to per cent.
    pub fn scale(&self) -> f64 {
        match self.unit {
            Unit::Percent => 100.0,
            Unit::Bytes => 1.0 / GIB,
            _ => 1.0,
        }
    }
}

/// The names of all cells of [`row`], in order: the metrics, then `NAME_low`, `NAME_high` and `NAME_thin` of each
/// percentile.
pub fn columns() -> Vec<String> {
    let names = LoadMetric::all().iter().map(|metric| metric.name.clone());
    let marks = LoadMetric::all()
        .iter()
        .filter(|metric| metric.is_percentile())
        .flat_map(|metric| ["low", "high", "thin"].map(|end| format!("{}_{end}", metric.name)));
    names.chain(marks).collect()
}

/// A load as one flat row with every name of [`columns`]; `null` means unknown.
pub fn row(load: &LoadAnswer) -> Map<String, Value> {
    let mut row = Map::new();
    for metric in LoadMetric::all() {
        let value = metric.value(load);
        let number = match metric.source {
            MetricSource::Count(_) => value.map(json_number),
            _ => value.map(Value::from),
        };
        row.insert(metric.name.clone(), number.unwrap_or_default());
        if metric.is_percentile() {
            let interval = metric.interval(load);
            row.insert(format!("{}_low", metric.name), json!(interval.map(|ends| ends[0])));
            row.insert(format!("{}_high", metric.name), json!(interval.map(|ends| ends[1])));
            row.insert(format!("{}_thin", metric.name), json!(value.map(|_| metric.thin(load))));
        }
    }
    row
}

/// One load as a case: named by its settings, with the metric names of vLLM's bench.
pub(super) fn case(args: &Value, answer: &LoadAnswer) -> Case {
    let setting = |key: &str| Some(&args["load"][key]).filter(|value| value.is_number());
    let part = |(key, name): (&str, &str)| Some(format!("{name}={}", setting(key)?));
    let parts = [("concurrency", "concurrency"), ("rate", "request_rate")]
        .into_iter()
        .chain([("input", "input"), ("output", "output")])
        .filter_map(part);
    let mut case = Case::new(parts.collect::<Vec<_>>().join(" "));
    if case.name.is_empty() {
        case.name = "load".to_owned();
    }
    add(&mut case, answer);
    case
}

/// Adds every metric of a load to a case.
pub(super) fn add(case: &mut Case, load: &LoadAnswer) {
    for metric in LoadMetric::all() {
        let in_unit = if metric.unit == Unit::Percent { 100.0 } else { 1.0 };
        case.metric_with_interval(
            &metric.name,
            metric.value(load).map(|value| value * in_unit),
            metric.unit,
            metric.interval(load),
        );
        if metric.thin(load)
            && let Some(figure) = case.figures.last_mut().filter(|figure| figure.name == metric.name)
        {
            figure.thin = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine_side::GaugeStats;

    fn load(requests: usize) -> LoadAnswer {
        let mut load = LoadAnswer::default();
        load.stats.issued = requests as u64;
        load.stats.latencies.ttft_ms =
            Summary::from_values((0..requests).map(|at| (at * 7919 % requests) as f64).collect());
        load
    }

    #[test]
    fn a_row_has_the_same_columns_whatever_was_measured() {
        let columns = columns();
        for load in [LoadAnswer::default(), load(2), load(400)] {
            let row = row(&load);
            assert!(columns.iter().all(|name| row.contains_key(name)) && row.len() == columns.len());
        }
        let mut names = columns.clone();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), columns.len(), "one name each");
    }

    #[test]
    fn loads_of_one_level_are_combined_by_the_kind_of_metric() {
        let load = |issued: usize, running: f64| {
            let mut load = load(issued);
            load.engine.running = Some(GaugeStats {
                mean: 1.0,
                max: running,
                growth: None,
                grows: None,
            });
            load
        };
        let both = [load(10, 8.0), load(30, 12.0)];
        let combined = |name: &str| LoadMetric::named(name).unwrap().combined(&both);
        assert_eq!(
            ["issued", "running", "mean_ttft_ms"].map(combined),
            [Some(40.0), Some(12.0), Some(9.5)]
        );
    }

    #[test]
    fn percentiles_are_there_from_two_requests_on_and_marked_where_thin() {
        let (few, many) = (row(&load(2)), row(&load(400)));
        for name in ["median", "p90", "p95", "p99"].map(|statistic| format!("{statistic}_ttft_ms")) {
            assert!(
                few[&name].is_number() && few[&format!("{name}_thin")] == true && few[&format!("{name}_low")].is_null()
            );
            assert!(
                many[&format!("{name}_thin")] == false && many[&format!("{name}_high")].is_number(),
                "{name}"
            );
        }
        let mut case = Case::new("few");
        add(&mut case, &load(2));
        assert!(
            case.figures
                .iter()
                .any(|figure| figure.name == "p99_ttft_ms" && figure.thin)
        );
    }
}
