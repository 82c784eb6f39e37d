//! The live view of a run, driven by its events: redrawn in place on a terminal, one line per event elsewhere.
//!
//! `state` tracks the run, with `progress` for loads and searches. Script output goes to
//! stdout, unless stdout is reserved for one JSON document.

mod progress;
mod state;

use std::borrow::Cow;
use std::io::{Write as _, stderr};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use console::{Term, measure_text_width};
use progress::{TICK, time_left};
use serde_json::Value;
use state::{LiveState, one_line};

use crate::answer::evidence::{NOT_SENT, line as evidence_line, reported, with_cause};
use crate::boundary::{Cause, Verdict};
use crate::report::terminal::shown;
use crate::report::{
    Block, Clock, Count, Fact, Page, Terminal, breakdown, experiment, simulated_line, text as blocks_text,
};
use crate::run::EnginePhase;
use crate::run::{AskedServer, Event, Evidence, PointAnswer, Run, engine_number};
use crate::task::lock;

/// The live view of a run.
#[derive(Clone)]
pub struct Live(Arc<Mutex<View>>);

struct View {
    state: LiveState,
    begun: Instant,
    terminal: Terminal,
    output: Output,
    run: Weak<Run>,
    /// Whether stdout is reserved for one JSON document.
    json: bool,
    /// Whether the notice of a simulated engine was printed.
    simulation_noted: bool,
    reported: Vec<String>,
}

enum Output {
    Plain(Plain),
    Screen(Screen),
    Closed,
}

impl Live {
    /// Shows `run` from now on. With `json`, nothing is printed to stdout.
    pub fn watch(run: &Arc<Run>, json: bool) -> Self {
        let terminal = Terminal::detect();
        let live = Self(Arc::new(Mutex::new(View {
            state: LiveState::default(),
            begun: Instant::now(),
            output: if terminal.live {
                Output::Screen(Screen::default())
            } else {
                Output::Plain(Plain::default())
            },
            terminal,
            run: Arc::downgrade(run),
            json,
            simulation_noted: false,
            reported: Vec::new(),
        })));
        let listener = live.clone();
        run.listen(Box::new(move |event| listener.lock().show(&redacted(event))));
        live.keep_time();
        live
    }

    /// Redraws periodically until the view is closed, so that elapsed time is visible without events.
    fn keep_time(&self) {
        let view = Arc::downgrade(&self.0);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(TICK);
                let Some(view) = view.upgrade() else { return };
                let mut view = lock(&view);
                if matches!(view.output, Output::Closed) {
                    return;
                }
                view.tick();
            }
        });
    }

    /// Removes the view from the terminal and summarizes the warnings; later events are not shown.
    pub fn close(&self) {
        let mut view = self.lock();
        view.summarize_warnings();
        if let Output::Screen(mut screen) = std::mem::replace(&mut view.output, Output::Closed) {
            screen.clear();
        }
    }

    /// Runs `ask`, which prompts the user. Meanwhile the view is off the terminal, and nothing else is printed.
    pub fn ask<T>(&self, ask: impl FnOnce() -> T) -> T {
        let mut view = self.lock();
        if let Output::Screen(screen) = &mut view.output {
            screen.clear();
        }
        ask()
    }

    /// Returns true if the notice of a simulated engine was printed.
    pub fn has_noted_simulation(&self) -> bool {
        self.lock().simulation_noted
    }

    /// Whether what was printed fills the terminal, so that its beginning may be out of sight.
    pub fn has_scrolled(&self) -> bool {
        self.lock().terminal.has_scrolled()
    }

    /// Returns true if this value was shown as a report, breakdown, experiment or text of the script.
    pub fn has_shown(&self, value: &Value) -> bool {
        self.lock().reported.contains(&value.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        lock(&self.0)
    }
}

impl View {
    fn show(&mut self, event: &Event) {
        let elapsed = self.begun.elapsed();
        let kinds = self.state.warnings.len();
        let load = self.state.update(event, elapsed);
        let simulated = self.run.upgrade().is_some_and(|run| run.simulated());
        self.state.simulated = simulated;
        if self.json && simulated && !self.simulation_noted {
            self.simulation_noted = true;
            self.aside(&self.notice());
        }
        match event {
            Event::Report { value, .. }
            | Event::Shown { value, .. }
            | Event::Experiment { value, .. }
            | Event::Breakdown { value, .. } => {
                self.reported.push(value.to_string());
                let text = self.result_text(event, simulated && !self.simulation_noted);
                if let Some(text) = text.filter(|_| !self.json) {
                    self.simulation_noted |= simulated;
                    // Errors of stdout are reported when the final result is printed.
                    self.above(|terminal| drop(terminal.print_wrapped(&text)));
                }
            }
            Event::Print { text } if self.json => self.aside(text),
            Event::Note { text } => self.aside(text),
            Event::Print { text } => self.above(|terminal| drop(terminal.print_wrapped(text))),
            Event::Warning(warning) => {
                // A screen lists the kinds of warnings, and the summary at the end repeats them.
                let is_new = kinds < self.state.warnings.len() && matches!(self.output, Output::Plain(_));
                if self.terminal.verbose || is_new {
                    self.warn(&warning.message);
                }
            }
            _ => {}
        }
        self.advance(elapsed, |plain, _| match load {
            Some(load) => Some(plain.stamped(&load, elapsed)),
            None => plain.line(event, elapsed),
        });
    }

    /// A result in full, with the notice of a simulated run if `mark`.
    fn result_text(&self, event: &Event, mark: bool) -> Option<String> {
        let page = Page::from(&self.terminal);
        let blocks = match event {
            // The text of a report already begins with the notice.
            Event::Report { text, .. } => return Some(text.clone()),
            Event::Shown { text, .. } => vec![Block::Text(text.clone())],
            Event::Experiment { value, .. } => experiment(&crate::compare::read_experiment(value).ok()?, page),
            Event::Breakdown { name, value, .. } => breakdown(name, &serde_json::from_value(value.clone()).ok()?, page),
            _ => return None,
        };
        let notice = Block::notice(mark.then(|| self.notice()));
        let asked: Vec<Fact> = self
            .run
            .upgrade()
            .map_or_else(Vec::new, |run| run.asked())
            .iter()
            .map(|asked| Fact::new("asked", asked.to_string()))
            .collect();
        let questions = (!asked.is_empty()).then_some(Block::Facts(asked));
        let blocks: Vec<Block> = notice.into_iter().chain(blocks).chain(questions).collect();
        Some(blocks_text(&blocks, page))
    }

    /// The notice of a simulated run.
    fn notice(&self) -> String {
        let run = self.run.upgrade();
        simulated_line(&run.map_or_else(Vec::new, |run| run.simulated_engines()))
    }

    /// Redraws after time has passed without an event.
    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        self.state.disk = self.run.upgrade().and_then(|run| run.disk_use());
        self.advance(elapsed, |plain, state| plain.still_running(state, elapsed));
    }

    /// Redraws the screen. Without a screen, prints what `line` returns, if anything.
    fn advance(&mut self, elapsed: Duration, line: impl FnOnce(&mut Plain, &LiveState) -> Option<String>) {
        match &mut self.output {
            Output::Plain(plain) => {
                let line = line(plain, &self.state);
                line.iter().for_each(|line| self.terminal.print_error(line));
            }
            Output::Screen(screen) => screen.draw(&mut self.state, &self.terminal, elapsed),
            Output::Closed => {}
        }
    }

    fn warn(&mut self, text: &str) {
        let style = console::Style::new().magenta().bold();
        let label = self.terminal.errors().paint("warning", style);
        self.aside(&format!("{label}: {text}"));
    }

    /// Summarizes each kind of warning that occurred several times. A screen prints no warnings, so after one, kinds
    /// that occurred once are summarized too.
    fn summarize_warnings(&mut self) {
        if self.terminal.verbose {
            return;
        }
        let first_shown = matches!(self.output, Output::Plain(_));
        for group in self.state.warnings.clone() {
            if group.messages.len() > 1 {
                self.warn(&format!("{}; -v shows each", group.sentence()));
            } else if !first_shown {
                self.warn(&group.sentence());
            }
        }
    }

    fn aside(&mut self, text: &str) {
        self.above(|terminal| terminal.print_error(&terminal.wrapped(text)));
    }

    /// Prints above the screen; the next frame is drawn below.
    fn above(&mut self, print: impl FnOnce(&Terminal)) {
        match &mut self.output {
            Output::Plain(_) => {}
            Output::Screen(screen) => screen.clear(),
            Output::Closed => return,
        }
        print(&self.terminal);
    }
}

/// The event with texts that are safe to show on a terminal. JSON values are kept, because text made from them is made
/// safe when it is printed.
fn redacted(event: &Event) -> Cow<'_, Event> {
    let mut event = Cow::Borrowed(event);
    // These are large or frequent; text made from them is made safe when it is printed.
    if matches!(
        *event,
        Event::Done { .. } | Event::Engine { .. } | Event::Restored { .. }
    ) {
        return event;
    }
    // Tables and drawings may contain our own colour codes.
    let drawn = matches!(*event, Event::Report { .. } | Event::Shown { .. });
    let text = match event.to_mut() {
        Event::Print { text } | Event::Note { text } | Event::Report { text, .. } | Event::Shown { text, .. } => text,
        Event::Warning(warning) => &mut warning.message,
        Event::Log { line } => line,
        Event::Phase { detail, .. } => detail,
        Event::Point { cause: Some(cause), .. } => {
            *cause = Cause::from(&*shown(cause.name(), drawn));
            return event;
        }
        _ => return event,
    };
    *text = shown(text, drawn).into_owned();
    event
}

/// Seconds between two lines with the remaining time.
const ESTIMATE_INTERVAL: u64 = 30;

/// Maximum silence before a line says that the run is still working.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Phases that get no line, because the next event says the same.
const SKIPPED_PHASES: [EnginePhase; 4] = [
    EnginePhase::Loading,
    EnginePhase::Probing,
    EnginePhase::Stopping,
    EnginePhase::Stopped,
];

/// Prints progress line by line.
#[derive(Debug, Default)]
struct Plain {
    /// When the remaining time was last printed.
    last_estimate: Duration,
    /// When the last line was printed.
    last: Duration,
}

impl Plain {
    /// The line to print for an event, `elapsed` after the start.
    fn line(&mut self, event: &Event, elapsed: Duration) -> Option<String> {
        let text = self.text(event, elapsed)?;
        Some(self.stamped(&text, elapsed))
    }

    /// The text with the elapsed time in front.
    fn stamped(&mut self, text: &str, elapsed: Duration) -> String {
        self.last = elapsed;
        format!("[{}] {}", Clock(elapsed), text.trim_end())
    }

    /// A sign of life after a long silence: the current activity, its duration, the disk that the run uses, and what is
    /// newest of a start or a load.
    fn still_running(&mut self, state: &LiveState, elapsed: Duration) -> Option<String> {
        if elapsed < self.last + MAX_SILENCE {
            return None;
        }
        let (doing, lasts) = state.doing(elapsed);
        let disk = state.disk().map_or_else(String::new, |disk| format!("; {disk}"));
        let newest = state.newest(elapsed);
        let colon = if newest.is_empty() { "" } else { ": " };
        Some(self.stamped(&format!("still {doing}{lasts}{disk}{colon}{newest}"), elapsed))
    }

    fn text(&mut self, event: &Event, elapsed: Duration) -> Option<String> {
        match event {
            Event::Phase { phase, .. } if SKIPPED_PHASES.contains(phase) => None,
            Event::Phase { phase, detail } => {
                let engine = engine_number().map_or_else(String::new, |number| format!("engine {number}: "));
                Some(format!("{engine}{} {detail}", phase.name()))
            }
            Event::Resumed { answers, points } => Some(format!(
                "resumed: {} and {} are taken from the journal",
                Count(*answers, "finished answer"),
                Count(*points, "point")
            )),
            Event::Engine { info } => Some(format!(
                "asked: {}",
                one_line(&AskedServer::from_engine(info)?.to_string())
            )),
            Event::Point {
                point,
                verdict,
                cause,
                answer,
                ..
            } => {
                let cause = cause.as_ref();
                let answer = PointAnswer::read(answer).ok()?;
                let outcome = not_tried(&answer, cause).unwrap_or_else(|| with_cause(verdict, cause));
                let message = answer.evidence.message.filter(|_| *verdict == Verdict::Error);
                let message = message.map_or_else(String::new, |message| format!(": {message}"));
                Some(format!("{point}: {outcome}{message}"))
            }
            Event::StartFailed { failure, .. } => {
                let failed = with_cause("the start failed", failure["cause"].as_str());
                Some(match evidence_line(&Evidence::read(&failure["evidence"])) {
                    Some(line) => format!("{failed}: {line}"),
                    None => failed,
                })
            }
            Event::Progress {
                done,
                expected,
                resolved,
                seconds_left: Some(left),
            } if *left >= 1.0 && elapsed >= self.last_estimate + Duration::from_secs(ESTIMATE_INTERVAL) => {
                let left = Duration::try_from_secs_f64(*left).ok()?;
                self.last_estimate = elapsed;
                let of_expected = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
                Some(format!(
                    "{done}{of_expected} probes; {:.0} % resolved; {}",
                    (100.0 * resolved).floor(),
                    time_left(left)
                ))
            }
            _ => None,
        }
    }
}

/// Why a point was not tried: the engine's own report rules it out, or its answer follows from a start that failed.
fn not_tried(answer: &PointAnswer, cause: Option<&Cause>) -> Option<String> {
    match answer.judged.verdict {
        Verdict::NotSent => {
            let reported = reported(&answer.evidence, cause);
            Some(reported.map_or_else(|| NOT_SENT.to_owned(), |reported| format!("not sent: {reported}")))
        }
        Verdict::StartFailed if answer.starts == Some(0) => {
            Some("skipped: the engine did not start for less".to_owned())
        }
        _ => None,
    }
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
struct Screen {
    /// Widths of the lines on the terminal.
    drawn: Vec<usize>,
    last: Option<Duration>,
}

impl Screen {
    /// Draws the state, `elapsed` after the start of the run.
    fn draw(&mut self, state: &mut LiveState, terminal: &Terminal, elapsed: Duration) {
        if !self.drawn.is_empty() && self.last.is_some_and(|last| elapsed < last + MIN_FRAME_TIME) {
            return;
        }
        self.last = Some(elapsed);
        let (rows, columns) = Term::stderr().size_checked().unwrap_or(DEFAULT_SIZE);
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        let page = Page {
            width: columns.saturating_sub(MARGIN).max(1),
            ..terminal.errors()
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
    fn clear(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let (_, columns) = Term::stderr().size_checked().unwrap_or(DEFAULT_SIZE);
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
    use super::*;

    #[test]
    fn only_secrets_in_texts_change() {
        let detail = |detail: &str| Event::Phase {
            phase: EnginePhase::Ready,
            detail: detail.into(),
        };
        assert_eq!(
            *redacted(&detail("http://me:passphrase@host/v1")),
            detail("http://***@host/v1")
        );
        assert_eq!(*redacted(&detail("vllm")), detail("vllm"));
        let memory = Event::Memory { used: 1, total: 2 };
        assert_eq!(*redacted(&memory), memory);
    }
}

#[cfg(test)]
mod output_tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Moves, Point};
    use crate::run::DiskUse;

    fn point(input: i64) -> Event {
        Event::Point {
            boundary: 0,
            point: Point::default().with("input", input),
            verdict: Verdict::Refused,
            cause: Some("kv_cache".into()),
            moves: Moves::Fails,
            answer: json!({ "verdict": "refused", "cause": "kv_cache" }),
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
        let mut line = |verdict, answer: Value| {
            let event = Event::Point {
                boundary: 0,
                point: Point::default().with("input", 7),
                verdict,
                cause: Some("memory".into()),
                moves: Moves::Fails,
                answer,
            };
            plain.line(&event, second).unwrap()
        };
        let unsent = json!({ "verdict": "not_sent", "starts": 0, "evidence": { "reported": 8352 } });
        let unsent = line(Verdict::NotSent, unsent);
        assert!(unsent.contains("not sent") && unsent.contains("8,352"), "{unsent}");
        assert!(line(Verdict::StartFailed, json!({ "verdict": "start_failed", "starts": 0 })).contains("skipped"));
        let tried = line(Verdict::StartFailed, json!({ "verdict": "start_failed", "starts": 1 }));
        assert_eq!(tried, "[0:01] input=7: start_failed (memory)");
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
            Some("[0:30] 7 of about 20 probes; 42 % resolved; 1:00 to 2:15 left")
        );
        assert!(plain.line(&left(Some(80.0)), 59 * second).is_none());
        assert!(plain.line(&left(Some(80.0)), 60 * second).is_some());
    }

    #[test]
    fn a_sign_of_life_is_shown_once_a_minute() {
        let mut plain = Plain::default();
        let second = Duration::from_secs(1);
        let mut state = LiveState::default();
        let detail = "vllm".to_owned();
        let phase = EnginePhase::Loading;
        let _ = state.update(&Event::Phase { phase, detail }, 9 * second);
        let line = "weights 50 %".to_owned();
        let _ = state.update(&Event::Log { line }, 60 * second);
        state.disk = Some(DiskUse {
            written: 3 << 20,
            free: Some(5 << 30),
        });
        assert!(plain.line(&point(7), 10 * second).is_some());
        assert_eq!(plain.still_running(&state, 69 * second), None);
        let line = plain.still_running(&state, 70 * second);
        assert_eq!(
            line.as_deref(),
            Some("[1:10] still loading vllm, for 1:01; disk 3.0 MiB written, 5.0 GiB free: weights 50 %")
        );
        assert_eq!(plain.still_running(&state, 71 * second), None);
    }

    #[test]
    fn lines_wrapped_by_a_narrower_terminal_are_cleared() {
        assert_eq!(up(&[], 80), "\r");
        assert_eq!(up(&[70, 60, 10], 80), "\r\u{1b}[2A");
        assert_eq!(up(&[70, 60, 10], 40), "\r\u{1b}[4A");
        assert_eq!(up(&[0], 40), "\r");
    }
}
