//! Plots as files: SVG, and PNG by a renderer with bundled fonts.

use std::sync::{Arc, OnceLock};

use resvg::usvg::fontdb::Database;
use resvg::{tiny_skia, usvg};

use super::Plot;
use super::layout::{FileStyle, whole_file};
use crate::fault::{Fault, Kind, Result};

/// The whole plot as an SVG file: with title and caption, a warning if the run was simulated, light and dark colours.
#[must_use]
pub fn file(plot: &Plot, simulated: bool) -> String {
    let pixels = false;
    whole_file(plot, FileStyle { simulated, pixels })
}

/// The whole plot with title and caption, light, scaled by `scale` (2 is sharp on most screens and on paper).
///
/// # Errors
///
/// `internal` if the SVG cannot be parsed, or the image has no size or is too large.
pub fn png(plot: &Plot, simulated: bool, scale: f32) -> Result<Vec<u8>> {
    let pixels = true;
    let svg = whole_file(plot, FileStyle { simulated, pixels });
    let fault = |what: String| Fault::new(Kind::Internal, format!("the picture cannot be drawn: {what}"));
    let tree = usvg::Tree::from_str(&svg, &options()).map_err(|error| fault(error.to_string()))?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(scale)
        .ok_or_else(|| fault("it has no size".into()))?;
    let mut pixels =
        tiny_skia::Pixmap::new(size.width(), size.height()).ok_or_else(|| fault("it is too large".into()))?;
    pixels.fill(tiny_skia::Color::WHITE);
    let transform = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| fault(error.to_string()))
}

/// Options for parsing an SVG with the bundled fonts only.
pub(super) fn options() -> usvg::Options<'static> {
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
