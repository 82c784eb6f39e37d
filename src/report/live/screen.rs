//! Redraws the progress in place at the bottom of a terminal.
//!
//! indicatif does this too, but when the terminal becomes narrower and wraps the old lines, it leaves parts of
//! them behind. Here each frame is one write that first moves up by the rows that the old lines occupy now.

use std::io::{Write as _, stderr};
use std::time::Duration;

use console::{Term, measure_text_width};

use super::state::State;
use crate::report::{Page, Terminal};

/// Minimum time between frames; skipped changes appear in the next frame.
const MIN_FRAME_TIME: Duration = Duration::from_millis(50);

/// Free columns at the right, for the `^C` that the terminal echoes.
const MARGIN: usize = 3;

/// Rows and columns if the terminal does not report its size.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

pub(super) struct Screen {
    terminal: Terminal,
    /// Widths of the lines on the terminal.
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

    /// Draws the state, `elapsed` after the start of the run.
    pub(super) fn draw(&mut self, state: &mut State, elapsed: Duration) {
        if !self.drawn.is_empty() && self.last.is_some_and(|last| elapsed < last + MIN_FRAME_TIME) {
            return;
        }
        self.last = Some(elapsed);
        let (rows, columns) = Term::stderr().size_checked().unwrap_or(DEFAULT_SIZE);
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        let page = Page {
            width: columns.saturating_sub(MARGIN).max(1),
            unicode: self.terminal.unicode,
            colour: self.terminal.error_colour,
        };
        let mut lines = state.lines(elapsed, rows, page);
        lines.truncate(rows.saturating_sub(1).max(1));
        let mut text = up(&self.drawn, columns);
        for (index, line) in lines.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "\r\n" });
            // Clears the whole row, so that old content does not count if the terminal rewraps.
            text.push_str("\x1b[2K");
            text.push_str(line);
        }
        text.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        write(&text);
    }

    /// Prints above the lines; the next frame draws them again below.
    pub(super) fn above(&mut self, print: impl FnOnce(&Terminal)) {
        self.clear();
        print(&self.terminal);
    }

    /// Removes the lines.
    pub(super) fn clear(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = Term::stderr()
            .size_checked()
            .map_or(DEFAULT_SIZE.1, |(_, columns)| columns);
        let up = up(&self.drawn, usize::from(columns));
        self.drawn.clear();
        write(&format!("{up}\x1b[J"));
    }
}

/// Moves from the end of the last line to the start of the first, at the terminal's current width.
fn up(drawn: &[usize], columns: usize) -> String {
    let rows: usize = drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    match rows.saturating_sub(1) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// A failure to show progress must not stop the run.
fn write(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::up;

    #[test]
    fn lines_wrapped_by_a_narrower_terminal_are_cleared() {
        assert_eq!(up(&[], 80), "\r");
        assert_eq!(up(&[70, 60, 10], 80), "\r\u{1b}[2A");
        assert_eq!(up(&[70, 60, 10], 40), "\r\u{1b}[4A");
        assert_eq!(up(&[0], 40), "\r");
    }
}
