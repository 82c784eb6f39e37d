//! One panel: its scales, grid, marks, x axis, and the labels around it.

use super::labels::{SideLabels, TopLabels, draw_notes};
use super::layout::Metrics;
use super::marks::{bar_slots, draw_layer};
use super::scale::{AxisLayout, Extent, Tick, unshowable_note};
use super::style::{EDGE, GRID, Stroke, TEXT};
use super::svg::{AlignH, AlignV, PlotArea, Rect, SvgWriter, TextStyle, point, shorten, text_width, widest, wrap};
use crate::report::plot::{Axis, Layer, Panel};

/// A panel with its scales, ready to be drawn at a height.
pub(super) struct PanelLayout<'a> {
    pub(super) panel: &'a Panel,
    pub(super) x: AxisLayout,
    pub(super) y: AxisLayout,
    pub(super) right: Option<AxisLayout>,
    pub(super) side: SideLabels,
    y_ticks: Vec<Tick>,
    right_ticks: Vec<Tick>,
    metrics: Metrics,
}

/// Which labels a panel has for itself instead of sharing them with the panel above or below.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLabels {
    /// Names of phases, vertical rules and moments at the top.
    pub(super) above: bool,
    /// The x axis.
    pub(super) below: bool,
    /// Footnotes for labels without room at the top.
    pub(super) footnotes: bool,
}

/// What stands above and below a panel of a given width.
pub(super) struct Margins {
    above: Option<TopLabels>,
    below: XAxisLayout,
    own_axis: bool,
    footnotes: Vec<String>,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl<'a> PanelLayout<'a> {
    /// `shared` are the x and y extents that the panel shares with others.
    pub(super) fn new(
        panel: &'a Panel,
        shared: (Option<Extent>, Option<Extent>),
        height: f64,
        metrics: Metrics,
    ) -> Self {
        let axis = |axis: &Axis, extent: Extent, upwards: bool| {
            let mut axis = axis.clone();
            // An axis label that repeats the panel's title is omitted; its unit stays.
            if axis.label == panel.title {
                axis.label.clear();
            }
            AxisLayout::new(&axis, extent, upwards)
        };
        let x = axis(&panel.x, shared.0.unwrap_or_else(|| Extent::x(panel)), false);
        let y = axis(&panel.y, shared.1.unwrap_or_else(|| Extent::y(panel, false)), true);
        let right = panel
            .right
            .as_ref()
            .map(|right| axis(right, Extent::y(panel, true), true));
        Self {
            side: SideLabels::new(panel, x.scale, y.scale, height, metrics),
            y_ticks: y.vertical_ticks(height),
            right_ticks: right
                .as_ref()
                .map_or_else(Vec::new, |right| right.vertical_ticks(height)),
            panel,
            x,
            y,
            right,
            metrics,
        }
    }

    /// Pixels that labels need at the left and at the right.
    pub(super) fn sides(&self) -> (f64, f64) {
        let width = |ticks: &[Tick]| widest(ticks.iter().map(|tick| tick.label.as_str()), self.metrics.font) + 10.0;
        let right = match &self.right {
            Some(_) => width(&self.right_ticks),
            None => self.side.width(self.metrics.font).max(16.0),
        };
        (width(&self.y_ticks), right)
    }

    pub(super) fn margins(&self, width: f64, own: OwnLabels) -> Margins {
        let font = self.metrics.font;
        let above = TopLabels::new(self.panel, self.x.scale, width, font);
        let below = XAxisLayout::new(&self.x, width, self.metrics);
        let mut footnotes = if own.footnotes {
            above.footnotes.clone()
        } else {
            Vec::new()
        };
        footnotes.extend(unshowable_note(self.panel));
        let untitled = self.y.heading.is_empty() && self.panel.title.is_empty();
        let above = own.above.then_some(above);
        let axis = if own.below { below.height } else { 6.0 };
        Margins {
            top: if untitled { 8.0 } else { font * 2.0 } + above.as_ref().map_or(0.0, TopLabels::height),
            bottom: axis + footnotes.len() as f64 * font * 1.4,
            above,
            below,
            own_axis: own.below,
            footnotes,
        }
    }

    /// Draws the panel; `sides` are the pixels at its left and right, `heat` the range of the colour scale.
    pub(super) fn draw(&self, svg: &mut SvgWriter, rect: Rect, sides: (f64, f64), margins: &Margins, heat: (f64, f64)) {
        let font = self.metrics.font;
        let (x, y) = (self.x.scale, self.y.scale);
        let left = PlotArea { x, y, rect };
        let right = PlotArea {
            y: self.right.as_ref().map_or(y, |right| right.scale),
            ..left
        };
        self.headings(svg, rect, sides, margins.top);
        let slots = bar_slots(&self.panel.layers);
        let layers = || self.panel.layers.iter().zip(&slots);
        for (layer, _) in layers().filter(|(layer, _)| matches!(layer, Layer::Spans { .. })) {
            draw_layer(svg, layer, &left, None, heat);
        }
        self.grid(svg, &left, &right, margins);
        for (layer, slot) in layers().filter(|(layer, _)| !matches!(layer, Layer::Spans { .. })) {
            draw_layer(svg, layer, if layer.on_right() { &right } else { &left }, *slot, heat);
        }
        let bottom = [point(rect.left, rect.bottom()), point(rect.right(), rect.bottom())];
        svg.line(&bottom, Stroke::solid(EDGE, 1.0));
        for (layer, slot) in layers() {
            if let (Layer::Bars { bars, .. }, Some(slot)) = (layer, slot) {
                slot.draw_values(svg, &left, bars, |value| self.y.unit.format(value), font);
            }
        }
        draw_notes(svg, &left, self.panel, font);
        let mut below = rect.bottom() + 6.0;
        if margins.own_axis {
            margins.below.draw(svg, &left, &self.x, self.metrics);
            below = rect.bottom() + margins.below.height;
        }
        for line in &margins.footnotes {
            svg.text(line, rect.left, below, TextStyle::new(font));
            below += font * 1.4;
        }
        if let Some(above) = &margins.above {
            above.draw(svg, rect, font);
        }
        self.side.draw(svg, &left, font);
        let marks = |layer: &Layer| {
            let annotation = matches!(layer, Layer::Spans { .. } | Layer::Rule { .. } | Layer::Moments { .. });
            !annotation && !layer.values().1.is_empty()
        };
        if !self.panel.layers.iter().any(marks) {
            let style = TextStyle {
                h: AlignH::Center,
                v: AlignV::Center,
                halo: true,
                ..TextStyle::new(font)
            };
            let (x, y) = (rect.left + rect.width / 2.0, rect.top + rect.height / 2.0);
            svg.text("nothing to draw", x, y, style);
        }
    }

    /// The title, and the names of the vertical axes above them.
    fn headings(&self, svg: &mut SvgWriter, rect: Rect, sides: (f64, f64), above: f64) {
        let font = self.metrics.font;
        let (top, from) = (rect.top - above, rect.left - sides.0);
        let end = rect.right() + sides.1;
        let style = TextStyle::new(font);
        let mut x = from;
        if !self.panel.title.is_empty() {
            let title = shorten(&self.panel.title, font * 1.08, (end - from) * 0.6);
            let bold = TextStyle {
                role: TEXT,
                bold: true,
                ..style
            };
            svg.text(&title, x, top, bold);
            x += text_width(&title, font * 1.08) + 12.0;
        }
        let right = self.right.as_ref().map_or("", |right| right.heading.as_str());
        let right = shorten(right, font, (end - from) * 0.45);
        let room = end - x - text_width(&right, font) - 12.0;
        svg.text(&shorten(&self.y.heading, font, room), x, top, style);
        let style = TextStyle {
            h: AlignH::Right,
            ..style
        };
        svg.text(&right, end, top, style);
    }

    fn grid(&self, svg: &mut SvgWriter, left: &PlotArea, right: &PlotArea, margins: &Margins) {
        let rect = left.rect;
        let line = Stroke::solid(GRID, 1.0);
        for tick in &self.y_ticks {
            let y = left.y_pixel(tick.at);
            svg.line(&[point(rect.left, y), point(rect.right(), y)], line);
        }
        // On a map, positions matter in both directions.
        let map = |layer: &Layer| matches!(layer, Layer::Area { .. } | Layer::Cells { .. });
        if self.panel.layers.iter().any(map) {
            for tick in &margins.below.ticks {
                let x = left.x_pixel(tick.at);
                svg.line(&[point(x, rect.top), point(x, rect.bottom())], line);
            }
        }
        let style = TextStyle {
            v: AlignV::Center,
            ..TextStyle::new(self.metrics.font)
        };
        for tick in &self.right_ticks {
            svg.text(&tick.label, rect.right() + 7.0, right.y_pixel(tick.at), style);
        }
        let style = TextStyle {
            h: AlignH::Right,
            ..style
        };
        for tick in &self.y_ticks {
            svg.text(&tick.label, rect.left - 7.0, left.y_pixel(tick.at), style);
        }
    }
}

/// Maximum length of a rotated name in pixels.
const LONGEST: f64 = 120.0;
/// Maximum number of lines of a name.
const LINES: usize = 3;

/// How the tick labels of an x axis are laid out.
struct XAxisLayout {
    ticks: Vec<Tick>,
    texts: Vec<Vec<String>>,
    rotated: bool,
    /// Height of the tick labels.
    labels: f64,
    /// Height with the heading.
    height: f64,
}

impl XAxisLayout {
    fn new(axis: &AxisLayout, width: f64, metrics: Metrics) -> Self {
        let font = metrics.font;
        let mut layout = match axis.names.is_empty() {
            true => {
                let ticks = ticks_with_room(axis, width, metrics);
                Self {
                    texts: ticks.iter().map(|tick| vec![tick.label.clone()]).collect(),
                    ticks,
                    rotated: false,
                    labels: font * 1.25,
                    height: 0.0,
                }
            }
            false => Self::of_names(axis, width, font),
        };
        let heading = if axis.heading.is_empty() { 2.0 } else { font * 1.6 };
        layout.height = 6.0 + layout.labels + heading;
        layout
    }

    /// Names are wrapped, or rotated if a word has no room.
    fn of_names(axis: &AxisLayout, width: f64, font: f64) -> Self {
        let ticks = axis.ticks(0, 0.0);
        let each = width / ticks.len() as f64 - 6.0;
        let words = axis.names.iter().flat_map(|name| name.split_whitespace());
        let rotated = widest(words, font) > each;
        let texts: Vec<Vec<String>> = ticks
            .iter()
            .map(|tick| match rotated {
                true if each + 6.0 < font => Vec::new(),
                true => vec![shorten(&tick.label, font, LONGEST)],
                false => wrap(&tick.label, font, each, LINES),
            })
            .collect();
        let labels = match rotated {
            true => widest(texts.iter().flatten().map(String::as_str), font) + 4.0,
            false => texts.iter().map(Vec::len).max().unwrap_or(1) as f64 * font * 1.25,
        };
        Self {
            ticks,
            texts,
            rotated,
            labels,
            height: 0.0,
        }
    }

    fn draw(&self, svg: &mut SvgWriter, area: &PlotArea, axis: &AxisLayout, metrics: Metrics) {
        let (rect, font) = (area.rect, metrics.font);
        let top = rect.bottom() + 6.0;
        let centred = TextStyle {
            h: AlignH::Center,
            ..TextStyle::new(font)
        };
        let rotated = TextStyle {
            h: AlignH::Right,
            v: AlignV::Center,
            rotated: true,
            ..centred
        };
        for (tick, lines) in self.ticks.iter().zip(&self.texts) {
            let x = area.x_pixel(tick.at);
            if axis.names.is_empty() {
                let mark = [point(x, rect.bottom()), point(x, rect.bottom() + 4.0)];
                svg.line(&mark, Stroke::solid(EDGE, 1.0));
            }
            for (row, line) in lines.iter().enumerate() {
                if self.rotated {
                    svg.text(line, x, top, rotated);
                    continue;
                }
                // The first and the last label stay within the drawing.
                let half = text_width(line, font) / 2.0;
                let x = x.min(metrics.total_width - half).max(half);
                svg.text(line, x, top + row as f64 * font * 1.25, centred);
            }
        }
        let heading = shorten(&axis.heading, font, rect.width);
        svg.text(&heading, rect.left + rect.width / 2.0, top + self.labels + 3.0, centred);
    }
}

/// As many ticks as have room side by side.
fn ticks_with_room(axis: &AxisLayout, width: f64, metrics: Metrics) -> Vec<Tick> {
    let length = |tick: &Tick| text_width(&tick.label, metrics.font);
    let room = |ticks: &[Tick]| {
        ticks.windows(2).all(|pair| {
            let distance = (axis.scale.share(pair[1].at) - axis.scale.share(pair[0].at)) * width;
            distance >= f64::midpoint(length(&pair[0]), length(&pair[1])) + 14.0
        })
    };
    let most = if metrics.side_room { 11 } else { 7 };
    let mut tries = (2..=most).rev().map(|most| {
        // This distance between two ticks is always enough.
        let longest = axis.ticks(most, 0.0).iter().map(length).fold(0.0, f64::max);
        axis.ticks(most, (longest + 14.0) / width)
    });
    tries.find(|ticks| room(ticks)).unwrap_or_default()
}
