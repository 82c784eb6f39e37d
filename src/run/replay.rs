//! Results of earlier executions of a run: answers that a resume takes from the journal, and points of its boundaries.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::{Operation, PointAnswer};
use super::secrets::hidden_value;
use super::{Event, OperationKind, engine_number};
use crate::boundary::{JsonText, Point};

/// A point and the complete answer that the script recorded.
pub type RecordedPoint = (Point, JsonText);

/// The hash of a kind of operation and its arguments.
type Key = [u8; 32];

/// The answer of an operation of an earlier execution.
#[derive(Debug)]
struct Finished {
    id: u64,
    answer: JsonText,
    /// The point, if the operation was a probe.
    point: Option<JsonText>,
}

/// A trial of an earlier execution.
#[derive(Debug)]
struct Trial {
    key: Key,
    what: JsonText,
    ended: bool,
}

/// Answers in order, by call.
type Answers = HashMap<Key, VecDeque<Finished>>;

/// Answers, points and failed starts of earlier executions.
#[derive(Debug, Default)]
pub(super) struct Replay {
    answers: Answers,
    /// Answers within unfinished experiments whose parts count, by experiment.
    parts: HashMap<Key, Answers>,
    /// Answers within the experiments that run now, by engine.
    current: HashMap<Option<u64>, Answers>,
    /// Trials that were not asked for again, in the order in which they ended or, if they did not, began.
    trials: Vec<Trial>,
    /// Ids of the probes whose answers were recorded, by point.
    recorded: HashMap<String, HashSet<u64>>,
    /// The highest id.
    last: u64,
    /// Points and answers.
    points: HashMap<usize, Vec<[JsonText; 2]>>,
    failed_starts: HashMap<Key, Vec<Value>>,
    experiment_depth: ExperimentDepth,
}

impl Replay {
    /// Adds the next event of an earlier execution, about `engine` if there were several.
    pub(super) fn add(&mut self, engine: Option<u64>, event: Event) {
        let outermost = self.experiment_depth.within(engine).is_none();
        let top_level = self.experiment_depth.is_top_level(engine, &event);
        match event {
            Event::Began { kind, args, .. } if outermost && kind == OperationKind::Experiment => {
                let key = key(kind.name(), &args);
                if !self.trials.iter().any(|trial| trial.key == key && !trial.ended) {
                    self.add_trial(key, &args, false);
                }
            }
            Event::GivenUp { kind, args } if top_level => {
                self.take_trial(&key(kind.name(), &args), false);
            }
            Event::Done { id, args, operation } => {
                self.last = self.last.max(id);
                let key = key(operation.kind().name(), &args);
                if top_level && operation.kind() == OperationKind::Experiment {
                    self.take_trial(&key, false);
                    self.add_trial(key, &args, true);
                }
                let answers = match self.experiment_depth.within(engine).map(|depth| depth.in_parts) {
                    _ if top_level => &mut self.answers,
                    Some(Some(experiment)) => self.parts.entry(experiment).or_default(),
                    _ => return,
                };
                let point = matches!(operation, Operation::Probe(_)).then(|| JsonText::from(&args["point"]));
                let answer = JsonText::from(&operation.for_script(id));
                answers
                    .entry(key)
                    .or_default()
                    .push_back(Finished { id, answer, point });
                if top_level && operation.kind() == OperationKind::Experiment {
                    self.parts.remove(&key);
                }
            }
            Event::Point {
                boundary,
                point,
                answer,
                ..
            } => {
                if let Ok(answer) = PointAnswer::read(&answer) {
                    let ids = self.recorded.entry(point.to_string()).or_default();
                    ids.extend(answer.spent.answers);
                }
                let recorded = [&json!(point), &answer].map(JsonText::from);
                self.points.entry(boundary).or_default().push(recorded);
            }
            Event::StartFailed { args, failure } => {
                self.failed_starts.entry(key("start", &args)).or_default().push(failure);
            }
            _ => {}
        }
    }

    fn add_trial(&mut self, key: Key, args: &Value, ended: bool) {
        // A program that ran in an engine is an experiment too.
        if args["trial"].is_object() {
            let what = JsonText::from(&args["trial"]);
            self.trials.push(Trial { key, what, ended });
        }
    }

    fn take_trial(&mut self, key: &Key, ended: bool) {
        let is_this = |trial: &Trial| trial.key == *key && trial.ended == ended;
        if let Some(at) = self.trials.iter().position(is_this) {
            self.trials.remove(at);
        }
    }

    /// The trials that were not asked for again, `#{ what, ended }`: in the order in which they ended, then those that
    /// were cut off.
    pub(super) fn trials(&self) -> Vec<Value> {
        let (ended, cut_off): (Vec<_>, Vec<_>) = self.trials.iter().partition(|trial| trial.ended);
        let all = ended.into_iter().chain(cut_off);
        all.map(|trial| json!({ "what": trial.what.value(), "ended": trial.ended }))
            .collect()
    }

    /// Removes and returns the next answer to this call.
    pub(super) fn answer(&mut self, kind: OperationKind, args: &Value) -> Option<Value> {
        if self.answers.is_empty() && self.current.is_empty() {
            return None;
        }
        let key = key(kind.name(), args);
        let next = |answers: &mut Answers| answers.get_mut(&key)?.pop_front();
        let running = self.current.get_mut(&engine_number()).and_then(next);
        // Answers of an experiment with all engines belong to none of them.
        let of_all = || self.current.get_mut(&None).and_then(next);
        let found = running.or_else(of_all).or_else(|| next(&mut self.answers))?;
        self.take_trial(&key, true);
        Some(found.answer.value())
    }

    /// From now on, the answers within this experiment count for the engine of this thread. It did not finish.
    pub(super) fn enter(&mut self, args: &Value) {
        let experiment = key(OperationKind::Experiment.name(), args);
        self.take_trial(&experiment, false);
        let parts = self.parts.remove(&experiment).unwrap_or_default();
        self.current.insert(engine_number(), parts);
    }

    /// The experiment of this engine is over.
    pub(super) fn leave(&mut self) {
        self.current.remove(&engine_number());
    }

    /// Discards the answers that a boundary recorded for this point, so that it is probed again.
    pub(super) fn forget(&mut self, point: &Point) {
        let Some(recorded) = self.recorded.remove(&point.to_string()) else {
            return;
        };
        for answers in self.answers.values_mut() {
            answers.retain(|answer| !recorded.contains(&answer.id));
        }
    }

    /// The points of probes that no boundary recorded and whose answers were not replayed yet, in order.
    pub(super) fn unrecorded(&self) -> Vec<Value> {
        let recorded: HashSet<u64> = self.recorded.values().flatten().copied().collect();
        let answers = self
            .answers
            .values()
            .flatten()
            .filter(|answer| !recorded.contains(&answer.id));
        let points: BTreeMap<u64, Value> = answers
            .filter_map(|answer| Some((answer.id, answer.point.as_ref()?.value())))
            .collect();
        points.into_values().collect()
    }

    /// The highest id of an operation; 0 if there is none.
    pub(super) fn last_id(&self) -> u64 {
        self.last
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
        let answers = self.parts.values().chain([&self.answers]).flat_map(HashMap::values);
        (
            answers.map(VecDeque::len).sum(),
            self.points.values().map(Vec::len).sum(),
        )
    }
}

/// The key of a call. JSON maps are sorted, so equal arguments give equal keys. The journal stores arguments without
/// secrets, so they are hidden here too.
fn key(kind: &str, args: &Value) -> Key {
    Sha256::digest(format!("{kind} {}", hidden_value(args.clone()))).into()
}

/// How deep within experiments the events of each engine are: a trial may run a program, which is one too, and several
/// engines may be measured at the same time.
#[derive(Debug, Default)]
pub(super) struct ExperimentDepth(HashMap<Option<u64>, Depth>);

#[derive(Debug, Default)]
struct Depth {
    depth: usize,
    /// The newest outermost experiment, if its parts count without it.
    in_parts: Option<Key>,
}

impl ExperimentDepth {
    /// The experiment that the events of an engine are within: that of the script, else its own.
    fn within(&self, engine: Option<u64>) -> Option<&Depth> {
        let own = [None, engine].into_iter().filter_map(|engine| self.0.get(&engine));
        own.into_iter().find(|depth| depth.depth > 0)
    }

    /// Adds the next event of an engine. Returns whether it is outside of every experiment.
    pub(super) fn is_top_level(&mut self, engine: Option<u64>, event: &Event) -> bool {
        match event {
            Event::Began { kind, args, in_parts } if *kind == OperationKind::Experiment => {
                let own = self.0.entry(engine).or_default();
                if own.depth == 0 {
                    own.in_parts = in_parts.then(|| key(kind.name(), args));
                }
                own.depth += 1;
            }
            Event::Done {
                operation: Operation::Experiment(_),
                ..
            }
            | Event::GivenUp { .. } => {
                let own = self.0.entry(engine).or_default();
                own.depth = own.depth.saturating_sub(1);
            }
            // Experiments of the previous execution ended with it.
            Event::Resumed { .. } => self.0.values_mut().for_each(|own| own.depth = 0),
            _ => {}
        }
        self.within(engine).is_none()
    }

    /// Whether the parts of the newest outermost experiment of an engine count without it.
    pub(super) fn counts_in_parts(&self, engine: Option<u64>) -> bool {
        self.0.get(&engine).is_some_and(|own| own.in_parts.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Result;
    use serde_json::json;

    /// A file was read.
    fn read(args: Value, text: &str) -> Event {
        Event::Done {
            id: 1,
            args,
            operation: Operation::File(json!(text)),
        }
    }

    #[test]
    fn the_kth_call_gets_the_kth_answer() {
        let mut replay = Replay::default();
        let point = json!({ "input": 1, "output": 2 });
        replay.add(None, read(point.clone(), "first"));
        replay.add(None, read(json!({ "input": 2 }), "other"));
        replay.add(None, read(point.clone(), "second"));
        assert_eq!(replay.size(), (3, 0));
        let same = json!({ "output": 2, "input": 1 });
        assert_eq!(
            replay.answer(OperationKind::File, &same),
            Some(json!("first")),
            "whatever the order of keys"
        );
        assert_eq!(replay.answer(OperationKind::Load, &point), None, "another kind of call");
        assert_eq!(replay.answer(OperationKind::File, &point), Some(json!("second")));
        assert_eq!(replay.answer(OperationKind::File, &point), None);
    }

    #[test]
    fn a_call_with_a_secret_finds_its_redacted_answer() {
        super::super::add_secrets(["given-in-a-test-of-the-replay".to_owned()]);
        let mut replay = Replay::default();
        replay.add(None, read(json!({ "env": "***" }), "answer"));
        let args = json!({ "env": "given-in-a-test-of-the-replay" });
        assert_eq!(replay.answer(OperationKind::File, &args), Some(json!("answer")));
    }

    #[test]
    fn a_forgotten_point_is_not_answered_by_the_probes_that_were_recorded_for_it() {
        let mut replay = Replay::default();
        let point = Point::default().with("input", 1);
        let args = json!({ "point": { "input": 1, "concurrency": 1 } });
        let probed = |id| Event::Done {
            id,
            args: args.clone(),
            operation: Operation::Probe(Box::default()),
        };
        let recorded = |answer| Event::Point {
            boundary: 0,
            point: point.clone(),
            verdict: crate::boundary::Verdict::Ok,
            cause: None,
            moves: crate::boundary::Moves::Fits,
            answer,
        };
        // A probe that was retried once.
        (1..=2).for_each(|id| replay.add(None, probed(id)));
        replay.add(
            None,
            recorded(json!({ "verdict": "ok", "id": 2, "spent": { "answers": [1, 2] } })),
        );
        // A probe that was repeated, but not recorded before the kill.
        replay.add(None, probed(3));
        assert_eq!(replay.unrecorded(), [json!({ "input": 1, "concurrency": 1 })]);
        replay.forget(&Point::default().with("input", 2));
        assert_eq!(replay.size().0, 3, "another point");
        replay.forget(&point);
        let answer = replay.answer(OperationKind::Probe, &args).unwrap();
        assert_eq!(answer["id"], 3);
        assert_eq!(replay.answer(OperationKind::Probe, &args), None);
        assert!(replay.unrecorded().is_empty() && replay.last_id() == 3);
    }

    #[test]
    fn answers_within_an_experiment_are_not_replayed_alone() {
        let trial = |number: u64| json!({ "trial": number });
        let load = json!({ "requests": 4 });
        let began = |args: Value| Event::Began {
            kind: OperationKind::Experiment,
            args,
            in_parts: false,
        };
        let given_up = |args: Value| Event::GivenUp {
            kind: OperationKind::Experiment,
            args,
        };
        let measured = |args: Value| Event::Done {
            id: 1,
            args,
            operation: Operation::Experiment(json!("measured")),
        };
        let mut replay = Replay::default();
        replay.add(None, began(trial(1)));
        replay.add(None, read(load.clone(), "within the first"));
        replay.add(None, measured(trial(1)));
        replay.add(None, began(trial(2)));
        replay.add(None, given_up(trial(2)));
        replay.add(None, read(load.clone(), "by itself"));
        replay.add(None, began(trial(3)));
        replay.add(None, read(load.clone(), "within one that was killed"));
        replay.add(None, Event::Resumed { answers: 2, points: 0 });
        replay.add(None, read(load.clone(), "of the next execution"));
        assert_eq!(
            replay.answer(OperationKind::Experiment, &trial(1)),
            Some(json!("measured"))
        );
        assert_eq!(replay.answer(OperationKind::Experiment, &trial(3)), None);
        assert_eq!(replay.answer(OperationKind::File, &load), Some(json!("by itself")));
        assert_eq!(
            replay.answer(OperationKind::File, &load),
            Some(json!("of the next execution"))
        );
        assert_eq!(replay.answer(OperationKind::File, &load), None);
    }

    #[test]
    fn answers_within_an_experiment_that_counts_in_parts_are_replayed_within_it() {
        let [trial, program, load] = ["trial", "program", "load"].map(|name| json!({ name: 1 }));
        let began = |args: &Value, in_parts| Event::Began {
            kind: OperationKind::Experiment,
            args: args.clone(),
            in_parts,
        };
        let measured = |args: &Value| Event::Done {
            id: 1,
            args: args.clone(),
            operation: Operation::Experiment(json!("measured")),
        };
        let mut replay = Replay::default();
        // The first of two equal trials finished, the second was cut off after a program and a load within it.
        replay.add(None, began(&trial, true));
        replay.add(None, read(load.clone(), "of the first"));
        replay.add(None, measured(&trial));
        replay.add(None, began(&trial, true));
        replay.add(None, began(&program, false));
        replay.add(None, measured(&program));
        replay.add(None, read(load.clone(), "of the second"));
        replay.add(None, Event::Resumed { answers: 3, points: 0 });
        assert_eq!(replay.answer(OperationKind::File, &load), None, "outside of the trial");
        let run = super::super::Run {
            replay: replay.into(),
            ..Default::default()
        };
        let again = || -> Result<Operation> { panic!("it was answered") };
        assert_eq!(
            run.measure_trial(trial.clone(), true, again).unwrap(),
            json!("measured")
        );
        let second = run.measure_trial(trial, true, || -> Result<Operation> {
            run.measure(OperationKind::Experiment, program, again)?;
            Ok(Operation::Experiment(
                run.replay(OperationKind::File, &load).unwrap_or_default(),
            ))
        });
        assert_eq!(second.unwrap(), json!("of the second"));
        assert_eq!(run.replay(OperationKind::File, &load), None, "only once");
    }

    #[test]
    fn trials_at_the_same_time_are_apart() {
        let [a, b] = ["a", "b"].map(|name| json!({ "trial": { "setting": name } }));
        let load = json!({ "requests": 4 });
        let began = |args: &Value| Event::Began {
            kind: OperationKind::Experiment,
            args: args.clone(),
            in_parts: true,
        };
        let mut replay = Replay::default();
        replay.add(Some(1), began(&a));
        replay.add(Some(2), began(&b));
        replay.add(Some(1), read(load.clone(), "of a"));
        replay.add(Some(2), read(load.clone(), "of b"));
        replay.add(
            Some(2),
            Event::Done {
                id: 1,
                args: b.clone(),
                operation: Operation::Experiment(json!("measured")),
            },
        );
        replay.add(None, Event::Resumed { answers: 2, points: 0 });
        let trial = |args: &Value, ended: bool| json!({ "what": args["trial"], "ended": ended });
        assert_eq!(replay.trials(), [trial(&b, true), trial(&a, false)]);
        let run = super::super::Run {
            replay: replay.into(),
            ..Default::default()
        };
        let again = |args: &Value| {
            run.measure_trial(args.clone(), true, || -> Result<Operation> {
                Ok(Operation::Experiment(
                    run.replay(OperationKind::File, &load).unwrap_or_default(),
                ))
            })
        };
        let both = std::thread::scope(|scope| {
            let first = scope.spawn(|| super::super::for_engine(1, || again(&a)));
            let second = super::super::for_engine(2, || again(&b));
            (first.join().unwrap().unwrap(), second.unwrap())
        });
        assert_eq!(both, (json!("of a"), json!("measured")));
        assert!(run.earlier_trials().is_empty());
    }

    #[test]
    fn failed_starts_are_those_of_the_same_engine_and_are_kept() {
        let mut replay = Replay::default();
        let engine = |name: &str| json!({ "engine": name });
        replay.add(
            None,
            Event::StartFailed {
                args: engine("vllm"),
                failure: json!(1),
            },
        );
        assert_eq!(replay.failed_starts(&engine("vllm")), [json!(1)]);
        assert_eq!(replay.failed_starts(&engine("vllm")), [json!(1)]);
        assert!(replay.failed_starts(&engine("tgi")).is_empty());
    }
}
