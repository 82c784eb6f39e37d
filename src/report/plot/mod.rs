//! Pictures as data: panels with axes and layers, the words that say the same to whoever cannot see them, and what is told of the spot under the
//! mouse. Whoever has something to show makes a [`Plot`]; one drawing (by plotters) makes an SVG of it for the page, a file of its own, or a PNG.
//!
//! Pure: no file is read or written here. Colours are roles ([`Colour`]), never values, so that one picture is right on light, dark and paper.

mod axis;
mod colour;
mod draw;
mod layer;
mod reduce;
mod sheet;
mod spots;

use serde::{Deserialize, Serialize};

pub use axis::{Axis, Scale};
pub use colour::Colour;
pub(super) use draw::left_out;
pub use draw::{Along, Drawing, Frame, Width, css, file, panel, png, svg};
pub use layer::{Bar, Cell, Layer, Moment, Shape, Span};
pub use reduce::reduced;
pub use sheet::{Entry, Sheet};
pub use spots::{Corner, Ground, Spot, Spots};

/// One picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its file name and anchor: `a-z`, `0-9` and `-`; unique within a report.
    pub name: String,
    /// What it is of, without a full stop: `Largest input and output that fit`.
    pub title: String,
    /// What it shows, in sentences with the figures that matter: read aloud in the place of the picture.
    pub words: String,
    /// What must be known to read it; empty where it explains itself.
    #[serde(default)]
    pub caption: String,
    /// Its panels: one below the other, or, with `slider`, one at a time.
    pub panels: Vec<Panel>,
    /// By what the panels differ (`concurrency`), where they are cuts through one body: a slider chooses one on the page; on paper and in files
    /// they stand side by side as small multiples.
    #[serde(default)]
    pub slider: Option<String>,
    /// The same as a table.
    #[serde(default)]
    pub sheet: Sheet,
}

/// One pair of axes and what is drawn between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// What sets it apart from the other panels: `GPU 0`, or the slider's value; may be empty.
    #[serde(default)]
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// A second scale at the right edge, for layers that say `right`.
    #[serde(default)]
    pub right: Option<Axis>,
    /// What is drawn, the lowest first.
    pub layers: Vec<Layer>,
    /// What is told of single places under the mouse or chosen by keys.
    #[serde(default)]
    pub spots: Spots,
    /// What is told of any place between them, where a limit is monotone.
    #[serde(default)]
    pub ground: Option<Ground>,
    /// Words beside single places; those that have no room are left out.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// Words beside a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Where it is on the panel's x and (left) y axis.
    pub at: (f64, f64),
    /// The words.
    pub label: String,
}
