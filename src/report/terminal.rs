//! The two output streams of a command: results on standard output, everything else on standard error. Also their
//! capabilities ([`Page`]), and documentation as text.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdin, stdout};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use console::{AnsiCodeIterator, Style, measure_text_width};

use crate::fault::{Fault, Kind, Result};
use crate::fmt::wrap;
use crate::run::hide;

/// Width if no stream is a terminal.
const WIDTH: usize = 100;

/// The user's options for all output: `--quiet`, `--verbose`, `--color`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputChoice {
    /// Only results and errors.
    pub quiet: bool,
    /// More details, such as every single warning.
    pub verbose: bool,
    /// Colours always or never; `None`: only on a terminal that shows them.
    pub colour: Option<bool>,
}

static CHOICE: RwLock<OutputChoice> = RwLock::new(OutputChoice {
    quiet: false,
    verbose: false,
    colour: None,
});

impl OutputChoice {
    /// Makes this the choice for every [`Terminal`] detected from now on.
    pub fn apply(self) {
        *CHOICE.write().unwrap_or_else(PoisonError::into_inner) = self;
    }
}

/// The output streams of a command, and their capabilities.
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
    /// Height in rows, if standard output is a terminal.
    height: Option<usize>,
    /// Whether to print only results and errors.
    pub quiet: bool,
    /// Whether to print more details.
    pub verbose: bool,
    /// True if the width is known, from the user or from a terminal. A terminal would break long lines within words.
    wraps: bool,
    closed: AtomicBool,
    /// Lines printed to standard output.
    printed: AtomicUsize,
}

impl Terminal {
    /// Detects the capabilities of the process's streams.
    ///
    /// `NO_COLOR` (set and not empty) and `TERM=dumb` turn colours off; `TERM=dumb` and `CI` turn the live view off;
    /// the locale decides about UTF-8. The user's [`OutputChoice`] takes precedence.
    pub fn detect() -> Self {
        let dumb = variable("TERM").as_deref() == Some("dumb");
        let plain = variable("NO_COLOR").is_some() || dumb;
        // Some CI services provide a terminal for their logs, but keep every overwritten line.
        let watched = variable("CI").is_none_or(|ci| ci == "false");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable)
            .unwrap_or_default()
            .to_lowercase();
        let out = console::Term::stdout().size_checked();
        let columns = out
            .or_else(|| console::Term::stderr().size_checked())
            .map(|size| size.1);
        let given = variable("COLUMNS");
        let choice = *CHOICE.read().unwrap_or_else(PoisonError::into_inner);
        let colour = |terminal: bool| choice.colour.unwrap_or(terminal && !plain);
        Self {
            colour: colour(stdout().is_terminal()),
            error_colour: colour(stderr().is_terminal()),
            live: stderr().is_terminal() && !dumb && watched && !choice.quiet,
            height: out.map(|size| size.0.into()),
            quiet: choice.quiet,
            verbose: choice.verbose,
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            wraps: columns.is_some() || given.is_some(),
            width: match (columns, given) {
                (Some(columns), _) => columns.into(),
                (None, given) => given.and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH),
            },
            closed: AtomicBool::new(false),
            printed: AtomicUsize::new(0),
        }
    }

    /// Whether what was printed to standard output fills its terminal, so that its beginning may be out of sight.
    pub fn has_scrolled(&self) -> bool {
        (self.height).is_some_and(|rows| self.printed.load(Ordering::Relaxed) >= rows)
    }

    /// Prints a result and a line end. If the reader has gone (`| head`), the rest is dropped without an error.
    pub fn print(&self, text: &str) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = shown(text, self.colour);
        self.printed.fetch_add(text.lines().count(), Ordering::Relaxed);
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

    /// Prints prose, wrapped as by [`Terminal::wrapped`].
    pub fn print_wrapped(&self, text: &str) -> Result<()> {
        self.print(&self.wrapped(text))
    }

    /// Prose with its long lines wrapped between words, if the width is known.
    pub fn wrapped(&self, text: &str) -> String {
        if self.wraps {
            wrap_lines(text, self.width)
        } else {
            text.to_owned()
        }
    }

    /// Prints documentation. On a terminal it is wrapped, and shown in `$PAGER` or `less` if it is longer than the
    /// screen; elsewhere it is unchanged.
    pub fn print_markdown(&self, markdown: &str) -> Result<()> {
        if !stdout().is_terminal() {
            return self.print(markdown.trim_end());
        }
        let text = prose(&shown(markdown, false), self.width, self.colour);
        let is_long = self.height.is_some_and(|rows| text.lines().count() >= rows);
        if is_long && stdin().is_terminal() && shown_in_pager(&text) {
            Ok(())
        } else {
            self.print(&text)
        }
    }

    /// Prints progress, a warning or a note to standard error, unless `--quiet` is set. A failure to write is ignored.
    pub fn print_error(&self, text: &str) {
        if !self.quiet {
            self.print_failure(text);
        }
    }

    /// Prints an error to standard error. A failure to write is ignored.
    pub fn print_failure(&self, text: &str) {
        let _ = writeln!(stderr().lock(), "{}", shown(text, self.error_colour));
    }

    /// Prints a fault and its hint.
    pub fn print_fault(&self, fault: &Fault) {
        let error = self.errors().paint("error", Style::new().red().bold());
        self.print_failure(&format!("{error}: {}", fault.message));
        if let Some(hint) = &fault.hint {
            let label = self.errors().paint("hint", Style::new().bold());
            self.print_failure(&format!("{label}: {hint}"));
        }
    }

    /// The capabilities of standard error.
    pub(super) fn errors(&self) -> Page {
        Page {
            colour: self.error_colour,
            ..Page::from(self)
        }
    }
}

/// The capabilities of an output for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Width in columns.
    pub width: usize,
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
    /// Whether colours can be shown.
    pub colour: bool,
}

impl Default for Page {
    /// The least capabilities, which every output has.
    fn default() -> Self {
        Self {
            width: 80,
            unicode: false,
            colour: false,
        }
    }
}

impl From<&Terminal> for Page {
    /// The capabilities of this terminal's standard output.
    fn from(terminal: &Terminal) -> Self {
        Self {
            width: terminal.width,
            unicode: terminal.unicode,
            colour: terminal.colour,
        }
    }
}

impl Page {
    /// Applies a style if colours can be shown.
    pub(super) fn paint(self, text: &str, style: Style) -> String {
        style.force_styling(self.colour).apply_to(text).to_string()
    }

    /// Replaces mathematical signs and quotes by ASCII if only ASCII can be shown.
    pub(super) fn signs(self, text: String) -> String {
        const ASCII: [(char, &str); 6] = [
            ('≤', "<="),
            ('×', "x"),
            ('±', "+-"),
            ('“', "\""),
            ('”', "\""),
            ('…', "..."),
        ];
        if self.unicode {
            text
        } else {
            ASCII
                .iter()
                .fold(text, |text, (sign, ascii)| text.replace(*sign, ascii))
        }
    }

    /// Picks the second variant if only ASCII can be shown.
    pub(super) fn pick<T>(self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }
}

/// Makes a text safe for a terminal: hides secrets and removes control characters, except ends of lines, tabs and, with
/// `colour`, colours. Text from engines, scripts or run folders could otherwise change the window's title, the
/// clipboard or the screen.
pub(super) fn shown(text: &str, colour: bool) -> Cow<'_, str> {
    let text = hide(text);
    if !text.contains(is_control) {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    for (part, is_code) in AnsiCodeIterator::new(&text) {
        if is_code && colour && is_colour(part) {
            clean.push_str(part);
        } else if !is_code {
            clean.extend(part.chars().filter(|letter| !is_control(*letter)));
        }
    }
    Cow::Owned(clean)
}

/// Whether a character controls the terminal or the direction of writing.
fn is_control(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether an escape sequence only changes colour, weight or slant: neither blinking nor hidden text.
fn is_colour(code: &str) -> bool {
    let numbers = code.strip_prefix("\x1b[").and_then(|code| code.strip_suffix('m'));
    let known = |number: &str| matches!(number.parse(), Ok(0..=4 | 22..=24 | 30..=39 | 90..=97u8)) || number.is_empty();
    numbers.is_some_and(|numbers| numbers.split(';').all(known))
}

/// Shows a text in the user's pager; false if there is none.
fn shown_in_pager(text: &str) -> bool {
    /// The exit status of a shell that does not find the command.
    const NO_SUCH_COMMAND: i32 = 127;
    let pager = variable("PAGER").unwrap_or_else(|| "less".to_owned());
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    if variable("LESS").is_none() {
        // Quit at the end of a short text, keep colours, leave the text on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    if let Some(mut pipe) = child.stdin.take() {
        // The reader may leave before the end.
        let _ = pipe.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.code() != Some(NO_SUCH_COMMAND))
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Wraps long lines between words and keeps their indent. Command lines stay whole for pasting, and so do tables and
/// drawings.
fn wrap_lines(text: &str, most: usize) -> String {
    let line = |line: &str| {
        let laid_out = line.trim_start().contains("  ") || line.contains(['│', '█', '◄']);
        if measure_text_width(line) <= most || line.contains(" --") || laid_out {
            line.to_owned()
        } else {
            wrap_indented(line, most, 2)
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Wraps a line between words, with its indent before each part and `hanging` more before all but the first.
fn wrap_indented(line: &str, most: usize, hanging: usize) -> String {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let parts = wrap(text, most.saturating_sub(indent.len()), hanging);
    format!("{indent}{}", parts.replace('\n', &format!("\n{indent}")))
}

/// Markdown of the documentation for a terminal of `width` columns: wrapped between words, headings without their
/// marks, code unchanged.
fn prose(markdown: &str, width: usize, colour: bool) -> String {
    let bold = |text: &str| Style::new().bold().force_styling(colour).apply_to(text).to_string();
    // Lines, and whether each is prose that continues on the next line.
    let mut lines: Vec<(String, bool)> = Vec::new();
    let mut is_code = false;
    for line in markdown.lines() {
        let text = line.trim();
        let heading = text.trim_start_matches('#');
        match lines.last_mut() {
            _ if text.starts_with("```") => is_code = !is_code,
            _ if is_code => lines.push((format!("    {line}"), false)),
            _ if heading.len() < text.len() => lines.push((bold(heading.trim().trim_matches('`')), false)),
            _ if text.is_empty() || text.starts_with('|') => lines.push((text.to_owned(), false)),
            Some((last, true)) if !is_item(text) => last.extend([" ", text]),
            _ => lines.push((line.trim_end().to_owned(), true)),
        }
    }
    lines.dedup_by(|line, before| line.0.is_empty() && before.0.is_empty());
    let shown = lines.into_iter().map(|(line, is_prose)| {
        if is_prose {
            wrap_indented(&line, width, if is_item(line.trim_start()) { 2 } else { 0 })
        } else {
            line
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Whether a line begins a list item.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ") || text.starts_with("* ") || (number.len() < text.len() && number.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use super::{prose, wrap_lines};

    #[test]
    fn prose_is_wrapped_and_flags_are_not() {
        assert_eq!(wrap_lines("  one two three\nfour", 9), "  one two\n    three\nfour");
        assert_eq!(wrap_lines("run  --a=1 --b=2", 9), "run  --a=1 --b=2");
        assert_eq!(wrap_lines("a   table  stays", 9), "a   table  stays");
        assert_eq!(wrap_lines("it is 3 % `or so`", 9), "it is 3 %\n  `or so`");
    }

    #[test]
    fn documentation_is_wrapped_between_words_and_code_is_kept() {
        let markdown = "# `f(a)`\n\nOne two three\nfour.\n\n- item of many words\n- second\n\n## Example\n\n```rhai\nlet a_long_line = f(1, 2, 3);\n```";
        assert_eq!(
            prose(markdown, 14, false),
            "f(a)\n\nOne two three\nfour.\n\n- item of many\n  words\n- second\n\nExample\n\n    let a_long_line = f(1, 2, 3);"
        );
    }
}
