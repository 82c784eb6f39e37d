//! The two streams of a command: results on standard output, everything else on standard error; and what they can show.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use console::measure_text_width;

use crate::fault::{Fault, Kind, Result};
use crate::run::hide;

/// Columns of a stream that is no terminal.
const WIDTH: usize = 100;

/// Where a command prints, and what can be shown there.
#[derive(Debug)]
pub struct Terminal {
    /// Colours on standard output.
    pub colour: bool,
    /// Colours on standard error.
    pub error_colour: bool,
    /// Whether standard error is a terminal that can be drawn on: a live view.
    pub live: bool,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
    /// Columns.
    pub width: usize,
    /// Whether standard output is a terminal, where a line that is too long is broken anywhere.
    folds: bool,
    closed: AtomicBool,
}

impl Terminal {
    /// The process's own streams.
    ///
    /// `NO_COLOR` (set and not empty) and `TERM=dumb` turn colours off, the latter and `CI` the live view; the locale says whether UTF-8 is understood.
    #[must_use]
    pub fn detect() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let dumb = variable("TERM").as_deref() == Some("dumb");
        let plain = variable("NO_COLOR").is_some() || dumb;
        // Some services give their logs a terminal, which keeps every line that was drawn over.
        let watched = variable("CI").is_none_or(|ci| ci == "false");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let utf8 = |locale: String| {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        let columns = [console::Term::stdout(), console::Term::stderr()]
            .iter()
            .find_map(console::Term::size_checked)
            .map(|(_, columns)| usize::from(columns));
        Self {
            colour: stdout().is_terminal() && !plain,
            error_colour: stderr().is_terminal() && !plain,
            live: stderr().is_terminal() && !dumb && watched,
            unicode: locale.is_some_and(utf8),
            width: columns
                .or_else(|| variable("COLUMNS").and_then(|columns| columns.parse().ok()))
                .unwrap_or(WIDTH),
            folds: stdout().is_terminal(),
            closed: AtomicBool::new(false),
        }
    }

    /// Prints a result, and a line end after it. A reader that went away (`| head`) is no error: the rest goes nowhere.
    pub fn print(&self, text: &str) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut out = stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Fault::new(Kind::Io, format!("standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Prints a text for people: on a terminal, sentences are broken between their words.
    pub fn tell(&self, text: &str) -> Result<()> {
        match self.folds {
            true => self.print(&fold(text, self.width)),
            false => self.print(text),
        }
    }

    /// Prints progress, a warning or an error: whatever is no result. Nobody to read it is no reason to stop.
    pub fn say(&self, text: &str) {
        let _ = writeln!(stderr().lock(), "{text}");
    }

    /// Prints a fault and its remedy, without the secrets that what failed may have told.
    pub fn complain(&self, fault: &Fault) {
        let style =
            |text: &str, style: console::Style| style.force_styling(self.error_colour).apply_to(text).to_string();
        let error = style("error", console::Style::new().red().bold());
        self.say(&format!("{error}: {}", hide(&fault.message)));
        if let Some(hint) = &fault.hint {
            let label = style("hint", console::Style::new().bold());
            self.say(&format!("{label}: {}", hide(hint)));
        }
    }
}

/// Breaks lines that are wider than this between words, set in as far as they begin. What is to be pasted stays one line: the terminal breaks it.
pub(super) fn fold(text: &str, most: usize) -> String {
    let line = |line: &str| {
        if measure_text_width(line) <= most || line.starts_with("flags: ") {
            return line.to_owned();
        }
        let indent = line.len() - line.trim_start().len();
        let mut lines: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            match lines.last_mut() {
                Some(last) if measure_text_width(last) + 1 + measure_text_width(word) <= most => {
                    last.push(' ');
                    last.push_str(word);
                }
                None => lines.push(format!("{}{word}", " ".repeat(indent))),
                Some(_) => lines.push(format!("{}{word}", " ".repeat(indent + 2))),
            }
        }
        lines.join("\n")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn sentences_are_broken_and_what_is_to_be_pasted_is_not() {
        assert_eq!(fold("  one two three\nfour", 9), "  one two\n    three\nfour");
        assert_eq!(fold("flags: --a=1 --b=2", 9), "flags: --a=1 --b=2");
        assert_eq!(fold("a   table  stays", 40), "a   table  stays");
    }
}
