//! What people see while a run goes on, all of it from the run's events: drawn in place on a terminal, calm lines elsewhere.
//!
//! `state` knows how far the run is, `plain` and `screen` show it; `seen` takes secrets out of what they are given. What a script prints and reports goes to standard output,
//! unless that is kept for one JSON document.

mod best;
mod plain;
mod recent;
mod screen;
mod seen;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde_json::Value;

use super::terminal::fold;
use super::{Page, SIMULATED, Terminal, breakdown, experiment};
use crate::run::{Event, Run, hide};
use plain::Plain;
use screen::{Screen, TICK};
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
        run.listen(Box::new(move |event| listener.lock().show(&seen::seen(event))));
        live.keep_time();
        live
    }

    /// Shows that time passes when nothing else happens, until the view is closed.
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

    /// Takes the view off the terminal; what happens from here on is not shown.
    pub fn close(&self) {
        let mut view = self.lock();
        match std::mem::replace(&mut view.shown, Shown::Nothing) {
            Shown::Plain(mut plain, terminal) => {
                if let Some(line) = plain.rest() {
                    terminal.say(&line);
                }
            }
            Shown::Screen(mut screen) => screen.clear(),
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

/// A result in the script's own words, which know nothing of whether it was simulated.
#[must_use]
pub fn own_words(text: &str, simulated: bool) -> String {
    match simulated {
        true => format!("{SIMULATED}\n\n{text}"),
        false => text.to_owned(),
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
                    self.result(&own_words(text, simulated));
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
            Shown::Plain(plain, terminal) => plain.lines(event, elapsed).iter().for_each(|line| terminal.say(line)),
            Shown::Screen(screen) => screen.draw(&self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    /// Time has passed.
    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        match &mut self.shown {
            Shown::Plain(plain, terminal) => {
                let (doing, since) = self.state.doing(elapsed);
                plain
                    .still(&doing, since, elapsed)
                    .iter()
                    .for_each(|line| terminal.say(line));
            }
            Shown::Screen(screen) => screen.draw(&self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    /// A reader of results that went away is no error; any other failure comes up when the final result is printed.
    fn result(&mut self, text: &str) {
        self.above(|terminal| drop(terminal.tell(&hide(text))));
    }

    fn aside(&mut self, text: &str) {
        let drawn = matches!(self.shown, Shown::Screen(_));
        self.above(|terminal| match drawn {
            true => terminal.say(&fold(text, terminal.width)),
            false => terminal.say(text),
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
