//! The live view of a run, driven by its events: redrawn in place on a terminal, one line per event elsewhere.
//!
//! `state` tracks the run, with `progress` for loads and searches; `output` shows it. Script output goes to
//! stdout, unless stdout is reserved for one JSON document.

mod output;
mod progress;
mod state;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use output::{Plain, Screen};
use serde_json::Value;
use state::{State, TICK};

use super::terminal::shown;
use super::{Block, Page, Terminal, WarningGroup, breakdown, experiment, simulated_line, text as blocks_text};
use crate::run::{Event, Run};
use crate::task::lock;

/// The live view of a run.
#[derive(Clone)]
pub struct Live(Arc<Mutex<View>>);

struct View {
    state: State,
    begun: Instant,
    terminal: Terminal,
    output: Output,
    run: Weak<Run>,
    /// Whether stdout is reserved for one JSON document.
    json: bool,
    /// Whether it was said that the engine is simulated.
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
            state: State::default(),
            begun: Instant::now(),
            output: match terminal.live {
                true => Output::Screen(Screen::default()),
                false => Output::Plain(Plain::default()),
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

    /// Asks the user something while the view is off the terminal and nothing else is printed.
    pub fn ask<T>(&self, ask: impl FnOnce() -> T) -> T {
        let mut view = self.lock();
        if let Output::Screen(screen) = &mut view.output {
            screen.clear();
        }
        ask()
    }

    /// Whether it was said that the engine is simulated.
    pub fn has_noted_simulation(&self) -> bool {
        self.lock().simulation_noted
    }

    /// Whether this value was shown as a report, breakdown, experiment or text of the script.
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
        let kinds = self.state.warnings().len();
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
                // The screen shows the kinds of warnings, and so does the end.
                let is_new = kinds < self.state.warnings().len() && matches!(self.output, Output::Plain(_));
                if self.terminal.verbose || is_new {
                    self.warn(&warning.message);
                }
            }
            _ => {}
        }
        match &mut self.output {
            Output::Plain(plain) => {
                let line = load.map(|load| plain.stamped(&load, elapsed));
                let line = line.or_else(|| plain.line(event, elapsed));
                line.iter().for_each(|line| self.terminal.print_error(line));
            }
            Output::Screen(screen) => screen.draw(&mut self.state, &self.terminal, elapsed),
            Output::Closed => {}
        }
    }

    /// A result in full, with the notice of a simulated run if `mark`.
    fn result_text(&self, event: &Event, mark: bool) -> Option<String> {
        let page = Page::from(&self.terminal);
        let blocks = match event {
            // It begins with the notice.
            Event::Report { text, .. } => return Some(text.clone()),
            Event::Shown { text, .. } => vec![Block::Text(text.clone())],
            Event::Experiment { value, .. } => experiment(&crate::compare::read_experiment(value).ok()?, page),
            Event::Breakdown { name, value } => breakdown(name, &serde_json::from_value(value.clone()).ok()?, page),
            _ => return None,
        };
        let notice = Block::notice(mark.then(|| self.notice()));
        Some(blocks_text(&notice.into_iter().chain(blocks).collect::<Vec<_>>(), page))
    }

    /// The notice of a simulated run.
    fn notice(&self) -> String {
        let run = self.run.upgrade();
        simulated_line(&run.map_or_else(Vec::new, |run| run.simulated_engines()))
    }

    /// Redraws after time has passed without an event.
    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        match &mut self.output {
            Output::Plain(plain) => {
                let line = plain.still_running(&self.state.doing(elapsed), self.state.log(), elapsed);
                line.iter().for_each(|line| self.terminal.print_error(line));
            }
            Output::Screen(screen) => screen.draw(&mut self.state, &self.terminal, elapsed),
            Output::Closed => {}
        }
    }

    fn warn(&mut self, text: &str) {
        let page = Page {
            colour: self.terminal.error_colour,
            ..Page::default()
        };
        let label = page.paint("warning", console::Style::new().magenta().bold());
        self.aside(&format!("{label}: {text}"));
    }

    /// Says at the end of what there were several warnings, and on a terminal, of what there was one.
    fn summarize_warnings(&mut self) {
        if self.terminal.verbose {
            return;
        }
        let first_shown = matches!(self.output, Output::Plain(_));
        let sentence = |group: &WarningGroup| match group.messages.len() > 1 {
            true => Some(format!("{}; -v shows each", group.sentence())),
            false => (!first_shown).then(|| group.sentence()),
        };
        let sentences: Vec<String> = self.state.warnings().iter().filter_map(sentence).collect();
        sentences.iter().for_each(|sentence| self.warn(sentence));
    }

    fn aside(&mut self, text: &str) {
        self.above(|terminal| terminal.print_error(&terminal.wrapped(text)));
    }

    /// Prints above the screen, whose next frame is drawn below.
    fn above(&mut self, print: impl FnOnce(&Terminal)) {
        match &mut self.output {
            Output::Plain(_) => {}
            Output::Screen(screen) => screen.clear(),
            Output::Closed => return,
        }
        print(&self.terminal);
    }
}

/// The event with texts as a terminal shows them. Values are kept: text made of them is made safe when it is printed.
fn redacted(event: &Event) -> Cow<'_, Event> {
    let mut event = Cow::Borrowed(event);
    if matches!(
        *event,
        Event::Done { .. } | Event::Engine { .. } | Event::Restored { .. }
    ) {
        // Large, frequent, and without text.
        return event;
    }
    // Tables and drawings may have colours of ours.
    let drawn = matches!(*event, Event::Report { .. } | Event::Shown { .. });
    let text = match event.to_mut() {
        Event::Print { text } | Event::Note { text } | Event::Report { text, .. } | Event::Shown { text, .. } => text,
        Event::Warning(warning) => &mut warning.message,
        Event::Log { line } => line,
        Event::Phase { detail, .. } => detail,
        Event::Point { cause: Some(cause), .. } => cause,
        _ => return event,
    };
    *text = shown(text, drawn).into_owned();
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_in_texts_change() {
        let detail = |detail: &str| Event::Phase {
            phase: "attached".into(),
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
