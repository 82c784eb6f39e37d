//! The lives of a run's engines as its journal tells them: when each began, was ready and ended, why it failed, and what was asked of it.
//!
//! Pure. Times are seconds since the run's first event.

use serde_json::Value;

use super::Event;

/// One start of an engine, or the time in which one that ran already was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Life {
    /// Its number among the engines of this life of the run, from 1: its files are named `engine-<number>`.
    pub number: u64,
    /// What was started: the engine and its limits; empty for one that ran already.
    pub what: String,
    /// When it was launched, or attached to.
    pub began: f64,
    /// When it was ready; none where it never was.
    pub ready: Option<f64>,
    /// When it had ended; none where it went on until the run's end, or the journal's.
    pub ended: Option<f64>,
    /// The failure of its start as [`Event::StartFailed`] has it; null where it did not fail.
    pub failure: Value,
    /// What [`Event::Engine`] tells of it; of one that did not start, only `options`.
    pub info: Value,
    /// What was asked of it, in order.
    pub asked: Vec<Asked>,
    /// Whether its files were written: it ended, or the run came to its end.
    pub kept: bool,
}

/// Requests that an engine was asked together: those of a probe or a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// When it began.
    pub from: f64,
    /// When it was answered.
    pub to: f64,
    /// What: `input=512 output=128`, `load of 64 requests, …`.
    pub what: String,
    /// The verdict of a probe.
    pub verdict: Option<String>,
    /// Its cause.
    pub cause: Option<String>,
    /// Whether it says that the point does not fit.
    pub fails: bool,
    /// Whether the engine was dead afterwards.
    pub died: bool,
}

/// Learns lives from events in their order.
#[derive(Debug, Default)]
pub(super) struct Lives {
    lives: Vec<Life>,
    /// Where the engines of this life of the run begin.
    first: usize,
    /// When the requests that are under way began, and what they are.
    asking: Option<(f64, String)>,
    /// When the journal began, in seconds of the epoch.
    zero: Option<f64>,
}

impl Lives {
    /// The lives, oldest first.
    pub(super) fn into_lives(self) -> Vec<Life> {
        self.lives
    }

    /// Takes in the next event, which happened at `time` (as the journal writes it).
    pub(super) fn learn(&mut self, time: &str, event: &Event) {
        let Some(now) = seconds(time) else { return };
        let now = now - *self.zero.get_or_insert(now);
        match event {
            Event::Phase { phase, detail } => self.enter(now, phase, detail),
            Event::Engine { info } => self.engine(now, info),
            Event::StartFailed { args, failure } => {
                if let Some(life) = self.lives[self.first..]
                    .iter_mut()
                    .rev()
                    .find(|life| life.ready.is_none())
                {
                    life.failure = failure.clone();
                    life.info["options"] = args["launch"].clone();
                }
            }
            Event::Began { .. } => self.asking = None,
            Event::Done { args, answer, .. } => self.answered(now, args, answer),
            Event::Resumed { .. } => {
                self.first = self.lives.len();
                self.asking = None;
            }
            Event::End { .. } => self.lives[self.first..].iter_mut().for_each(|life| life.kept = true),
            _ => {}
        }
    }

    fn enter(&mut self, now: f64, phase: &str, detail: &str) {
        match phase {
            "loading" => self.begin(now, detail),
            "ready" => {
                if let Some(life) = self.newest(|life| life.ready.is_none()) {
                    life.ready = Some(now);
                }
            }
            "stopped" => {
                let engine = detail.split(' ').next();
                if let Some(life) = self.newest(|life| life.what.split(' ').next() == engine) {
                    life.ended = Some(now);
                    life.kept = true;
                }
            }
            "probing" => self.asking = Some((now, detail.to_owned())),
            _ => {}
        }
    }

    fn begin(&mut self, now: f64, what: &str) {
        let number = self.lives.len() - self.first + 1;
        self.lives.push(Life {
            number: number as u64,
            what: what.to_owned(),
            began: now,
            ..Life::default()
        });
    }

    fn engine(&mut self, now: f64, info: &Value) {
        if self
            .newest(|life| life.ready.is_some() && life.info.is_null())
            .is_none()
        {
            // It ran already.
            self.begin(now, "");
        }
        if let Some(life) = self.newest(|life| life.info.is_null()) {
            life.ready.get_or_insert(now);
            life.info = info.clone();
        }
    }

    fn answered(&mut self, now: f64, args: &Value, answer: &Value) {
        let Some((from, what)) = self.asking.take() else { return };
        let launch = &args["launch"];
        let of_it = |life: &Life| life.ready.is_some() && life.info["options"] == *launch;
        let known = self.newest(of_it).is_some();
        let Some(life) = self.newest(|life| life.ready.is_some() && (!known || life.info["options"] == *launch)) else {
            return;
        };
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        life.asked.push(Asked {
            from,
            to: now,
            what,
            verdict: text("verdict"),
            cause: text("cause"),
            fails: answer["moves"] == "fails",
            died: answer["evidence"]["survived"] == false,
        });
    }

    /// The newest life that goes on and is so.
    fn newest(&mut self, is: impl Fn(&Life) -> bool) -> Option<&mut Life> {
        let mut lives = self.lives[self.first..].iter_mut().rev();
        lives.find(|life| life.ended.is_none() && is(life))
    }
}

/// Seconds of the epoch.
fn seconds(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lives(events: &[(u64, Value)]) -> Vec<Life> {
        let mut lives = Lives::default();
        for (at, event) in events {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            lives.learn(&format!("2026-11-21T07:32:{at:02}.500Z"), &event);
        }
        lives.into_lives()
    }

    fn phase(phase: &str, detail: &str) -> Value {
        json!({ "event": "phase", "phase": phase, "detail": detail })
    }

    fn done(launch: &Value, verdict: &str, survived: &Value) -> Value {
        json!({
            "event": "done", "kind": "probe", "args": { "launch": launch },
            "answer": { "verdict": verdict, "cause": "cuda", "moves": if verdict == "oom" { "fails" } else { "fits" }, "evidence": { "survived": survived } }
        })
    }

    #[test]
    fn a_start_that_failed_and_one_that_died() {
        let launch = json!({ "memory_fraction": 0.9 });
        let began = json!({ "event": "began", "kind": "probe", "args": {} });
        let lives = lives(&[
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
        assert_eq!(lives.len(), 2);
        assert_eq!((lives[0].number, lives[0].ready, lives[0].ended), (1, None, Some(5.0)));
        assert_eq!(lives[0].failure["cause"], "memory");
        assert_eq!(lives[0].info["options"], launch);
        assert_eq!(
            (lives[1].began, lives[1].ready, lives[1].ended),
            (6.0, Some(9.0), Some(14.0))
        );
        assert_eq!(
            lives[1].asked,
            [Asked {
                from: 10.0,
                to: 12.0,
                what: "input=8".into(),
                verdict: Some("oom".into()),
                cause: Some("cuda".into()),
                fails: true,
                died: true,
            }],
            "what was answered without asking the engine is not its"
        );
        assert!(
            lives
                .iter()
                .all(|life| life.kept && life.failure.is_null() != (life.number == 1))
        );
    }

    #[test]
    fn a_run_that_was_killed_begins_to_count_again() {
        let info = json!({ "event": "engine", "info": { "options": {} } });
        let lives = lives(&[
            (0, phase("loading", "vllm")),
            (1, phase("ready", "vllm")),
            (1, info.clone()),
            (2, json!({ "event": "resumed", "answers": 0, "points": 0 })),
            (3, info),
            (4, json!({ "event": "end", "status": "done", "value": null })),
        ]);
        let told: Vec<_> = lives.iter().map(|life| (life.number, life.began, life.kept)).collect();
        assert_eq!(told, [(1, 0.0, false), (1, 3.0, true)], "the second ran already");
        assert_eq!(lives[1].what, "");
    }
}
