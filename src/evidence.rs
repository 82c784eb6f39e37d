//! The evidence for a verdict: log lines, exit state, failed allocations, the queue, the limits of the start.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::boundary::Record;

/// The evidence for a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// One sentence for the user.
    pub message: Option<String>,
    /// The decisive log lines, or the end of the log.
    pub log: Vec<String>,
    /// The remedy, in the engine's flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The limit that the engine states as the reason of a failed start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<SlotLimit>,
    /// The phase of the failure: `weights`, `profiling`, `kv_cache`, `graph_capture` or `warm_up` during a start,
    /// `request` after it.
    pub phase: Option<String>,
    /// Failed GPU allocations with the allocator's numbers; the last one of each GPU.
    pub allocations: Vec<Allocation>,
    /// Whether the engine still serves after failed requests, without a restart. Checked if the failure may have
    /// damaged it.
    pub survived: Option<bool>,
    /// Whether an attached server died at this point, or answered nothing within the timeout. Only its operator can
    /// start it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended_server: bool,
    /// The engine's exit status, if it exited.
    pub exit_code: Option<i64>,
    /// Whether the kernel's OOM killer ended the engine.
    pub oom_killed: Option<bool>,
    /// HTTP status of a rejected request.
    pub http_status: Option<u16>,
    /// Memory in use after the probe, in bytes.
    pub memory: Option<u64>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// Output tokens beyond the requested number.
    pub excess: Option<u64>,
    /// The input length that the engine counted, if it differs from the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<u64>,
    /// The output length of repeated requests, raised so that early requests do not end before late ones are admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longer_output: Option<u64>,
    /// Completed requests.
    pub completed: u64,
    /// Requests sent.
    pub issued: u64,
    /// The most tokens that fit by the engine's own report, if the report is the reason why nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<u64>,
    /// Attempts, including retries.
    pub attempts: u64,
    /// Requests that the server rejected for now (429, 503), and that were sent again after the delay that it named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<u64>,
    /// Seconds spent waiting before sending them again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Queue metrics: the highest `running`, `waiting` and `kv_usage`, and the `preemptions` during the probe.
    pub queue: Option<EngineQueue>,
    /// Limits of the running engine, or of the start that failed.
    pub limits: Option<Limits>,
}

impl Evidence {
    /// Reads the evidence of a recorded answer, which may be a script's own: a text is the message, and a field of
    /// another type counts as missing.
    pub fn read(evidence: &Value) -> Self {
        match evidence {
            Value::String(message) => Self {
                message: Some(message.clone()),
                ..Self::default()
            },
            Value::Object(fields) => Self::deserialize(evidence).unwrap_or_else(|_| {
                let single = |(name, value): (&String, &Value)| Map::from_iter([(name.clone(), value.clone())]);
                let readable = fields
                    .iter()
                    .map(single)
                    .filter(|field| Self::deserialize(field).is_ok());
                Self::deserialize(Value::Object(readable.flatten().collect())).unwrap_or_default()
            }),
            _ => Self::default(),
        }
    }

    /// The evidence that was recorded with a point.
    pub fn from_record(record: &Record) -> Self {
        record.evidence().as_ref().map(Self::read).unwrap_or_default()
    }
}

/// A limit on sequences that an engine states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotLimit {
    /// The most sequences at the same time.
    pub concurrency: u64,
    /// Its reason: `state_slots`, the memory for the state of recurrent layers.
    pub by: String,
}

/// A failed allocation and the GPU's memory at that moment, in bytes. PyTorch prints sizes with two decimals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocation {
    /// Index of the GPU among the engine's visible devices.
    pub gpu: u64,
    /// Size of the failed allocation.
    pub tried: u64,
    /// Capacity of the GPU.
    pub total: Option<u64>,
    /// Free memory.
    pub free: Option<u64>,
    /// Memory in use by the process, including its CUDA context.
    pub process: Option<u64>,
    /// The allocator's limit, if one was set.
    pub allowed: Option<u64>,
    /// Allocated by PyTorch.
    pub allocated: Option<u64>,
    /// Reserved by PyTorch but unallocated.
    pub reserved: Option<u64>,
}

/// The lengths and concurrency that one start of an engine must serve. Lengths are in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Longest input.
    pub input: u64,
    /// Longest output.
    pub output: u64,
    /// Longest input and output together.
    pub total: u64,
    /// Maximum concurrent sequences.
    pub concurrency: u64,
}

/// State of an engine's queue; `None` for values that it does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineQueue {
    /// Running requests.
    pub running: Option<u64>,
    /// Queued requests.
    pub waiting: Option<u64>,
    /// KV cache usage, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions since the start.
    pub preemptions: Option<u64>,
    /// Sequences currently preempted, for engines that report this instead of a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<u64>,
}

impl EngineQueue {
    /// Whether nothing runs and nothing waits, as far as reported.
    pub fn is_idle(&self) -> bool {
        self.running.unwrap_or(0) == 0 && self.waiting.unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evidence_of_a_script_is_read_as_far_as_its_types_fit() {
        let evidence = json!({ "message": "no room", "log": "not a list", "reported": 8352, "queue": { "running": "?" }, "own": 1 });
        let read = Evidence {
            message: Some("no room".to_owned()),
            reported: Some(8352),
            ..Evidence::default()
        };
        assert_eq!(Evidence::read(&evidence), read);
        assert_eq!(Evidence::read(&json!("no room")).message, read.message);
        for other in [json!(null), json!(3), json!(["no room"])] {
            assert_eq!(Evidence::read(&other), Evidence::default(), "{other}");
        }
    }

    #[test]
    fn evidence_of_a_probe_is_read_whole() {
        let evidence = Evidence {
            log: vec!["CUDA out of memory".to_owned()],
            survived: Some(true),
            attempts: 2,
            queue: Some(EngineQueue::default()),
            ..Evidence::default()
        };
        assert_eq!(Evidence::read(&json!(evidence)), evidence);
    }
}
