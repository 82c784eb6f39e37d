//! The live view of a run, driven by its events: redrawn in place on a terminal, one line per event elsewhere.
//!
//! `state` tracks the progress, with `levels` for loads, `map` for a search and `starts` for engines; `plain` and
//! `screen` show it. Script output goes to stdout, unless stdout is reserved for one JSON document.

mod levels;
mod map;
mod plain;
mod screen;
mod starts;
mod state;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use plain::Plain;
use screen::Screen;
use serde_json::Value;
use state::{State, TICK};

use super::{Page, Terminal, WarningGroup, breakdown, experiment, simulated_line};
use crate::fmt::wrap;
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
    /// Whether every warning is shown, instead of one of each kind.
    verbose: bool,
    /// Whether somebody was told that the engine is simulated.
    told_simulated: bool,
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
        let (page, verbose) = (Page::from(&terminal), terminal.verbose);
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
            verbose,
            told_simulated: false,
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

    /// Removes the view from the terminal and summarizes the warnings; later events are not shown.
    pub fn close(&self) {
        let mut view = self.lock();
        view.summarize_warnings();
        if let Shown::Screen(mut screen) = std::mem::replace(&mut view.shown, Shown::Nothing) {
            screen.clear();
        }
    }

    /// Whether the user was told that the engine is simulated.
    #[must_use]
    pub fn has_told_simulated(&self) -> bool {
        self.lock().told_simulated
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

/// A result with the notice of a simulated run above it, if there is one.
#[must_use]
pub fn with_notice(notice: Option<&str>, text: &str, page: Page) -> String {
    match notice {
        Some(notice) => format!("{}\n\n{text}", wrap(notice, page.width, 4)),
        None => text.to_owned(),
    }
}

impl View {
    fn show(&mut self, event: &Event) {
        let elapsed = self.begun.elapsed();
        let kinds = self.state.warnings().len();
        let load = self.state.update(event, elapsed);
        let simulated = self.run.upgrade().is_some_and(|run| run.simulated());
        self.state.simulated = simulated;
        if self.json && simulated && !self.told_simulated {
            self.told_simulated = true;
            self.aside(&self.notice());
        }
        match event {
            Event::Report { value, text, .. } => {
                self.reported.push(value.clone());
                self.result(text, simulated);
            }
            Event::Shown { value, text } => {
                self.reported.push(value.clone());
                self.marked_result(text, simulated);
            }
            Event::Experiment { value, .. } => {
                self.reported.push(value.clone());
                if let Ok(found) = crate::compare::read_experiment(value) {
                    self.marked_result(&experiment(&found, self.page), simulated);
                }
            }
            Event::Breakdown { name, value } => {
                self.reported.push(value.clone());
                if let Ok(footprint) = serde_json::from_value(value.clone()) {
                    self.marked_result(&breakdown(name, &footprint, self.page), simulated);
                }
            }
            Event::Print { text } if self.json => self.aside(text),
            Event::Print { text } => self.above(|terminal| drop(terminal.print_wrapped(text))),
            Event::Warning(warning) if self.verbose => self.warn(&warning.message),
            // On a terminal, the view shows it, and the end.
            Event::Warning(warning) if kinds < self.state.warnings().len() => {
                if matches!(self.shown, Shown::Plain(..)) {
                    self.warn(&warning.message);
                }
            }
            _ => {}
        }
        match &mut self.shown {
            Shown::Plain(plain, terminal) => {
                let line = load.map(|load| plain.stamped(&load, elapsed));
                line.or_else(|| plain.line(event, elapsed))
                    .iter()
                    .for_each(|line| terminal.print_error(line));
            }
            Shown::Screen(screen) => screen.draw(&mut self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    /// Redraws after time has passed without an event.
    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        match &mut self.shown {
            Shown::Plain(plain, terminal) => {
                plain
                    .still_running(&self.state.doing(elapsed), self.state.log(), elapsed)
                    .iter()
                    .for_each(|line| terminal.print_error(line));
            }
            Shown::Screen(screen) => screen.draw(&mut self.state, elapsed),
            Shown::Nothing => {}
        }
    }

    fn warn(&mut self, text: &str) {
        let page = Page {
            colour: self.colour,
            ..Page::default()
        };
        let label = page.paint("warning", console::Style::new().magenta().bold());
        self.aside(&format!("{label}: {text}"));
    }

    /// Says at the end of what there were several warnings, and on a terminal, of what there was one.
    fn summarize_warnings(&mut self) {
        if self.verbose {
            return;
        }
        let shown_already = matches!(self.shown, Shown::Plain(..));
        let groups = self.state.warnings().iter();
        let several = |group: &&WarningGroup| group.messages.len() > 1;
        let sentence = |group: &WarningGroup| match several(&group) {
            true => format!("{}; -v shows each", group.sentence()),
            false => group.sentence(),
        };
        let sentences: Vec<String> = match shown_already {
            true => groups.filter(several).map(sentence).collect(),
            false => groups.map(sentence).collect(),
        };
        for sentence in sentences {
            self.warn(&sentence);
        }
    }

    /// The notice of a simulated run.
    fn notice(&self) -> String {
        let run = self.run.upgrade();
        simulated_line(&run.map_or_else(Vec::new, |run| run.simulated_engines()))
    }

    /// Prints a result, with the notice of a simulated run if nobody was told yet.
    fn marked_result(&mut self, text: &str, simulated: bool) {
        let notice = (simulated && !self.told_simulated).then(|| self.notice());
        self.result(&with_notice(notice.as_deref(), text, self.page), simulated);
    }

    /// Errors of stdout are ignored here; they are reported when the final result is printed.
    fn result(&mut self, text: &str, simulated: bool) {
        if self.json {
            return;
        }
        self.told_simulated |= simulated;
        self.above(|terminal| drop(terminal.print_wrapped(&hide(text))));
    }

    fn aside(&mut self, text: &str) {
        self.above(|terminal| terminal.print_error(&terminal.wrapped(text)));
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
    if matches!(
        *event,
        Event::Done { .. } | Event::Engine { .. } | Event::Restored { .. }
    ) {
        // Large, frequent, and without text.
        return event;
    }
    let text = match event.to_mut() {
        Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => text,
        Event::Warning(warning) => &mut warning.message,
        Event::Log { line } => line,
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
