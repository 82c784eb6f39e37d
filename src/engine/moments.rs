//! Reads metrics pages in JSON: a list of snapshots, oldest first, as in TensorRT-LLM, or a single one.

use serde_json::Value;

use super::MetricRules;
use super::metrics::{first, state};
use crate::load::engine_side::EngineMetrics;

/// Separates the two pointers of a ratio: `/used of /all`.
const OF: &str = " of ";

/// The snapshots on a page; none if it is not JSON.
pub(super) fn read(page: &str, rules: &MetricRules) -> Vec<EngineMetrics> {
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

#[cfg(test)]
mod tests {
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
        let snapshots = read(page, &rules());
        let first = EngineMetrics {
            running: Some(2),
            waiting: Some(1),
            kv_usage: Some(0.75),
            paused: Some(1),
            prefix_queries: Some(9),
            ..EngineMetrics::default()
        };
        let second = EngineMetrics {
            running: Some(0),
            ..EngineMetrics::default()
        };
        assert_eq!(snapshots, [first, second]);
    }

    #[test]
    fn an_empty_list_and_non_json_have_no_snapshots() {
        assert_eq!(read("[]", &rules()), []);
        assert_eq!(read("# HELP", &rules()), []);
        assert_eq!(read("{}", &rules()), [EngineMetrics::default()]);
    }
}
