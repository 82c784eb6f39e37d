//! What earlier lives of a run finished: the answers that a resume takes from the journal, and the points of its boundaries.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::Event;
use crate::boundary::Point;

/// A point and the whole answer as the script gave it.
pub type Recorded = (Point, Value);

/// What is taken from the journal instead of being done again.
#[derive(Debug, Default)]
pub(super) struct Past {
    answers: HashMap<String, VecDeque<Value>>,
    points: HashMap<usize, Vec<Recorded>>,
    failed_starts: HashMap<String, Vec<Value>>,
}

impl Past {
    /// Takes in one more event of an earlier life, in order.
    pub(super) fn learn(&mut self, event: Event) {
        match event {
            Event::Done { kind, args, answer } => {
                self.answers.entry(key(&kind, &args)).or_default().push_back(answer);
            }
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => self.points.entry(boundary).or_default().push((point, answer)),
            Event::StartFailed { args, failure } => {
                self.failed_starts.entry(key("start", &args)).or_default().push(failure);
            }
            _ => {}
        }
    }

    /// The next answer to this question.
    pub(super) fn answer(&mut self, kind: &str, args: &Value) -> Option<Value> {
        if self.answers.is_empty() {
            return None;
        }
        self.answers.get_mut(&key(kind, args))?.pop_front()
    }

    /// What the boundary of that index held. They are given once, as the boundary keeps them.
    pub(super) fn points(&mut self, boundary: usize) -> Vec<Recorded> {
        self.points.remove(&boundary).unwrap_or_default()
    }

    /// The starts of this engine that failed, oldest first.
    pub(super) fn failed_starts(&self, args: &Value) -> Vec<Value> {
        self.failed_starts.get(&key("start", args)).cloned().unwrap_or_default()
    }

    /// How many answers and points there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (
            self.answers.values().map(VecDeque::len).sum(),
            self.points.values().map(Vec::len).sum(),
        )
    }
}

/// Maps of JSON are sorted, so that equal arguments are equal texts.
fn key(kind: &str, args: &Value) -> String {
    format!("{kind} {args}")
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
    fn the_kth_question_has_the_kth_answer() {
        let mut past = Past::default();
        let point = json!({ "input": 1, "output": 2 });
        past.learn(done(point.clone(), "first"));
        past.learn(done(json!({ "input": 2 }), "other"));
        past.learn(done(point.clone(), "second"));
        assert_eq!(past.size(), (3, 0));
        let same = json!({ "output": 2, "input": 1 });
        assert_eq!(
            past.answer("probe", &same),
            Some(json!("first")),
            "whatever the order of keys"
        );
        assert_eq!(past.answer("load", &point), None, "another kind of question");
        assert_eq!(past.answer("probe", &point), Some(json!("second")));
        assert_eq!(past.answer("probe", &point), None);
    }

    #[test]
    fn failed_starts_are_those_of_the_same_engine_and_are_told_every_time() {
        let mut past = Past::default();
        let engine = |name: &str| json!({ "engine": name });
        past.learn(Event::StartFailed {
            args: engine("vllm"),
            failure: json!(1),
        });
        assert_eq!(past.failed_starts(&engine("vllm")), [json!(1)]);
        assert_eq!(past.failed_starts(&engine("vllm")), [json!(1)]);
        assert!(past.failed_starts(&engine("tgi")).is_empty());
    }
}
