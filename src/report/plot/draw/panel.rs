//! One panel: its scales, grid, marks, and the labels around it.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::AxisLayout;
use super::bars::BarSlots;
use super::direct_labels::DirectLabels;
use super::extent::Extent;
use super::filter::drop_unshowable;
use super::marks;
use super::metrics::LayoutMetrics;
use super::notes;
use super::style::{MarkStyle, Role};
use super::text::{shorten, text_width};
use super::ticks::Tick;
use super::top_labels::TopLabels;
use super::writer::{PlotArea, Rect, SvgWriter, TextStyle, point};
use super::x_axis::XAxisLayout;
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
        svg: &SvgWriter,
        metrics: LayoutMetrics,
        rect: Rect,
        sides: (f64, f64),
        ends: &Margins,
        heat: (f64, f64),
    ) {
        let left = svg.plot_area(self.x.scale, self.y.scale, rect);
        let second = self.right.as_ref().map_or(self.y.scale, |right| right.scale);
        let right = svg.plot_area(self.x.scale, second, rect);
        self.headings(svg, metrics, rect, sides, ends.top);
        let layers = || self.panel.layers.iter().enumerate();
        let slots = BarSlots::from_layers(&self.panel.layers);
        let (bands, marks): (Vec<_>, Vec<_>) = layers().partition(|(_, layer)| matches!(layer, Layer::Spans { .. }));
        for (number, layer) in bands {
            marks::draw(svg, layer, (&left, &right), &slots, number, heat);
        }
        self.grid(svg, metrics, &left, &right, ends);
        for (number, layer) in marks {
            marks::draw(svg, layer, (&left, &right), &slots, number, heat);
        }
        let corners = vec![point(rect.left, rect.bottom()), point(rect.right(), rect.bottom())];
        svg.line(corners, MarkStyle::new(Role::Edge), 1.0);
        slots.draw_values(svg, &left, &self.panel.layers, self.y.measure, metrics);
        notes::draw(svg, &left, &self.panel, metrics);
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
                .align_h(HPos::Center)
                .align_v(VPos::Center);
            svg.text("nothing to draw", x, y, text_style.halo());
        }
    }

    fn headings(&self, svg: &SvgWriter, metrics: LayoutMetrics, rect: Rect, sides: (f64, f64), above: f64) {
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
        svg.text(&right, from + all, top, text_style.align_h(HPos::Right));
    }

    fn grid(&self, svg: &SvgWriter, metrics: LayoutMetrics, left: &PlotArea, right: &PlotArea, ends: &Margins) {
        let rect = left.rect;
        let text_style = TextStyle::new(Role::SecondaryText, metrics.font).align_v(VPos::Center);
        let ticks = self.y.vertical_ticks(rect.height);
        for tick in &ticks {
            let y = left.y_pixel(tick.at);
            svg.line(
                vec![point(rect.left, y), point(rect.right(), y)],
                MarkStyle::new(Role::Grid),
                1.0,
            );
        }
        // On a map, positions matter in both directions.
        let map = |layer: &Layer| matches!(layer, Layer::Area { .. } | Layer::Cells { .. });
        if self.panel.layers.iter().any(map) {
            for tick in &ends.below.ticks {
                let x = left.x_pixel(tick.at);
                svg.line(
                    vec![point(x, rect.top), point(x, rect.bottom())],
                    MarkStyle::new(Role::Grid),
                    1.0,
                );
            }
        }
        for tick in &ticks {
            svg.text(
                &tick.label,
                rect.left - 7.0,
                left.y_pixel(tick.at),
                text_style.align_h(HPos::Right),
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
