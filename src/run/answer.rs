//! Answers in the journal: of finished operations, and of points as the script recorded them.

use profiler_search::names;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Evidence, ProbeAnswer};
use crate::boundary::{Answer, Cause, Effect, Verdict};
use crate::cost::Spent;
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

/// The kind of an operation of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// A point is tested.
    Probe,
    /// A load runs.
    Load,
    /// Settings are compared, or a program runs in the engine's container.
    Experiment,
    /// A job of a fleet.
    Job,
    /// Another tool's results are read.
    Results,
    /// A file is read.
    File,
    /// Memory is estimated.
    Estimate,
}

names!(OperationKind {
    Probe "probe",
    Load "load",
    Experiment "experiment",
    Job "job",
    Results "results",
    File "file",
    Estimate "estimate",
});

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
    /// Verdict and cause.
    pub judged: Answer,
    /// The evidence for the verdict.
    pub evidence: Evidence,
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
            evidence: answer.get("evidence").map(Evidence::read).unwrap_or_default(),
            // A script that computes it has a float.
            peak: float("peak").map(|bytes| bytes as u64),
            ttft_ms: float("ttft_ms"),
            tpot_ms: float("tpot_ms"),
            itl_ms: float("itl_ms"),
            e2el_ms: float("e2el_ms"),
            seconds: float("seconds"),
            spent: spent(answer),
            starts: answer.get("starts").and_then(Value::as_i64),
        })
    }

    /// Reads the answer that a probe just returned after `took` seconds: its cost is its own, with or without a `spent`.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn read_probe(answer: &Value, took: f64) -> Result<Self> {
        let read = Self::read(answer)?;
        Ok(Self {
            spent: spent_by_probe(answer, took),
            ..read
        })
    }

    /// Whether the engine is likely gone after this answer, so that the next probe has to start it. `was_down` says
    /// whether this probe had to.
    pub fn is_engine_down(&self, was_down: bool) -> bool {
        if self.spent.isolated {
            return true;
        }
        let fatal = match self.judged.verdict {
            Verdict::Oom | Verdict::Timeout => true,
            Verdict::Error => !self.is_untested(),
            // A start that is known to fail is not tried, so that a running engine keeps running.
            Verdict::StartFailed | Verdict::NotSent => was_down || self.starts != Some(0),
            Verdict::Ok | Verdict::Refused | Verdict::Preempted | Verdict::Queued | Verdict::ShortOutput => false,
        };
        fatal && self.evidence.survived != Some(true)
    }

    /// Whether the answer says nothing about memory, and a repeat might give another one.
    pub fn is_inconclusive(&self) -> bool {
        match self.judged.verdict {
            _ if self.ended_server() => false,
            Verdict::StartFailed => self.judged.cause != Some(Cause::Memory),
            Verdict::Timeout | Verdict::Error | Verdict::ShortOutput => {
                self.evidence.attempts <= 1 && !self.is_untested() && !self.is_final()
            }
            _ => false,
        }
    }

    /// Whether a server that was attached to died at this point, or stopped answering: only its operator can restart it.
    pub fn ended_server(&self) -> bool {
        self.judged.crash.is_some()
    }

    /// Whether the engine served all requests, but never all at once, because of its scheduling: it is healthy, and a
    /// repeat would do the same.
    fn is_untested(&self) -> bool {
        let effect = self.judged.cause.as_ref().map(Cause::effect);
        self.judged.verdict == Verdict::Error && effect == Some(Effect::Untested)
    }

    /// Whether a repeat would give the same answer: the server refused the request with a message that no rule matches,
    /// or the container reached the memory limit that this program set.
    fn is_final(&self) -> bool {
        let refused = self
            .evidence
            .http_status
            .is_some_and(|status| (400..500).contains(&status) && status != 408 && status != 429);
        refused || self.judged.cause == Some(Cause::MemoryLimit)
    }
}

/// Reads a point's cost from the key `spent`, which searches add, or else from the probe's own fields.
fn spent(answer: &Value) -> Spent {
    let Some(source) = answer.get("spent") else {
        return spent_by_probe(answer, 0.0);
    };
    let float = |key: &str| source.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let int = |key: &str| source.get(key).and_then(Value::as_i64);
    let ids = source.get("answers").and_then(Value::as_array);
    Spent {
        probes: int("probes").unwrap_or(1),
        starts: int("starts").unwrap_or(0),
        seconds: float("seconds"),
        gpu_seconds: float("gpu_seconds"),
        isolated: is_isolated(answer),
        answers: match ids {
            Some(ids) => ids.iter().filter_map(Value::as_u64).collect(),
            None => id(answer).into_iter().collect(),
        },
    }
}

/// The cost that a probe's answer states: `starts` (or `started`), `seconds` and `gpus`. `took` is the duration of the
/// call, for an answer that states none.
fn spent_by_probe(answer: &Value, took: f64) -> Spent {
    let float = |key: &str| answer.get(key).and_then(Value::as_f64);
    let started = answer.get("started").and_then(Value::as_bool) == Some(true);
    let seconds = float("seconds").unwrap_or(took);
    Spent {
        probes: 1,
        starts: (answer.get("starts").and_then(Value::as_i64)).unwrap_or(i64::from(started)),
        seconds,
        gpu_seconds: seconds * float("gpus").unwrap_or(0.0),
        isolated: is_isolated(answer),
        answers: id(answer).into_iter().collect(),
    }
}

fn is_isolated(answer: &Value) -> bool {
    answer.get("isolated").is_some_and(Value::is_object)
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

    #[test]
    fn an_answer_tells_whether_the_engine_is_gone_and_whether_to_ask_again() {
        let survived = json!({ "survived": true });
        // The answer, whether the engine is down afterwards, and whether the probe is repeated.
        let cases = [
            (json!("ok"), false, false),
            (json!("oom"), true, false),
            (json!({ "verdict": "oom", "evidence": survived }), false, false),
            (json!("refused"), false, false),
            (json!("timeout"), true, true),
            (
                json!({ "verdict": "timeout", "evidence": { "attempts": 3 } }),
                true,
                false,
            ),
            (
                json!({ "verdict": "timeout", "evidence": { "ended_server": true } }),
                true,
                false,
            ),
            (json!({ "verdict": "error", "cause": "not_resident" }), false, false),
            (json!({ "verdict": "error", "cause": "memory_limit" }), true, false),
            (
                json!({ "verdict": "error", "evidence": { "http_status": 422 } }),
                true,
                false,
            ),
            (
                json!({ "verdict": "error", "evidence": { "http_status": 429 } }),
                true,
                true,
            ),
            (json!("start_failed"), true, true),
            (
                json!({ "verdict": "start_failed", "cause": "memory", "starts": 1 }),
                true,
                false,
            ),
            (
                json!({ "verdict": "not_sent", "starts": 0, "evidence": {} }),
                false,
                false,
            ),
            (json!("short_output"), false, true),
            (
                json!({ "verdict": "ok", "starts": 1, "isolated": { "above": 0 } }),
                true,
                false,
            ),
        ];
        for (answer, down, again) in cases {
            let read = PointAnswer::read_probe(&answer, 1.0).unwrap();
            assert_eq!(
                (read.is_engine_down(false), read.is_inconclusive()),
                (down, again),
                "{answer}"
            );
        }
    }
}
