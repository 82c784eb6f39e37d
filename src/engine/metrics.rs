//! Fetches and reads an engine's metrics page (queue, KV cache and counters) with the adapter's rules: Prometheus text
//! (exposition format 0.0.4), or JSON with one snapshot or a list of them, as in TensorRT-LLM.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use super::info::read_page;
use super::{MetricFormat, MetricRules};
use crate::load::engine_side::{EngineMetrics, EngineQueue};
use crate::run::Run;

/// Separates the terms of a sum.
const PLUS: &str = " + ";

/// Reads a page as snapshots, oldest first. A Prometheus page is one snapshot. A JSON page that is emptied by each
/// request has all snapshots since the last one, possibly none.
pub(super) fn read(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
    match rules.format {
        MetricFormat::Prometheus => vec![of_samples(page, rules)],
        MetricFormat::Json => read_json(page, rules),
    }
}

/// Builds a snapshot: `count` evaluates counters and gauges, `share` evaluates ratios.
pub(super) fn state(
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

/// Separates the two pointers of a ratio: `/used of /all`.
const OF: &str = " of ";

/// The snapshots on a page; none if it is not JSON.
fn read_json(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
    let snapshots = match serde_json::from_str(page) {
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
pub(super) struct Sample<'a> {
    /// Such as `vllm:num_requests_running`.
    pub(super) name: &'a str,
    /// The text between the braces.
    pub(super) labels: &'a str,
    /// The value, which may be NaN or infinite.
    pub(super) value: f64,
}

impl Sample<'_> {
    /// Whether the sample has a label such as `reason="abort"`. Quotes within other labels' values are escaped, so they
    /// cannot match.
    pub(super) fn has(&self, label: &str) -> bool {
        let mut found = self.labels.match_indices(label);
        found.any(|(at, _)| matches!(self.labels[..at].trim_end().chars().next_back(), None | Some(',')))
    }
}

/// The samples with wanted names, in page order. Skips comments and malformed lines.
pub(super) fn samples(page: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter_map(move |line| sample(line, &wanted))
}

fn sample(line: &str, wanted: impl Fn(&str) -> bool) -> Option<Sample<'_>> {
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
    Some(Sample { name, labels, value })
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

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QueueMetrics {
    first: Option<EngineQueue>,
    last: Option<EngineQueue>,
    /// The newest snapshot before any request reached its timeout: requests that are cut off are no longer queued.
    before_timeout: Option<EngineQueue>,
    peak: EngineQueue,
}

impl QueueMetrics {
    /// Adds what the page reports now; requests time out at `timeout` or later. Returns the newest snapshot; `None` if
    /// the page does not answer or has no new one.
    pub(super) async fn poll(
        &mut self,
        page: Option<&MetricsPage>,
        timeout: tokio::time::Instant,
    ) -> Option<EngineQueue> {
        let snapshots = page?.fetch().await?;
        let in_time = tokio::time::Instant::now() < timeout;
        snapshots.iter().for_each(|snapshot| self.add(snapshot.queue, in_time));
        snapshots.last().map(|newest| newest.queue)
    }

    pub(super) fn add(&mut self, metrics: EngineQueue, in_time: bool) {
        self.first.get_or_insert(metrics);
        self.last = Some(metrics);
        if in_time {
            self.before_timeout = Some(metrics);
        }
        self.peak.running = self.peak.running.max(metrics.running);
        self.peak.waiting = self.peak.waiting.max(metrics.waiting);
        self.peak.paused = self.peak.paused.max(metrics.paused);
        self.peak.kv_usage = match (self.peak.kv_usage, metrics.kv_usage) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
    }

    /// The highest values, and the preemptions since the first poll; `None` without any poll.
    pub(super) fn peaks(&self) -> Option<EngineQueue> {
        self.first?;
        Some(EngineQueue {
            preemptions: self.preempted(),
            ..self.peak
        })
    }

    /// Preemptions since the first poll, or the maximum number of currently preempted sequences if the engine reports
    /// only that.
    pub(super) fn preempted(&self) -> Option<u64> {
        let counted = |seen: Option<EngineQueue>| seen?.preemptions;
        match (counted(self.first), counted(self.last)) {
            (Some(before), Some(now)) => Some(now.saturating_sub(before)),
            _ => self.peak.paused,
        }
    }

    /// Whether the `unfinished` requests make no progress: all are queued with none running, or sequences are being
    /// preempted.
    pub(super) fn stuck(&self, unfinished: u64) -> bool {
        let all_queued = |last| all_queued(last, unfinished);
        self.before_timeout.is_some_and(all_queued) || self.preempted().is_some_and(|preempted| preempted > 0)
    }
}

/// Detects a stalled engine: one that reports no running requests while all unfinished ones are queued for too long.
/// Engines whose metrics page is missing or does not answer are judged by request timeouts instead.
pub(super) struct StallDetector {
    longest: Duration,
    /// Time of the last progress.
    since: Option<Instant>,
    /// Ended and unfinished requests at the last poll.
    ended: u64,
    unfinished: u64,
}

impl StallDetector {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            since: None,
            ended: 0,
            unfinished: 0,
        }
    }

    /// Processes a poll: requests issued and ended, and the engine's newest snapshot. Returns a reason if the load must
    /// be given up.
    ///
    /// The snapshot is older than the requests issued since the last poll, so those are not expected in it.
    pub(super) fn update(
        &mut self,
        (issued, ended): (u64, u64),
        state: Option<EngineQueue>,
        now: Instant,
    ) -> Option<String> {
        let unfinished = self.unfinished;
        let idle = unfinished > 0 && ended == self.ended && state.is_some_and(|state| all_queued(state, unfinished));
        self.ended = ended;
        self.unfinished = issued.saturating_sub(ended);
        if !idle {
            self.since = None;
            return None;
        }
        let stalled_for = now.duration_since(*self.since.get_or_insert(now));
        (stalled_for >= self.longest).then(|| {
            format!(
                "the engine stalled: its metrics showed nothing running and {unfinished} requests queued for {:.1} s",
                stalled_for.as_secs_f64()
            )
        })
    }
}

/// Whether nothing runs and all `unfinished` requests are queued. SGLang and TGI count a request in prefill as neither;
/// therefore all must be queued.
fn all_queued(state: EngineQueue, unfinished: u64) -> bool {
    let waiting = state.waiting.unwrap_or(0);
    state.running == Some(0) && waiting > 0 && waiting >= unfinished
}

/// Timeout for fetching the metrics page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct MetricsPage {
    pub(super) client: Client,
    pub(super) url: String,
    pub(super) rules: MetricRules,
    /// Gets a warning if the page is too long.
    pub(super) run: Arc<Run>,
}

impl MetricsPage {
    /// Fetches the page; snapshots are oldest first. `None` if the page does not answer.
    pub(super) async fn fetch(&self) -> Option<Vec<EngineMetrics>> {
        let request = self.client.get(&self.url).timeout(PAGE_TIMEOUT);
        let text = read_page(request, &self.run).await?;
        Some(read(&text, &self.rules))
    }
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

#[cfg(test)]
mod queue_tests {
    use super::*;

    fn state(running: u64, waiting: u64, preemptions: u64) -> EngineQueue {
        EngineQueue {
            running: Some(running),
            waiting: Some(waiting),
            preemptions: Some(preemptions),
            ..EngineQueue::default()
        }
    }

    fn queue(polls: &[(u64, u64, u64)]) -> QueueMetrics {
        let mut queue = QueueMetrics::default();
        for (running, waiting, preemptions) in polls {
            queue.add(state(*running, *waiting, *preemptions), true);
        }
        queue
    }

    #[test]
    fn without_polls_nothing_is_known() {
        assert_eq!((queue(&[]).peaks(), queue(&[]).stuck(1)), (None, false));
    }

    #[test]
    fn peaks_and_new_preemptions_are_kept() {
        let seen = queue(&[(0, 0, 7), (5, 2, 8), (1, 0, 9)]).peaks().unwrap();
        assert_eq!(
            (seen.running, seen.waiting, seen.preemptions),
            (Some(5), Some(2), Some(2))
        );
    }

    #[test]
    fn paused_sequences_count_as_preempted() {
        let mut queue = QueueMetrics::default();
        for paused in [0, 2, 0] {
            let metrics = EngineQueue {
                paused: Some(paused),
                ..EngineQueue::default()
            };
            queue.add(metrics, true);
        }
        assert_eq!(queue.preempted(), Some(2));
    }

    #[test]
    fn stuck_is_waiting_without_running_or_preempting() {
        assert!(queue(&[(1, 0, 0), (0, 3, 0)]).stuck(3));
        assert!(!queue(&[(0, 3, 0), (1, 2, 0)]).stuck(3));
        assert!(queue(&[(1, 0, 0), (1, 0, 4)]).stuck(1));
        assert!(!queue(&[(0, 0, 4)]).stuck(1));
        let mut cut_off = queue(&[(0, 3, 0)]);
        cut_off.add(state(0, 0, 0), false);
        assert!(cut_off.stuck(3));
    }

    #[test]
    fn a_request_in_prefill_neither_runs_nor_waits() {
        let reading_one_of_four = queue(&[(0, 3, 0)]);
        assert!(!reading_one_of_four.stuck(4));
        assert!(reading_one_of_four.stuck(3));
    }
}

#[cfg(test)]
mod stall_tests {
    use super::*;

    fn state(running: u64, waiting: u64) -> Option<EngineQueue> {
        Some(EngineQueue {
            running: Some(running),
            waiting: Some(waiting),
            ..EngineQueue::default()
        })
    }

    /// The index of the poll at which a load is given up. Polls are a second apart; two seconds without progress are
    /// allowed.
    fn stalls(polls: &[(u64, u64, Option<EngineQueue>)]) -> Option<usize> {
        let (mut stall, began) = (StallDetector::new(Duration::from_secs(2)), Instant::now());
        polls.iter().enumerate().position(|(second, (issued, ended, state))| {
            let now = began + Duration::from_secs(second as u64);
            stall.update((*issued, *ended), *state, now).is_some()
        })
    }

    #[test]
    fn queued_requests_with_none_running_are_a_stall() {
        let all_queued = (4, 0, state(0, 4));
        assert_eq!(stalls(&[all_queued, all_queued, all_queued, all_queued]), Some(3));
        let more_come = [4, 6, 8, 10].map(|issued| (issued, 0, state(0, issued)));
        assert_eq!(stalls(&more_come), Some(3));
    }

    #[test]
    fn progress_running_requests_or_missing_metrics_are_no_stall() {
        for state in [state(1, 3), state(0, 3), None, Some(EngineQueue::default())] {
            assert_eq!(stalls(&vec![(4, 0, state); 9]), None, "{state:?}");
        }
        let ends: Vec<_> = (0..9).map(|ended| (ended + 4, ended, state(0, 4))).collect();
        assert_eq!(stalls(&ends), None);
        assert_eq!(stalls(&vec![(4, 4, state(0, 0)); 9]), None, "nothing is under way");
    }
}
