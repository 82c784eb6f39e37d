//! What a picture is measured by.

use super::Width;

/// What a picture is measured by: its width, its letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Pixels that a panel has, with what stands around it.
    pub(super) width: f64,
    /// Pixels of the whole picture.
    pub(super) whole: f64,
    /// Pixels of a letter.
    pub(super) font: f64,
    /// Whether there is room beside the panels.
    pub(super) roomy: bool,
}

impl Look {
    /// That of a picture.
    pub(super) fn of(width: Width) -> Self {
        let (width, font, roomy) = match width {
            Width::Wide => (960.0, 12.5, true),
            Width::Narrow => (400.0, 13.0, false),
        };
        Self {
            width,
            whole: width,
            font,
            roomy,
        }
    }

    /// That of one of several panels beside each other.
    pub(super) fn cell(self, width: f64) -> Self {
        Self {
            width,
            roomy: false,
            ..self
        }
    }
}
