//! Tracks whether events are inside an experiment.
//!
//! What finished within an experiment belongs to it: it answers no call by itself, and an unfinished experiment is
//! repeated completely.

use super::Event;

const HOLDS: &str = "experiment";

#[derive(Debug, Default)]
pub(super) struct ExperimentDepth {
    depth: usize,
}

impl ExperimentDepth {
    /// Adds the next event. Returns whether it is outside of every experiment.
    pub(super) fn is_top_level(&mut self, event: &Event) -> bool {
        match event {
            Event::Began { kind, .. } if kind == HOLDS => self.depth += 1,
            Event::Done { kind, .. } | Event::GivenUp { kind, .. } if kind == HOLDS => {
                self.depth = self.depth.saturating_sub(1);
            }
            // Experiments of the previous execution ended with it.
            Event::Resumed { .. } => self.depth = 0,
            _ => {}
        }
        self.depth == 0
    }
}
