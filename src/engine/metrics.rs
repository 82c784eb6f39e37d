//! What an engine's metrics page says about its queue and its KV cache, by the adapter's rules. Pure.

use serde::{Deserialize, Serialize};

use super::prometheus::samples;
use super::{MetricFormat, MetricRules, moments};

/// The state of an engine's queue; `None` where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Requests being served.
    pub running: Option<u64>,
    /// Requests waiting.
    pub waiting: Option<u64>,
    /// KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions since the start.
    pub preemptions: Option<u64>,
    /// Sequences out of the KV cache at the moment, where the engine tells that instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<u64>,
}

impl Metrics {
    /// Reads a page: the moments that it tells of, oldest first. Prometheus tells of one; a JSON page that each read empties, of all
    /// since the last one, perhaps none.
    #[must_use]
    pub fn read(page: &str, rules: &MetricRules) -> Vec<Self> {
        match rules.format {
            MetricFormat::Prometheus => vec![Self::of_samples(page, rules)],
            MetricFormat::Json => moments::read(page, rules),
        }
    }

    /// Where the engine has several workers, their requests are added up, and the fullest cache counts.
    fn of_samples(page: &str, rules: &MetricRules) -> Self {
        let sum = |names: &[String]| newest(page, names, |values| values.iter().sum());
        Self::of(rules, sum, |names| {
            newest(page, names, |values| values.iter().copied().fold(0.0, f64::max))
        })
    }

    /// The figures of these rules: numbers of requests by `count`, shares by `share`.
    pub(super) fn of(
        rules: &MetricRules,
        count: impl Fn(&[String]) -> Option<f64>,
        share: impl Fn(&[String]) -> Option<f64>,
    ) -> Self {
        let count = |names: &[String]| count(names).filter(|count| *count >= 0.0).map(whole);
        Self {
            running: count(&rules.running),
            waiting: count(&rules.waiting),
            kv_usage: share(&rules.kv_usage),
            preemptions: count(&rules.preemptions),
            paused: count(&rules.paused),
        }
    }
}

/// The figure of the first name that the page has.
fn newest(page: &str, names: &[String], figure: impl Fn(&[f64]) -> f64) -> Option<f64> {
    names.iter().find_map(|name| {
        let values: Vec<f64> = samples(page)
            .filter(|sample| sample.name == name && sample.value.is_finite())
            .map(|sample| sample.value)
            .collect();
        (!values.is_empty()).then(|| figure(&values))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of requests, not negative"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> MetricRules {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        MetricRules {
            path: "/metrics".into(),
            running: names(&["vllm:num_requests_running"]),
            waiting: names(&["vllm:num_requests_waiting"]),
            kv_usage: names(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
            preemptions: names(&["vllm:num_preemptions_total"]),
            ..MetricRules::default()
        }
    }

    #[test]
    fn a_real_page_of_vllm_is_read() {
        let page = include_str!("../../tests/data/vllm-0.24.0-h200/small.metrics.txt");
        let metrics = Metrics::read(page, &rules())[0];
        assert_eq!(
            (metrics.running, metrics.waiting, metrics.preemptions),
            (Some(0), Some(0), Some(5))
        );
        assert!(metrics.kv_usage.is_some_and(|usage| (0.0..=1.0).contains(&usage)));
    }

    #[test]
    fn older_names_are_taken_where_the_newest_is_missing_and_workers_are_joined() {
        let page = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\n\
                    vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\n";
        let metrics = Metrics::read(page, &rules())[0];
        assert_eq!(
            (metrics.kv_usage, metrics.running, metrics.waiting),
            (Some(0.5), Some(7), None)
        );
    }

    #[test]
    fn a_page_of_something_else_says_nothing() {
        assert_eq!(Metrics::read("<html></html>", &rules()), [Metrics::default()]);
    }
}
