//! How far a run is, as lines of text.

use std::time::Duration;

use crate::boundary::Moves;
use crate::report::{Bytes, Clock, Count};
use crate::run::Event;

/// How far a run is.
#[derive(Debug, Default)]
pub(super) struct State {
    phase: String,
    detail: String,
    points: usize,
    fits: usize,
    fails: usize,
    progress: Option<Progress>,
    memory: Option<(u64, u64)>,
    simulated: bool,
}

/// What a strategy told last, and when it first told anything in this life of the run.
#[derive(Debug)]
struct Progress {
    done: u64,
    expected: Option<u64>,
    coverage: f64,
    first: (u64, Duration),
    at: Duration,
    /// The strategy's own estimate of what was left then.
    left: Option<Duration>,
}

impl State {
    /// Takes in one more event, `elapsed` after the start.
    pub(super) fn learn(&mut self, event: &Event, elapsed: Duration) {
        match event {
            Event::Phase { phase, detail } => {
                self.phase.clone_from(phase);
                self.detail.clone_from(detail);
            }
            Event::Point { moves, .. } => {
                self.points += 1;
                match moves {
                    Moves::Fits => self.fits += 1,
                    Moves::Fails => self.fails += 1,
                    Moves::None => {}
                }
            }
            Event::Progress {
                done,
                expected,
                coverage,
                seconds_left,
            } => {
                let first = self
                    .progress
                    .as_ref()
                    .map_or((*done, elapsed), |progress| progress.first);
                self.progress = Some(Progress {
                    done: *done,
                    expected: *expected,
                    coverage: *coverage,
                    first,
                    at: elapsed,
                    left: seconds_left.and_then(|left| Duration::try_from_secs_f64(left).ok()),
                });
            }
            Event::Memory { used, total } => self.memory = Some((*used, *total)),
            _ => {}
        }
    }

    /// The run is simulated; whether that is news.
    pub(super) fn turned_simulated(&mut self) -> bool {
        !std::mem::replace(&mut self.simulated, true)
    }

    /// What the run is doing.
    pub(super) fn doing(&self) -> String {
        let mark = if self.simulated { "SIMULATED " } else { "" };
        format!("{mark}{} {}", self.phase, self.detail).trim_end().to_owned()
    }

    /// Points, verdicts, what is proven, time left.
    pub(super) fn found(&self, elapsed: Duration) -> String {
        let expected = self.progress.as_ref().and_then(|progress| progress.expected);
        let mut line = match expected {
            Some(expected) => format!("{} of about {expected} points", self.points),
            None => Count(self.points, "point").to_string(),
        };
        if self.points > 0 {
            line.push_str(&format!(": {} fit, {} fail", self.fits, self.fails));
            let unclear = self.points - self.fits - self.fails;
            if unclear > 0 {
                line.push_str(&format!(", {unclear} unclear"));
            }
        }
        if let Some(progress) = &self.progress {
            line.push_str(&format!("; {:.0} % proven", 100.0 * progress.coverage));
        }
        if let Some(left) = self.left(elapsed) {
            line.push_str(&format!("; about {} left", Clock(left)));
        }
        line
    }

    /// Memory in use.
    pub(super) fn memory(&self) -> Option<String> {
        let (used, total) = self.memory?;
        Some(format!("memory {} of {}", Bytes(used), Bytes(total)))
    }

    /// What the strategy expects, else the probes that are left, at the pace of those since it first told; what an earlier life did is no pace.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let progress = self.progress.as_ref()?;
        let passed = elapsed.saturating_sub(progress.at);
        if let Some(left) = progress.left {
            return Some(left.saturating_sub(passed));
        }
        let (done, since) = progress.first;
        let made = progress.done.checked_sub(done).filter(|made| *made > 0)?;
        let left = progress.expected?.saturating_sub(progress.done);
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let seconds = (progress.at - since).as_secs_f64() / made as f64 * left as f64;
        Some(Duration::try_from_secs_f64(seconds).ok()?.saturating_sub(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Point, Verdict};

    fn progress(done: u64) -> Event {
        Event::Progress {
            done,
            expected: Some(40),
            coverage: 0.5,
            seconds_left: None,
        }
    }

    fn point(moves: Moves) -> Event {
        Event::Point {
            boundary: 0,
            point: Point::default().with("input", 1),
            verdict: Verdict::Ok,
            cause: None,
            moves,
            answer: serde_json::Value::Null,
        }
    }

    #[test]
    fn the_lines_say_how_far_it_is() {
        let mut state = State::default();
        let second = Duration::from_secs(1);
        assert_eq!(state.found(second), "0 points");
        state.learn(
            &Event::Phase {
                phase: "loading".into(),
                detail: "vllm".into(),
            },
            second,
        );
        assert_eq!(state.doing(), "loading vllm");
        // A resumed run begins with what it had: its pace is that of the new probes only.
        state.learn(&progress(20), 10 * second);
        state.learn(&point(Moves::Fits), 20 * second);
        state.learn(&point(Moves::None), 20 * second);
        state.learn(&progress(22), 30 * second);
        assert!(state.turned_simulated() && !state.turned_simulated());
        assert_eq!(
            state.found(40 * second),
            "2 of about 40 points: 1 fit, 0 fail, 1 unclear; 50 % proven; about 2:50 left"
        );
        let estimate = Event::Progress {
            done: 22,
            expected: Some(40),
            coverage: 0.5,
            seconds_left: Some(600.0),
        };
        state.learn(&estimate, 30 * second);
        assert!(state.found(40 * second).ends_with("; about 9:50 left"));
        assert!(state.doing().starts_with("SIMULATED"));
        assert_eq!(state.memory(), None);
        state.learn(
            &Event::Memory {
                used: 1 << 30,
                total: 2 << 30,
            },
            second,
        );
        assert_eq!(state.memory().as_deref(), Some("memory 1.0 GiB of 2.0 GiB"));
    }
}
