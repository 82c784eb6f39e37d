//! The two streams of a command: results on standard output, everything else on standard error; and what they can show.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fault::{Fault, Kind, Result};

/// Columns of a stream that is no terminal.
const WIDTH: usize = 80;

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
    closed: AtomicBool,
}

impl Terminal {
    /// The process's own streams.
    ///
    /// `NO_COLOR` (set and not empty) and `TERM=dumb` turn colours off; the locale says whether UTF-8 is understood.
    #[must_use]
    pub fn detect() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let dumb = variable("TERM").as_deref() == Some("dumb");
        let plain = variable("NO_COLOR").is_some() || dumb;
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
            live: stderr().is_terminal() && !dumb,
            unicode: locale.is_some_and(utf8),
            width: columns
                .or_else(|| variable("COLUMNS").and_then(|columns| columns.parse().ok()))
                .unwrap_or(WIDTH),
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

    /// Prints progress, a warning or an error: whatever is no result. Nobody to read it is no reason to stop.
    pub fn say(&self, text: &str) {
        let _ = writeln!(stderr().lock(), "{text}");
    }

    /// Prints a fault and its remedy.
    pub fn complain(&self, fault: &Fault) {
        let style =
            |text: &str, style: console::Style| style.force_styling(self.error_colour).apply_to(text).to_string();
        let error = style("error", console::Style::new().red().bold());
        self.say(&format!("{error}: {}", fault.message));
        if let Some(hint) = &fault.hint {
            let label = style("hint", console::Style::new().cyan());
            self.say(&format!("{label}: {hint}"));
        }
    }
}
