//! The two ways to show progress: append-only lines for streams that are no terminal, and a screen that is redrawn in
//! place at the bottom of a terminal.

use std::io::{Write as _, stderr};
use std::time::Duration;

use console::{Term, measure_text_width};
use serde_json::Value;

use super::state::State;
use crate::boundary::Verdict;
use crate::report::evidence::line as evidence_line;
use crate::report::terminal::shown;
use crate::report::{Clock, Count, Page, Terminal};
use crate::run::{Event, engine_number};

/// Seconds between two lines with the remaining time.
const ESTIMATE_INTERVAL: u64 = 30;

/// Maximum silence before a line says that the run is still working.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Phases without a line of their own: the next event says the same.
const SKIPPED_PHASES: [&str; 4] = ["loading", "probing", "stopping", "stopped"];

/// Progress as lines.
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
            Event::Phase { phase, detail } => {
                let engine = engine_number().map_or_else(String::new, |number| format!("engine {number}: "));
                Some(format!("{engine}{phase} {detail}"))
            }
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
                let said = answer.pointer("/evidence/message").and_then(Value::as_str);
                let said = said.filter(|_| *verdict == Verdict::Error);
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                Some(format!("{point}: {outcome}{said}"))
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
            } if *left >= 1.0 && elapsed >= self.last_estimate + Duration::from_secs(ESTIMATE_INTERVAL) => {
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

/// Minimum time between frames; skipped changes appear in the next frame.
const MIN_FRAME_TIME: Duration = Duration::from_millis(50);

/// Free columns at the right, for the `^C` that the terminal echoes.
const MARGIN: usize = 3;

/// Rows and columns if the terminal does not report its size.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

/// Redraws the progress.
///
/// indicatif does this too, but when the terminal becomes narrower and wraps the old lines, it leaves parts of
/// them behind. Here each frame is one write that first moves up by the rows that the old lines occupy now.
#[derive(Default)]
pub(super) struct Screen {
    /// Widths of the lines on the terminal.
    drawn: Vec<usize>,
    last: Option<Duration>,
}

impl Screen {
    /// Draws the state, `elapsed` after the start of the run.
    pub(super) fn draw(&mut self, state: &mut State, terminal: &Terminal, elapsed: Duration) {
        if !self.drawn.is_empty() && self.last.is_some_and(|last| elapsed < last + MIN_FRAME_TIME) {
            return;
        }
        self.last = Some(elapsed);
        let (rows, columns) = Term::stderr().size_checked().unwrap_or(DEFAULT_SIZE);
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        let page = Page {
            width: columns.saturating_sub(MARGIN).max(1),
            unicode: terminal.unicode,
            colour: terminal.error_colour,
        };
        let mut lines = state.lines(elapsed, rows, page);
        lines.truncate(rows.saturating_sub(1).max(1));
        let mut text = up(&self.drawn, columns);
        for (index, line) in lines.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "\r\n" });
            // Clears the whole row, so that old content does not count if the terminal rewraps.
            text.push_str("\x1b[2K");
            text.push_str(&shown(line, true));
        }
        text.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        write(&text);
    }

    /// Removes the lines.
    pub(super) fn clear(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = Term::stderr()
            .size_checked()
            .map_or(DEFAULT_SIZE.1, |(_, columns)| columns);
        let up = up(&self.drawn, usize::from(columns));
        self.drawn.clear();
        write(&format!("{up}\x1b[J"));
    }
}

/// Moves from the end of the last line to the start of the first, at the terminal's current width.
fn up(drawn: &[usize], columns: usize) -> String {
    let rows: usize = drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    match rows.saturating_sub(1) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// A failure to show progress must not stop the run.
fn write(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
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

    #[test]
    fn lines_wrapped_by_a_narrower_terminal_are_cleared() {
        assert_eq!(up(&[], 80), "\r");
        assert_eq!(up(&[70, 60, 10], 80), "\r\u{1b}[2A");
        assert_eq!(up(&[70, 60, 10], 40), "\r\u{1b}[4A");
        assert_eq!(up(&[0], 40), "\r");
    }
}
