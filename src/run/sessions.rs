//! The engine starts of a run, reconstructed from its journal: when each started, was ready and ended, why it failed,
//! and what was measured on it.
//!
//! Reads no files. Times are seconds since the run's first event.

use std::collections::HashMap;

use serde_json::Value;

use super::answer::Operation;
use super::event::EnginePhase;
use super::event::Event;
use crate::boundary::{Cause, Moves};

/// One start of an engine, or one attachment to a running engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineSession {
    /// Its number among the engines of this execution, from 1; its files are named `engine-<number>`.
    pub number: u64,
    /// Which of several concurrently probed engines was started; `None` if there is only one.
    pub of_several: Option<u64>,
    /// The engine and its limits; empty for an attached one.
    pub what: String,
    /// When it was launched or attached.
    pub began: f64,
    /// When it was ready; `None` if it never was.
    pub ready: Option<f64>,
    /// When it stopped; `None` if it ran until the end of the run or of the journal.
    pub ended: Option<f64>,
    /// The failure of its start, as in [`Event::StartFailed`]; null if it started.
    pub failure: Value,
    /// Its description, as in [`Event::Engine`]; only `options` if it did not start.
    pub info: Value,
    /// The probes and loads on it, in order.
    pub measurements: Vec<Measurement>,
    /// Whether its files were written: it stopped, or the run ended.
    pub files_written: bool,
}

/// One probe or load on an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// When it started.
    pub from: f64,
    /// When it was answered.
    pub to: f64,
    /// Description: `input=512 output=128`, `load of 64 requests, …`.
    pub what: String,
    /// Its verdict, if it is a probe.
    pub verdict: Option<String>,
    /// The cause of the verdict.
    pub cause: Option<Cause>,
    /// Whether the verdict means that the point does not fit.
    pub fails: bool,
    /// Whether the probe killed the engine.
    pub died: bool,
}

/// Reconstructs engine starts from events in order.
#[derive(Debug, Default)]
pub(super) struct EngineSessions {
    pub(super) sessions: Vec<EngineSession>,
    /// Index of the first engine of this execution.
    first: usize,
    /// Start time and description of the measurement under way, for each of several engines.
    measuring: HashMap<Option<u64>, (f64, String)>,
    /// The engine that the newest event is about.
    engine: Option<u64>,
    /// Time of the first event, in Unix seconds.
    journal_start: Option<f64>,
}

impl EngineSessions {
    /// Adds the next event, at `time` in the journal's format. `engine` is the engine that it is about, if there are
    /// several.
    pub(super) fn add(&mut self, time: &str, engine: Option<u64>, event: &Event) {
        let Some(now) = seconds(time) else { return };
        self.engine = engine;
        let now = now - *self.journal_start.get_or_insert(now);
        match event {
            Event::Phase { phase, detail } => self.enter(now, *phase, detail),
            Event::Engine { info } => self.engine(now, info),
            Event::StartFailed { args, failure } => {
                let failed = |session: &&mut EngineSession| session.ready.is_none() && session.of_several == engine;
                if let Some(session) = self.sessions[self.first..].iter_mut().rev().find(failed) {
                    session.failure = failure.clone();
                    session.info["options"] = args["launch"].clone();
                }
            }
            Event::Began { .. } => drop(self.measuring.remove(&engine)),
            Event::Done { args, operation, .. } => self.answered(now, args, operation),
            Event::Resumed { .. } => {
                self.first = self.sessions.len();
                self.measuring.clear();
            }
            Event::End { .. } => self.sessions[self.first..]
                .iter_mut()
                .for_each(|session| session.files_written = true),
            _ => {}
        }
    }

    fn enter(&mut self, now: f64, phase: EnginePhase, detail: &str) {
        match phase {
            EnginePhase::Loading => self.begin(now, detail),
            EnginePhase::Ready => {
                if let Some(session) = self.newest(|session| session.ready.is_none()) {
                    session.ready = Some(now);
                }
            }
            EnginePhase::Stopped => {
                let engine = detail.split(' ').next();
                if let Some(session) = self.newest(|session| session.what.split(' ').next() == engine) {
                    session.ended = Some(now);
                    session.files_written = true;
                }
            }
            EnginePhase::Probing => drop(self.measuring.insert(self.engine, (now, detail.to_owned()))),
            _ => {}
        }
    }

    fn begin(&mut self, now: f64, what: &str) {
        let number = self.sessions.len() - self.first + 1;
        self.sessions.push(EngineSession {
            number: number as u64,
            of_several: self.engine,
            what: what.to_owned(),
            began: now,
            ..EngineSession::default()
        });
    }

    fn engine(&mut self, now: f64, info: &Value) {
        let started = self.newest(|session| session.ready.is_some() && session.info.is_null());
        if started.is_none() {
            // The engine was already running.
            self.begin(now, "");
        }
        if let Some(session) = self.newest(|session| session.info.is_null()) {
            session.ready.get_or_insert(now);
            session.info = info.clone();
        }
    }

    fn answered(&mut self, now: f64, args: &Value, operation: &Operation) {
        let Some((from, what)) = self.measuring.remove(&self.engine) else {
            return;
        };
        let is_launched = |session: &EngineSession| session.info["options"] == args["launch"];
        let matched = self
            .newest(|session| session.ready.is_some() && is_launched(session))
            .is_some();
        let Some(session) = self.newest(|session| session.ready.is_some() && (!matched || is_launched(session))) else {
            return;
        };
        let probed = match operation {
            Operation::Probe(answer) => Some(answer),
            _ => None,
        };
        session.measurements.push(Measurement {
            from,
            to: now,
            what,
            verdict: probed.map(|answer| answer.verdict.name().to_owned()),
            cause: probed.and_then(|answer| answer.cause.clone()),
            fails: probed.is_some_and(|answer| answer.moves == Moves::Fails),
            died: probed.is_some_and(|answer| answer.evidence.survived == Some(false)),
        });
    }

    /// The latest engine that has not stopped and satisfies `is`.
    fn newest(&mut self, is: impl Fn(&EngineSession) -> bool) -> Option<&mut EngineSession> {
        let engine = self.engine;
        let mut sessions = self.sessions[self.first..].iter_mut().rev();
        sessions.find(|session| session.ended.is_none() && session.of_several == engine && is(session))
    }
}

/// Parses a time into Unix seconds.
fn seconds(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sessions(events: &[(u64, Value)]) -> Vec<EngineSession> {
        let mut sessions = EngineSessions::default();
        for (at, event) in events {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            sessions.add(&format!("2026-11-21T07:32:{at:02}.500Z"), None, &event);
        }
        sessions.sessions
    }

    fn phase(phase: &str, detail: &str) -> Value {
        json!({ "event": "phase", "phase": phase, "detail": detail })
    }

    fn done(launch: &Value, verdict: &str, survived: &Value) -> Value {
        json!({
            "event": "done", "id": 1, "kind": "probe", "args": { "launch": launch },
            "answer": { "verdict": verdict, "cause": "cuda", "moves": if verdict == "oom" { "fails" } else { "fits" }, "evidence": { "survived": survived } }
        })
    }

    #[test]
    fn a_failed_start_and_an_engine_that_died() {
        let launch = json!({ "memory_fraction": 0.9 });
        let began = json!({ "event": "began", "kind": "probe", "args": {} });
        let sessions = sessions(&[
            (0, began.clone()),
            (1, phase("starting", "vllm input=9")),
            (1, phase("loading", "vllm input=9")),
            (5, phase("stopped", "vllm input=9")),
            (
                5,
                json!({ "event": "start_failed", "args": { "launch": launch }, "failure": { "cause": "memory" } }),
            ),
            (5, done(&launch, "start_failed", &Value::Null)),
            (6, began.clone()),
            (6, phase("loading", "vllm input=8")),
            (9, phase("ready", "vllm input=8")),
            (9, json!({ "event": "engine", "info": { "options": launch } })),
            (10, phase("probing", "input=8")),
            (12, done(&launch, "oom", &json!(false))),
            (13, began),
            (13, done(&launch, "start_failed", &Value::Null)),
            (14, phase("stopped", "vllm")),
        ]);
        assert_eq!(sessions.len(), 2);
        assert_eq!(
            (sessions[0].number, sessions[0].ready, sessions[0].ended),
            (1, None, Some(5.0))
        );
        assert_eq!(sessions[0].failure["cause"], "memory");
        assert_eq!(sessions[0].info["options"], launch);
        assert_eq!(
            (sessions[1].began, sessions[1].ready, sessions[1].ended),
            (6.0, Some(9.0), Some(14.0))
        );
        assert_eq!(
            sessions[1].measurements,
            [Measurement {
                from: 10.0,
                to: 12.0,
                what: "input=8".into(),
                verdict: Some("oom".into()),
                cause: Some("cuda".into()),
                fails: true,
                died: true,
            }],
            "what was answered without measuring the engine is not its"
        );
        assert!(
            sessions
                .iter()
                .all(|session| session.files_written && session.failure.is_null() != (session.number == 1))
        );
    }

    #[test]
    fn a_resumed_run_numbers_its_engines_from_one() {
        let info = json!({ "event": "engine", "info": { "options": {} } });
        let sessions = sessions(&[
            (0, phase("loading", "vllm")),
            (1, phase("ready", "vllm")),
            (1, info.clone()),
            (2, json!({ "event": "resumed", "answers": 0, "points": 0 })),
            (3, info),
            (4, json!({ "event": "end", "status": "done", "value": null })),
        ]);
        let starts: Vec<_> = sessions
            .iter()
            .map(|session| (session.number, session.began, session.files_written))
            .collect();
        assert_eq!(starts, [(1, 0.0, false), (1, 3.0, true)], "the second ran already");
        assert_eq!(sessions[1].what, "");
    }
}
