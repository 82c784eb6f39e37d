//! Answers in the journal: of finished operations, and of points as the script recorded them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{OperationKind, ProbeAnswer};
use crate::boundary::Answer;
use crate::fault::Result;
use crate::load::LoadAnswer;

/// The key in a probe's answer, as scripts see it, that holds the id of its [`super::Event::Done`].
pub(super) const ID: &str = "id";

/// A finished operation: its kind and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "answer", rename_all = "snake_case")]
pub enum Operation {
    /// A point was tested.
    Probe(Box<ProbeAnswer>),
    /// A load ran.
    Load(Box<LoadAnswer>),
    /// Settings were compared, or a program ran in the engine's container: the answer for the script.
    Experiment(Value),
    /// A job of a fleet ended: its status and its findings.
    Job(Value),
    /// Another tool's results were read.
    Results(Value),
    /// A file was read: its text.
    File(Value),
    /// Memory was estimated.
    Estimate(Value),
}

impl Operation {
    /// The kind in [`super::Event::Began`], and in the journal.
    pub fn kind(&self) -> OperationKind {
        match self {
            Operation::Probe(_) => OperationKind::Probe,
            Operation::Load(_) => OperationKind::Load,
            Operation::Experiment(_) => OperationKind::Experiment,
            Operation::Job(_) => OperationKind::Job,
            Operation::Results(_) => OperationKind::Results,
            Operation::File(_) => OperationKind::File,
            Operation::Estimate(_) => OperationKind::Estimate,
        }
    }

    /// Whether it measures something, rather than only reading.
    pub fn measures(&self) -> bool {
        match self {
            Operation::Probe(_) | Operation::Load(_) | Operation::Experiment(_) | Operation::Job(_) => true,
            Operation::Results(_) | Operation::File(_) | Operation::Estimate(_) => false,
        }
    }

    /// The answer as scripts get it. A probe's answer includes the operation's `id`, which a recorded point refers to.
    pub fn for_script(&self, id: u64) -> Value {
        match self {
            Operation::Probe(answer) => {
                let mut value = json!(answer);
                value[ID] = id.into();
                value
            }
            Operation::Load(answer) => json!(answer),
            Operation::Experiment(value)
            | Operation::Job(value)
            | Operation::Results(value)
            | Operation::File(value)
            | Operation::Estimate(value) => value.clone(),
        }
    }
}

/// The answer for a point as the script recorded it: a probe's answer, perhaps changed, or the script's own.
/// Measurements of another type count as missing.
#[derive(Clone, Debug, PartialEq)]
pub struct PointAnswer {
    /// Verdict, cause and evidence.
    pub judged: Answer,
    /// Peak memory, bytes.
    pub peak: Option<u64>,
    /// Time to first token, ms.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, ms.
    pub tpot_ms: Option<f64>,
    /// Inter-token latency, ms.
    pub itl_ms: Option<f64>,
    /// End-to-end latency, ms.
    pub e2el_ms: Option<f64>,
    /// Duration of the last probe in seconds, including starts.
    pub seconds: Option<f64>,
    /// The cost of the point.
    pub spent: Spent,
    /// The engine starts of the last probe, failed ones included, if it counted them.
    pub starts: Option<i64>,
}

/// The cost of a point, including retries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Number of probes.
    pub probes: i64,
    /// Number of engine starts.
    pub starts: i64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Duration times the number of GPUs.
    pub gpu_seconds: f64,
    /// The ids of the probes' [`super::Event::Done`], if they are known.
    #[serde(skip)]
    pub answers: Vec<u64>,
}

impl PointAnswer {
    /// Reads a recorded answer: the name of a verdict, or a map.
    ///
    /// # Errors
    ///
    /// `usage` if it has no verdict.
    pub fn read(answer: &Value) -> Result<Self> {
        let float = |key: &str| answer.get(key).and_then(Value::as_f64);
        Ok(Self {
            judged: Answer::parse(answer)?,
            peak: answer.get("peak").and_then(Value::as_u64),
            ttft_ms: float("ttft_ms"),
            tpot_ms: float("tpot_ms"),
            itl_ms: float("itl_ms"),
            e2el_ms: float("e2el_ms"),
            seconds: float("seconds"),
            spent: Spent::read(answer),
            starts: answer.get("starts").and_then(Value::as_i64),
        })
    }
}

impl Spent {
    /// Reads the cost from the key `spent`, which searches add, or else from the probe's own fields.
    fn read(answer: &Value) -> Self {
        let source = answer.get("spent").unwrap_or(answer);
        let float = |key: &str| source.get(key).and_then(Value::as_f64);
        let int = |key: &str| source.get(key).and_then(Value::as_i64);
        let seconds = float("seconds").unwrap_or(0.0);
        let started = source.get("started").and_then(Value::as_bool) == Some(true);
        let ids = source.get("answers").and_then(Value::as_array);
        Self {
            probes: int("probes").unwrap_or(1),
            starts: int("starts").unwrap_or(i64::from(started)),
            seconds,
            gpu_seconds: float("gpu_seconds").unwrap_or_else(|| seconds * float("gpus").unwrap_or(0.0)),
            answers: match ids {
                Some(ids) => ids.iter().filter_map(Value::as_u64).collect(),
                None => id(answer).into_iter().collect(),
            },
        }
    }
}

/// The id of the probe that a recorded answer came from.
pub(super) fn id(answer: &Value) -> Option<u64> {
    answer.get(ID).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(answer: Value) -> (i64, i64, f64, f64) {
        let spent = PointAnswer::read(&answer).unwrap().spent;
        (spent.probes, spent.starts, spent.seconds, spent.gpu_seconds)
    }

    #[test]
    fn the_cost_is_read_from_spent_or_from_the_probe() {
        let search = json!({ "probes": 3, "starts": 2, "seconds": 90.0, "gpu_seconds": 180.0 });
        let answer = json!({ "verdict": "oom", "seconds": 30.0, "starts": 1, "spent": search });
        assert_eq!(costs(answer), (3, 2, 90.0, 180.0));
        let answer = json!({ "verdict": "ok", "seconds": 30.0, "started": true, "gpus": 2 });
        assert_eq!(costs(answer), (1, 1, 30.0, 60.0));
        assert_eq!(costs(json!("timeout")), (1, 0, 0.0, 0.0));
    }
}
