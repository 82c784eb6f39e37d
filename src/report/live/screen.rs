//! The run as a few lines at the foot of a terminal, drawn over in place.
//!
//! indicatif draws such lines too; it does not know that a terminal which becomes narrower breaks those that stand there, and leaves pieces of
//! them behind. Here a frame is one write that begins by going up as many rows as the lines before take now.

use std::io::{Write as _, stderr};
use std::time::Duration;

use console::{Term, measure_text_width};

use super::state::State;
use crate::report::{Page, Terminal};

/// How often the clock is drawn when nothing happens.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Frames closer than this are not drawn: what happened is in the next one.
const SHORTEST: Duration = Duration::from_millis(50);

/// Columns left free at the right, for the `^C` of the terminal.
const MARGIN: usize = 3;

/// Of a terminal that does not tell its size.
const SIZE: (u16, u16) = (24, 80);

/// The lines at the foot of a terminal.
pub(super) struct Screen {
    terminal: Terminal,
    /// The widths of the lines that stand there.
    drawn: Vec<usize>,
    last: Option<Duration>,
}

impl Screen {
    pub(super) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            drawn: Vec::new(),
            last: None,
        }
    }

    /// Shows how far the run is, `elapsed` after its start.
    pub(super) fn draw(&mut self, state: &State, elapsed: Duration) {
        if !self.drawn.is_empty() && self.last.is_some_and(|last| elapsed < last + SHORTEST) {
            return;
        }
        self.last = Some(elapsed);
        let (rows, columns) = Term::stderr().size_checked().unwrap_or(SIZE);
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        let page = Page {
            width: columns.saturating_sub(MARGIN).max(1),
            unicode: self.terminal.unicode,
            colour: self.terminal.error_colour,
        };
        let mut lines = state.lines(elapsed, page);
        lines.truncate(rows.saturating_sub(1).max(1));
        let mut text = up(&self.drawn, columns);
        for (index, line) in lines.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "\r\n" });
            // The whole row is emptied: what it held before must not count when the terminal breaks its rows anew.
            text.push_str("\x1b[2K");
            text.push_str(line);
        }
        text.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        write(&text);
    }

    /// Prints above the lines, which are drawn again below.
    pub(super) fn above(&mut self, print: impl FnOnce(&Terminal)) {
        self.clear();
        print(&self.terminal);
    }

    /// Takes the lines away.
    pub(super) fn clear(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = Term::stderr().size_checked().map_or(SIZE.1, |(_, columns)| columns);
        let up = up(&self.drawn, usize::from(columns));
        self.drawn.clear();
        write(&format!("{up}\x1b[J"));
    }
}

/// From the end of the last line to the beginning of the first, on a terminal that is so wide now.
fn up(drawn: &[usize], columns: usize) -> String {
    let rows: usize = drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    match rows.saturating_sub(1) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// Nobody to look on is no reason to stop.
fn write(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::up;

    #[test]
    fn lines_that_a_narrower_terminal_broke_are_gone_over_whole() {
        assert_eq!(up(&[], 80), "\r");
        assert_eq!(up(&[70, 60, 10], 80), "\r\u{1b}[2A");
        assert_eq!(up(&[70, 60, 10], 40), "\r\u{1b}[4A");
        assert_eq!(up(&[0], 40), "\r");
    }
}
