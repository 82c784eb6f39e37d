//! Progress as append-only lines for streams that are no terminal.

use std::time::Duration;

use serde_json::Value;

use crate::boundary::Verdict;
use crate::report::evidence::line as evidence_line;
use crate::report::{Clock, Count};
use crate::run::Event;

/// Seconds between two lines with the remaining time.
const ESTIMATE_INTERVAL: u64 = 30;

/// Maximum silence before a line says that the run is still working.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Phases without a line of their own: the next event says the same.
const SKIPPED_PHASES: [&str; 4] = ["loading", "probing", "stopping", "stopped"];

#[derive(Debug, Default)]
pub(super) struct Plain {
    /// When the remaining time was last printed.
    last_estimate: Duration,
    /// When the last line was printed.
    last: Duration,
}

impl Plain {
    /// The line to print for an event, `elapsed` after the start.
    pub(super) fn line(&mut self, event: &Event, elapsed: Duration) -> Option<String> {
        let text = self.text(event, elapsed)?;
        Some(self.stamped(&text, elapsed))
    }

    /// A line with the time in front.
    pub(super) fn stamped(&mut self, text: &str, elapsed: Duration) -> String {
        self.last = elapsed;
        format!("[{}] {}", Clock(elapsed), text.trim_end())
    }

    /// A sign of life after a long silence: what is done, for how long, and the newest log line of a start.
    pub(super) fn still_running(
        &mut self,
        (doing, lasts): &(String, String),
        log: &str,
        elapsed: Duration,
    ) -> Option<String> {
        if elapsed < self.last + MAX_SILENCE {
            return None;
        }
        let log = if log.is_empty() {
            String::new()
        } else {
            format!(": {log}")
        };
        Some(self.stamped(&format!("still {doing}{lasts}{log}"), elapsed))
    }

    fn text(&mut self, event: &Event, elapsed: Duration) -> Option<String> {
        match event {
            Event::Phase { phase, .. } if SKIPPED_PHASES.contains(&phase.as_str()) => None,
            Event::Phase { phase, detail } => Some(format!("{phase} {detail}")),
            Event::Resumed { answers, points } => Some(format!(
                "resumed: {} and {} are taken from the journal",
                Count(*answers, "finished answer"),
                Count(*points, "point")
            )),
            Event::Point {
                point,
                verdict,
                cause,
                answer,
                ..
            } => {
                let cause = cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
                let outcome = skipped(*verdict, answer).unwrap_or_else(|| format!("{verdict}{cause}"));
                Some(format!("{point}: {outcome}"))
            }
            Event::StartFailed { failure, .. } => {
                let cause = failure["cause"]
                    .as_str()
                    .map_or_else(String::new, |cause| format!(" ({cause})"));
                let said = evidence_line(failure.get("evidence"));
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                Some(format!("the start failed{cause}{said}"))
            }
            Event::Progress {
                done,
                expected,
                resolved,
                seconds_left: Some(left),
            } if elapsed >= self.last_estimate + Duration::from_secs(ESTIMATE_INTERVAL) => {
                let left = Duration::try_from_secs_f64(*left).ok()?;
                self.last_estimate = elapsed;
                let of = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
                Some(format!(
                    "{done}{of} probes; {:.0} % resolved; about {} left",
                    (100.0 * resolved).floor(),
                    Clock(left)
                ))
            }
            _ => None,
        }
    }
}

/// Why a point was not tried: the starts before it show that no start serves it.
fn skipped(verdict: Verdict, answer: &Value) -> Option<String> {
    if verdict != Verdict::StartFailed || answer.get("starts") != Some(&0.into()) {
        return None;
    }
    let longest = answer.pointer("/report/longest").and_then(Value::as_u64);
    Some(longest.map_or_else(
        || "skipped: the engine did not start for less".to_owned(),
        |tokens| format!("skipped: the engine reports room for {tokens} tokens"),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Moves, Point};

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
    fn every_point_is_a_line_and_those_not_tried_say_why() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert_eq!(
            plain.line(&point(7), second).as_deref(),
            Some("[0:01] input=7: refused (kv_cache)")
        );
        assert!((0..99).all(|input| plain.line(&point(input), second).is_some()));
        let mut skipped = |answer: Value| {
            let event = Event::Point {
                boundary: 0,
                point: Point::default().with("input", 7),
                verdict: Verdict::StartFailed,
                cause: Some("memory".into()),
                moves: Moves::Fails,
                answer,
            };
            plain.line(&event, second).unwrap()
        };
        assert_eq!(
            skipped(json!({ "starts": 0, "report": { "longest": 8352 } })),
            "[0:01] input=7: skipped: the engine reports room for 8352 tokens"
        );
        assert_eq!(skipped(json!({ "starts": 1 })), "[0:01] input=7: start_failed (memory)");
    }

    #[test]
    fn the_time_left_is_shown_periodically() {
        let left = |seconds_left| Event::Progress {
            done: 7,
            expected: Some(20),
            resolved: 0.42,
            seconds_left,
        };
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        assert!(plain.line(&left(Some(90.0)), 29 * second).is_none());
        assert!(plain.line(&left(None), 30 * second).is_none());
        assert_eq!(
            plain.line(&left(Some(90.0)), 30 * second).as_deref(),
            Some("[0:30] 7 of about 20 probes; 42 % resolved; about 1:30 left")
        );
        assert!(plain.line(&left(Some(80.0)), 59 * second).is_none());
        assert!(plain.line(&left(Some(80.0)), 60 * second).is_some());
    }

    #[test]
    fn a_sign_of_life_is_shown_once_a_minute() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        let doing = ("loading vllm".to_owned(), ", for 1:01".to_owned());
        assert!(plain.line(&point(7), 10 * second).is_some());
        assert_eq!(plain.still_running(&doing, "", 69 * second), None);
        let line = plain.still_running(&doing, "weights 50 %", 70 * second);
        assert_eq!(
            line.as_deref(),
            Some("[1:10] still loading vllm, for 1:01: weights 50 %")
        );
        assert_eq!(plain.still_running(&doing, "", 71 * second), None);
    }
}
