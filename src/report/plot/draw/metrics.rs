//! Sizes of a drawing in pixels.

use super::Width;

#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutMetrics {
    /// Width of a panel with its labels.
    pub(super) width: f64,
    /// Width of the whole drawing.
    pub(super) total_width: f64,
    /// Font size.
    pub(super) font: f64,
    /// Whether there is room for labels beside the panels.
    pub(super) side_room: bool,
}

impl LayoutMetrics {
    pub(super) fn new(width: Width) -> Self {
        let (width, font, side_room) = match width {
            Width::Wide => (960.0, 12.5, true),
            Width::Narrow => (400.0, 13.0, false),
        };
        Self {
            width,
            total_width: width,
            font,
            side_room,
        }
    }

    /// The sizes of one of several panels side by side.
    pub(super) fn narrowed(self, width: f64) -> Self {
        Self {
            width,
            side_room: false,
            ..self
        }
    }
}
