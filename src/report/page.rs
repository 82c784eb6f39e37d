//! Width, colours and characters of text output.

use console::Style;

use super::Terminal;

/// What text output can show.
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
    /// What this terminal's standard output can show.
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

    /// The text with its few mathematical signs and quotes in ASCII if only that can be shown.
    pub(super) fn signs(self, text: String) -> String {
        const ASCII: [(char, &str); 6] = [
            ('≤', "<="),
            ('×', "x"),
            ('±', "+-"),
            ('“', "\""),
            ('”', "\""),
            ('…', "..."),
        ];
        match self.unicode {
            true => text,
            false => ASCII
                .iter()
                .fold(text, |text, (sign, ascii)| text.replace(*sign, ascii)),
        }
    }

    /// Picks the second variant if only ASCII can be shown.
    pub(super) fn pick<T>(self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }
}
