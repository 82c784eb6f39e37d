//! What was finished within an experiment belongs to it: alone it answers nothing, and an experiment that did not come to its end is
//! done again whole.

use super::Event;

/// The kind of the events that hold others.
const HOLDS: &str = "experiment";

/// How deep within experiments a journal is.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
}

impl Nesting {
    /// Takes in the next event; whether it stands outside of every experiment.
    pub(super) fn outside(&mut self, event: &Event) -> bool {
        match event {
            Event::Began { kind, .. } if kind == HOLDS => self.depth += 1,
            Event::Done { kind, .. } | Event::GivenUp { kind, .. } if kind == HOLDS => {
                self.depth = self.depth.saturating_sub(1);
            }
            // What the last life had begun ended with it.
            Event::Resumed { .. } => self.depth = 0,
            _ => {}
        }
        self.depth == 0
    }
}
