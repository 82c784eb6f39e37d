//! Draws plots: as SVG for the page in two widths, as an SVG file, and as PNG. CSS gives roles their colours.

mod axis;
mod bars;
mod canvas;
mod direct_labels;
mod downsample;
mod extent;
mod filter;
mod labels;
mod layout;
mod legend;
mod marks;
mod metrics;
mod notes;
mod panel;
mod path;
mod png;
mod scale;
mod style;
mod text;
mod theme;
mod ticks;
mod top_labels;
mod writer;
mod x_axis;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub(in crate::report) use filter::dropped_note;
pub use png::png;
pub use scale::AxisScale;
pub use theme::css;

use super::Plot;

/// How wide a plot is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 960 pixels: a screen, paper, a file.
    Wide,
    /// 400 pixels: a phone.
    Narrow,
}

impl Width {
    /// The word used in classes and ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// A rendered plot.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// An `<svg class="plot plot-wide">` element; [`css`] gives it its colours.
    pub svg: String,
    /// Width and height in pixels, the units of its `viewBox`.
    pub size: (f64, f64),
    /// Positions of the panels, in the order of the plot's panels.
    pub frames: Vec<Frame>,
}

/// Position of a panel in a drawing, and its scales.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// Left edge of the area between the axes, in units of the `viewBox`.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width of the area.
    pub width: f64,
    /// Height of the area.
    pub height: f64,
    /// Scale from the left edge to the right one.
    pub x: AxisScale,
    /// Scale from the lower edge to the upper one.
    pub y: AxisScale,
    /// Second y scale, if there is one.
    pub right: Option<AxisScale>,
}

/// The whole plot for a page, without title and caption: panels below each other, or small multiples for a slider.
#[must_use]
pub fn svg(plot: &Plot, width: Width) -> Drawing {
    layout::whole_plot(plot, width)
}

/// One panel for a page, as large as a plot of its own and on the scales that all panels share: what a slider shows.
/// An index beyond the panels gives an empty drawing.
#[must_use]
pub fn panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    layout::single_panel(plot, index, width)
}

/// The whole plot as an SVG file: with title and caption, a warning if the run was simulated, light and dark colours.
#[must_use]
pub fn file(plot: &Plot, simulated: bool) -> String {
    layout::file(plot, simulated, false).svg
}
