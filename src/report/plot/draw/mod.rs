//! Pictures drawn: an SVG for the page in two widths, a file of its own, and a PNG. plotters maps and draws; what is drawn is text, from which the
//! theme makes colours.

mod above;
mod along;
mod bars;
mod below;
mod beside;
mod canvas;
mod clean;
mod extent;
mod ink;
mod labels;
mod layout;
mod legend;
mod look;
mod marks;
mod notes;
mod panel;
mod path;
mod pen;
mod png;
mod scaled;
mod text;
mod theme;
mod thin;
mod ticks;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use along::Along;
pub(in crate::report) use clean::left_out;
pub use png::png;
pub use theme::css;

use super::Plot;

/// How wide a picture is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 960 pixels: a screen, paper, a file.
    Wide,
    /// 400 pixels: a phone.
    Narrow,
}

impl Width {
    /// The word in classes and ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// A picture, drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// An `<svg class="plot plot-wide">` element; [`css`] gives it its colours.
    pub svg: String,
    /// Its width and height in pixels: the units of its `viewBox`.
    pub size: (f64, f64),
    /// Where the panels are in it, in the order of the plot's panels.
    pub frames: Vec<Frame>,
}

/// Where a panel is in a picture, and what its places mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The left edge between the axes, in units of the `viewBox`.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// From left to right.
    pub width: f64,
    /// From above to below.
    pub height: f64,
    /// From the left edge to the right one.
    pub x: Along,
    /// From the lower edge to the upper one.
    pub y: Along,
    /// The second scale, where there is one.
    pub right: Option<Along>,
}

/// The whole picture for a page: panels one below the other, or as small multiples where the plot has a slider. It carries no title and no caption.
#[must_use]
pub fn svg(plot: &Plot, width: Width) -> Drawing {
    layout::whole(plot, width)
}

/// One panel for a page, as large as a picture of its own, on the axes that all panels of the plot share: what a slider shows. An index beyond the
/// panels gives an empty picture.
#[must_use]
pub fn panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    layout::single(plot, index, width)
}

/// The whole picture as a file: with title and caption, a mark where it is of a simulated run, light and dark.
#[must_use]
pub fn file(plot: &Plot, simulated: bool) -> String {
    layout::file(plot, simulated, false).svg
}
