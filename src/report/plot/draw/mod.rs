//! Draws plots: as SVG for the page in two widths, as an SVG file, and as PNG. CSS gives roles their colours.

mod labels;
mod layout;
mod marks;
mod panel;
mod scale;
mod style;
mod text;
mod ticks;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use resvg::usvg::fontdb::Database;
use resvg::{tiny_skia, usvg};
use serde::Serialize;

pub use scale::AxisScale;
pub(in crate::report) use scale::dropped_note;
pub use style::css;

use super::Plot;
use crate::fault::{Fault, Kind, Result};

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

/// The whole plot with title and caption, light, scaled by `scale` (2 is sharp on most screens and on paper).
///
/// # Errors
///
/// `internal` if the SVG cannot be parsed, or the image has no size or is too large.
pub fn png(plot: &Plot, simulated: bool, scale: f32) -> Result<Vec<u8>> {
    rendered(&layout::file(plot, simulated, true).svg, scale)
}

/// Renders an SVG as PNG.
fn rendered(svg: &str, scale: f32) -> Result<Vec<u8>> {
    let fault = |what: String| Fault::new(Kind::Internal, format!("the picture cannot be drawn: {what}"));
    let tree = usvg::Tree::from_str(svg, &options()).map_err(|error| fault(error.to_string()))?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(scale)
        .ok_or_else(|| fault("it has no size".into()))?;
    let mut pixels =
        tiny_skia::Pixmap::new(size.width(), size.height()).ok_or_else(|| fault("it is too large".into()))?;
    pixels.fill(tiny_skia::Color::WHITE);
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(|error| fault(error.to_string()))
}

/// Options for parsing an SVG with the bundled fonts only.
fn options() -> usvg::Options<'static> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let fonts = FONTS.get_or_init(|| {
        let mut fonts = Database::new();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        fonts.load_font_data(epaint_default_fonts::HACK_REGULAR.to_vec());
        fonts.set_sans_serif_family("Ubuntu");
        Arc::new(fonts)
    });
    usvg::Options {
        fontdb: Arc::clone(fonts),
        font_family: "Ubuntu".to_owned(),
        ..usvg::Options::default()
    }
}
