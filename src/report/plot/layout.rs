//! Lays out a drawing: the panels below each other with aligned left edges, or side by side as small multiples, and the
//! legend above them.

use serde::Serialize;

use super::labels::same_top_labels;
use super::legend::{Legend, heat_range};
use super::panel::{Margins, OwnLabels, PanelLayout};
use super::scale::{AxisScale, Extent};
use super::style::{TEXT, file_css, png_css};
use super::svg::{Rect, SvgWriter, TextStyle, escaped, pixels, wrap};
use super::{Colour, Panel, Plot};

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
    /// Second y scale, if there is one.
    pub right: Option<AxisScale>,
}

/// The whole plot for a page, without title and caption: panels below each other, or small multiples for a slider.
#[must_use]
pub fn svg(plot: &Plot, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{}", plot.name, width.name());
    compose(plot, &plot.panels, width, &prefix, None)
}

/// One panel for a page, as large as a plot of its own and on the scales that all panels share: what a slider shows.
/// An index beyond the panels gives an empty drawing.
#[must_use]
pub fn panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{index}-{}", plot.name, width.name());
    let one = plot.panels.get(index).map_or(&[][..], std::slice::from_ref);
    compose(plot, one, width, &prefix, None)
}

/// What a file has in addition to the panels: title, caption, a warning if the run was simulated, and style.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileStyle {
    pub(super) simulated: bool,
    /// Whether the file is a PNG.
    pub(super) pixels: bool,
}

pub(super) fn whole_file(plot: &Plot, style: FileStyle) -> String {
    let prefix = format!("plot-{}", plot.name);
    compose(plot, &plot.panels, Width::Wide, &prefix, Some(style)).svg
}

/// Sizes in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metrics {
    /// Width of the whole drawing.
    pub(super) total_width: f64,
    /// Font size.
    pub(super) font: f64,
    /// Whether there is room for labels beside the panels.
    pub(super) side_room: bool,
}

/// Pixels between panels side by side, and around a plot in a file.
const BETWEEN: f64 = 24.0;
const EDGE: f64 = 20.0;

/// Height of the area between the axes in pixels.
fn height(width: Width, rows: usize, multiples: bool, panels: &[Panel]) -> f64 {
    let heights = match width {
        Width::Wide => [380.0, 250.0, 200.0, 140.0],
        Width::Narrow => [270.0, 200.0, 160.0, 130.0],
    };
    let height: f64 = match rows {
        _ if multiples && width == Width::Wide => 200.0,
        _ if multiples => 150.0,
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
    let multiples = plot.slider.is_some() && panels.len() > 1;
    let columns = if multiples && width == Width::Wide {
        panels.len().min(3)
    } else {
        1
    };
    let rows = panels.len().div_ceil(columns);
    let metrics = Metrics {
        total_width: wide,
        font,
        side_room: width == Width::Wide && columns == 1,
    };
    let high = height(width, rows, multiples, panels);
    let cell = (wide - BETWEEN * (columns as f64 - 1.0)) / columns as f64;
    let extents = shared_extents(plot, panels);
    let layouts: Vec<PanelLayout> = panels
        .iter()
        .map(|panel| PanelLayout::new(panel, extents, high, metrics))
        .collect();
    let heat = heat_range(&plot.panels);
    let legend = Legend::new(&layouts, heat, wide, font);
    let most = |part: fn(&(f64, f64)) -> f64| layouts.iter().map(|one| part(&one.sides())).fold(0.0, f64::max);
    let sides = (most(|sides| sides.0), most(|sides| sides.1));
    let across = (cell - sides.0 - sides.1).max(40.0);
    let margins: Vec<Margins> = layouts
        .iter()
        .enumerate()
        .map(|(index, layout)| layout.margins(across, own_labels(panels, index, columns)))
        .collect();

    let (header, caption) = match file {
        Some(file) => (header(plot, file, wide), wrap(&plot.caption, font, wide, 8)),
        None => Default::default(),
    };
    let header_height: f64 = header.iter().map(|(_, style)| style.size * 1.5).sum();
    let legend_top = 4.0 + header_height + if header.is_empty() { 0.0 } else { 6.0 };
    let mut y = legend_top + legend.height;
    let mut rects = Vec::new();
    for (row, margins) in margins.chunks(columns).enumerate() {
        let most = |part: fn(&Margins) -> f64| margins.iter().map(part).fold(0.0, f64::max);
        let top = y + most(|margins| margins.top);
        rects.extend((0..margins.len()).map(|column| Rect {
            left: column as f64 * (cell + BETWEEN) + sides.0,
            top,
            width: across,
            height: high,
        }));
        y = top + high + most(|margins| margins.bottom) + if row + 1 < rows { 12.0 } else { 0.0 };
    }
    if panels.is_empty() {
        y += font * 2.0;
    }
    let caption_height = if caption.is_empty() {
        4.0
    } else {
        12.0 + caption.len() as f64 * font * 1.5
    };
    let size = (wide, y + caption_height);

    let mut svg = SvgWriter::new(prefix, size.0, size.1);
    let mut top = 4.0;
    for (text, style) in &header {
        svg.text(text, 0.0, top, *style);
        top += style.size * 1.5;
    }
    legend.draw(&mut svg, legend_top);
    for ((layout, rect), margins) in layouts.iter().zip(&rects).zip(&margins) {
        layout.draw(&mut svg, *rect, sides, margins, heat.unwrap_or((0.0, 1.0)));
    }
    if panels.is_empty() {
        svg.text("nothing to draw", 0.0, y - font * 1.5, TextStyle::new(font));
    }
    for (row, text) in caption.iter().enumerate() {
        svg.text(text, 0.0, y + 10.0 + row as f64 * font * 1.5, TextStyle::new(font));
    }
    let frame = |(layout, rect): (&PanelLayout, &Rect)| Frame {
        left: rect.left,
        top: rect.top,
        width: rect.width,
        height: rect.height,
        x: layout.x.scale,
        y: layout.y.scale,
        right: layout.right.as_ref().map(|right| right.scale),
    };
    Drawing {
        svg: svg_element(plot, width, size, file, &svg.finish()),
        size,
        frames: layouts.iter().zip(&rects).map(frame).collect(),
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

/// The x and y extents that panels share. Panels of a slider always share both, so that they are comparable whether
/// they are drawn together or not.
fn shared_extents(plot: &Plot, panels: &[Panel]) -> (Option<Extent>, Option<Extent>) {
    let x = |panels: &[Panel]| panels.iter().map(Extent::x).reduce(Extent::union);
    let y = |panel| Extent::y(panel, false);
    match plot.slider {
        Some(_) => (x(&plot.panels), plot.panels.iter().map(y).reduce(Extent::union)),
        None if same_x(panels) => (x(panels), None),
        None => (None, None),
    }
}

/// Which labels a panel needs: in a column, equal top labels appear once, and the x axis only below the last panel.
fn own_labels(panels: &[Panel], index: usize, columns: usize) -> OwnLabels {
    let column = columns == 1 && same_x(panels);
    let same = |one: usize, other: usize| {
        let both = panels.get(one).zip(panels.get(other));
        column && both.is_some_and(|(one, other)| same_top_labels(one, other))
    };
    OwnLabels {
        above: index == 0 || !same(index - 1, index),
        below: !column || index + 1 == panels.len(),
        footnotes: !same(index, index + 1),
    }
}

/// The title and the warning at the top of a file.
fn header(plot: &Plot, file: FileStyle, width: f64) -> Vec<(String, TextStyle)> {
    let bold = |size: f64, role: &'static str| TextStyle {
        role,
        bold: true,
        ..TextStyle::new(size)
    };
    let title = wrap(&plot.title, 17.0 * 1.08, width, 3).into_iter();
    let mut lines: Vec<(String, TextStyle)> = title.map(|line| (line, bold(17.0, TEXT))).collect();
    if file.simulated {
        let warning = "SIMULATED: no real engine or GPU was measured".to_owned();
        lines.push((warning, bold(13.0, Colour::Fails.role())));
    }
    lines
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
