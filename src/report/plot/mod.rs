//! Plots as data: panels with axes and layers, a text alternative, and tooltips. Reports build a [`Plot`]; `draw`
//! renders it as SVG for the page, as an SVG file, or as PNG.
//!
//! Pure: reads and writes no files. Colours are roles ([`Colour`]), so that one plot works on light, dark and paper.

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
pub(super) use draw::dropped_note;
pub use draw::{AxisScale, Drawing, Frame, Width, css, file, panel, png, svg};
pub use layer::{Bar, Cell, Layer, Moment, Shape, Span};
pub use reduce::reduced;
pub use sheet::{Entry, Sheet};
pub use spots::{ProvenPoint, ProvenRegions, TooltipPoint, Tooltips};

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// File name and anchor: `a-z`, `0-9` and `-`; unique within a report.
    pub name: String,
    /// What it shows, without a full stop: `Largest input and output that fit`.
    pub title: String,
    /// Text alternative: sentences with the figures that matter, read aloud instead of the plot.
    pub words: String,
    /// What a reader must know to read it; may be empty.
    #[serde(default)]
    pub caption: String,
    /// One below the other, or, with `slider`, one at a time.
    pub panels: Vec<Panel>,
    /// The quantity by which the panels differ (`concurrency`), if they are slices of one space: on the page a slider
    /// selects one; on paper and in files they are small multiples.
    #[serde(default)]
    pub slider: Option<String>,
    /// The same data as a table.
    #[serde(default)]
    pub sheet: Sheet,
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// What distinguishes it from other panels: `GPU 0`, or the slider's value; may be empty.
    #[serde(default)]
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// A second vertical axis at the right edge, for layers with `right`.
    #[serde(default)]
    pub right: Option<Axis>,
    /// What is drawn, the lowest layer first.
    pub layers: Vec<Layer>,
    /// Tooltips of single points.
    #[serde(default)]
    pub spots: Tooltips,
    /// Tooltips of the regions between them, where a limit is monotone.
    #[serde(default)]
    pub ground: Option<ProvenRegions>,
    /// Labels of single points; those without room are left out.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// A label of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Position on the panel's x and (left) y axis.
    pub at: (f64, f64),
    /// Its text.
    pub label: String,
}
