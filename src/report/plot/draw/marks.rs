//! Draws each kind of layer between the axes.

use std::collections::HashSet;

use super::bars::BarSlots;
use super::downsample::downsample;
use super::path::PixelPoint;
use super::style::{FillStyle, HEATS, MarkStyle, Role};
use super::writer::{PlotArea, Rect, SvgWriter};
use crate::report::plot::{Cell, Colour, Layer, Shape, Span};

/// Minimum width in pixels: a single moment must be visible too.
const LEAST: f64 = 2.0;
/// Radius of dots if there are few, and if there are many.
const REACH: (f64, f64) = (4.0, 2.2);

/// Draws a layer. Labels of rules and moments are drawn by the panel.
pub(super) fn draw(
    svg: &SvgWriter,
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
            svg.clipped(extend(area.rect, 1.0), |svg| {
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
            let corners = |outline: &[(f64, f64)]| outline.iter().map(|(x, y)| areas.0.point(*x, *y)).collect();
            for outline in outlines {
                svg.polygon(corners(outline), MarkStyle::new(*colour).with_fill(fill));
            }
            // Proven regions have an edge: on grey paper, translucent areas look the same.
            if matches!(colour, Colour::Fits | Colour::Fails) {
                for outline in outlines {
                    let mut edge: Vec<PixelPoint> = corners(outline);
                    edge.extend(edge.first().copied());
                    svg.line(edge, MarkStyle::new(*colour), 1.2);
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
        } => svg.clipped(extend(areas.0.rect, 1.0), |svg| {
            let style = MarkStyle::new(*colour).with_fill(slots.fill(*hatched));
            slots.draw(svg, areas.0, number, bars, style);
        }),
        Layer::Cells { cells, .. } => svg.clipped(areas.0.rect, |svg| heat_map(svg, areas.0, cells, heat)),
    }
    svg.end_element();
}

/// Extends a rectangle on each side.
fn extend(rect: Rect, room: f64) -> Rect {
    Rect {
        left: rect.left - room,
        top: rect.top - room,
        width: rect.width + 2.0 * room,
        height: rect.height + 2.0 * room,
    }
}

/// A line with gaps. A point between two gaps is a dot.
fn line(svg: &SvgWriter, area: &PlotArea, points: &[(f64, Option<f64>)], style: MarkStyle, steps: bool) {
    for stretch in points.split(|(_, y)| y.is_none()) {
        let pixels: Vec<PixelPoint> = stretch
            .iter()
            .filter_map(|(x, y)| y.map(|y| area.point(*x, y)))
            .collect();
        let corners = step_corners(downsample(&pixels), steps);
        match corners.as_slice() {
            [] => {}
            [only] => svg.dot(*only, style.role, 1.6),
            _ => svg.line(corners, style, 1.8),
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

fn ribbon(svg: &SvgWriter, area: &PlotArea, points: &[(f64, f64, f64)], colour: Colour, solid: bool, steps: bool) {
    let edge = |value: fn(&(f64, f64, f64)) -> f64| {
        let edge: Vec<PixelPoint> = points.iter().map(|point| area.point(point.0, value(point))).collect();
        step_corners(downsample(&edge), steps)
    };
    let above = edge(|point| point.2);
    let mut corners = above.clone();
    corners.extend(edge(|point| point.1).into_iter().rev());
    let fill = if solid { FillStyle::Solid } else { FillStyle::Wash };
    if let Some(block) = minimum_block(&corners) {
        svg.rect(block, MarkStyle::new(colour));
        return;
    }
    svg.polygon(corners, MarkStyle::new(colour).with_fill(fill));
    if solid {
        svg.line(above, MarkStyle::new(colour), 1.2);
    }
}

/// Markers; those at the same pixel are drawn once.
fn markers(
    svg: &SvgWriter,
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
fn bands(svg: &SvgWriter, area: &PlotArea, spans: &[Span]) {
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
        svg.rect(rect, MarkStyle::new(if narrow { Role::Edge } else { Role::Stripe }));
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

fn rule(svg: &SvgWriter, area: &PlotArea, value: f64, upright: bool, style: MarkStyle) {
    let scale = if upright { area.x } else { area.y };
    if !scale.contains(value) {
        return;
    }
    let ends = if upright {
        [area.point(value, area.y.from), area.point(value, area.y.to)]
    } else {
        [area.point(area.x.from, value), area.point(area.x.to, value)]
    };
    svg.line(ends.to_vec(), style, 1.4);
}

/// Cells coloured by their value, sorted so that cells of one colour become one element.
fn heat_map(svg: &SvgWriter, area: &PlotArea, cells: &[Cell], (low, high): (f64, f64)) {
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
            vec![(left, top), (right, top), (right, bottom), (left, bottom)],
            MarkStyle::new(Role::Heat(step)),
        );
    }
}
