//! Reads an engine's metrics page (queue, KV cache and counters) with the adapter's rules.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::prometheus::{Sample, samples};
use super::{MetricFormat, MetricRules, moments};
use crate::load::engine_side::EngineMetrics;

/// Separates the terms of a sum.
const PLUS: &str = " + ";

/// State of an engine's queue; `None` for values that it does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Running requests.
    pub running: Option<u64>,
    /// Queued requests.
    pub waiting: Option<u64>,
    /// KV cache usage, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions since the start.
    pub preemptions: Option<u64>,
    /// Currently preempted sequences, for engines that do not count preemptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<u64>,
}

impl From<EngineMetrics> for Metrics {
    fn from(state: EngineMetrics) -> Self {
        Self {
            running: state.running,
            waiting: state.waiting,
            kv_usage: state.kv_usage,
            preemptions: state.preemptions,
            paused: state.paused,
        }
    }
}

/// Reads a page as snapshots, oldest first. A Prometheus page is one snapshot. A JSON page that is emptied by each
/// request has all snapshots since the last one, possibly none.
pub(super) fn read(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
    match rules.format {
        MetricFormat::Prometheus => vec![of_samples(page, rules)],
        MetricFormat::Json => moments::read(page, rules),
    }
}

/// Builds a snapshot: `count` evaluates counters and gauges, `share` evaluates ratios.
pub(super) fn state(
    rules: &MetricRules,
    count: impl Fn(&[String]) -> Option<f64>,
    share: impl Fn(&[String]) -> Option<f64>,
) -> EngineMetrics {
    let count = |names: &[String]| count(names).filter(|count| *count >= 0.0).map(rounded);
    let finished = rules.finished.iter();
    EngineMetrics {
        running: count(&rules.running),
        waiting: count(&rules.waiting),
        kv_usage: share(&rules.kv_usage),
        preemptions: count(&rules.preemptions),
        paused: count(&rules.paused),
        prefix_queries: count(&rules.prefix_queries),
        prefix_hits: count(&rules.prefix_hits),
        prompt_tokens: count(&rules.prompt_tokens),
        generated_tokens: count(&rules.generated_tokens),
        finished: finished
            .filter_map(|(how, names)| Some((how.clone(), count(names)?)))
            .collect(),
    }
}

/// The value of the first name that is present. A sum needs all its terms.
pub(super) fn first(names: &[String], figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    names
        .iter()
        .find_map(|name| name.split(PLUS).map(|part| figure(part.trim())).sum())
}

/// Reads the Prometheus format. If the engine has several workers, requests are summed and the fullest KV cache counts.
///
/// A page of vLLM has thousands of lines and is polled many times a second, so it is parsed in a single pass.
fn of_samples(page: &str, rules: &MetricRules) -> EngineMetrics {
    let wanted: BTreeSet<&str> = names(rules)
        .flat_map(|name| name.split(PLUS))
        .map(|part| selector(part).0)
        .collect();
    let found: Vec<Sample> = samples(page, |name| wanted.contains(name))
        .filter(|sample| sample.value.is_finite())
        .collect();
    let values = |part: &str| -> Vec<f64> {
        let (name, labels) = selector(part);
        let fits = |sample: &&Sample| sample.name == name && labels.iter().all(|label| sample.has(label));
        found.iter().filter(fits).map(|sample| sample.value).collect()
    };
    let sum = |part: &str| {
        Some(values(part))
            .filter(|values| !values.is_empty())
            .map(|values| values.iter().sum())
    };
    let most = |part: &str| values(part).into_iter().reduce(f64::max);
    state(rules, |names| first(names, sum), |names| first(names, most))
}

fn names(rules: &MetricRules) -> impl Iterator<Item = &String> {
    let plain = [
        &rules.running,
        &rules.waiting,
        &rules.kv_usage,
        &rules.preemptions,
        &rules.paused,
        &rules.prefix_queries,
        &rules.prefix_hits,
        &rules.prompt_tokens,
        &rules.generated_tokens,
    ];
    plain.into_iter().chain(rules.finished.values()).flatten()
}

/// Splits `requests_total{reason="abort"}` into its name and required labels.
fn selector(part: &str) -> (&str, Vec<&str>) {
    let part = part.trim();
    match part.split_once('{') {
        Some((name, labels)) => (name, labels.trim_end_matches('}').split(',').map(str::trim).collect()),
        None => (part, Vec::new()),
    }
}

fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn listed(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn rules() -> MetricRules {
        MetricRules {
            path: "/metrics".into(),
            running: listed(&["vllm:num_requests_running"]),
            waiting: listed(&["vllm:num_requests_waiting"]),
            kv_usage: listed(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
            preemptions: listed(&["vllm:num_preemptions_total"]),
            ..MetricRules::default()
        }
    }

    #[test]
    fn a_real_page_of_vllm_is_read() {
        let page = include_str!("../../tests/data/vllm-0.24.0-h200/small.metrics.txt");
        let metrics = &read(page, &rules())[0];
        assert_eq!(
            (metrics.running, metrics.waiting, metrics.preemptions),
            (Some(0), Some(0), Some(5))
        );
        assert!(metrics.kv_usage.is_some_and(|usage| (0.0..=1.0).contains(&usage)));
    }

    #[test]
    fn older_names_are_fallbacks_and_workers_are_combined() {
        let page = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\n\
                    vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\n";
        let metrics = &read(page, &rules())[0];
        assert_eq!(
            (metrics.kv_usage, metrics.running, metrics.waiting),
            (Some(0.5), Some(7), None)
        );
    }

    #[test]
    fn labels_choose_samples_and_a_sum_needs_all_its_parts() {
        let rules = MetricRules {
            prompt_tokens: listed(&["read + cached", "read"]),
            generated_tokens: listed(&["read + missing"]),
            finished: BTreeMap::from([
                ("abort".to_owned(), listed(&["ended{reason=\"abort\"}"])),
                ("length".to_owned(), listed(&["ended{engine=\"0\",reason=\"length\"}"])),
                ("stop".to_owned(), listed(&["ended{reason=\"stop\"}"])),
            ]),
            ..MetricRules::default()
        };
        let page = "read 5\ncached 2\nended{engine=\"0\",reason=\"length\"} 7\nended{engine=\"1\",reason=\"length\"} 70\n\
                    ended{engine=\"0\",reason=\"abort\"} 1\nended{engine=\"1\",no_reason=\"abort\"} 9\n";
        let state = &read(page, &rules)[0];
        assert_eq!((state.prompt_tokens, state.generated_tokens), (Some(7), None));
        let finished = BTreeMap::from([("abort".to_owned(), 1), ("length".to_owned(), 7)]);
        assert_eq!(state.finished, finished, "what is not there is not zero");
    }

    #[test]
    fn an_unrelated_page_has_no_metrics() {
        assert_eq!(read("<html></html>", &rules()), [EngineMetrics::default()]);
    }
}
