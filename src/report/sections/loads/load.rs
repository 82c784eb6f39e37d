//! The result of one load, read from the journal. Fields that an older or damaged journal lacks are `None`.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::load::Summary;
use crate::load::engine_side::{Cost, GaugeStats, MemoryStats, PowerStats};
use crate::load::stats::{Goodput, RepeatStats};

#[derive(Clone, Debug, Default)]
pub(in crate::report::sections) struct LoadResult {
    /// Counts of requests.
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub cut_off: u64,
    /// Measured seconds.
    pub duration: Option<f64>,
    /// Completed requests, generated tokens, and input plus output tokens, per second.
    pub request_throughput: Option<f64>,
    pub output_throughput: Option<f64>,
    pub total_throughput: Option<f64>,
    /// Milliseconds.
    pub ttft: Summary,
    pub tpot: Summary,
    pub itl: Summary,
    pub e2el: Summary,
    /// Time to first token, counted from when a request was due.
    pub due_ttft: Summary,
    /// Variation between repeats.
    pub repeats: Option<RepeatStats>,
    /// Engine metrics.
    pub kv_usage: Option<GaugeStats>,
    pub running: Option<GaugeStats>,
    pub waiting: Option<GaugeStats>,
    pub in_flight: Option<GaugeStats>,
    pub preemptions: Option<u64>,
    /// Device memory in bytes, and power in watts.
    pub memory: Option<MemoryStats>,
    pub power: Option<PowerStats>,
    /// Cost per million tokens.
    pub cost: Cost,
    /// Requests that met the SLO.
    pub goodput: Option<Goodput>,
    /// Paths of the request file and of the timelines in the run folder.
    pub records: Option<String>,
    pub timelines: Vec<String>,
    pub warnings: Vec<String>,
}

impl LoadResult {
    /// Reads the answer of `engine.load`.
    pub(in crate::report::sections) fn from_answer(answer: &Value) -> Self {
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        let number = |name: &str| answer[name].as_f64();
        let latency = |name: &str| parse(&answer[name]).unwrap_or_default();
        let each = answer["repeats"]["each"].as_array();
        let alone = std::slice::from_ref(answer);
        let timelines = each.map_or(alone, Vec::as_slice).iter();
        let timelines = timelines.filter_map(|one| one["timeline"]["file"].as_str());
        let warnings = answer["warnings"].as_array().into_iter().flatten();
        Self {
            issued: count("issued"),
            completed: count("completed"),
            failed: count("failed"),
            cut_off: count("cut_off"),
            duration: number("duration"),
            request_throughput: number("request_throughput"),
            output_throughput: number("output_throughput"),
            total_throughput: number("total_token_throughput"),
            ttft: latency("ttft_ms"),
            tpot: latency("tpot_ms"),
            itl: latency("itl_ms"),
            e2el: latency("e2el_ms"),
            due_ttft: parse(&answer["response"]["ttft_ms"]).unwrap_or_default(),
            repeats: parse(&answer["repeats"]),
            kv_usage: parse(&answer["kv_usage"]),
            running: parse(&answer["running"]),
            waiting: parse(&answer["waiting"]),
            in_flight: parse(&answer["in_flight"]),
            preemptions: answer["preemptions"].as_u64(),
            memory: parse(&answer["memory"]),
            power: parse(&answer["power"]),
            cost: parse(&answer["cost"]).unwrap_or_default(),
            goodput: parse(&answer["goodput"]),
            records: answer["records"].as_str().map(str::to_owned),
            timelines: timelines.map(str::to_owned).collect(),
            warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Whether more requests arrived than were served; none if unknown.
    pub(in crate::report::sections) fn queue_grows(&self) -> Option<bool> {
        let gauges = [&self.in_flight, &self.waiting].map(|level| level.as_ref().and_then(|level| level.grows));
        match gauges {
            [None, None] => None,
            gauges => Some(gauges.contains(&Some(true))),
        }
    }
}

/// Reads a part of the answer; none if it is absent or has another form.
fn parse<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_fields_are_none() {
        let load = LoadResult::from_answer(&json!({
            "issued": 20, "completed": 18, "failed": 2, "output_throughput": 202.5,
            "ttft_ms": { "n": 18, "mean": 20.0, "median": 19.0, "std": null, "p50": 19.0, "p90": null, "p95": null, "p99": null, "p99_9": null, "ci": {} },
            "kv_usage": { "mean": 0.4, "max": 0.5, "growth": null, "grows": true }, "waiting": "not a level",
            "repeats": { "each": [{ "timeline": { "file": "loads/1-1-timeline.csv" } }, { "timeline": { "file": "loads/1-2-timeline.csv" } }] },
            "warnings": ["slow client", 3],
        }));
        assert_eq!((load.issued, load.failed, load.ttft.p50), (20, 2, Some(19.0)));
        assert_eq!(load.kv_usage.unwrap().max, 0.5);
        assert!(load.waiting.is_none() && load.repeats.is_none() && load.itl.n == 0);
        assert_eq!(load.timelines.len(), 2);
        assert_eq!(load.warnings, ["slow client"]);
        assert_eq!(load.queue_grows(), None, "use of the cache is no queue");
        assert_eq!(LoadResult::from_answer(&Value::Null).issued, 0);
    }
}
