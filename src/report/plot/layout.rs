//! Lays out a drawing: the legend, and below it the panels with aligned left edges. For a page as SVG; for a file with title
//! and caption, as SVG or as PNG by a renderer with bundled fonts.

use std::sync::{Arc, OnceLock};

use resvg::usvg::fontdb::Database;
use resvg::{tiny_skia, usvg};
use serde::Serialize;

use super::marks::{draw_legend, heat_range};
use super::panel::{Footnotes, PanelLayout};
use super::scale::{AxisLayout, AxisScale, unshowable_note};
use super::style::{TEXT, file_css, png_css};
use super::svg::{SvgWriter, TextStyle, escaped, pixels, shorten, widest, wrap};
use super::{Colour, Panel, Plot};
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
    /// An `<svg class="plot plot-wide">` element; [`css`](super::css) gives it its colours.
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
}

/// The whole plot for a page, without title and caption: panels below each other.
pub fn svg(plot: &Plot, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{}", plot.name, width.name());
    compose(plot, &plot.panels, width, &prefix, None)
}

/// One panel for a page, as large as a plot of its own and on the scales that all panels share: what a slider shows.
/// An index beyond the panels gives an empty drawing.
pub fn panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{index}-{}", plot.name, width.name());
    let one = plot.panels.get(index).map_or(&[][..], std::slice::from_ref);
    compose(plot, one, width, &prefix, None)
}

/// What a file has in addition to the panels: title, caption, a warning if the run was simulated, and style.
#[derive(Clone, Copy)]
struct FileStyle {
    simulated: bool,
    /// Whether the file is a PNG.
    pixels: bool,
}

fn whole_file(plot: &Plot, simulated: bool, pixels: bool) -> String {
    let prefix = format!("plot-{}", plot.name);
    let style = FileStyle { simulated, pixels };
    compose(plot, &plot.panels, Width::Wide, &prefix, Some(style)).svg
}

/// The whole plot as an SVG file: with title and caption, a warning if the run was simulated, light and dark colours.
pub fn file(plot: &Plot, simulated: bool) -> String {
    whole_file(plot, simulated, false)
}

/// The whole plot with title and caption, light, scaled by `scale` (2 is sharp on most screens and on paper).
///
/// # Errors
///
/// `internal` if the SVG cannot be parsed, or the image has no size or is too large.
pub fn png(plot: &Plot, simulated: bool, scale: f32) -> Result<Vec<u8>> {
    let svg = whole_file(plot, simulated, true);
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

/// Pixels around a plot in a file.
const EDGE: f64 = 20.0;
/// The height of a low panel in pixels, at least.
const LOWEST: f64 = 90.0;
/// The share of the width that names of the y axis may take.
const LONGEST_NAME: f64 = 0.35;

/// Height of the area between the axes in pixels, of panels that are not low.
fn height(width: Width, panels: &[Panel]) -> f64 {
    let heights = match width {
        Width::Wide => [380.0, 250.0, 200.0, 140.0],
        Width::Narrow => [270.0, 200.0, 160.0, 130.0],
    };
    let height: f64 = match panels.iter().filter(|panel| !panel.low).count() {
        0 | 1 => heights[0],
        2 => heights[1],
        3 | 4 => heights[2],
        _ => heights[3],
    };
    // A few rows of categories do not need the height of a map.
    let needed = |panel: &Panel| match panel.y.names.len() {
        0 => f64::INFINITY,
        names => 24.0 + 44.0 * names as f64,
    };
    height.min(panels.iter().map(needed).fold(0.0, f64::max))
}

fn compose(plot: &Plot, panels: &[Panel], width: Width, prefix: &str, file: Option<FileStyle>) -> Drawing {
    let (wide, font) = match width {
        Width::Wide => (960.0, 12.5),
        Width::Narrow => (400.0, 13.0),
    };
    let highest = height(width, panels);
    let high = |panel: &Panel| {
        if panel.low {
            (0.4 * highest).max(LOWEST)
        } else {
            highest
        }
    };
    // Panels of a slider share both axes, so that they are comparable whether they are drawn together or not.
    let same_x = same_x(panels);
    let layouts = panels.iter().map(|panel| {
        let own = std::slice::from_ref(panel);
        let slider = plot.slider.is_some();
        let x = if slider {
            &plot.panels
        } else if same_x {
            panels
        } else {
            own
        };
        let y = AxisLayout::new(if slider { &plot.panels } else { own }, true);
        let mut y_ticks = y.ticks(((high(panel) / 34.0) as usize).clamp(3, 8));
        for tick in &mut y_ticks {
            tick.label = shorten(&tick.label, font, LONGEST_NAME * wide);
        }
        PanelLayout {
            panel,
            x: AxisLayout::new(x, false),
            y_ticks,
            y,
            font,
        }
    });
    let layouts: Vec<PanelLayout> = layouts.collect();
    let labels = layouts.iter().flat_map(|layout| &layout.y_ticks);
    let left = widest(labels.map(|tick| tick.label.as_str()), font) + 10.0;
    let right = wide - 16.0;

    let mut svg = SvgWriter::new(prefix);
    let style = TextStyle::new(font);
    let mut y = 4.0;
    for (text, style) in file.into_iter().flat_map(|file| header(plot, file, wide)) {
        svg.text(&text, 0.0, y, style);
        y += style.size * 1.5;
    }
    let heat = heat_range(&plot.panels);
    y = draw_legend(
        &mut svg,
        panels,
        heat,
        y + if file.is_some() { 6.0 } else { 0.0 },
        (wide, font),
    );
    let mut frames = Vec::new();
    let mut footnotes = Footnotes::default();
    for (index, layout) in layouts.iter().enumerate() {
        // In a column with the same x axis, only the last panel has its labels.
        let own_axis = !same_x || index + 1 == panels.len();
        let (rect, bottom) = layout.draw(
            &mut svg,
            y,
            (left, right),
            (high(layout.panel), own_axis),
            heat,
            &mut footnotes,
        );
        y = bottom;
        if let Some(note) = unshowable_note(layout.panel) {
            svg.text(&note, rect.left, y, style);
            y += font * 1.4;
        }
        y += 8.0;
        frames.push(Frame {
            left: rect.left,
            top: rect.top,
            width: rect.width,
            height: rect.height,
            x: layout.x.scale,
            y: layout.y.scale,
        });
    }
    if panels.is_empty() {
        svg.text("nothing to draw", 0.0, y, style);
        y += font * 2.0;
    }
    let caption = if file.is_some() { plot.caption.as_str() } else { "" };
    for line in footnotes.lines(font, wide).iter().chain(&wrap(caption, font, wide, 8)) {
        svg.text(line, 0.0, y, style);
        y += font * 1.5;
    }
    let size = (wide, y);
    Drawing {
        svg: svg_element(plot, width, size, file, &svg.finish()),
        size,
        frames,
    }
}

/// Whether all panels have the same x axis.
fn same_x(panels: &[Panel]) -> bool {
    let axis = |panel: &Panel| {
        (
            panel.x.label.clone(),
            panel.x.unit,
            panel.x.scale,
            panel.x.names.clone(),
        )
    };
    panels.windows(2).all(|pair| axis(&pair[0]) == axis(&pair[1]))
}

/// The title and the warning at the top of a file.
fn header(plot: &Plot, file: FileStyle, width: f64) -> Vec<(String, TextStyle)> {
    let style = TextStyle::new(17.0).role(TEXT).bold();
    let title = wrap(&plot.title, style.size * 1.08, width, 3).into_iter();
    let warning = file.simulated.then(|| {
        let style = TextStyle::new(13.0).role(Colour::Fails.role()).bold();
        ("SIMULATED: no real engine or GPU was measured".to_owned(), style)
    });
    title.map(|line| (line, style)).chain(warning).collect()
}

fn svg_element(plot: &Plot, width: Width, (wide, high): (f64, f64), file: Option<FileStyle>, body: &str) -> String {
    let label = escaped(&plot.title);
    let edge = if file.is_some() { EDGE } else { 0.0 };
    let [x, y, w, h] = [-edge, -edge, wide + 2.0 * edge, high + 2.0 * edge].map(pixels);
    let name = width.name();
    let start =
        format!(r#"<svg xmlns="http://www.w3.org/2000/svg" class="plot plot-{name}" viewBox="{x} {y} {w} {h}""#);
    let Some(file) = file else {
        return format!(r#"{start} role="img" aria-label="{label}">{body}</svg>"#);
    };
    let css = if file.pixels { png_css() } else { file_css() };
    let words = escaped(&plot.words);
    format!(
        r#"{start} width="{w}" height="{h}" font-family="system-ui, Ubuntu, sans-serif"><title>{label}</title><desc>{words}</desc><style>{css}</style><path class="pa-paper" d="M{x} {y}h{w}v{h}H{x}z"/>{body}</svg>"#
    )
}
