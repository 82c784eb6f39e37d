//! Progress as append-only lines for streams that are no terminal.

use std::time::Duration;

use crate::report::{Clock, Count};
use crate::run::Event;

/// Points shown per second; the rest is only counted.
const PER_SECOND: u32 = 10;

/// Seconds between two lines with the remaining time.
const ESTIMATE_INTERVAL: u64 = 30;

/// Maximum silence before a line says that the run is still working.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Phases without a line of their own: the next event says the same.
const SKIPPED_PHASES: [&str; 4] = ["loading", "probing", "stopping", "stopped"];

#[derive(Debug, Default)]
pub(super) struct Plain {
    second: u64,
    shown: u32,
    hidden: usize,
    /// When the remaining time was last printed.
    last_estimate: Duration,
    /// When the last line was printed.
    last: Duration,
}

impl Plain {
    /// The lines to print for an event, `elapsed` after the start.
    pub(super) fn lines(&mut self, event: &Event, elapsed: Duration) -> Vec<String> {
        let lines = self.lines_of(event, elapsed);
        if !lines.is_empty() {
            self.last = elapsed;
        }
        lines
    }

    /// A sign of life after a long silence.
    pub(super) fn still_running(&mut self, doing: &str, since: Duration, elapsed: Duration) -> Option<String> {
        if elapsed < self.last + MAX_SILENCE {
            return None;
        }
        self.last = elapsed;
        Some(format!("[{}] still {doing}, for {}", Clock(elapsed), Clock(since)))
    }

    fn lines_of(&mut self, event: &Event, elapsed: Duration) -> Vec<String> {
        let at = Clock(elapsed);
        match event {
            Event::Phase { phase, .. } if SKIPPED_PHASES.contains(&phase.as_str()) => Vec::new(),
            Event::Phase { phase, detail } => {
                let line = format!("[{at}] {phase} {detail}");
                self.hidden_points()
                    .into_iter()
                    .chain([line.trim_end().to_owned()])
                    .collect()
            }
            Event::Resumed { answers, points } => vec![format!(
                "[{at}] resumed: {} and {} are taken from the journal",
                Count(*answers, "finished answer"),
                Count(*points, "point")
            )],
            Event::Point {
                point, verdict, cause, ..
            } => {
                if !self.may_show_point(elapsed) {
                    self.hidden += 1;
                    return Vec::new();
                }
                let cause = cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
                let line = format!("[{at}] {point}: {verdict}{cause}");
                self.hidden_points().into_iter().chain([line]).collect()
            }
            Event::Progress {
                done,
                expected,
                coverage,
                seconds_left: Some(left),
            } if elapsed >= self.last_estimate + Duration::from_secs(ESTIMATE_INTERVAL) => {
                let Ok(left) = Duration::try_from_secs_f64(*left) else {
                    return Vec::new();
                };
                self.last_estimate = elapsed;
                let of = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
                let line = format!(
                    "[{at}] {done}{of} probes; {:.0} % proven; about {} left",
                    100.0 * coverage,
                    Clock(left)
                );
                self.hidden_points().into_iter().chain([line]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A line with the number of points that were not shown.
    pub(super) fn hidden_points(&mut self) -> Option<String> {
        let hidden = std::mem::take(&mut self.hidden);
        (hidden > 0).then(|| format!("... {} more", Count(hidden, "point")))
    }

    fn may_show_point(&mut self, elapsed: Duration) -> bool {
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
    fn many_points_within_a_second_are_counted() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert_eq!(plain.lines(&point(7), second), ["[0:01] input=7: refused (kv_cache)"]);
        let lines: usize = (0..99).map(|input| plain.lines(&point(input), second).len()).sum();
        assert_eq!(lines, 9);
        assert_eq!(
            plain.lines(&point(8), 2 * second),
            ["... 90 points more", "[0:02] input=8: refused (kv_cache)"]
        );
        assert_eq!(plain.hidden_points(), None);
    }

    #[test]
    fn the_time_left_is_shown_periodically() {
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
    fn a_sign_of_life_is_shown_once_a_minute() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert_eq!(plain.lines(&point(7), 10 * second).len(), 1);
        assert_eq!(plain.still_running("loading vllm", 9 * second, 69 * second), None);
        let line = plain.still_running("loading vllm", 61 * second, 70 * second);
        assert_eq!(line.as_deref(), Some("[1:10] still loading vllm, for 1:01"));
        assert_eq!(plain.still_running("loading vllm", 62 * second, 71 * second), None);
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
