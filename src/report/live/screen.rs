//! The run as a few lines at the foot of a terminal, drawn over in place.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::state::State;
use crate::report::Terminal;

/// How often the clock is drawn when nothing happens.
const TICK: Duration = Duration::from_millis(500);

/// The lines at the foot of a terminal.
pub(super) struct Screen {
    lines: MultiProgress,
    doing: ProgressBar,
    found: ProgressBar,
    memory: Option<ProgressBar>,
    terminal: Terminal,
}

impl Screen {
    pub(super) fn new(terminal: Terminal) -> Self {
        let lines = MultiProgress::new();
        let line = |template: &str| {
            let line = lines.add(ProgressBar::new_spinner());
            // The template is ours; were it wrong, the plain message would still be shown.
            if let Ok(style) = ProgressStyle::with_template(template) {
                let ticks = if terminal.unicode {
                    "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "
                } else {
                    "|/-\\ "
                };
                line.set_style(style.tick_chars(ticks));
            }
            line
        };
        let doing = line("{spinner} {elapsed_precise} {wide_msg}");
        doing.enable_steady_tick(TICK);
        Self {
            found: line("  {wide_msg}"),
            doing,
            lines,
            memory: None,
            terminal,
        }
    }

    /// Shows how far the run is.
    pub(super) fn draw(&mut self, state: &State, begun: Instant) {
        let elapsed = begun.elapsed();
        self.doing.set_message(state.doing());
        self.found.set_message(state.found(elapsed));
        if let Some(memory) = state.memory() {
            let (lines, style) = (&self.lines, self.found.style());
            self.memory
                .get_or_insert_with(|| lines.add(ProgressBar::new_spinner().with_style(style)))
                .set_message(memory);
        }
    }

    /// Prints above the lines.
    pub(super) fn above(&self, print: impl FnOnce(&Terminal)) {
        self.lines.suspend(|| print(&self.terminal));
    }

    /// Takes the lines away.
    pub(super) fn close(self) {
        self.doing.finish_and_clear();
        self.found.finish_and_clear();
        if let Some(memory) = self.memory {
            memory.finish_and_clear();
        }
    }
}
