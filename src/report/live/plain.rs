//! The run as lines for a stream that is no terminal: one for each phase and point, none of them ever changed again.

use std::time::Duration;

use crate::report::{Clock, Count};
use crate::run::Event;

/// Points shown within a second; more of them are only counted, as nobody reads on at that pace.
const PER_SECOND: u32 = 10;

/// Seconds between two lines that tell how much is left.
const BETWEEN: u64 = 30;

/// How long nothing may be said.
const SILENT: Duration = Duration::from_secs(60);

/// Phases that are not worth a line: what follows says the same.
const UNSAID: [&str; 4] = ["loading", "probing", "stopping", "stopped"];

/// The lines of a run.
#[derive(Debug, Default)]
pub(super) struct Plain {
    second: u64,
    shown: u32,
    hidden: usize,
    /// When it was last told how much is left.
    told: Duration,
    /// When the last line was.
    last: Duration,
}

impl Plain {
    /// The lines that an event is worth, `elapsed` after the start.
    pub(super) fn lines(&mut self, event: &Event, elapsed: Duration) -> Vec<String> {
        let lines = self.worth(event, elapsed);
        if !lines.is_empty() {
            self.last = elapsed;
        }
        lines
    }

    /// Nothing has happened for long: whoever reads must not think that it hangs.
    pub(super) fn still(&mut self, doing: &str, since: Duration, elapsed: Duration) -> Option<String> {
        if elapsed < self.last + SILENT {
            return None;
        }
        self.last = elapsed;
        Some(format!("[{}] still {doing}, for {}", Clock(elapsed), Clock(since)))
    }

    fn worth(&mut self, event: &Event, elapsed: Duration) -> Vec<String> {
        let at = Clock(elapsed);
        match event {
            Event::Phase { phase, .. } if UNSAID.contains(&phase.as_str()) => Vec::new(),
            Event::Phase { phase, detail } => {
                let line = format!("[{at}] {phase} {detail}");
                self.rest().into_iter().chain([line.trim_end().to_owned()]).collect()
            }
            Event::Resumed { answers, points } => vec![format!(
                "[{at}] resumed: {} and {} are taken from the journal",
                Count(*answers, "finished answer"),
                Count(*points, "point")
            )],
            Event::Point {
                point, verdict, cause, ..
            } => {
                if !self.room(elapsed) {
                    self.hidden += 1;
                    return Vec::new();
                }
                let cause = cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
                let line = format!("[{at}] {point}: {verdict}{cause}");
                self.rest().into_iter().chain([line]).collect()
            }
            Event::Progress {
                done,
                expected,
                coverage,
                seconds_left: Some(left),
            } if elapsed >= self.told + Duration::from_secs(BETWEEN) => {
                let Ok(left) = Duration::try_from_secs_f64(*left) else {
                    return Vec::new();
                };
                self.told = elapsed;
                let of = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
                let line = format!(
                    "[{at}] {done}{of} probes; {:.0} % proven; about {} left",
                    100.0 * coverage,
                    Clock(left)
                );
                self.rest().into_iter().chain([line]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many points were not shown since the last line.
    pub(super) fn rest(&mut self) -> Option<String> {
        let hidden = std::mem::take(&mut self.hidden);
        (hidden > 0).then(|| format!("... {} more", Count(hidden, "point")))
    }

    fn room(&mut self, elapsed: Duration) -> bool {
        if self.second != elapsed.as_secs() {
            self.second = elapsed.as_secs();
            self.shown = 0;
        }
        self.shown += 1;
        self.shown <= PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Moves, Point, Verdict};

    fn point(input: i64) -> Event {
        Event::Point {
            boundary: 0,
            point: Point::default().with("input", input),
            verdict: Verdict::Refused,
            cause: Some("kv_cache".into()),
            moves: Moves::Fails,
            answer: serde_json::Value::Null,
        }
    }

    #[test]
    fn many_points_at_once_are_counted() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert_eq!(plain.lines(&point(7), second), ["[0:01] input=7: refused (kv_cache)"]);
        let lines: usize = (0..99).map(|input| plain.lines(&point(input), second).len()).sum();
        assert_eq!(lines, 9);
        assert_eq!(
            plain.lines(&point(8), 2 * second),
            ["... 90 points more", "[0:02] input=8: refused (kv_cache)"]
        );
        assert_eq!(plain.rest(), None);
    }

    #[test]
    fn what_is_left_is_told_now_and_then() {
        let left = |seconds_left| Event::Progress {
            done: 7,
            expected: Some(20),
            coverage: 0.42,
            seconds_left,
        };
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert!(plain.lines(&left(Some(90.0)), 29 * second).is_empty());
        assert!(plain.lines(&left(None), 30 * second).is_empty());
        assert_eq!(
            plain.lines(&left(Some(90.0)), 30 * second),
            ["[0:30] 7 of about 20 probes; 42 % proven; about 1:30 left"]
        );
        assert!(plain.lines(&left(Some(80.0)), 59 * second).is_empty());
        assert_eq!(plain.lines(&left(Some(80.0)), 60 * second).len(), 1);
    }

    #[test]
    fn a_long_silence_is_broken_once_a_minute() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert_eq!(plain.lines(&point(7), 10 * second).len(), 1);
        assert_eq!(plain.still("loading vllm", 9 * second, 69 * second), None);
        let line = plain.still("loading vllm", 61 * second, 70 * second);
        assert_eq!(line.as_deref(), Some("[1:10] still loading vllm, for 1:01"));
        assert_eq!(plain.still("loading vllm", 62 * second, 71 * second), None);
    }

    #[test]
    fn a_phase_is_one_line() {
        let phase = |phase: &str| Event::Phase {
            phase: phase.into(),
            detail: String::new(),
        };
        let mut plain = Plain::default();
        assert_eq!(plain.lines(&phase("ready"), Duration::ZERO), ["[0:00] ready"]);
        assert!(plain.lines(&phase("loading"), Duration::ZERO).is_empty());
    }
}
