//! Load generation: the plan of a load, the client that sends requests and reads streamed responses, and statistics.
//!
//! Begin with [`plan`]: how many requests, of which lengths, when, and when the load ends. `client` sends them from a few
//! threads and reads each response as a [`RequestRecord`]; `framing` cuts a response into events. [`stats`] computes
//! throughput and latencies from the records alone; [`engine_side`] adds what the engine's metrics page, the GPU's power
//! and the timeline say of the same time.
//!
//! Independent of engines: `engine::wire` decodes the events of each protocol through the [`Decode`] trait.

mod client;
pub mod engine_side;
mod framing;
pub mod plan;
mod record;
pub mod stats;
mod tolerance;

pub use client::{
    BuildRequest, ClientHealth, Clock, ConcurrencyChange, Control, LOAD_TOKEN, LoadConfig, LoadRun, PROBE_TOKEN,
    QueuedRequest, Rejection, RequestSource, Slots, check_in_flight, read_recorded, read_response, run_load,
};
pub use framing::{Counts, Decode, Framing, StreamEvent};
pub use record::{Failure, FailureForm, RequestOutcome, RequestRecord, request_lines};
pub use stats::Summary;
pub use tolerance::Tolerance;

use engine_side::{Cost, EngineStats};
use plan::{EndReason, LatencyMetric, Statistic};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stats::{LoadStats, RepeatStats};

use crate::boundary::{Cause, Verdict};
use crate::telemetry::Settled;

/// One load, or several repeats of it evaluated together. Every JSON key but `isolated` is always present; `null` means
/// unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadAnswer {
    /// Statistics of the requests.
    #[serde(flatten)]
    pub stats: LoadStats,
    /// Statistics of the engine and its devices during the load.
    #[serde(flatten)]
    pub engine: EngineStats,
    /// Cost per million tokens.
    pub cost: Cost,
    /// Seed of the prompts and arrivals.
    pub seed: u64,
    /// Why the load ended.
    pub stopped: EndReason,
    /// The warm-up, if one was requested.
    pub warmup: Option<WarmupCounts>,
    /// The requested precision and how close the load came to it.
    pub precision: Option<PrecisionReached>,
    /// Variation between repeats; `None` for a single load.
    pub repeats: Option<LoadRepeats>,
    /// How the engine died, if it did.
    pub died: Option<EngineDeath>,
    /// Memory before the start, if the engine was started for this load alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<Settled>,
    /// Number of the load in the run, from 1.
    pub number: u64,
    /// Path of the request records in the run folder; with several repeats, the path of the first one's.
    pub records: Option<String>,
}

/// Requests of the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmupCounts {
    /// Requests sent.
    pub issued: usize,
    /// Completed requests.
    pub completed: usize,
    /// Failed requests.
    pub failed: usize,
    /// Requests still in flight when the load ended.
    pub cut_off: usize,
    /// Its length in seconds; `None` if the load ended within it.
    pub seconds: Option<f64>,
}

/// The requested precision, and the one that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrecisionReached {
    /// The latency metric.
    pub metric: LatencyMetric,
    /// The statistic of it.
    pub statistic: Statistic,
    /// The requested half width of its 95 % confidence interval, as a share of its value.
    pub within: f64,
    /// Whether it was reached.
    pub reached: bool,
    /// The half width at the last check.
    pub width: Option<f64>,
}

/// Several repeats of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRepeats {
    /// Statistics over the repeats.
    #[serde(flatten)]
    pub stats: RepeatStats,
    /// The answer of each repeat.
    pub each: Vec<LoadAnswer>,
}

/// How an engine died during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineDeath {
    /// The verdict that a probe would have.
    pub verdict: Verdict,
    /// Its cause.
    pub cause: Cause,
    /// One sentence for the user.
    pub message: String,
    /// The decisive log line, or the end of the log.
    pub log: Vec<String>,
    /// Exit status, if known.
    pub exit_code: Option<i64>,
    /// Whether the kernel's OOM killer ended the engine.
    pub oom_killed: bool,
}

impl LoadAnswer {
    /// Reads an answer from a script. A missing or malformed key gets its default.
    pub fn read(answer: &Value) -> Self {
        if let Ok(read) = Self::deserialize(answer) {
            return read;
        }
        let Ok(Value::Object(mut readable)) = serde_json::to_value(Self::default()) else {
            return Self::default();
        };
        for (key, value) in answer.as_object().into_iter().flatten() {
            let default = readable.insert(key.clone(), value.clone());
            if from_map(&readable).is_none() {
                match default {
                    Some(default) => readable.insert(key.clone(), default),
                    None => readable.remove(key),
                };
            }
        }
        from_map(&readable).unwrap_or_default()
    }

    /// Whether more requests arrived than were served; `None` if unknown.
    pub fn queue_grows(&self) -> Option<bool> {
        let gauges =
            [&self.engine.in_flight, &self.engine.waiting].map(|gauge| gauge.as_ref().and_then(|gauge| gauge.grows));
        match gauges {
            [None, None] => None,
            gauges => Some(gauges.contains(&Some(true))),
        }
    }

    /// The answer of each repeat; itself, without repeats.
    pub fn each(&self) -> &[LoadAnswer] {
        self.repeats
            .as_ref()
            .map_or(std::slice::from_ref(self), |repeats| repeats.each.as_slice())
    }

    /// Paths of the engine timelines in the run folder: one, or one for each repeat.
    pub fn timelines(&self) -> impl Iterator<Item = &str> {
        self.each().iter().filter_map(|one| one.engine.timeline.file.as_deref())
    }
}

fn from_map(map: &Map<String, Value>) -> Option<LoadAnswer> {
    LoadAnswer::deserialize(map).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_damaged_is_default_and_the_rest_is_read() {
        let load = LoadAnswer::read(&json!({
            "issued": 20, "completed": 18, "failed": 2, "output_throughput": 202.5,
            "ttft_ms": { "n": 18, "mean": 20.0, "median": 19.0, "std": null, "p90": null, "p95": null, "p99": null, "p99_9": null, "ci": {} },
            "kv_usage": { "mean": 0.4, "max": 0.5, "growth": null, "grows": true }, "waiting": "not a gauge", "seed": "x",
            "timeline": { "file": "loads/1-timeline.csv", "hz": 10.0, "samples": 3, "missed": 0 },
            "warnings": [{ "code": "", "message": "slow client", "value": null }],
        }));
        assert_eq!((load.stats.issued, load.stats.failed), (20, 2));
        assert_eq!(
            (load.stats.latencies.ttft_ms.median, load.stats.rates.output_throughput),
            (Some(19.0), Some(202.5))
        );
        assert_eq!(load.engine.kv_usage.unwrap().max, 0.5);
        assert!(load.engine.waiting.is_none() && load.stats.latencies.itl_ms.n == 0);
        assert_eq!(load.stats.warnings, ["slow client".into()]);
        assert_eq!(load.queue_grows(), None, "KV cache usage is no queue");
        assert_eq!(load.timelines().collect::<Vec<_>>(), ["loads/1-timeline.csv"]);
        assert_eq!(LoadAnswer::read(&Value::Null), LoadAnswer::default());
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answer = LoadAnswer {
            number: 3,
            precision: Some(PrecisionReached {
                metric: LatencyMetric::TtftMs,
                statistic: Statistic::Mean,
                within: 0.05,
                reached: true,
                width: Some(0.01),
            }),
            repeats: Some(LoadRepeats {
                each: vec![LoadAnswer::default(); 2],
                ..LoadRepeats::default()
            }),
            ..LoadAnswer::default()
        };
        assert_eq!(
            LoadAnswer::deserialize(serde_json::to_value(&answer).unwrap()).unwrap(),
            answer
        );
    }
}
