//! One load as a report needs it: what was asked and what came of it, read from the arguments and the answer that the journal has. Whatever an
//! older or broken journal lacks is none.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::load::Summary;
use crate::load::figures::{Goodput, Repeats};
use crate::load::joined::{Cost, Level, MemoryOver, PowerOver};

/// One load.
#[derive(Clone, Debug, Default)]
pub(in crate::report::story) struct Load {
    /// Requests issued, completed, failed and cut off.
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub cut_off: u64,
    /// Seconds that were measured.
    pub duration: Option<f64>,
    /// Completed requests, generated tokens and tokens of both kinds, a second.
    pub request_throughput: Option<f64>,
    pub output_throughput: Option<f64>,
    pub total_throughput: Option<f64>,
    /// Latencies, milliseconds.
    pub ttft: Summary,
    pub tpot: Summary,
    pub itl: Summary,
    pub e2el: Summary,
    /// Time to the first token from when a request was due.
    pub due_ttft: Summary,
    /// How far its repeats are apart.
    pub repeats: Option<Repeats>,
    /// Of the engine.
    pub kv_usage: Option<Level>,
    pub running: Option<Level>,
    pub waiting: Option<Level>,
    pub in_flight: Option<Level>,
    pub preemptions: Option<u64>,
    /// Of the devices: bytes, watts.
    pub memory: Option<MemoryOver>,
    pub power: Option<PowerOver>,
    /// What a million tokens cost.
    pub cost: Cost,
    /// How many met the objectives.
    pub goodput: Option<Goodput>,
    /// The file of its requests, and those of its time lines, in the run's folder.
    pub records: Option<String>,
    pub timelines: Vec<String>,
    /// What spoils its figures.
    pub warnings: Vec<String>,
}

impl Load {
    /// Of the answer of `engine.load`.
    pub(in crate::report::story) fn of(answer: &Value) -> Self {
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        let number = |name: &str| answer[name].as_f64();
        let latency = |name: &str| part(&answer[name]).unwrap_or_default();
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
            due_ttft: part(&answer["response"]["ttft_ms"]).unwrap_or_default(),
            repeats: part(&answer["repeats"]),
            kv_usage: part(&answer["kv_usage"]),
            running: part(&answer["running"]),
            waiting: part(&answer["waiting"]),
            in_flight: part(&answer["in_flight"]),
            preemptions: answer["preemptions"].as_u64(),
            memory: part(&answer["memory"]),
            power: part(&answer["power"]),
            cost: part(&answer["cost"]).unwrap_or_default(),
            goodput: part(&answer["goodput"]),
            records: answer["records"].as_str().map(str::to_owned),
            timelines: timelines.map(str::to_owned).collect(),
            warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Whether more arrived than was served; none where too little was seen to tell.
    pub(in crate::report::story) fn queue_grows(&self) -> Option<bool> {
        let told = [&self.in_flight, &self.waiting].map(|level| level.as_ref().and_then(|level| level.grows));
        match told {
            [None, None] => None,
            told => Some(told.contains(&Some(true))),
        }
    }
}

/// A part of an answer in its own form; none where it is absent or another.
fn part<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_answer_lacks_is_none_and_the_rest_is_read() {
        let load = Load::of(&json!({
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
        assert_eq!(Load::of(&Value::Null).issued, 0);
    }
}
