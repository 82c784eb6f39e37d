//! Draws each kind of marks between the axes, and the legend above the panels, in rows that fit the width.

use std::collections::HashSet;

use super::scale::format_number;
use super::style::{EDGE, Fill, STRIPE, Stroke, TEXT};
use super::svg::{PixelPoint, PlotArea, Rect, SvgWriter, TextStyle, point, shorten, text_width};
use crate::report::plot::{Bar, Colour, Layer, Marks, Panel, Shape, reduced};

/// Radius of dots if there are few, and if there are many.
const REACH: (f64, f64) = (4.0, 2.2);

/// Draws what lies within the axes: everything but markers.
pub(super) fn draw_within(svg: &mut SvgWriter, layer: &Layer, area: &PlotArea, slot: Option<Slot>, heat: (f64, f64)) {
    svg.end_element();
    let role = layer.colour.role();
    match &layer.marks {
        Marks::Line { points, .. } => line(svg, area, points, Stroke::new(layer, 1.8), layer.steps),
        Marks::Ribbon { points } => ribbon(svg, area, points, role, layer.steps),
        Marks::Area { outlines } => {
            let corners = |outline: &Vec<(f64, f64)>| -> Vec<PixelPoint> {
                let finite = outline.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
                finite.map(|(x, y)| area.point(*x, *y)).collect()
            };
            // Their own edges would split outlines with holes.
            for outline in outlines {
                svg.polygon(&corners(outline), role, Fill::of(layer, Fill::Wash));
            }
            // Proven regions have an edge: on grey paper, translucent areas look the same.
            let proven = matches!(layer.colour, Colour::Fits | Colour::Fails);
            for outline in outlines.iter().filter(|_| proven) {
                let mut edge = corners(outline);
                edge.extend(edge.first().copied());
                svg.line(&edge, Stroke::solid(role, 1.2));
            }
        }
        Marks::Spans { spans } => {
            for span in spans.iter().step_by(2) {
                let (left, right) = (area.x_pixel(span.from), area.x_pixel(span.to));
                let rect = Rect::new(left, area.rect.top, right - left, area.rect.height);
                svg.rect(rect, STRIPE, Fill::Plain);
            }
        }
        Marks::Rule { at, upright } => {
            let ends = match upright {
                true => [area.point(*at, area.y.from), area.point(*at, area.y.to)],
                false => [area.point(area.x.from, *at), area.point(area.x.to, *at)],
            };
            svg.line(&ends, Stroke::new(layer, 1.4));
        }
        Marks::Bars { bars } => {
            if let Some(slot) = slot {
                slot.draw(svg, area, bars, role, slot.fill(layer));
            }
        }
        Marks::Cells { cells } => {
            for cell in cells.iter().filter(|cell| cell.value.is_finite()) {
                let share = (cell.value - heat.0) / (heat.1 - heat.0).max(f64::MIN_POSITIVE);
                svg.heat(area.rect_of(cell.x, cell.y), share);
            }
        }
        Marks::Dots { .. } => {}
    }
    svg.end_element();
}

/// Draws the markers, which may reach beyond the axes.
pub(super) fn draw_markers(svg: &mut SvgWriter, layer: &Layer, area: &PlotArea) {
    let (points, shape, reach): (Vec<(f64, f64)>, Shape, f64) = match &layer.marks {
        Marks::Line {
            points,
            dots: true,
            shape,
        } => {
            let known = points.iter().filter_map(|(x, y)| Some((*x, (*y)?)));
            (known.collect(), *shape, 3.0)
        }
        Marks::Dots { points, shape } => {
            let reach = if points.len() > 400 { REACH.1 } else { REACH.0 };
            (points.clone(), *shape, reach)
        }
        _ => return,
    };
    // Those at the same pixel are drawn once.
    let mut drawn = HashSet::new();
    for (x, y) in points.into_iter().filter(|(x, y)| area.contains(*x, *y)) {
        if drawn.insert(area.point(x, y)) {
            svg.marker(area.point(x, y), shape, layer.colour.role(), reach);
        }
    }
    svg.end_element();
}

/// The stretches of a line between its gaps, in pixels, with four points for each half pixel at most.
fn stretches(area: &PlotArea, points: &[(f64, Option<f64>)], steps: bool) -> Vec<Vec<PixelPoint>> {
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let pixel = |(x, y): &(f64, Option<f64>)| {
        let y = y.filter(|y| shown(*y, area.y.log));
        shown(*x, area.x.log).then(|| (area.x_pixel(*x), y.map(|y| area.y_pixel(y))))
    };
    let pixels: Vec<(f64, Option<f64>)> = points.iter().filter_map(pixel).collect();
    let columns = (2.0 * area.rect.width) as usize;
    let mut stretches = Vec::new();
    for stretch in reduced(&pixels, columns).split(|(_, y)| y.is_none()) {
        let mut corners: Vec<PixelPoint> = Vec::with_capacity(stretch.len());
        for at in stretch.iter().filter_map(|(x, y)| Some(point(*x, (*y)?))) {
            // A value of a step line holds until the next.
            if let Some(before) = corners.last().copied().filter(|_| steps) {
                corners.push((at.0, before.1));
            }
            corners.push(at);
        }
        corners.dedup();
        stretches.push(corners);
    }
    stretches
}

/// A line with gaps. A point between two gaps is a dot.
fn line(svg: &mut SvgWriter, area: &PlotArea, points: &[(f64, Option<f64>)], stroke: Stroke, steps: bool) {
    for corners in stretches(area, points, steps) {
        match corners.as_slice() {
            [only] => svg.dot(*only, stroke.role, 1.6),
            _ => svg.line(&corners, stroke),
        }
    }
}

fn ribbon(svg: &mut SvgWriter, area: &PlotArea, points: &[(f64, f64, f64)], role: &'static str, steps: bool) {
    // A band down to 0 reaches the lower end of a logarithmic axis.
    let least = if area.y.log {
        area.y.from / 10.0
    } else {
        f64::NEG_INFINITY
    };
    let edge = |value: fn(&(f64, f64, f64)) -> f64| -> Vec<PixelPoint> {
        let points = points.iter().map(|point| (point.0, Some(value(point).max(least))));
        stretches(area, &points.collect::<Vec<_>>(), steps).concat()
    };
    let mut corners = edge(|point| point.2);
    corners.extend(edge(|point| point.1).into_iter().rev());
    svg.polygon(&corners, role, Fill::Wash);
}

/// Share of a category's width that its bars fill.
const FULL: f64 = 0.78;
/// Maximum width of a bar, and of a stack, which has labels inside, in pixels.
const WIDEST: f64 = 72.0;
const WIDEST_STACK: f64 = 160.0;

/// The place of a layer of bars within each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    index: usize,
    count: usize,
    pub(super) stacked: bool,
}

/// The slot of each layer, if it has bars: side by side, or one for all if any bar stands on another.
pub(super) fn bar_slots(layers: &[Layer]) -> Vec<Option<Slot>> {
    let bars = |layer: &Layer| matches!(layer.marks, Marks::Bars { .. });
    let stands = |layer: &Layer| matches!(&layer.marks, Marks::Bars { bars } if bars.iter().any(|bar| bar.base != 0.0));
    let stacked = layers.iter().any(stands);
    let count = if stacked {
        1
    } else {
        layers.iter().filter(|layer| bars(layer)).count()
    };
    let mut next = 0;
    let slot = |layer: &Layer| {
        let index = if stacked { 0 } else { next };
        next += usize::from(bars(layer));
        bars(layer).then_some(Slot { index, count, stacked })
    };
    layers.iter().map(slot).collect()
}

impl Slot {
    /// Components of a stack are less strong, so that labels inside can be read.
    pub(super) fn fill(self, layer: &Layer) -> Fill {
        Fill::of(layer, if self.stacked { Fill::Solid } else { Fill::Plain })
    }

    /// The rectangle of a bar.
    pub(super) fn rect(self, area: &PlotArea, bar: &Bar) -> Rect {
        let room = area.x_pixel(bar.at + 0.5) - area.x_pixel(bar.at - 0.5);
        let most = if self.stacked { WIDEST_STACK } else { WIDEST };
        let width = (room * FULL / self.count as f64).min(most);
        let left = area.x_pixel(bar.at) + (self.index as f64 - self.count as f64 / 2.0) * width;
        let (one, other) = (area.y_pixel(bar.value), area.y_pixel(bar.base));
        Rect::new(left, one.min(other), width * 0.96, (one - other).abs())
    }

    fn draw(self, svg: &mut SvgWriter, area: &PlotArea, bars: &[Bar], role: &'static str, fill: Fill) {
        for bar in bars {
            let rect = self.rect(area, bar);
            svg.rect(rect, role, fill);
            if fill != Fill::Plain {
                svg.outline(rect, role);
            }
        }
        for bar in bars {
            let Some((low, high)) = bar.interval else { continue };
            let rect = self.rect(area, bar);
            let (x, low, high) = (rect.left + rect.width / 2.0, area.y_pixel(low), area.y_pixel(high));
            let cap = (rect.width / 5.0).min(5.0);
            for (left, from, right, to) in [
                (x, low, x, high),
                (x - cap, low, x + cap, low),
                (x - cap, high, x + cap, high),
            ] {
                svg.line(&[point(left, from), point(right, to)], Stroke::solid(TEXT, 1.3));
            }
        }
    }
}

/// The x axis line, with a mark at each tick.
pub(super) fn axis_line(svg: &mut SvgWriter, area: &PlotArea, ticks: impl Iterator<Item = f64>) {
    let (rect, stroke) = (area.rect, Stroke::solid(EDGE, 1.0));
    svg.line(
        &[point(rect.left, rect.bottom()), point(rect.right(), rect.bottom())],
        stroke,
    );
    for at in ticks {
        let x = area.x_pixel(at);
        svg.line(&[point(x, rect.bottom()), point(x, rect.bottom() + 4.0)], stroke);
    }
}

/// Pixels of a symbol and between a symbol and its name, between entries, and of the colour scale.
const SYMBOL: f64 = 28.0;
const GAP: f64 = 18.0;
const SCALE: f64 = 120.0;
/// Steps of the colour scale.
const STEPS: u8 = 32;

/// Lowest and highest value of all heat maps.
pub(super) fn heat_range(panels: &[Panel]) -> (f64, f64) {
    let cells = panels
        .iter()
        .flat_map(|panel| &panel.layers)
        .filter_map(|layer| match &layer.marks {
            Marks::Cells { cells } => Some(cells),
            _ => None,
        });
    let values = cells.flatten().map(|cell| cell.value).filter(|value| value.is_finite());
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Draws a symbol and a name for each layer that has a name and no label, without duplicates; gives the lower end.
pub(super) fn draw_legend(
    svg: &mut SvgWriter,
    panels: &[Panel],
    heat: (f64, f64),
    top: f64,
    (width, font): (f64, f64),
) -> f64 {
    let mut named: Vec<(&Layer, Option<Slot>)> = Vec::new();
    for panel in panels {
        for (layer, slot) in panel.layers.iter().zip(bar_slots(&panel.layers)) {
            let labelled = matches!(layer.marks, Marks::Rule { .. } | Marks::Spans { .. });
            if !layer.name.is_empty() && !labelled && !named.iter().any(|(known, _)| alike(known, layer)) {
                named.push((layer, slot));
            }
        }
    }
    let style = TextStyle::new(font).role(TEXT).middle();
    let (mut x, mut middle) = (0.0, top + font * 0.8);
    for (layer, slot) in &named {
        let scale = matches!(layer.marks, Marks::Cells { .. });
        let [low, high] = heat_labels(heat);
        let symbol = match scale {
            true => text_width(&low, font) + SCALE + text_width(&high, font) + 18.0,
            false => SYMBOL,
        };
        let name = shorten(&layer.name, font, width - symbol);
        let all = symbol + text_width(&name, font);
        if x > 0.0 && x + all > width {
            (x, middle) = (0.0, middle + font * 1.6);
        }
        if scale {
            let begin = x + text_width(&low, font) + 6.0;
            svg.text(&low, x, middle, style);
            svg.text(&high, begin + SCALE + 6.0, middle, style);
            let step = SCALE / f64::from(STEPS);
            for index in 0..STEPS {
                let rect = Rect::new(begin + f64::from(index) * step, middle - 6.0, step, 12.0);
                svg.heat(rect, f64::from(index) / f64::from(STEPS - 1));
            }
        } else {
            draw_symbol(svg, layer, *slot, (x, middle));
        }
        svg.end_element();
        svg.text(&name, x + symbol, middle, style);
        x += all + GAP;
    }
    if named.is_empty() {
        top
    } else {
        middle + font * 0.8 + 10.0
    }
}

/// Whether two layers have the same symbol and name.
fn alike(one: &Layer, other: &Layer) -> bool {
    let look = |layer: &Layer| {
        (
            layer.name.clone(),
            layer.colour,
            layer.dashed,
            std::mem::discriminant(&layer.marks),
        )
    };
    let shape = |layer: &Layer| match layer.marks {
        Marks::Dots { shape, .. } | Marks::Line { shape, .. } => Some(shape),
        _ => None,
    };
    look(one) == look(other) && shape(one) == shape(other)
}

fn draw_symbol(svg: &mut SvgWriter, layer: &Layer, slot: Option<Slot>, (x, middle): (f64, f64)) {
    let role = layer.colour.role();
    let centre = point(x + 11.0, middle);
    let fill = match &layer.marks {
        Marks::Line { dots, shape, .. } => {
            svg.line(&[point(x, middle), point(x + 22.0, middle)], Stroke::new(layer, 2.0));
            if *dots {
                svg.marker(centre, *shape, role, 3.0);
            }
            return;
        }
        Marks::Dots { shape, .. } => return svg.marker(centre, *shape, role, 4.0),
        Marks::Bars { .. } => slot.map_or(Fill::Plain, |slot| slot.fill(layer)),
        _ => Fill::of(layer, Fill::Wash),
    };
    let rect = Rect::new(x + 3.0, middle - 5.5, 16.0, 11.0);
    svg.rect(rect, role, fill);
    if fill != Fill::Plain {
        svg.outline(rect, role);
    }
}

fn heat_labels((low, high): (f64, f64)) -> [String; 2] {
    let decimals = match high.abs().max(low.abs()) {
        most if most >= 100.0 => 0,
        most if most >= 1.0 => 1,
        _ => 3,
    };
    [low, high].map(|value| format_number(value, decimals))
}
