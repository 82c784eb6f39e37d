//! Metrics that an engine tells as JSON: a list of moments, oldest first, as TensorRT-LLM does, or a single one. Pure.

use serde_json::Value;

use super::MetricRules;
use super::metrics::{first, state};
use crate::load::joined::State;

/// Between the two pointers of a share: `/used of /all`.
const OF: &str = " of ";

/// The moments of a page; none of one that is no JSON.
pub(super) fn read(page: &str, rules: &MetricRules) -> Vec<State> {
    let moments = match serde_json::from_str(page) {
        Ok(Value::Array(moments)) => moments,
        Ok(moment @ Value::Object(_)) => vec![moment],
        Ok(_) | Err(_) => Vec::new(),
    };
    let figures = |moment: &Value| {
        let of = |pointers: &[String]| first(pointers, |pointer| figure(moment, pointer));
        state(rules, of, of)
    };
    moments.iter().map(figures).collect()
}

/// The number that a pointer, or a share of two pointers, leads to.
fn figure(moment: &Value, pointer: &str) -> Option<f64> {
    let number = |pointer: &str| moment.pointer(pointer.trim())?.as_f64();
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
    fn each_moment_of_a_list_is_told() {
        let page = r#"[{"numActiveRequests":2,"numQueuedRequests":1,"kv":{"used":3,"all":4,"hit":2,"missed":7},"stats":{"paused":1}},
            {"numActiveRequests":0,"kv":{"used":0,"all":0}}]"#;
        let told = read(page, &rules());
        let first = State {
            running: Some(2),
            waiting: Some(1),
            kv_usage: Some(0.75),
            paused: Some(1),
            prefix_queries: Some(9),
            ..State::default()
        };
        let second = State {
            running: Some(0),
            ..State::default()
        };
        assert_eq!(told, [first, second]);
    }

    #[test]
    fn an_empty_list_and_what_is_no_json_tell_of_no_moment() {
        assert_eq!(read("[]", &rules()), []);
        assert_eq!(read("# HELP", &rules()), []);
        assert_eq!(read("{}", &rules()), [State::default()]);
    }
}
