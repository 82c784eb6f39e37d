//! What a text may be made of: columns, colours, characters.

use console::Style;

use super::Terminal;

/// What a text may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Columns.
    pub width: usize,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
    /// Whether colours can.
    pub colour: bool,
}

impl Default for Page {
    /// What can be shown anywhere.
    fn default() -> Self {
        Self {
            width: 80,
            unicode: false,
            colour: false,
        }
    }
}

impl From<&Terminal> for Page {
    /// Standard output of this terminal.
    fn from(terminal: &Terminal) -> Self {
        Self {
            width: terminal.width,
            unicode: terminal.unicode,
            colour: terminal.colour,
        }
    }
}

impl Page {
    /// The text in this style, where there are colours.
    pub(super) fn paint(self, text: &str, style: Style) -> String {
        style.force_styling(self.colour).apply_to(text).to_string()
    }

    /// One of two texts: the second is ASCII.
    pub(super) fn pick<T>(self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }
}
