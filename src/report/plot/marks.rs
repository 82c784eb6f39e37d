//! Draws each kind of marks between the axes, and the legend above the panels, in rows that fit the width.

use std::collections::HashSet;
use std::mem::discriminant;

use super::scale::extremes;
use super::svg::{Frame, PixelPoint, Rect, SvgWriter, TextStyle, point, shorten, text_width, widest};
use crate::fmt::number;
use crate::report::plot::{Bar, Layer, Marks, Panel, reduced};

/// Opacity of areas, and of components of a stack, so that labels inside can be read.
const WASH: f64 = 0.2;
const STACK: f64 = 0.62;

/// Lowest and highest value of all heat maps.
pub(super) fn heat_range(panels: &[Panel]) -> (f64, f64) {
    let values = panels
        .iter()
        .flat_map(|panel| &panel.layers)
        .flat_map(|layer| match &layer.marks {
            Marks::Cells { cells } => cells.as_slice(),
            _ => &[],
        });
    extremes(values.map(|cell| cell.value).filter(|value| value.is_finite()))
}

/// The bars of a layer.
pub(super) fn bars_of(layer: &Layer) -> &[Bar] {
    match &layer.marks {
        Marks::Bars { bars } => bars,
        _ => &[],
    }
}

/// Whether any bar is stacked on another.
pub(super) fn is_stacked(layers: &[Layer]) -> bool {
    layers.iter().flat_map(bars_of).any(|bar| bar.base != 0.0)
}

/// The rectangles of the bars of each layer: side by side in their category unless they are stacked.
pub(super) fn bar_rects(layers: &[Layer], area: &Frame) -> Vec<Vec<Rect>> {
    /// Share of a category's width that its bars fill, and the maximum width of a bar and of a stack in pixels.
    const FULL: f64 = 0.78;
    const WIDEST: f64 = 72.0;
    const WIDEST_STACK: f64 = 280.0;
    let stacked = is_stacked(layers);
    let (count, most) = if stacked {
        (1, WIDEST_STACK)
    } else {
        (layers.iter().filter(|layer| !bars_of(layer).is_empty()).count(), WIDEST)
    };
    let mut index = 0;
    let rects = |layer: &Layer| {
        let rect = |bar: &Bar| {
            let room = area.x_pixel(bar.at + 0.5) - area.x_pixel(bar.at - 0.5);
            let width = (room * FULL / count as f64).min(most);
            let left = area.x_pixel(bar.at) + (f64::from(index) - count as f64 / 2.0) * width;
            let (one, other) = (area.y_pixel(bar.value), area.y_pixel(bar.base));
            Rect::new(left, one.min(other), width * 0.96, (one - other).abs())
        };
        let rects = bars_of(layer).iter().map(rect).collect::<Vec<Rect>>();
        index += i32::from(!stacked && !rects.is_empty());
        rects
    };
    layers.iter().map(rects).collect()
}

/// Draws a bar, or the symbol of an area or of bars: hatched if it is an estimate.
fn block(svg: &mut SvgWriter, layer: &Layer, rect: Rect, opacity: f64) {
    fill(svg, layer, &rect.corners(), opacity);
    if layer.dashed || opacity < 1.0 {
        svg.outline(&rect.corners(), layer.colour.role(), 1.0);
    }
}

fn fill(svg: &mut SvgWriter, layer: &Layer, corners: &[PixelPoint], opacity: f64) {
    if layer.dashed {
        svg.hatch(corners, layer.colour.role())
    } else {
        svg.fill(corners, layer.colour.role(), opacity)
    }
}

/// The opacity of bars of these layers.
fn bar_opacity(layers: &[Layer]) -> f64 {
    if is_stacked(layers) { STACK } else { 1.0 }
}

/// Draws the marks within the axes: everything but markers. `ticks` are the ticks of the y axis, `bars` the rectangles
/// of each layer.
pub(super) fn draw_within(
    svg: &mut SvgWriter,
    layers: &[Layer],
    area: &Frame,
    ticks: impl Iterator<Item = f64>,
    bars: &[Vec<Rect>],
    heat: (f64, f64),
) {
    let rect = area.rect;
    let between = |x: (f64, f64), y: (f64, f64)| {
        let (left, top) = (area.x_pixel(x.0), area.y_pixel(y.1));
        Rect::new(left, top, area.x_pixel(x.1) - left, area.y_pixel(y.0) - top)
    };
    // Every other phase has a background.
    for layer in layers {
        if let Marks::Spans { spans } = &layer.marks {
            for span in spans.iter().step_by(2) {
                let stripe = between((span.from, span.to), (area.y.from, area.y.to));
                svg.fill(&stripe.corners(), "stripe", 1.0);
            }
        }
    }
    for tick in ticks {
        let y = area.y_pixel(tick);
        svg.line(&[point((rect.left, y)), point((rect.right(), y))], "grid", 1.0, "");
    }
    for (layer, bars) in layers.iter().zip(bars) {
        svg.end_element();
        let (role, dash) = (layer.colour.role(), layer.dash());
        match &layer.marks {
            Marks::Line { points, .. } => {
                for corners in stretches(area, points.iter().copied(), layer.steps) {
                    match corners[..] {
                        // A point between two gaps.
                        [only] => svg.dot(only, role, 1.6),
                        _ => svg.line(&corners, role, 1.8, dash),
                    }
                }
            }
            Marks::Ribbon { points } => {
                // A band down to 0 reaches the lower end of a logarithmic axis.
                let least = if area.y.log { area.y.from / 10.0 } else { f64::MIN };
                let edge = |value: fn(&(f64, f64, f64)) -> f64| {
                    let points = points.iter().map(|point| (point.0, Some(value(point).max(least))));
                    stretches(area, points, layer.steps).concat()
                };
                let mut corners = edge(|point| point.2);
                corners.extend(edge(|point| point.1).into_iter().rev());
                svg.fill(&corners, role, WASH);
            }
            Marks::Area { outlines } => {
                let corners = |outline: &Vec<(f64, f64)>| -> Vec<PixelPoint> {
                    let finite = outline.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
                    finite.map(|(x, y)| area.point(*x, *y)).collect()
                };
                // All fills come before the edges: an edge in between would start a new path and separate an outline
                // from its holes.
                for outline in outlines {
                    fill(svg, layer, &corners(outline), WASH);
                }
                // Proven regions have an edge: on grey paper, translucent areas look the same.
                for outline in outlines.iter().filter(|_| matches!(role, "fits" | "fails")) {
                    svg.outline(&corners(outline), role, 1.2);
                }
            }
            Marks::Rule { at, upright } => {
                let ends = if *upright {
                    [area.point(*at, area.y.from), area.point(*at, area.y.to)]
                } else {
                    [area.point(area.x.from, *at), area.point(area.x.to, *at)]
                };
                svg.line(&ends, role, 1.4, dash);
            }
            Marks::Bars { bars: values } => {
                for rect in bars {
                    block(svg, layer, *rect, bar_opacity(layers));
                }
                for (bar, rect) in values.iter().zip(bars) {
                    let Some((low, high)) = bar.interval else { continue };
                    let (x, cap) = (rect.middle().0, (rect.width / 5.0).min(5.0));
                    let (low, high) = (area.y_pixel(low), area.y_pixel(high));
                    for (one, other) in [
                        ((x, low), (x, high)),
                        ((x - cap, low), (x + cap, low)),
                        ((x - cap, high), (x + cap, high)),
                    ] {
                        svg.line(&[point(one), point(other)], "ink", 1.3, "");
                    }
                }
            }
            Marks::Cells { cells } => {
                for cell in cells.iter().filter(|cell| cell.value.is_finite()) {
                    let share = (cell.value - heat.0) / (heat.1 - heat.0).max(f64::MIN_POSITIVE);
                    svg.heat(between(cell.x, cell.y), share);
                }
            }
            Marks::Dots { .. } | Marks::Spans { .. } => {}
        }
    }
}

/// Draws the markers, which may reach beyond the axes.
pub(super) fn draw_markers(svg: &mut SvgWriter, layer: &Layer, area: &Frame) {
    let (points, shape, reach): (Vec<(f64, f64)>, _, f64) = match &layer.marks {
        Marks::Line { points, dots, shape } if *dots => {
            let known = points.iter().filter_map(|(x, y)| Some((*x, (*y)?)));
            (known.collect(), *shape, 3.0)
        }
        Marks::Dots { points, shape } => (points.clone(), *shape, if points.len() > 400 { 2.2 } else { 4.0 }),
        _ => return,
    };
    // Markers at the same pixel are drawn once.
    let mut drawn = HashSet::new();
    for (x, y) in points.into_iter().filter(|(x, y)| area.contains(*x, *y)) {
        if drawn.insert(area.point(x, y)) {
            svg.marker(area.point(x, y), shape, layer.colour.role(), reach);
        }
    }
    svg.end_element();
}

/// The parts of a line between its gaps, in pixels, with at most four points per half pixel.
fn stretches(area: &Frame, points: impl Iterator<Item = (f64, Option<f64>)>, steps: bool) -> Vec<Vec<PixelPoint>> {
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let points = points.filter(|(x, _)| shown(*x, area.x.log));
    let pixels = points.map(|(x, y)| {
        let y = y.filter(|y| shown(*y, area.y.log));
        (area.x_pixel(x), y.map(|y| area.y_pixel(y)))
    });
    let columns = (2.0 * area.rect.width) as usize;
    let stretch = |points: &[(f64, Option<f64>)]| {
        let mut corners: Vec<PixelPoint> = Vec::with_capacity(points.len());
        for at in points.iter().filter_map(|(x, y)| Some(point((*x, (*y)?)))) {
            // A value of a step line holds until the next.
            if let Some(before) = corners.last().copied().filter(|_| steps) {
                corners.push((at.0, before.1));
            }
            corners.push(at);
        }
        corners.dedup();
        corners
    };
    let pixels = reduced(&pixels.collect::<Vec<_>>(), columns);
    pixels.split(|(_, y)| y.is_none()).map(stretch).collect()
}

/// Draws a symbol and a name for each layer that has a name and no label, without duplicates. Returns the lower end.
pub(super) fn draw_legend(
    svg: &mut SvgWriter,
    panels: &[Panel],
    heat: (f64, f64),
    top: f64,
    (width, font): (f64, f64),
) -> f64 {
    /// Pixels of a symbol with the gap to its name, between entries, and of the colour scale; and the steps of that
    /// scale.
    const SYMBOL: f64 = 28.0;
    const GAP: f64 = 18.0;
    const SCALE: f64 = 120.0;
    const STEPS: u8 = 32;
    let style = TextStyle::new(font).class("pa-ink").middle();
    let (mut x, mut y) = (0.0, top + font * 0.8);
    let mut known = HashSet::new();
    for (panel, layer) in panels
        .iter()
        .flat_map(|panel| panel.layers.iter().map(move |layer| (panel, layer)))
    {
        let labelled = matches!(layer.marks, Marks::Rule { .. } | Marks::Spans { .. });
        let key = (&layer.name, layer.colour, layer.dashed, discriminant(&layer.marks));
        if layer.name.is_empty() || labelled || !known.insert(key) {
            continue;
        }
        let is_scale = matches!(layer.marks, Marks::Cells { .. });
        let [low, high] = [heat.0, heat.1].map(number);
        let side = widest([low.as_str(), &high], font) + 6.0;
        let symbol = if is_scale { 2.0 * side + SCALE + 6.0 } else { SYMBOL };
        let name = shorten(&layer.name, font, width - symbol);
        let all = symbol + text_width(&name, font);
        if x > 0.0 && x + all > width {
            (x, y) = (0.0, y + font * 1.6);
        }
        if is_scale {
            svg.text(&low, x + side - 6.0, y, style.anchor("end"));
            svg.text(&high, x + side + SCALE + 6.0, y, style);
            let step = SCALE / f64::from(STEPS);
            for index in 0..STEPS {
                let rect = Rect::new(x + side + f64::from(index) * step, y - 6.0, step, 12.0);
                svg.heat(rect, f64::from(index) / f64::from(STEPS - 1));
            }
        } else {
            draw_symbol(svg, layer, bar_opacity(&panel.layers), (x, y));
        }
        svg.end_element();
        svg.text(&name, x + symbol, y, style);
        x += all + GAP;
    }
    if known.is_empty() { top } else { y + font * 0.8 + 10.0 }
}

fn draw_symbol(svg: &mut SvgWriter, layer: &Layer, bar_opacity: f64, (x, y): (f64, f64)) {
    let (role, centre) = (layer.colour.role(), point((x + 11.0, y)));
    let rect = Rect::new(x + 3.0, y - 5.5, 16.0, 11.0);
    match &layer.marks {
        Marks::Line { dots, shape, .. } => {
            svg.line(&[point((x, y)), point((x + 22.0, y))], role, 2.0, layer.dash());
            if *dots {
                svg.marker(centre, *shape, role, 3.0);
            }
        }
        Marks::Dots { shape, .. } => svg.marker(centre, *shape, role, 4.0),
        Marks::Bars { .. } => block(svg, layer, rect, bar_opacity),
        _ => block(svg, layer, rect, WASH),
    }
}
