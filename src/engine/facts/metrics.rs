//! Reads an engine's metrics page (queue, KV cache and counters) with the adapter's rules: Prometheus text (exposition
//! format 0.0.4), or JSON with one snapshot or a list of them, as in TensorRT-LLM.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::engine::adapter::{MetricFormat, MetricRules};
use crate::load::engine_side::{EngineMetrics, EngineQueue};
use crate::outside;

/// Separates the terms of a sum in a rule of an adapter, such as `/a + /b`.
const PLUS: &str = " + ";

/// Reads a page as snapshots, oldest first. A Prometheus page is one snapshot. A JSON page that is emptied by each
/// request has all snapshots since the last one, possibly none.
pub(crate) fn read(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
    match rules.format {
        MetricFormat::Prometheus => vec![of_samples(page, rules)],
        MetricFormat::Json => read_json(page, rules),
    }
}

/// Builds a snapshot: `count` evaluates counters and gauges, `share` evaluates ratios.
pub(crate) fn state(
    rules: &MetricRules,
    count: impl Fn(&[String]) -> Option<f64>,
    share: impl Fn(&[String]) -> Option<f64>,
) -> EngineMetrics {
    let count = |names: &[String]| {
        count(names)
            .filter(|count| *count >= 0.0)
            .map(|count| count.round() as u64)
    };
    let finished = rules.finished.iter();
    EngineMetrics {
        queue: EngineQueue {
            running: count(&rules.running),
            waiting: count(&rules.waiting),
            kv_usage: share(&rules.kv_usage),
            preemptions: count(&rules.preemptions),
            paused: count(&rules.paused),
        },
        prefix_queries: count(&rules.prefix_queries),
        prefix_hits: count(&rules.prefix_hits),
        drafted: count(&rules.drafted),
        accepted: count(&rules.accepted),
        prompt_tokens: count(&rules.prompt_tokens),
        generated_tokens: count(&rules.generated_tokens),
        finished: finished
            .filter_map(|(how, names)| Some((how.clone(), count(names)?)))
            .collect(),
        ..EngineMetrics::default()
    }
}

/// The value of the first name that is present. A sum needs all its terms.
pub(crate) fn first(names: &[String], figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
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
    let found: Vec<MetricSample> = samples(page, |name| wanted.contains(name))
        .filter(|sample| sample.value.is_finite())
        .collect();
    let values = |part: &str| -> Vec<f64> {
        let (name, labels) = selector(part);
        let fits = |sample: &&MetricSample| sample.name == name && labels.iter().all(|label| sample.has(label));
        found.iter().filter(fits).map(|sample| sample.value).collect()
    };
    let sum = |part: &str| {
        Some(values(part))
            .filter(|values| !values.is_empty())
            .map(|values| values.iter().sum())
    };
    let most = |part: &str| values(part).into_iter().reduce(f64::max);
    let mut metrics = state(rules, |names| first(names, sum), |names| first(names, most));
    let mut running = rules.running.iter().map(|name| values(name));
    let each = running.find(|values| !values.is_empty()).unwrap_or_default();
    if each.len() > 1 {
        metrics.running_each = each
            .into_iter()
            .map(|running| running.max(0.0).round() as u64)
            .collect();
    }
    metrics
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
        &rules.drafted,
        &rules.accepted,
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

/// Separates the two pointers of a ratio: `/used of /all`.
const OF: &str = " of ";

/// The snapshots on a page; none if it is not JSON.
fn read_json(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
    let snapshots = match outside::page(page.as_bytes()) {
        Ok(Value::Array(snapshots)) => snapshots,
        Ok(snapshot @ Value::Object(_)) => vec![snapshot],
        Ok(_) | Err(_) => Vec::new(),
    };
    let read_snapshot = |snapshot: &Value| {
        let evaluate = |pointers: &[String]| first(pointers, |pointer| figure(snapshot, pointer));
        state(rules, evaluate, evaluate)
    };
    snapshots.iter().map(read_snapshot).collect()
}

/// The value of a pointer, or the ratio of two.
fn figure(snapshot: &Value, pointer: &str) -> Option<f64> {
    let number = |pointer: &str| snapshot.pointer(pointer.trim())?.as_f64();
    match pointer.split_once(OF) {
        Some((part, whole)) => Some(number(part)? / number(whole)?).filter(|share| share.is_finite()),
        None => number(pointer),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricSample<'a> {
    /// Name, such as `vllm:num_requests_running`.
    pub(crate) name: &'a str,
    /// The text between the braces.
    pub(crate) labels: &'a str,
    /// The value, which may be NaN or infinite.
    pub(crate) value: f64,
}

impl MetricSample<'_> {
    /// Whether the sample has a label such as `reason="abort"`. Quotes within other labels' values are escaped, so they
    /// cannot match.
    pub(crate) fn has(&self, label: &str) -> bool {
        let mut found = self.labels.match_indices(label);
        found.any(|(at, _)| matches!(self.labels[..at].trim_end().chars().next_back(), None | Some(',')))
    }
}

/// The samples with wanted names, in page order. Skips comments and malformed lines.
pub(crate) fn samples(page: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = MetricSample<'_>> {
    page.lines().filter_map(move |line| sample(line, &wanted))
}

fn sample(line: &str, wanted: impl Fn(&str) -> bool) -> Option<MetricSample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') || !wanted(name) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_at(closing(inner)?),
        None => ("", rest),
    };
    // A timestamp may follow the value.
    let value = rest.trim_start_matches('}').split_whitespace().next()?.parse().ok()?;
    Some(MetricSample { name, labels, value })
}

/// Position of the closing brace, ignoring braces in quoted values and escaped quotes.
fn closing(inner: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    inner.char_indices().find_map(|(at, c)| {
        if std::mem::take(&mut escaped) {
            return None;
        }
        match c {
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
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
        let page = include_str!("../../../tests/data/vllm-0.24.0-h200/small.metrics.txt");
        let metrics = &read(page, &rules())[0];
        assert_eq!(
            (metrics.queue.running, metrics.queue.waiting, metrics.queue.preemptions),
            (Some(0), Some(0), Some(5))
        );
        assert!(metrics.queue.kv_usage.is_some_and(|usage| (0.0..=1.0).contains(&usage)));
    }

    #[test]
    fn older_names_are_fallbacks_and_workers_are_combined() {
        let page = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\n\
                    vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\n";
        let metrics = &read(page, &rules())[0];
        assert_eq!(
            (metrics.queue.kv_usage, metrics.queue.running, metrics.queue.waiting),
            (Some(0.5), Some(7), None)
        );
        assert_eq!(metrics.running_each, [3, 4]);
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

#[cfg(test)]
mod json_tests {
    use super::*;
    use crate::engine::MetricFormat;

    fn rules() -> MetricRules {
        let names = |name: &str| vec![name.to_owned()];
        MetricRules {
            path: "/metrics".into(),
            format: MetricFormat::Json,
            running: names("/numActiveRequests"),
            waiting: names("/numQueuedRequests"),
            kv_usage: names("/kv/used of /kv/all"),
            paused: names("/stats/paused"),
            prefix_queries: names("/kv/hit + /kv/missed"),
            ..MetricRules::default()
        }
    }

    #[test]
    fn every_snapshot_of_a_list_is_read() {
        let page = r#"[{"numActiveRequests":2,"numQueuedRequests":1,"kv":{"used":3,"all":4,"hit":2,"missed":7},"stats":{"paused":1}},
            {"numActiveRequests":0,"kv":{"used":0,"all":0}}]"#;
        let snapshots = read_json(page, &rules());
        let first = EngineMetrics {
            queue: EngineQueue {
                running: Some(2),
                waiting: Some(1),
                kv_usage: Some(0.75),
                preemptions: None,
                paused: Some(1),
            },
            prefix_queries: Some(9),
            ..EngineMetrics::default()
        };
        let mut second = EngineMetrics::default();
        second.queue.running = Some(0);
        assert_eq!(snapshots, [first, second]);
    }

    #[test]
    fn an_empty_list_and_non_json_have_no_snapshots() {
        assert_eq!(read_json("[]", &rules()), []);
        assert_eq!(read_json("# HELP", &rules()), []);
        assert_eq!(read_json("{}", &rules()), [EngineMetrics::default()]);
    }
}

#[cfg(test)]
mod prometheus_tests {
    use super::*;

    fn read(page: &str) -> Vec<(&str, &str, f64)> {
        samples(page, |_| true)
            .map(|sample| (sample.name, sample.labels, sample.value))
            .collect()
    }

    #[test]
    fn samples_are_read_with_and_without_labels_and_time() {
        let page =
            "# HELP a b\n# TYPE a gauge\na 1\nb{x=\"1\"} 2.5\n\nc{x=\"}\\\"}\",y=\"2\"} 3e2 1395066363000\nd{} +Inf\n";
        assert_eq!(
            read(page),
            [
                ("a", "", 1.0),
                ("b", "x=\"1\"", 2.5),
                ("c", "x=\"}\\\"}\",y=\"2\"", 300.0),
                ("d", "", f64::INFINITY)
            ]
        );
    }

    #[test]
    fn a_label_is_found_where_it_begins_and_nowhere_else() {
        let page = "a{engine=\"0\", reason=\"stop\",x=\"reason=\\\"abort\\\"\",no_reason=\"length\"} 1\n";
        let sample = samples(page, |name| name == "a").next().unwrap();
        assert!(sample.has("engine=\"0\"") && sample.has("reason=\"stop\""));
        assert!(!sample.has("reason=\"abort\"") && !sample.has("reason=\"length\""));
        assert_eq!(samples(page, |name| name == "b").count(), 0);
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert_eq!(read("<html>\na\nb x\nc{ 1\n{} 2\n"), []);
    }
}
