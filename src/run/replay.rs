//! What earlier executions finished: answers that a resume takes from the journal, and points of its boundaries.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::event::Event;
use super::secrets::hidden_value;
use crate::boundary::{JsonText, Point};

/// A point and the complete answer that the script recorded.
pub type RecordedPoint = (Point, JsonText);

/// More probes than engines of a search answer between the answer to a point and its record.
const MAX_PENDING: usize = 256;

/// The hash of a kind of operation and its arguments.
type Key = [u8; 32];

/// An answer of an earlier execution, and whether a boundary recorded it.
#[derive(Debug)]
struct Answer {
    answer: JsonText,
    recorded: bool,
}

/// Answers, points and failed starts of earlier executions.
#[derive(Debug, Default)]
pub(super) struct Replay {
    answers: HashMap<Key, VecDeque<Answer>>,
    /// Probes that were not recorded: their keys and the points that they tested.
    pending_probes: Vec<(Key, JsonText)>,
    /// Keys of the answers that were recorded, by point.
    recorded: HashMap<String, Vec<Key>>,
    /// Points and answers.
    points: HashMap<usize, Vec<[JsonText; 2]>>,
    failed_starts: HashMap<Key, Vec<Value>>,
    experiment_depth: ExperimentDepth,
}

impl Replay {
    /// Adds the next event of an earlier execution.
    pub(super) fn add(&mut self, event: Event) {
        let top_level = self.experiment_depth.is_top_level(&event);
        match event {
            Event::Done { .. } if !top_level => {}
            Event::Done { kind, args, answer } => {
                let key = key(&kind, &args);
                if kind == "probe" {
                    self.pending_probes.push((key, JsonText::from(&args["point"])));
                }
                let (answer, recorded) = (JsonText::from(&answer), false);
                let answers = self.answers.entry(key).or_default();
                answers.push_back(Answer { answer, recorded });
            }
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => {
                self.mark_recorded(&point);
                let recorded = [&json!(point), &answer].map(JsonText::from);
                self.points.entry(boundary).or_default().push(recorded);
            }
            Event::StartFailed { args, failure } => {
                self.failed_starts.entry(key("start", &args)).or_default().push(failure);
            }
            _ => {}
        }
    }

    /// Removes and returns the next answer to this call.
    pub(super) fn answer(&mut self, kind: &str, args: &Value) -> Option<Value> {
        if self.answers.is_empty() {
            return None;
        }
        Some(self.answers.get_mut(&key(kind, args))?.pop_front()?.answer.value())
    }

    /// Discards the answers that a boundary recorded for this point, so that it is probed again.
    pub(super) fn forget(&mut self, point: &Point) {
        for key in self.recorded.remove(&point.to_string()).unwrap_or_default() {
            if let Some(answers) = self.answers.get_mut(&key) {
                answers.retain(|answer| !answer.recorded);
            }
        }
    }

    /// Marks the answers that were recorded for a point: those of the preceding probes with the same coordinates.
    fn mark_recorded(&mut self, point: &Point) {
        // Of several engines, another one may have answered in between.
        let probes = std::mem::take(&mut self.pending_probes).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = probes.partition(|(_, probed)| point.is_at(&probed.value()));
        let older = others.len().saturating_sub(MAX_PENDING);
        self.pending_probes = others.into_iter().skip(older).collect();
        for (key, _) in own {
            for answer in self.answers.get_mut(&key).into_iter().flatten() {
                answer.recorded = true;
            }
            self.recorded.entry(point.to_string()).or_default().push(key);
        }
    }

    /// The points of those answers that no boundary recorded, and nobody took yet.
    pub(super) fn unrecorded(&self) -> Vec<Value> {
        let waits = |key: &Key| {
            self.answers
                .get(key)
                .into_iter()
                .flatten()
                .any(|answer| !answer.recorded)
        };
        let probes = self.pending_probes.iter().filter(|(key, _)| waits(key));
        probes.map(|(_, point)| point.value()).collect()
    }

    /// Removes and returns the points of a boundary, with their answers.
    pub(super) fn points(&mut self, boundary: usize) -> impl Iterator<Item = (Point, Value)> + use<> {
        let points = self.points.remove(&boundary).unwrap_or_default();
        let read = |[point, answer]: [JsonText; 2]| Some((serde_json::from_value(point.value()).ok()?, answer.value()));
        points.into_iter().filter_map(read)
    }

    /// The failures of this engine's starts, oldest first.
    pub(super) fn failed_starts(&self, args: &Value) -> Vec<Value> {
        self.failed_starts.get(&key("start", args)).cloned().unwrap_or_default()
    }

    /// Number of answers and of points.
    pub(super) fn size(&self) -> (usize, usize) {
        (
            self.answers.values().map(VecDeque::len).sum(),
            self.points.values().map(Vec::len).sum(),
        )
    }
}

/// JSON maps are sorted, so equal arguments give equal keys. The journal contains them without secrets.
fn key(kind: &str, args: &Value) -> Key {
    Sha256::digest(format!("{kind} {}", hidden_value(args.clone()))).into()
}

/// The kind of operation that contains others.
pub(super) const EXPERIMENT: &str = "experiment";

#[derive(Debug, Default)]
pub(super) struct ExperimentDepth {
    depth: usize,
}

impl ExperimentDepth {
    /// Adds the next event. Returns whether it is outside of every experiment.
    pub(super) fn is_top_level(&mut self, event: &Event) -> bool {
        match event {
            Event::Began { kind, .. } if kind == EXPERIMENT => self.depth += 1,
            Event::Done { kind, .. } | Event::GivenUp { kind, .. } if kind == EXPERIMENT => {
                self.depth = self.depth.saturating_sub(1);
            }
            // Experiments of the previous execution ended with it.
            Event::Resumed { .. } => self.depth = 0,
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(args: Value, answer: &str) -> Event {
        Event::Done {
            kind: "probe".into(),
            args,
            answer: json!(answer),
        }
    }

    #[test]
    fn the_kth_call_gets_the_kth_answer() {
        let mut replay = Replay::default();
        let point = json!({ "input": 1, "output": 2 });
        replay.add(done(point.clone(), "first"));
        replay.add(done(json!({ "input": 2 }), "other"));
        replay.add(done(point.clone(), "second"));
        assert_eq!(replay.size(), (3, 0));
        let same = json!({ "output": 2, "input": 1 });
        assert_eq!(
            replay.answer("probe", &same),
            Some(json!("first")),
            "whatever the order of keys"
        );
        assert_eq!(replay.answer("load", &point), None, "another kind of call");
        assert_eq!(replay.answer("probe", &point), Some(json!("second")));
        assert_eq!(replay.answer("probe", &point), None);
    }

    #[test]
    fn a_call_with_a_secret_finds_its_redacted_answer() {
        super::super::add_secrets(["given-in-a-test-of-the-replay".to_owned()]);
        let mut replay = Replay::default();
        replay.add(done(json!({ "env": "***" }), "answer"));
        let args = json!({ "env": "given-in-a-test-of-the-replay" });
        assert_eq!(replay.answer("probe", &args), Some(json!("answer")));
    }

    #[test]
    fn a_forgotten_point_is_not_answered_by_its_recorded_answer() {
        let mut replay = Replay::default();
        let point = Point::default().with("input", 1);
        let args = json!({ "point": { "input": 1, "concurrency": 1 } });
        let recorded = Event::Point {
            boundary: 0,
            point: point.clone(),
            verdict: crate::boundary::Verdict::Ok,
            cause: None,
            moves: crate::boundary::Moves::Fits,
            answer: json!("ok"),
        };
        replay.add(done(args.clone(), "retried"));
        replay.add(done(args.clone(), "recorded"));
        replay.add(recorded);
        replay.add(done(args.clone(), "probed again, killed before it was recorded"));
        replay.forget(&Point::default().with("input", 2));
        assert_eq!(replay.size().0, 3, "another point");
        replay.forget(&point);
        let answer = replay.answer("probe", &args);
        assert_eq!(answer, Some(json!("probed again, killed before it was recorded")));
        assert_eq!(replay.answer("probe", &args), None);
    }

    #[test]
    fn answers_within_an_experiment_are_not_replayed_alone() {
        let trial = |number: u64| json!({ "trial": number });
        let load = json!({ "requests": 4 });
        let began = |args: Value| Event::Began {
            kind: "experiment".into(),
            args,
        };
        let of = |kind: &str, args: Value, answer: &str| Event::Done {
            kind: kind.into(),
            args,
            answer: json!(answer),
        };
        let mut replay = Replay::default();
        replay.add(began(trial(1)));
        replay.add(of("load", load.clone(), "within the first"));
        replay.add(of("experiment", trial(1), "first"));
        replay.add(began(trial(2)));
        replay.add(Event::GivenUp {
            kind: "experiment".into(),
            args: trial(2),
        });
        replay.add(of("load", load.clone(), "by itself"));
        replay.add(began(trial(3)));
        replay.add(of("load", load.clone(), "within one that was killed"));
        replay.add(Event::Resumed { answers: 2, points: 0 });
        replay.add(of("load", load.clone(), "of the next execution"));
        assert_eq!(replay.answer("experiment", &trial(1)), Some(json!("first")));
        assert_eq!(replay.answer("experiment", &trial(3)), None);
        assert_eq!(replay.answer("load", &load), Some(json!("by itself")));
        assert_eq!(replay.answer("load", &load), Some(json!("of the next execution")));
        assert_eq!(replay.answer("load", &load), None);
    }

    #[test]
    fn failed_starts_are_those_of_the_same_engine_and_are_kept() {
        let mut replay = Replay::default();
        let engine = |name: &str| json!({ "engine": name });
        replay.add(Event::StartFailed {
            args: engine("vllm"),
            failure: json!(1),
        });
        assert_eq!(replay.failed_starts(&engine("vllm")), [json!(1)]);
        assert_eq!(replay.failed_starts(&engine("vllm")), [json!(1)]);
        assert!(replay.failed_starts(&engine("tgi")).is_empty());
    }
}
