//! Answers in the journal: of finished operations, and of points as the script recorded them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Event, ProbeAnswer};
use crate::boundary::Answer;
use crate::fault::Result;
use crate::load::LoadAnswer;

/// The key in a probe's answer, as scripts see it, that holds the id of its [`super::Event::Done`].
const ID: &str = "id";

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
    pub fn kind(&self) -> &'static str {
        match self {
            Operation::Probe(_) => "probe",
            Operation::Load(_) => "load",
            Operation::Experiment(_) => "experiment",
            Operation::Job(_) => "job",
            Operation::Results(_) => "results",
            Operation::File(_) => "file",
            Operation::Estimate(_) => "estimate",
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

fn id(answer: &Value) -> Option<u64> {
    answer.get(ID).and_then(Value::as_u64)
}

/// The most answers that wait to be recorded: one for each engine of a search, with room for scripts that record late.
/// An older answer is written in full when it is recorded.
const MOST_WAITING: usize = 256;

/// Answers of probes that no point has referred to yet. The line of a point holds only what the script changed in the
/// answer of its probe.
///
/// Writing and reading see the same events in the same order, so both find the same answers here.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<u64, Map<String, Value>>);

impl Waiting {
    /// Adds the next event of the journal. Points must be complete.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Done { id, operation, .. } if matches!(operation, Operation::Probe(_)) => {
                if let Value::Object(answer) = operation.for_script(*id) {
                    self.0.insert(*id, answer);
                }
                if self.0.len() > MOST_WAITING {
                    self.0.pop_first();
                }
            }
            Event::Point { answer, .. } => {
                if let Some(id) = id(answer) {
                    self.0.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// A point's answer without the entries that equal its probe's. Null stands for a key that the script removed.
    pub(super) fn shortened(&self, answer: &Value) -> Option<Value> {
        let probed = self.0.get(&id(answer)?)?;
        let recorded = answer.as_object()?;
        let is_new = |(key, value): &(&String, &Value)| *key == ID || probed.get(*key) != Some(*value);
        let changed = recorded
            .iter()
            .filter(is_new)
            .map(|(key, value)| (key.clone(), value.clone()));
        let removed = probed.keys().filter(|key| !recorded.contains_key(*key));
        let removed = removed.map(|key| (key.clone(), Value::Null));
        Some(changed.chain(removed).collect())
    }

    /// The opposite of [`Self::shortened`].
    pub(super) fn complete(&self, answer: &mut Value) {
        let probed = id(answer).and_then(|id| self.0.get(&id));
        if let (Some(probed), Value::Object(given)) = (probed, answer) {
            for (key, value) in probed {
                given.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
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

    fn probed(id: u64) -> Event {
        Event::Done {
            id,
            args: json!({ "point": { "input": id } }),
            operation: Operation::Probe(Box::default()),
        }
    }

    #[test]
    fn a_point_refers_to_its_probe_and_is_read_as_it_was_recorded() {
        let mut waiting = Waiting::default();
        (1..=3).for_each(|id| waiting.add(&probed(id)));
        let Event::Done { operation, .. } = probed(2) else {
            unreachable!()
        };
        let answer = operation.for_script(2);
        let mut changed = answer.clone();
        changed["verdict"] = "refused".into();
        changed["spent"] = json!({ "probes": 2 });
        let mut removed = answer.clone();
        removed.as_object_mut().unwrap().remove("gpus");
        let mut with_null = removed.clone();
        with_null["gpus"] = Value::Null;
        for (recorded, line, read) in [
            (&answer, json!({ "id": 2 }), &answer),
            (
                &changed,
                json!({ "id": 2, "verdict": "refused", "spent": { "probes": 2 } }),
                &changed,
            ),
            (&removed, json!({ "id": 2, "gpus": null }), &with_null),
        ] {
            let mut shortened = waiting.shortened(recorded).unwrap();
            assert_eq!(shortened, line);
            waiting.complete(&mut shortened);
            assert_eq!(shortened, *read);
        }
        for own in [
            json!("ok"),
            json!({ "verdict": "ok" }),
            json!({ "verdict": "ok", "id": 9 }),
        ] {
            assert_eq!(waiting.shortened(&own), None, "{own}");
        }
    }

    #[test]
    fn answers_that_wait_too_long_are_written_in_full() {
        let mut waiting = Waiting::default();
        (0..=MOST_WAITING as u64).for_each(|id| waiting.add(&probed(id)));
        assert_eq!(waiting.shortened(&json!({ "id": 0, "verdict": "ok" })), None);
        assert!(waiting.shortened(&json!({ "id": 1, "verdict": "ok" })).is_some());
    }
}
