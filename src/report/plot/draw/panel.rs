//! One panel: its scales, grid, marks, x axis, and the labels around it.

use super::labels::{DirectLabels, TopLabels, draw_notes};
use super::marks::{BarSlots, draw_layer};
use super::scale::{AxisLayout, Extent, drop_unshowable};
use super::style::{LayoutMetrics, Role};
use super::text::{shorten, text_width, wrap};
use super::ticks::Tick;
use super::writer::{AlignH, AlignV, PlotArea, Rect, SvgWriter, TextStyle, point};
use crate::report::plot::{Layer, Panel};

/// A panel with its scales, ready to be drawn at a height.
pub(super) struct PanelLayout {
    pub(super) panel: Panel,
    pub(super) x: AxisLayout,
    pub(super) y: AxisLayout,
    pub(super) right: Option<AxisLayout>,
    pub(super) direct_labels: DirectLabels,
    note: Option<String>,
    height: f64,
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
    around: OwnLabels,
    footnotes: Vec<String>,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl PanelLayout {
    /// `shared` are the x and y extents that the panel shares with others.
    pub(super) fn new(
        panel: &Panel,
        shared: (Option<Extent>, Option<Extent>),
        height: f64,
        metrics: LayoutMetrics,
    ) -> Self {
        let (mut panel, note) = drop_unshowable(panel);
        let title = panel.title.clone();
        // An axis label that repeats the panel's title is omitted; its unit stays.
        let axes = [Some(&mut panel.x), Some(&mut panel.y), panel.right.as_mut()];
        for axis in axes.into_iter().flatten().filter(|axis| axis.label == title) {
            axis.label.clear();
        }
        let across = shared.0.unwrap_or_else(|| Extent::x(&panel));
        let up = shared.1.unwrap_or_else(|| Extent::y(&panel, false));
        let right = panel.right.as_ref();
        let (x, y) = (
            AxisLayout::new(&panel.x, across, false),
            AxisLayout::new(&panel.y, up, true),
        );
        Self {
            direct_labels: DirectLabels::new(&panel, x.scale, y.scale, height, metrics),
            right: right.map(|axis| AxisLayout::new(axis, Extent::y(&panel, true), true)),
            x,
            y,
            note,
            height,
            panel,
        }
    }

    /// Pixels that labels need at the left and at the right.
    pub(super) fn sides(&self, metrics: LayoutMetrics) -> (f64, f64) {
        let widest = |ticks: &[Tick]| {
            ticks
                .iter()
                .map(|tick| text_width(&tick.label, metrics.font))
                .fold(0.0, f64::max)
        };
        let left = widest(&self.y.vertical_ticks(self.height)) + 10.0;
        let right = match &self.right {
            Some(right) => widest(&right.vertical_ticks(self.height)) + 10.0,
            None => self.direct_labels.width(metrics).max(16.0),
        };
        (left, right)
    }

    pub(super) fn ends(&self, width: f64, around: OwnLabels, metrics: LayoutMetrics) -> Margins {
        let above = TopLabels::new(&self.panel, self.x.scale, width, metrics);
        let below = XAxisLayout::new(&self.x, width, metrics);
        let mut footnotes = if around.footnotes {
            above.footnotes.clone()
        } else {
            Vec::new()
        };
        footnotes.extend(self.note.clone());
        let untitled = self.y.heading.is_empty() && self.panel.title.is_empty();
        let heading = if untitled { 8.0 } else { metrics.font * 2.0 };
        let axis = if around.below {
            below.height(&self.x, metrics)
        } else {
            6.0
        };
        let above = around.above.then_some(above);
        let footnotes_height = footnotes.len() as f64 * metrics.font * 1.4;
        Margins {
            top: heading + above.as_ref().map_or(0.0, TopLabels::height),
            bottom: axis + footnotes_height,
            above,
            below,
            around,
            footnotes,
        }
    }

    pub(super) fn draw(
        &self,
        svg: &mut SvgWriter,
        metrics: LayoutMetrics,
        rect: Rect,
        sides: (f64, f64),
        ends: &Margins,
        heat: (f64, f64),
    ) {
        let left = PlotArea {
            x: self.x.scale,
            y: self.y.scale,
            rect,
        };
        let right = PlotArea {
            y: self.right.as_ref().map_or(self.y.scale, |right| right.scale),
            ..left
        };
        self.headings(svg, metrics, rect, sides, ends.top);
        let layers = || self.panel.layers.iter().enumerate();
        let slots = BarSlots::from_layers(&self.panel.layers);
        let (bands, marks): (Vec<_>, Vec<_>) = layers().partition(|(_, layer)| matches!(layer, Layer::Spans { .. }));
        for (number, layer) in bands {
            draw_layer(svg, layer, (&left, &right), &slots, number, heat);
        }
        self.grid(svg, metrics, &left, &right, ends);
        for (number, layer) in marks {
            draw_layer(svg, layer, (&left, &right), &slots, number, heat);
        }
        let corners = [point(rect.left, rect.bottom()), point(rect.right(), rect.bottom())];
        svg.line(&corners, Role::Edge, 1.0);
        slots.draw_values(svg, &left, &self.panel.layers, self.y.measure, metrics);
        draw_notes(svg, &left, &self.panel, metrics);
        let mut below = rect.bottom() + 6.0;
        if ends.around.below {
            ends.below.draw(svg, &left, &self.x, metrics);
            below = rect.bottom() + ends.below.height(&self.x, metrics);
        }
        for line in &ends.footnotes {
            svg.text(
                line,
                rect.left,
                below,
                TextStyle::new(Role::SecondaryText, metrics.font),
            );
            below += metrics.font * 1.4;
        }
        if let Some(above) = &ends.above {
            above.draw(svg, rect, metrics);
        }
        self.direct_labels.draw(svg, &left, metrics);
        if self.panel.layers.iter().all(is_empty) {
            let (x, y) = (rect.left + rect.width / 2.0, rect.top + rect.height / 2.0);
            let text_style = TextStyle::new(Role::SecondaryText, metrics.font)
                .align_h(AlignH::Center)
                .align_v(AlignV::Center);
            svg.text("nothing to draw", x, y, text_style.halo());
        }
    }

    fn headings(&self, svg: &mut SvgWriter, metrics: LayoutMetrics, rect: Rect, sides: (f64, f64), above: f64) {
        let top = rect.top - above;
        let from = rect.left - sides.0;
        let all = rect.width + sides.0 + sides.1;
        let mut x = from;
        if !self.panel.title.is_empty() {
            let title = shorten(&self.panel.title, metrics.font * 1.08, all * 0.6);
            svg.text(&title, x, top, TextStyle::new(Role::Text, metrics.font).bold());
            x += text_width(&title, metrics.font * 1.08) + 12.0;
        }
        let right = self.right.as_ref().map_or("", |right| right.heading.as_str());
        let right = shorten(right, metrics.font, all * 0.45);
        let room = from + all - x - text_width(&right, metrics.font) - 12.0;
        let text_style = TextStyle::new(Role::SecondaryText, metrics.font);
        svg.text(&shorten(&self.y.heading, metrics.font, room), x, top, text_style);
        svg.text(&right, from + all, top, text_style.align_h(AlignH::Right));
    }

    fn grid(&self, svg: &mut SvgWriter, metrics: LayoutMetrics, left: &PlotArea, right: &PlotArea, ends: &Margins) {
        let rect = left.rect;
        let text_style = TextStyle::new(Role::SecondaryText, metrics.font).align_v(AlignV::Center);
        let ticks = self.y.vertical_ticks(rect.height);
        for tick in &ticks {
            let y = left.y_pixel(tick.at);
            svg.line(&[point(rect.left, y), point(rect.right(), y)], Role::Grid, 1.0);
        }
        // On a map, positions matter in both directions.
        let map = |layer: &Layer| matches!(layer, Layer::Area { .. } | Layer::Cells { .. });
        if self.panel.layers.iter().any(map) {
            for tick in &ends.below.ticks {
                let x = left.x_pixel(tick.at);
                svg.line(&[point(x, rect.top), point(x, rect.bottom())], Role::Grid, 1.0);
            }
        }
        for tick in &ticks {
            svg.text(
                &tick.label,
                rect.left - 7.0,
                left.y_pixel(tick.at),
                text_style.align_h(AlignH::Right),
            );
        }
        for tick in self.right.iter().flat_map(|axis| axis.vertical_ticks(rect.height)) {
            svg.text(&tick.label, rect.right() + 7.0, right.y_pixel(tick.at), text_style);
        }
    }
}

fn is_empty(layer: &Layer) -> bool {
    match layer {
        Layer::Line { points, .. } => points.iter().all(|point| point.1.is_none()),
        Layer::Ribbon { points, .. } => points.is_empty(),
        Layer::Dots { points, .. } => points.is_empty(),
        Layer::Area { outlines, .. } => outlines.iter().all(Vec::is_empty),
        Layer::Bars { bars, .. } => bars.is_empty(),
        Layer::Cells { cells, .. } => cells.is_empty(),
        Layer::Spans { .. } | Layer::Rule { .. } | Layer::Moments { .. } => true,
    }
}

/// Maximum length of a rotated name in pixels.
const LONGEST: f64 = 120.0;
/// Maximum number of lines of a name.
const LINES: usize = 3;

/// How the tick labels of an x axis are laid out.
pub(super) struct XAxisLayout {
    pub(super) ticks: Vec<Tick>,
    texts: Vec<Vec<String>>,
    rotated: bool,
    height: f64,
}

impl XAxisLayout {
    pub(super) fn new(axis: &AxisLayout, width: f64, metrics: LayoutMetrics) -> Self {
        let size = metrics.font;
        if axis.names.is_empty() {
            let ticks = ticks_with_room(axis, width, metrics);
            let texts = ticks.iter().map(|tick| vec![tick.label.clone()]).collect();
            return Self {
                ticks,
                texts,
                rotated: false,
                height: size * 1.25,
            };
        }
        let ticks = axis.ticks(0, 0.0);
        let each = width / ticks.len() as f64 - 6.0;
        let words = axis.names.iter().flat_map(|name| name.split_whitespace());
        let rotated = words.map(|word| text_width(word, size)).fold(0.0, f64::max) > each;
        let texts: Vec<Vec<String>> = ticks
            .iter()
            .map(|tick| match rotated {
                true if each + 6.0 < size => Vec::new(),
                true => vec![shorten(&tick.label, size, LONGEST)],
                false => wrap(&tick.label, size, each, LINES),
            })
            .collect();
        let height = match rotated {
            true => {
                texts
                    .iter()
                    .flatten()
                    .map(|text| text_width(text, size))
                    .fold(0.0, f64::max)
                    + 4.0
            }
            false => texts.iter().map(Vec::len).max().unwrap_or(1) as f64 * size * 1.25,
        };
        Self {
            ticks,
            texts,
            rotated,
            height,
        }
    }

    /// Height in pixels, with the heading.
    pub(super) fn height(&self, axis: &AxisLayout, metrics: LayoutMetrics) -> f64 {
        6.0 + self.height
            + if axis.heading.is_empty() {
                2.0
            } else {
                metrics.font * 1.6
            }
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, area: &PlotArea, axis: &AxisLayout, metrics: LayoutMetrics) {
        let rect = area.rect;
        let top = rect.bottom() + 6.0;
        let text_style = TextStyle::new(Role::SecondaryText, metrics.font);
        if axis.names.is_empty() {
            for tick in &self.ticks {
                let x = area.x_pixel(tick.at);
                svg.line(
                    &[point(x, rect.bottom()), point(x, rect.bottom() + 4.0)],
                    Role::Edge,
                    1.0,
                );
            }
        }
        for (tick, lines) in self.ticks.iter().zip(&self.texts) {
            let x = area.x_pixel(tick.at);
            let mut y = top;
            for line in lines {
                if self.rotated {
                    svg.text(
                        line,
                        x,
                        top,
                        text_style.rotated().align_h(AlignH::Right).align_v(AlignV::Center),
                    );
                    continue;
                }
                // The first and the last label stay within the drawing.
                let half = text_width(line, metrics.font) / 2.0;
                svg.text(
                    line,
                    x.min(metrics.total_width - half).max(half),
                    y,
                    text_style.align_h(AlignH::Center),
                );
                y += metrics.font * 1.25;
            }
        }
        let heading = shorten(&axis.heading, metrics.font, rect.width);
        let middle = rect.left + rect.width / 2.0;
        svg.text(
            &heading,
            middle,
            top + self.height + 3.0,
            text_style.align_h(AlignH::Center),
        );
    }
}

/// As many ticks as have room side by side.
fn ticks_with_room(axis: &AxisLayout, width: f64, metrics: LayoutMetrics) -> Vec<Tick> {
    let room = |ticks: &[Tick]| {
        ticks.windows(2).all(|pair| {
            let distance = (axis.scale.share(pair[1].at) - axis.scale.share(pair[0].at)) * width;
            distance
                >= (text_width(&pair[0].label, metrics.font) + text_width(&pair[1].label, metrics.font)) / 2.0 + 14.0
        })
    };
    let most = if metrics.side_room { 11 } else { 7 };
    // This distance between two ticks is always enough.
    let longest = |ticks: &[Tick]| {
        ticks
            .iter()
            .map(|tick| text_width(&tick.label, metrics.font))
            .fold(0.0, f64::max)
    };
    let mut tries = (2..=most).rev().map(|most| {
        let room = longest(&axis.ticks(most, 0.0)) + 14.0;
        axis.ticks(most, room / width)
    });
    tries.find(|ticks| room(ticks)).unwrap_or_default()
}
