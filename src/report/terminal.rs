//! The two output streams of a command: results on standard output, everything else on standard error.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use console::measure_text_width;

use crate::fault::{Fault, Kind, Result};
use crate::run::hide;

/// Width if no stream is a terminal.
const WIDTH: usize = 100;

/// The output streams of a command, and what they can show.
#[derive(Debug)]
pub struct Terminal {
    /// Whether standard output shows colours.
    pub colour: bool,
    /// Whether standard error shows colours.
    pub error_colour: bool,
    /// Whether standard error is a terminal that can show the live view.
    pub live: bool,
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
    /// Width in columns.
    pub width: usize,
    /// Whether standard output is a terminal, which breaks long lines within words.
    wraps: bool,
    closed: AtomicBool,
}

impl Terminal {
    /// Detects what the process's streams can show.
    ///
    /// `NO_COLOR` (set and not empty) and `TERM=dumb` turn colours off; `TERM=dumb` and `CI` turn the live view off;
    /// the locale says whether UTF-8 is understood.
    #[must_use]
    pub fn detect() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let dumb = variable("TERM").as_deref() == Some("dumb");
        let plain = variable("NO_COLOR").is_some() || dumb;
        // Some CI services give their logs a terminal, but keep every line that was overwritten.
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
            wraps: stdout().is_terminal(),
            closed: AtomicBool::new(false),
        }
    }

    /// Prints a result and a line end. If the reader has gone (`| head`), the rest is dropped without an error.
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

    /// Prints prose: on a terminal, long lines are wrapped between words.
    pub fn print_wrapped(&self, text: &str) -> Result<()> {
        match self.wraps {
            true => self.print(&wrap_lines(text, self.width)),
            false => self.print(text),
        }
    }

    /// Prints progress, a warning or an error to standard error. A failure to write is ignored.
    pub fn print_error(&self, text: &str) {
        let _ = writeln!(stderr().lock(), "{text}");
    }

    /// Prints a fault and its hint, with secrets removed.
    pub fn print_fault(&self, fault: &Fault) {
        let style =
            |text: &str, style: console::Style| style.force_styling(self.error_colour).apply_to(text).to_string();
        let error = style("error", console::Style::new().red().bold());
        self.print_error(&format!("{error}: {}", hide(&fault.message)));
        if let Some(hint) = &fault.hint {
            let label = style("hint", console::Style::new().bold());
            self.print_error(&format!("{label}: {}", hide(hint)));
        }
    }
}

/// Wraps long lines between words and keeps their indent. Command lines are meant for pasting
/// and stay whole.
pub(super) fn wrap_lines(text: &str, most: usize) -> String {
    let line = |line: &str| {
        if measure_text_width(line) <= most || line.contains(" --") {
            return line.to_owned();
        }
        let indent = " ".repeat(line.len() - line.trim_start().len());
        let room = most.saturating_sub(indent.len());
        let words = wrap_words(line, room, room.saturating_sub(2));
        format!("{indent}{}", words.join(&format!("\n{indent}  ")))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The words of a text in lines of at most `first` columns, then `rest`; longer words stay whole.
pub(super) fn wrap_words(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let most = if lines.len() < 2 { first } else { rest };
        match lines.last_mut() {
            Some(last) if measure_text_width(last) + 1 + measure_text_width(word) <= most => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap_lines;

    #[test]
    fn prose_is_wrapped_and_flags_are_not() {
        assert_eq!(wrap_lines("  one two three\nfour", 9), "  one two\n    three\nfour");
        assert_eq!(wrap_lines("run  --a=1 --b=2", 9), "run  --a=1 --b=2");
        assert_eq!(wrap_lines("a   table  stays", 40), "a   table  stays");
    }
}
