//! What people see while a run goes on, all of it from the run's events: drawn in place on a terminal, calm lines elsewhere.
//!
//! `state` knows how far the run is, `plain` and `screen` show it. What a script prints and reports goes to standard output,
//! unless that is kept for one JSON document.

mod plain;
mod screen;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde_json::Value;

use super::{Page, SIMULATED, Terminal, breakdown};
use crate::run::{Event, Run};
use plain::Plain;
use screen::Screen;
use state::State;

/// The view of a run under way.
#[derive(Clone)]
pub struct Live(Arc<Mutex<View>>);

struct View {
    state: State,
    begun: Instant,
    shown: Shown,
    run: Weak<Run>,
    /// Whether standard output is kept for one document.
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
    /// Watches `run` from now on. With `json`, standard output is left alone.
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
        run.listen(Box::new(move |event| listener.lock().show(event)));
        live
    }

    /// Takes the view off the terminal; what happens from here on is not shown.
    pub fn close(&self) {
        let mut view = self.lock();
        match std::mem::replace(&mut view.shown, Shown::Nothing) {
            Shown::Plain(mut plain, terminal) => {
                if let Some(line) = plain.rest() {
                    terminal.say(&line);
                }
            }
            Shown::Screen(screen) => screen.close(),
            Shown::Nothing => {}
        }
    }

    /// Whether a report, or a breakdown of memory, has shown this very value.
    #[must_use]
    pub fn has_shown(&self, value: &Value) -> bool {
        self.lock().reported.contains(value)
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    fn show(&mut self, event: &Event) {
        let elapsed = self.begun.elapsed();
        self.state.learn(event, elapsed);
        if self.run.upgrade().is_some_and(|run| run.simulated()) && self.state.turned_simulated() {
            self.aside(SIMULATED);
        }
        match event {
            Event::Report { value, text, .. } | Event::Shown { value, text } => {
                self.reported.push(value.clone());
                if !self.json {
                    self.result(text);
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
            Event::Print { text } => self.result(text),
            Event::Warning { text } => {
                let page = Page {
                    colour: self.colour,
                    ..Page::default()
                };
                let label = page.paint("warning", console::Style::new().yellow().bold());
                self.aside(&format!("{label}: {text}"));
            }
            _ => {}
        }
        match &mut self.shown {
            Shown::Plain(plain, terminal) => plain.lines(event, elapsed).iter().for_each(|line| terminal.say(line)),
            Shown::Screen(screen) => screen.draw(&self.state, self.begun),
            Shown::Nothing => {}
        }
    }

    /// A reader of results that went away is no error; any other failure comes up when the final result is printed.
    fn result(&self, text: &str) {
        match &self.shown {
            Shown::Plain(_, terminal) => drop(terminal.print(text)),
            Shown::Screen(screen) => screen.above(|terminal| drop(terminal.print(text))),
            Shown::Nothing => {}
        }
    }

    fn aside(&self, text: &str) {
        match &self.shown {
            Shown::Plain(_, terminal) => terminal.say(text),
            Shown::Screen(screen) => screen.above(|terminal| terminal.say(text)),
            Shown::Nothing => {}
        }
    }
}
