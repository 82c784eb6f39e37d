//! The live view of a run, driven by its events: redrawn in place on a terminal, one line per event elsewhere.
//!
//! `state` tracks the progress, `plain` and `screen` show it. Script output goes to stdout, unless stdout is
//! reserved for one JSON document.

mod plain;
mod screen;
mod state;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use plain::Plain;
use screen::Screen;
use serde_json::Value;
use state::{State, TICK};

use super::terminal::wrap_lines;
use super::{Page, SIMULATED, Terminal, breakdown, experiment};
use crate::run::{Event, Run, hide};

/// The live view of a run.
#[derive(Clone)]
pub struct Live(Arc<Mutex<View>>);

struct View {
    state: State,
    begun: Instant,
    shown: Shown,
    run: Weak<Run>,
    /// Whether stdout is reserved for one JSON document.
    json: bool,
    colour: bool,
    page: Page,
    reported: Vec<Value>,
}

enum Shown {
    Plain(Plain, Terminal),
    Screen(Screen),
    Nothing,
}

impl Live {
    /// Shows `run` from now on. With `json`, nothing is printed to stdout.
    pub fn watch(run: &Arc<Run>, json: bool) -> Self {
        let terminal = Terminal::detect();
        let colour = terminal.error_colour;
        let page = Page::from(&terminal);
        let shown = if terminal.live {
            Shown::Screen(Screen::new(terminal))
        } else {
            Shown::Plain(Plain::default(), terminal)
        };
        let live = Self(Arc::new(Mutex::new(View {
            state: State::default(),
            begun: Instant::now(),
            shown,
            run: Arc::downgrade(run),
            json,
            colour,
            page,
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
                let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(view.shown, Shown::Nothing) {
                    return;
                }
                view.tick();
            }
        });
    }

    /// Removes the view from the terminal; later events are not shown.
    pub fn close(&self) {
        let mut view = self.lock();
        match std::mem::replace(&mut view.shown, Shown::Nothing) {
            Shown::Plain(mut plain, terminal) => {
                if let Some(line) = plain.hidden_points() {
                    terminal.print_error(&line);
                }
            }
            Shown::Screen(mut screen) => screen.clear(),
            Shown::Nothing => {}
        }
    }

    /// Whether this value was shown as a report, breakdown, experiment or text of the script.
    #[must_use]
    pub fn has_shown(&self, value: &Value) -> bool {
        self.lock().reported.contains(value)
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text written by the script, with the simulation notice added if needed.
#[must_use]
pub fn script_text(text: &str, simulated: bool) -> String {
    match simulated {
        true => format!("{SIMULATED}\n\n{text}"),
        false => text.to_owned(),
    }
}

impl View {
    fn show(&mut self, event: &Event) {
        let elapsed = self.begun.elapsed();
        self.state.update(event, elapsed);
        if self.run.upgrade().is_some_and(|run| run.simulated()) && self.state.mark_simulated() {
            self.aside(SIMULATED);
        }
        match event {
            Event::Report { value, text, .. } => {
                self.reported.push(value.clone());
                if !self.json {
                    self.result(text);
                }
            }
            Event::Shown { value, text } => {
                self.reported.push(value.clone());
                if !self.json {
                    let simulated = self.run.upgrade().is_some_and(|run| run.simulated());
                    self.result(&script_text(text, simulated));
                }
            }
            Event::Experiment { value, .. } => {
                self.reported.push(value.clone());
                if let (false, Ok(found)) = (self.json, serde_json::from_value(value.clone())) {
                    let simulated = self.run.upgrade().is_some_and(|run| run.simulated());
                    self.result(&experiment(&found, simulated, self.page));
                }
            }
            Event::Breakdown { name, value } => {
                self.reported.push(value.clone());
                if let (false, Ok(footprint)) = (self.json, serde_json::from_value(value.clone())) {
                    let simulated = self.run.upgrade().is_some_and(|run| run.simulated());
                    self.result(&breakdown(name, &footprint, simulated, self.page));
                }
            }
            Event::Print { text } if self.json => self.aside(text),
            Event::Print { text } => self.above(|terminal| drop(terminal.print(text))),
            Event::Warning { text } => {
                let page = Page {
                    colour: self.colour,
                    ..Page::default()
                };
                let label = page.paint("warning", console::Style::new().magenta().bold());
                self.aside(&format!("{label}: {text}"));
            }
            _ => {}
        }
        match &mut self.shown {
            Shown::Plain(plain, terminal) => plain
                .lines(event, elapsed)
                .iter()
                .for_each(|line| terminal.print_error(line)),
            Shown::Screen(screen) => screen.draw(&self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    /// Redraws after time has passed without an event.
    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        match &mut self.shown {
            Shown::Plain(plain, terminal) => {
                let (doing, since) = self.state.doing(elapsed);
                plain
                    .still_running(&doing, since, elapsed)
                    .iter()
                    .for_each(|line| terminal.print_error(line));
            }
            Shown::Screen(screen) => screen.draw(&self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    /// Errors of stdout are ignored here; they are reported when the final result is printed.
    fn result(&mut self, text: &str) {
        self.above(|terminal| drop(terminal.print_wrapped(&hide(text))));
    }

    fn aside(&mut self, text: &str) {
        let drawn = matches!(self.shown, Shown::Screen(_));
        self.above(|terminal| match drawn {
            true => terminal.print_error(&wrap_lines(text, terminal.width)),
            false => terminal.print_error(text),
        });
    }

    fn above(&mut self, print: impl FnOnce(&Terminal)) {
        match &mut self.shown {
            Shown::Plain(_, terminal) => print(terminal),
            Shown::Screen(screen) => screen.above(print),
            Shown::Nothing => {}
        }
    }
}

/// The event without secrets in its texts. Values are kept: text made of them is redacted when it is printed.
fn redacted(event: &Event) -> Cow<'_, Event> {
    let mut event = Cow::Borrowed(event);
    if matches!(*event, Event::Done { .. } | Event::Engine { .. }) {
        // Large, frequent, and without text.
        return event;
    }
    let text = match event.to_mut() {
        Event::Warning { text } | Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => {
            text
        }
        Event::Phase { detail, .. } => detail,
        Event::Point { cause: Some(cause), .. } => cause,
        _ => return event,
    };
    *text = hide(text).into_owned();
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
