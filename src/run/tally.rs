//! What a run as a whole comes to: warnings, and whether anything fits.

use super::Event;
use crate::boundary::Moves;

/// Counted from the events.
#[derive(Debug, Default)]
pub(super) struct Tally {
    points: u64,
    fits: u64,
    warnings: Vec<String>,
}

impl Tally {
    /// Takes in one more event; false when it is a warning that is there already.
    pub(super) fn count(&mut self, event: &Event) -> bool {
        match event {
            Event::Point { moves, .. } => {
                self.points += 1;
                self.fits += u64::from(*moves == Moves::Fits);
            }
            Event::Warning { text } => {
                if self.warnings.contains(text) {
                    return false;
                }
                self.warnings.push(text.clone());
            }
            _ => {}
        }
        true
    }

    /// Whether points were asked about, and not one is known to fit.
    pub(super) fn nothing_fits(&self) -> bool {
        self.points > 0 && self.fits == 0
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
