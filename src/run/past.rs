//! What earlier lives of a run finished: the answers that a resume takes from the journal, and the points of its boundaries.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::Event;
use super::nesting::Nesting;
use super::secrets::hide;
use crate::boundary::Point;

/// A point and the whole answer as the script gave it.
pub type Recorded = (Point, Value);

/// An answer of an earlier life, and whether a boundary recorded it.
#[derive(Debug)]
struct Kept {
    answer: Value,
    recorded: bool,
}

/// What is taken from the journal instead of being done again.
#[derive(Debug, Default)]
pub(super) struct Past {
    answers: HashMap<String, VecDeque<Kept>>,
    /// Probes since the last recorded point: their questions, and what they asked.
    latest: Vec<(String, Value)>,
    /// By point: the questions whose answers were recorded for it.
    recorded: HashMap<String, Vec<String>>,
    points: HashMap<usize, Vec<Recorded>>,
    failed_starts: HashMap<String, Vec<Value>>,
    nesting: Nesting,
}

impl Past {
    /// Takes in one more event of an earlier life, in order.
    pub(super) fn learn(&mut self, event: Event) {
        let outside = self.nesting.outside(&event);
        match event {
            Event::Done { .. } if !outside => {}
            Event::Done { kind, args, answer } => {
                let key = key(&kind, &args);
                if kind == "probe" {
                    self.latest.push((key.clone(), args["point"].clone()));
                }
                let recorded = false;
                self.answers
                    .entry(key)
                    .or_default()
                    .push_back(Kept { answer, recorded });
            }
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => {
                self.take(&point);
                self.points.entry(boundary).or_default().push((point, answer));
            }
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
        Some(self.answers.get_mut(&key(kind, args))?.pop_front()?.answer)
    }

    /// From here on a probe of this point is not answered by what a boundary recorded for it: it is asked again.
    pub(super) fn again(&mut self, point: &Point) {
        for key in self.recorded.remove(&point.to_string()).unwrap_or_default() {
            if let Some(answers) = self.answers.get_mut(&key) {
                answers.retain(|kept| !kept.recorded);
            }
        }
    }

    /// Marks the answers that went into the record of a point: those of the probes just before it that asked all its coordinates.
    fn take(&mut self, point: &Point) {
        let asked = |value: &Value| {
            point
                .0
                .iter()
                .all(|(axis, at)| value[axis].as_f64() == Some(at.as_f64()))
        };
        for (key, _) in self.latest.drain(..).filter(|(_, value)| asked(value)) {
            for kept in self.answers.get_mut(&key).into_iter().flatten() {
                kept.recorded = true;
            }
            self.recorded.entry(point.to_string()).or_default().push(key);
        }
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

/// Maps of JSON are sorted, so that equal arguments are equal texts. The journal has them without secrets.
fn key(kind: &str, args: &Value) -> String {
    hide(&format!("{kind} {args}")).into_owned()
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
    fn a_question_with_a_secret_is_found_by_what_the_journal_keeps_of_it() {
        super::super::conceal(["given-in-a-test-of-the-past".to_owned()]);
        let mut past = Past::default();
        past.learn(done(json!({ "env": "***" }), "kept"));
        let asked = json!({ "env": "given-in-a-test-of-the-past" });
        assert_eq!(past.answer("probe", &asked), Some(json!("kept")));
    }

    #[test]
    fn what_was_recorded_does_not_answer_a_point_that_is_asked_again() {
        let mut past = Past::default();
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
        past.learn(done(args.clone(), "retried"));
        past.learn(done(args.clone(), "recorded"));
        past.learn(recorded);
        past.learn(done(args.clone(), "asked again, and killed before it was recorded"));
        past.again(&Point::default().with("input", 2));
        assert_eq!(past.size().0, 3, "another point");
        past.again(&point);
        let answer = past.answer("probe", &args);
        assert_eq!(answer, Some(json!("asked again, and killed before it was recorded")));
        assert_eq!(past.answer("probe", &args), None);
    }

    #[test]
    fn what_was_asked_within_an_experiment_goes_with_it() {
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
        let mut past = Past::default();
        past.learn(began(trial(1)));
        past.learn(of("load", load.clone(), "within the first"));
        past.learn(of("experiment", trial(1), "first"));
        past.learn(began(trial(2)));
        past.learn(Event::GivenUp {
            kind: "experiment".into(),
            args: trial(2),
        });
        past.learn(of("load", load.clone(), "by itself"));
        past.learn(began(trial(3)));
        past.learn(of("load", load.clone(), "within one that was killed"));
        past.learn(Event::Resumed { answers: 2, points: 0 });
        past.learn(of("load", load.clone(), "of the next life"));
        assert_eq!(past.answer("experiment", &trial(1)), Some(json!("first")));
        assert_eq!(past.answer("experiment", &trial(3)), None);
        assert_eq!(past.answer("load", &load), Some(json!("by itself")));
        assert_eq!(past.answer("load", &load), Some(json!("of the next life")));
        assert_eq!(past.answer("load", &load), None);
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
