//! Lays out a drawing: the legend, and below it the panels with aligned left edges. A page gets SVG. A file also has
//! title and caption, and is SVG, or PNG from a renderer with bundled fonts.

use std::sync::{Arc, OnceLock};

use resvg::usvg::fontdb::Database;
use resvg::{tiny_skia, usvg};

use super::marks::{bar_rects, bars_of, draw_legend, draw_markers, draw_within, heat_range, is_stacked};
use super::scale::{AxisLayout, AxisScale, Tick, unshowable_note};
use super::style::{file_css, png_css};
use super::svg::{Frame, Rect, SvgWriter, TextStyle, escaped, pixels, point, shorten, text_width, widest, wrap};
use super::{Bar, Layer, Marks, Panel, Plot};
use crate::fault::{Fault, Kind, Result};
use crate::fmt::number;

/// The width of a drawn plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 960 pixels: a screen, paper, a file.
    Wide,
    /// 400 pixels: a phone.
    Narrow,
}

/// A rendered plot.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// An `<svg class="plot plot-wide">` element; [`css`](super::css) gives it its colours.
    pub svg: String,
    /// Width and height in pixels, the units of its `viewBox`.
    pub size: (f64, f64),
    /// The panels, in the order of the plot's panels.
    pub frames: Vec<Frame>,
}

/// The whole plot for a page, without title and caption: panels below each other.
pub fn svg(plot: &Plot, width: Width) -> Drawing {
    on_page(plot, &plot.panels, "", width)
}

/// One panel for a page, for a slider: as large as a whole plot, with the scales shared by all panels. An index beyond
/// the panels gives an empty drawing.
pub fn panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    let one = plot.panels.get(index).map_or(&[][..], std::slice::from_ref);
    on_page(plot, one, &format!("{index}-"), width)
}

fn on_page(plot: &Plot, panels: &[Panel], part: &str, width: Width) -> Drawing {
    let class = match width {
        Width::Wide => "wide",
        Width::Narrow => "narrow",
    };
    let mut sketch = Sketch::new(format!("plot-{}-{part}{class}", plot.name), width);
    let frames = sketch.plot(plot, panels);
    let size = (sketch.width, sketch.y);
    let ([w, h], label, body) = ([size.0, size.1].map(pixels), escaped(&plot.title), sketch.svg.finish());
    let svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="plot plot-{class}" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>"#
    );
    Drawing { svg, size, frames }
}

/// The whole plot as an SVG file: with title and caption, a warning if the run was simulated, light and dark colours.
pub fn file(plot: &Plot, simulated: bool) -> String {
    in_file(plot, simulated, &file_css())
}

fn in_file(plot: &Plot, simulated: bool, css: &str) -> String {
    /// Pixels around the plot.
    const EDGE: f64 = 20.0;
    let mut sketch = Sketch::new(format!("plot-{}", plot.name), Width::Wide);
    let (font, width) = (sketch.font, sketch.width);
    let title = TextStyle::new(17.0).class("pa-ink p-bold");
    for line in wrap(&plot.title, title.size * 1.08, width, 3) {
        sketch.line(&line, title);
    }
    if simulated {
        let warning = TextStyle::new(13.0).class("pa-fails p-bold");
        sketch.line("SIMULATED: no real engine or GPU was measured", warning);
    }
    sketch.y += 6.0;
    sketch.plot(plot, &plot.panels);
    for line in wrap(&plot.caption, font, width, 8) {
        sketch.line(&line, TextStyle::new(font));
    }
    let [x, w, h] = [-EDGE, width + 2.0 * EDGE, sketch.y + 2.0 * EDGE].map(pixels);
    let (label, alt, body) = (escaped(&plot.title), escaped(&plot.alt), sketch.svg.finish());
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="plot plot-wide" viewBox="{x} {x} {w} {h}" width="{w}" height="{h}" font-family="system-ui, Ubuntu, sans-serif"><title>{label}</title><desc>{alt}</desc><style>{css}</style><path class="pa-paper" d="M{x} {x}h{w}v{h}H{x}z"/>{body}</svg>"#
    )
}

/// The whole plot with title and caption, light, scaled by `scale` (2 is sharp on most screens and on paper).
///
/// # Errors
///
/// `internal` if the SVG cannot be parsed, or the image has no size or is too large.
pub fn png(plot: &Plot, simulated: bool, scale: f32) -> Result<Vec<u8>> {
    let fault = |what: String| Fault::new(Kind::Internal, format!("the picture cannot be drawn: {what}"));
    let svg = in_file(plot, simulated, &png_css());
    let tree = usvg::Tree::from_str(&svg, &options()).map_err(|error| fault(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(scale);
    let mut pixels = size
        .and_then(|size| tiny_skia::Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| fault("it has no size or is too large".into()))?;
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

/// A drawing that grows downwards.
struct Sketch {
    svg: SvgWriter,
    width: f64,
    font: f64,
    /// Heights of the area between the axes in pixels: of one panel, of two, of up to four, of more.
    heights: [f64; 4],
    /// Top of the next item.
    y: f64,
    /// Left edge of the panels.
    left: f64,
    /// Number of labels without room.
    unlabelled: usize,
}

impl Sketch {
    fn new(prefix: String, width: Width) -> Self {
        let (width, font, heights) = match width {
            Width::Wide => (960.0, 12.5, [380.0, 250.0, 200.0, 140.0]),
            Width::Narrow => (400.0, 13.0, [270.0, 200.0, 160.0, 130.0]),
        };
        Self {
            svg: SvgWriter::new(prefix),
            width,
            font,
            heights,
            y: 4.0,
            left: 0.0,
            unlabelled: 0,
        }
    }

    /// Writes a line of text.
    fn line(&mut self, text: &str, style: TextStyle) {
        self.svg.text(text, 0.0, self.y, style);
        self.y += style.size * 1.5;
    }

    /// Draws the legend and these panels of a plot.
    fn plot(&mut self, plot: &Plot, panels: &[Panel]) -> Vec<Frame> {
        let (font, style) = (self.font, TextStyle::new(self.font));
        let most = self.heights[match panels.iter().filter(|panel| !panel.low).count() {
            0 | 1 => 0,
            2 => 1,
            3 | 4 => 2,
            _ => 3,
        }];
        let height = |panel: &Panel| match panel.y.names.len() {
            _ if panel.low => (0.4 * most).max(90.0),
            0 => most,
            // A few rows of categories do not need the height of a map.
            rows => most.min(24.0 + 44.0 * rows as f64),
        };
        // Panels of a slider share both axes, so that they stay comparable when drawn one at a time. In a column with
        // the same x axis, only the last panel has its labels.
        let same_x = panels.windows(2).all(|pair| pair[0].x == pair[1].x);
        let axes: Vec<(&Panel, AxisLayout, AxisLayout, Vec<Tick>)> = panels
            .iter()
            .map(|panel| {
                let own = std::slice::from_ref(panel);
                let (across, up) = match plot.slider {
                    Some(_) => (plot.panels.as_slice(), plot.panels.as_slice()),
                    None => (if same_x { panels } else { own }, own),
                };
                let y = AxisLayout::new(up, true);
                let mut ticks = y.ticks(((height(panel) / 34.0) as usize).clamp(3, 8));
                for tick in &mut ticks {
                    tick.label = shorten(&tick.label, font, 0.35 * self.width);
                }
                (panel, AxisLayout::new(across, false), y, ticks)
            })
            .collect();
        let labels = axes
            .iter()
            .flat_map(|(.., ticks)| ticks)
            .map(|tick| tick.label.as_str());
        self.left = widest(labels, font) + 10.0;
        let heat = heat_range(&plot.panels);
        self.y = draw_legend(&mut self.svg, panels, heat, self.y, (self.width, font));
        let mut frames = Vec::new();
        for (index, (panel, x, y, ticks)) in axes.iter().enumerate() {
            self.heading(panel, y);
            let width = self.width - 16.0 - self.left;
            self.labels_above(panel, x.scale, width);
            let area = Frame {
                rect: Rect::new(self.left, self.y, width, height(panel)),
                x: x.scale,
                y: y.scale,
            };
            self.marks(panel, &area, ticks, (y.size, heat));
            self.x_axis(x, &area, !same_x || index + 1 == panels.len());
            if let Some(note) = unshowable_note(panel) {
                self.svg.text(&note, self.left, self.y, style);
                self.y += font * 1.4;
            }
            self.y += 8.0;
            frames.push(area);
        }
        if panels.is_empty() {
            self.line("nothing to draw", style);
        }
        if self.unlabelled > 0 {
            self.line(&format!("{} more have no room for a label", self.unlabelled), style);
        }
        frames
    }

    /// The title of a panel, and the name of its vertical axis.
    fn heading(&mut self, panel: &Panel, y: &AxisLayout) {
        let (size, right, style) = (self.font * 1.08, self.width - 16.0, TextStyle::new(self.font));
        let title = shorten(&panel.title, size, right * 0.6);
        self.svg.text(&title, 0.0, self.y, style.class("pa-ink p-bold"));
        let x = if title.is_empty() {
            0.0
        } else {
            text_width(&title, size) + 12.0
        };
        self.svg
            .text(&shorten(&y.heading, self.font, right - x), x, self.y, style);
        let empty = panel.title.is_empty() && y.heading.is_empty();
        self.y += if empty { 6.0 } else { self.font * 2.0 };
    }

    /// Names phases and vertical rules above the area, each near its mark, in a few rows. A phase that is too narrow
    /// for its name stays unnamed if another phase shows that name.
    fn labels_above(&mut self, panel: &Panel, x: AxisScale, width: f64) {
        const ROWS: usize = 3;
        let pixel = |at: f64| x.share(at).clamp(0.0, 1.0) * width;
        // Middle, available width and label of each.
        let mut wanted: Vec<(f64, f64, &str)> = Vec::new();
        for layer in &panel.layers {
            match &layer.marks {
                Marks::Spans { spans } => wanted.extend(spans.iter().map(|span| {
                    let (from, to) = (pixel(span.from), pixel(span.to));
                    (f64::midpoint(from, to), to - from, span.label.as_str())
                })),
                Marks::Rule { at, upright: true } if x.contains(*at) && !layer.name.is_empty() => {
                    wanted.push((pixel(*at), f64::INFINITY, &layer.name));
                }
                _ => {}
            }
        }
        wanted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut ends: Vec<f64> = Vec::new();
        let mut placed: Vec<(usize, f64, String)> = Vec::new();
        for (middle, room, label) in wanted {
            let text = shorten(label, self.font, width);
            let length = text_width(&text, self.font);
            if length > room && placed.iter().any(|(.., known)| *known == text) {
                continue;
            }
            let start = (middle - length / 2.0).min(width - length).max(0.0);
            let row = ends.iter().position(|end| end + 8.0 <= start).unwrap_or(ends.len());
            if row == ROWS {
                self.unlabelled += 1;
                continue;
            }
            ends.resize(ends.len().max(row + 1), 0.0);
            ends[row] = start + length;
            placed.push((row, start, text));
        }
        self.y += ends.len() as f64 * self.font * 1.5;
        for (row, start, text) in placed {
            let y = self.y - (row + 1) as f64 * self.font * 1.5;
            self.svg.text(&text, self.left + start, y, TextStyle::new(self.font));
        }
    }

    /// Grid, marks and the labels among them. `unit` is the size of the y axis's unit.
    fn marks(&mut self, panel: &Panel, area: &Frame, ticks: &[Tick], (unit, heat): (f64, (f64, f64))) {
        let (svg, font, rect) = (&mut self.svg, self.font, area.rect);
        let bars = bar_rects(&panel.layers, area);
        svg.clipped(rect, |svg| {
            draw_within(svg, &panel.layers, area, ticks.iter().map(|tick| tick.at), &bars, heat);
        });
        let style = TextStyle::new(font).anchor("end").middle();
        for tick in ticks {
            svg.text(&tick.label, rect.left - 7.0, area.y_pixel(tick.at), style);
        }
        for layer in &panel.layers {
            draw_markers(svg, layer, area);
        }
        let mut labels = Labels {
            font,
            inside: rect,
            taken: Vec::new(),
        };
        for layer in &panel.layers {
            labels.of_rule(svg, area, layer);
        }
        for (layer, rects) in panel.layers.iter().zip(&bars).filter(|_| !is_stacked(&panel.layers)) {
            labels.of_bars(svg, area, bars_of(layer), rects, unit);
        }
        labels.of_points(svg, area, panel, &bars.concat());
        let annotation = |layer: &Layer| matches!(layer.marks, Marks::Spans { .. } | Marks::Rule { .. });
        let marked = |layer: &Layer| !annotation(layer) && !layer.values().1.is_empty();
        if !panel.layers.iter().any(marked) {
            let ((x, y), style) = (rect.middle(), TextStyle::new(font).anchor("middle"));
            svg.text("nothing to draw", x, y, style.class("pa-ink p-halo"));
        }
    }

    /// The x axis: its line, and, if `own`, also labels and heading. Names are wrapped, or rotated if a word has no
    /// room.
    fn x_axis(&mut self, x: &AxisLayout, area: &Frame, own: bool) {
        /// Maximum length of a rotated name in pixels, and maximum number of lines of a wrapped one.
        const LONGEST: f64 = 120.0;
        const LINES: usize = 3;
        let (svg, font, rect) = (&mut self.svg, self.font, area.rect);
        let (bottom, style) = (rect.bottom(), TextStyle::new(font).anchor("middle"));
        svg.line(
            &[point((rect.left, bottom)), point((rect.right(), bottom))],
            "edge",
            1.0,
            "",
        );
        if !own {
            self.y = bottom + 10.0;
            return;
        }
        let spacing = |ticks: &[Tick]| rect.width / ticks.len().max(1) as f64;
        let fit =
            |ticks: &Vec<Tick>| widest(ticks.iter().map(|tick| tick.label.as_str()), font) + 14.0 <= spacing(ticks);
        let ticks = if x.names.is_empty() {
            (2..12).rev().map(|most| x.ticks(most)).find(fit).unwrap_or_default()
        } else {
            x.ticks(0)
        };
        let room = spacing(&ticks);
        let words = ticks.iter().flat_map(|tick| tick.label.split_whitespace());
        let rotated = widest(words, font) > room - 6.0;
        // If there are too many names, only every second, third, … is written.
        let step = if rotated { (font / room).ceil().max(1.0) } else { 1.0 };
        let mut height = font * 1.25;
        for tick in ticks.iter().step_by(step as usize) {
            let (at, top) = (area.x_pixel(tick.at), bottom + 6.0);
            if x.names.is_empty() {
                svg.line(&[point((at, bottom)), point((at, bottom + 4.0))], "edge", 1.0, "");
            }
            if rotated {
                let name = shorten(&tick.label, font, LONGEST);
                height = height.max(text_width(&name, font) + 4.0);
                svg.text(&name, at, top, style.anchor("end").middle().rotated());
                continue;
            }
            let lines = wrap(&tick.label, font, room - 6.0, LINES);
            height = height.max(lines.len() as f64 * font * 1.25);
            for (row, line) in (0_u8..).zip(&lines) {
                svg.text(line, at, top + f64::from(row) * font * 1.25, style);
            }
        }
        let heading = shorten(&x.heading, font, rect.width);
        self.y = bottom + 9.0 + height;
        svg.text(&heading, rect.middle().0, self.y, style);
        self.y += if heading.is_empty() { 0.0 } else { font * 1.4 };
    }
}

/// Places texts among marks, each at the first free one of its candidate positions; a text without one is left out.
struct Labels {
    font: f64,
    inside: Rect,
    taken: Vec<Rect>,
}

impl Labels {
    /// Writes a text at the first free upper left corner that `corners` returns for its width and height.
    fn place(&mut self, svg: &mut SvgWriter, text: &str, corners: impl FnOnce(f64, f64) -> Vec<(f64, f64)>) {
        let (width, height) = (text_width(text, self.font), self.font * 1.2);
        let mut rects = corners(width, height)
            .into_iter()
            .map(|(left, top)| Rect::new(left, top, width, height));
        let free = |rect: &Rect| rect.within(&self.inside) && !self.taken.iter().any(|taken| taken.overlaps(rect));
        if let Some(rect) = rects.find(free) {
            let style = TextStyle::new(self.font).class("pa-ink p-halo");
            svg.text(text, rect.left, rect.top, style);
            self.taken.push(rect);
        }
    }

    /// The label of a horizontal rule: above it at the left end, where values near a limit are rare, otherwise below it
    /// or at the right end.
    fn of_rule(&mut self, svg: &mut SvgWriter, area: &Frame, layer: &Layer) {
        if let Marks::Rule { at, upright: false } = layer.marks
            && area.y.contains(at)
        {
            let (rect, y) = (area.rect, area.y_pixel(at));
            let label = shorten(&layer.name, self.font, rect.width - 8.0);
            self.place(svg, &label, |width, height| {
                let (left, right) = (rect.left + 4.0, rect.right() - 4.0 - width);
                let (above, below) = (y - height - 1.0, y + 2.0);
                let near = [(left, above), (left, below), (right, above), (right, below)];
                near.into_iter()
                    .chain([(left, above - height), (left, below + height)])
                    .collect()
            });
        }
    }

    /// Values above bars that are wide enough, in the unit of the axis.
    fn of_bars(&mut self, svg: &mut SvgWriter, area: &Frame, bars: &[Bar], rects: &[Rect], unit: f64) {
        for (bar, rect) in bars.iter().zip(rects).filter(|(bar, _)| bar.value.is_finite()) {
            let highest = bar.interval.map_or(bar.value, |(_, high)| high).max(bar.base);
            self.place(svg, &number(bar.value / unit), |width, height| {
                let corner = (rect.middle().0 - width / 2.0, area.y_pixel(highest) - height - 1.0);
                (width <= rect.width + 12.0).then_some(corner).into_iter().collect()
            });
        }
    }

    /// The labels of single points, beside them, and of components of a stack that have room for it.
    fn of_points(&mut self, svg: &mut SvgWriter, area: &Frame, panel: &Panel, bars: &[Rect]) {
        /// Half the width of a marker, and pixels from its middle to its label.
        const MARKER: f64 = 4.0;
        const DISTANCE: f64 = 7.0;
        let pixel = |(x, y): (f64, f64)| area.contains(x, y).then(|| (area.x_pixel(x), area.y_pixel(y)));
        let points: Vec<_> = panel
            .notes
            .iter()
            .filter_map(|(at, label)| Some((pixel(*at)?, label)))
            .collect();
        let bar_at = |(x, y): (f64, f64)| bars.iter().find(|bar| Rect::new(x, y, 0.0, 0.0).within(bar));
        let markers = points
            .iter()
            .filter(|(at, _)| bar_at(*at).is_none())
            .map(|((x, y), _)| Rect::new(x - MARKER, y - MARKER, 2.0 * MARKER, 2.0 * MARKER));
        self.taken.extend(markers);
        for ((x, y), label) in points {
            self.place(svg, label, |width, height| {
                let (middle, level) = (x - width / 2.0, y - height / 2.0);
                let (left, right) = (x - DISTANCE - width, x + DISTANCE);
                let (above, below) = (y - DISTANCE - height, y + DISTANCE);
                match bar_at((x, y)) {
                    // Most curves rise: they leave the lower right and the upper left free.
                    None => vec![
                        (right, y),
                        (left, y - height),
                        (middle, above),
                        (middle, below),
                        (right, level),
                        (left, level),
                    ],
                    Some(bar) if width <= bar.width && height <= bar.height => vec![(middle, level)],
                    Some(_) => Vec::new(),
                }
            });
        }
    }
}
