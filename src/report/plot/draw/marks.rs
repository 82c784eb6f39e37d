//! Draws each kind of layer between the axes.

use std::collections::HashSet;

use super::style::{FillStyle, HEATS, LayoutMetrics, MarkStyle, Role};
use super::text::text_width;
use super::ticks::TickUnit;
use super::writer::{AlignH, AlignV, PixelPoint, PlotArea, Rect, SvgWriter, TextStyle, point};
use crate::report::plot::downsample::downsample_pixels;
use crate::report::plot::{Bar, Cell, Colour, Layer, Shape, Span};

/// Minimum width in pixels: a single moment must be visible too.
const LEAST: f64 = 2.0;
/// Radius of dots if there are few, and if there are many.
const REACH: (f64, f64) = (4.0, 2.2);

/// Draws a layer. Labels of rules and moments are drawn by the panel.
pub(super) fn draw_layer(
    svg: &mut SvgWriter,
    layer: &Layer,
    areas: (&PlotArea, &PlotArea),
    slots: &BarSlots,
    number: usize,
    heat: (f64, f64),
) {
    let side = |right: bool| if right { areas.1 } else { areas.0 };
    svg.end_element();
    match layer {
        Layer::Line {
            points,
            colour,
            dashed,
            steps,
            dots,
            right,
            ..
        } => {
            let area = side(*right);
            svg.clipped(area.rect.extended(1.0), |svg| {
                line(svg, area, points, MarkStyle::line(*colour, *dashed), *steps)
            });
            if *dots {
                let present = points.iter().filter_map(|(x, y)| y.map(|y| (*x, y)));
                markers(svg, area, present, Shape::Circle, *colour, 3.0);
            }
        }
        Layer::Ribbon {
            points,
            colour,
            solid,
            steps,
            right,
            ..
        } => {
            let area = side(*right);
            svg.clipped(area.rect, |svg| ribbon(svg, area, points, *colour, *solid, *steps));
        }
        Layer::Dots {
            points, colour, shape, ..
        } => {
            let reach = if points.len() > 400 { REACH.1 } else { REACH.0 };
            markers(svg, areas.0, points.iter().copied(), *shape, *colour, reach);
        }
        Layer::Area {
            outlines,
            colour,
            hatched,
            ..
        } => svg.clipped(areas.0.rect, |svg| {
            let fill = if *hatched { FillStyle::Hatched } else { FillStyle::Wash };
            let corners = |outline: &[(f64, f64)]| -> Vec<PixelPoint> {
                outline.iter().map(|(x, y)| areas.0.point(*x, *y)).collect()
            };
            for outline in outlines {
                svg.polygon(&corners(outline), MarkStyle::new(*colour).with_fill(fill));
            }
            // Proven regions have an edge: on grey paper, translucent areas look the same.
            if matches!(colour, Colour::Fits | Colour::Fails) {
                for outline in outlines {
                    let mut edge: Vec<PixelPoint> = corners(outline);
                    edge.extend(edge.first().copied());
                    svg.line(&edge, *colour, 1.2);
                }
            }
        }),
        Layer::Spans { spans } => bands(svg, areas.0, spans),
        Layer::Rule {
            at,
            upright,
            colour,
            dashed,
            right,
            ..
        } => {
            let area = side(*right && !upright);
            rule(svg, area, *at, *upright, MarkStyle::line(*colour, *dashed));
        }
        Layer::Moments { moments, colour } => {
            for moment in moments {
                rule(svg, areas.0, moment.at, true, MarkStyle::new(*colour));
            }
        }
        Layer::Bars {
            bars, colour, hatched, ..
        } => svg.clipped(areas.0.rect.extended(1.0), |svg| {
            let style = MarkStyle::new(*colour).with_fill(slots.fill(*hatched));
            slots.draw(svg, areas.0, number, bars, style);
        }),
        Layer::Cells { cells, .. } => svg.clipped(areas.0.rect, |svg| heat_map(svg, areas.0, cells, heat)),
    }
    svg.end_element();
}

/// A line with gaps. A point between two gaps is a dot.
fn line(svg: &mut SvgWriter, area: &PlotArea, points: &[(f64, Option<f64>)], style: MarkStyle, steps: bool) {
    for stretch in points.split(|(_, y)| y.is_none()) {
        let pixels: Vec<PixelPoint> = stretch
            .iter()
            .filter_map(|(x, y)| y.map(|y| area.point(*x, y)))
            .collect();
        let corners = step_corners(downsample_pixels(&pixels), steps);
        match corners.as_slice() {
            [] => {}
            [only] => svg.dot(*only, style.role, 1.6),
            _ => svg.line(&corners, style, 1.8),
        }
    }
}

/// The corners of a step line, if values hold until the next.
fn step_corners(points: Vec<PixelPoint>, steps: bool) -> Vec<PixelPoint> {
    if !steps {
        return points;
    }
    let mut corners: Vec<PixelPoint> = Vec::with_capacity(2 * points.len());
    for point in points {
        if let Some(before) = corners.last().copied() {
            corners.push((point.0, before.1));
        }
        corners.push(point);
    }
    corners
}

fn ribbon(svg: &mut SvgWriter, area: &PlotArea, points: &[(f64, f64, f64)], colour: Colour, solid: bool, steps: bool) {
    let edge = |value: fn(&(f64, f64, f64)) -> f64| {
        let edge: Vec<PixelPoint> = points.iter().map(|point| area.point(point.0, value(point))).collect();
        step_corners(downsample_pixels(&edge), steps)
    };
    let above = edge(|point| point.2);
    let mut corners = above.clone();
    corners.extend(edge(|point| point.1).into_iter().rev());
    let fill = if solid { FillStyle::Solid } else { FillStyle::Wash };
    if let Some(block) = minimum_block(&corners) {
        svg.rect(block, colour);
        return;
    }
    svg.polygon(&corners, MarkStyle::new(colour).with_fill(fill));
    if solid {
        svg.line(&above, colour, 1.2);
    }
}

/// Markers; those at the same pixel are drawn once.
fn markers(
    svg: &mut SvgWriter,
    area: &PlotArea,
    points: impl Iterator<Item = (f64, f64)>,
    shape: Shape,
    colour: Colour,
    reach: f64,
) {
    let mut drawn = HashSet::new();
    for (x, y) in points.filter(|(x, y)| area.contains(*x, *y)) {
        let at = area.point(x, y);
        if drawn.insert(at) {
            svg.marker(at, shape, colour, reach);
        }
    }
}

/// A block in place of an outline that is too narrow to be seen.
fn minimum_block(corners: &[PixelPoint]) -> Option<Rect> {
    let range = |side: fn(&PixelPoint) -> f64| {
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        corners.iter().map(side).fold((f64::INFINITY, f64::NEG_INFINITY), ends)
    };
    let ((left, right), (top, bottom)) = (range(|at| f64::from(at.0) / 10.0), range(|at| f64::from(at.1) / 10.0));
    let (wide, middle) = (right - left, f64::midpoint(left, right));
    (!corners.is_empty() && wide < LEAST).then(|| Rect {
        left: middle - LEAST / 2.0,
        top,
        width: LEAST,
        height: bottom - top,
    })
}

/// Of adjacent spans every other one is a band. An isolated span is a band, or a stroke if it is too narrow to be seen.
fn bands(svg: &mut SvgWriter, area: &PlotArea, spans: &[Span]) {
    for (span, band) in spans.iter().zip(banded(spans, area.x.from)) {
        if span.to < area.x.from || span.from > area.x.to {
            continue;
        }
        let (left, right) = (
            area.x_pixel(span.from.max(area.x.from)),
            area.x_pixel(span.to.min(area.x.to)),
        );
        let narrow = right - left < LEAST;
        if !narrow && !band {
            continue;
        }
        let width = (right - left).max(LEAST);
        // Not `clamp`: rounding may make a span over the whole axis wider than the axis.
        let least = f64::midpoint(left, right - width).max(area.rect.left);
        let rect = Rect {
            left: least.min(area.rect.right() - width),
            width,
            ..area.rect
        };
        svg.rect(rect, if narrow { Role::Edge } else { Role::Stripe });
    }
}

/// Which spans are bands: of adjacent ones every other, and the first unless the axis starts with it.
fn banded(spans: &[Span], begin: f64) -> Vec<bool> {
    let touches = |one: usize| matches!(spans.get(one..one + 2), Some([one, other]) if one.to >= other.from);
    let mut banded: Vec<bool> = Vec::with_capacity(spans.len());
    for index in 0..spans.len() {
        let last = banded.last().copied().filter(|_| touches(index - 1));
        let first = index == 0 && spans[0].from <= begin && touches(0);
        banded.push(last.map_or(!first, |band| !band));
    }
    banded
}

fn rule(svg: &mut SvgWriter, area: &PlotArea, value: f64, upright: bool, style: MarkStyle) {
    let scale = if upright { area.x } else { area.y };
    if !scale.contains(value) {
        return;
    }
    let ends = if upright {
        [area.point(value, area.y.from), area.point(value, area.y.to)]
    } else {
        [area.point(area.x.from, value), area.point(area.x.to, value)]
    };
    svg.line(&ends, style, 1.4);
}

/// Cells coloured by their value, sorted so that cells of one colour become one element.
fn heat_map(svg: &mut SvgWriter, area: &PlotArea, cells: &[Cell], (low, high): (f64, f64)) {
    let step = |cell: &Cell| {
        let share = if high > low {
            (cell.value - low) / (high - low)
        } else {
            0.5
        };
        (share.clamp(0.0, 1.0) * f64::from(HEATS - 1)).round() as u8
    };
    let mut sorted: Vec<(u8, &Cell)> = cells.iter().map(|cell| (step(cell), cell)).collect();
    sorted.sort_by_key(|(step, _)| *step);
    for (step, cell) in sorted {
        let (left, bottom) = area.point(cell.x.0, cell.y.0);
        let (right, top) = area.point(cell.x.1, cell.y.1);
        svg.polygon(
            &[(left, top), (right, top), (right, bottom), (left, bottom)],
            Role::Heat(step),
        );
    }
}

/// Share of a category's width that its bars fill.
const FULL: f64 = 0.78;
/// Maximum width of a bar in pixels.
const WIDEST: f64 = 72.0;
/// Maximum number of bars in a layer that get value labels.
const FEW: usize = 16;

/// Assigns each bar layer a slot within its category.
#[derive(Clone, Debug, Default)]
pub(super) struct BarSlots {
    by_layer: Vec<Option<usize>>,
    count: usize,
    stacked: bool,
}

impl BarSlots {
    /// Assigns each bar layer a slot. Stacked layers share the slot of the layer below them, and so does a layer that
    /// starts a stack at other positions.
    pub(super) fn from_layers(layers: &[Layer]) -> Self {
        let stands =
            |layer: &Layer| matches!(layer, Layer::Bars { bars, .. } if bars.iter().any(|bar| bar.base != 0.0));
        let mut slots = Self {
            stacked: layers.iter().any(stands),
            ..Self::default()
        };
        // Positions at which a stack starts in the newest slot.
        let mut grounds: Vec<f64> = Vec::new();
        for layer in layers {
            let Layer::Bars { bars, .. } = layer else {
                slots.by_layer.push(None);
                continue;
            };
            let side_by_side = bars.iter().any(|bar| grounds.contains(&bar.at));
            if slots.count == 0 || !stands(layer) && (side_by_side || !slots.stacked) {
                slots.count += 1;
                grounds.clear();
            }
            grounds.extend(bars.iter().filter(|bar| bar.base == 0.0).map(|bar| bar.at));
            slots.by_layer.push(Some(slots.count - 1));
        }
        slots
    }

    /// Components of a stack are filled like those of a stack over time.
    pub(super) fn fill(&self, hatched: bool) -> FillStyle {
        match (hatched, self.stacked) {
            (true, _) => FillStyle::Hatched,
            (false, true) => FillStyle::Solid,
            (false, false) => FillStyle::Plain,
        }
    }

    /// Width of a bar and of the gap between two, in pixels.
    fn bar_width(&self, area: &PlotArea, bars: &[Bar]) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let wide = (room(area, bars) * FULL / count).min(WIDEST);
        (wide, if count > 1.0 && wide > 6.0 { 1.5 } else { 0.0 })
    }

    /// Offset of a slot from its position, in bar widths.
    fn offset(&self, slot: usize) -> f64 {
        slot as f64 - (self.count as f64 - 1.0) / 2.0
    }

    /// Writes the values above bars if they are few, have room, and none is stacked.
    pub(super) fn draw_values(
        &self,
        svg: &mut SvgWriter,
        area: &PlotArea,
        layers: &[Layer],
        measure: TickUnit,
        metrics: LayoutMetrics,
    ) {
        if self.by_layer.iter().flatten().count() != self.count {
            return;
        }
        let text_style = TextStyle::new(Role::Text, metrics.font)
            .align_h(AlignH::Center)
            .align_v(AlignV::Bottom)
            .halo();
        for (layer, slot) in layers.iter().zip(&self.by_layer) {
            let (Layer::Bars { bars, .. }, Some(slot)) = (layer, slot) else {
                continue;
            };
            let (room, gap) = self.bar_width(area, bars);
            let texts: Vec<String> = bars.iter().map(|bar| measure.format(bar.value)).collect();
            if bars.len() > FEW || texts.iter().any(|text| text_width(text, metrics.font) > room + 8.0) {
                continue;
            }
            for (bar, text) in bars.iter().zip(&texts) {
                let highest = bar
                    .interval
                    .map_or(bar.value, |(_, high)| high.max(bar.value))
                    .max(bar.base);
                let x = area.x_pixel(bar.at) + self.offset(*slot) * room - gap / 2.0;
                if area.contains(bar.at, bar.value) {
                    svg.text(text, x, area.y_pixel(highest) - 1.0, text_style);
                }
            }
        }
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, area: &PlotArea, layer: usize, bars: &[Bar], style: MarkStyle) {
        let Some(Some(slot)) = self.by_layer.get(layer) else {
            return;
        };
        let (wide, gap) = self.bar_width(area, bars);
        let middle = |bar: &Bar| area.x_pixel(bar.at) + self.offset(*slot) * wide;
        let block = |bar: &Bar| {
            let (top, bottom) = (
                area.y_pixel(bar.value.max(bar.base)),
                area.y_pixel(bar.value.min(bar.base)),
            );
            Rect {
                left: middle(bar) - wide / 2.0,
                top,
                width: wide - gap,
                height: bottom - top,
            }
        };
        for bar in bars {
            svg.rect(block(bar), style);
        }
        if style.fill != FillStyle::Plain {
            for bar in bars {
                svg.rect_outline(block(bar), style.role, 1.0);
            }
        }
        for bar in bars {
            if let Some((low, high)) = bar.interval {
                let (x, low, high) = (middle(bar) - gap / 2.0, area.y_pixel(low), area.y_pixel(high));
                let cap = (wide / 5.0).min(5.0);
                let strokes: [[PixelPoint; 2]; 3] = [
                    [point(x, low), point(x, high)],
                    [point(x - cap, low), point(x + cap, low)],
                    [point(x - cap, high), point(x + cap, high)],
                ];
                for stroke in strokes {
                    svg.line(&stroke, Role::Text, 1.3);
                }
            }
        }
    }
}

/// Pixels from one position to the next.
fn room(area: &PlotArea, bars: &[Bar]) -> f64 {
    let mut places: Vec<f64> = bars.iter().map(|bar| area.x_pixel(bar.at)).collect();
    places.sort_by(f64::total_cmp);
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
    let least = gaps.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least
    } else {
        area.rect.width / 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(bars: &[(f64, f64)]) -> Layer {
        let bar = |&(at, base): &(f64, f64)| Bar {
            at,
            base,
            value: base + 1.0,
            interval: None,
        };
        Layer::Bars {
            name: String::new(),
            bars: bars.iter().map(bar).collect(),
            colour: Colour::Quiet,
            hatched: false,
        }
    }

    #[test]
    fn stacks_at_different_places_are_one_column_each() {
        // Measured at 0, expected at 1; a component that only one of them has is stacked there.
        let two = [
            bars(&[(0.0, 0.0)]),
            bars(&[(1.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(1.0, 1.0)]),
        ];
        assert_eq!(BarSlots::from_layers(&two).by_layer, [Some(0); 4]);
        // Two stacks at one position stand side by side, and so do bars that are not stacked.
        let side_by_side = [
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
        ];
        assert_eq!(
            BarSlots::from_layers(&side_by_side).by_layer,
            [Some(0), Some(0), Some(1), Some(1)]
        );
        assert_eq!(
            BarSlots::from_layers(&[bars(&[(0.0, 0.0)]), bars(&[(1.0, 0.0)])]).by_layer,
            [Some(0), Some(1)]
        );
    }
}
