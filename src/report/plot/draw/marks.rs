//! What lies between the axes: each kind of layer as marks.

use std::collections::HashSet;

use super::bars::Slots;
use super::ink::{HEATS, Ink, Role, Wear};
use super::path::At;
use super::pen::{Pen, Plane, Rect};
use super::thin::thin;
use crate::report::plot::{Cell, Colour, Layer, Shape, Span};

/// Pixels of the narrowest stretch: what is a single moment is seen too.
const LEAST: f64 = 2.0;
/// Half the width of a dot where there are few, and where there are many.
const REACH: (f64, f64) = (4.0, 2.2);

/// Draws a layer; labels of rules and moments are drawn by the panel.
pub(super) fn draw(pen: &Pen, layer: &Layer, planes: (&Plane, &Plane), slots: &Slots, number: usize, heat: (f64, f64)) {
    let side = |right: bool| if right { planes.1 } else { planes.0 };
    pen.part();
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
            let plane = side(*right);
            pen.within(around(plane.rect, 1.0), |pen| {
                line(pen, plane, points, Ink::line(*colour, *dashed), *steps)
            });
            if *dots {
                let seen = points.iter().filter_map(|(x, y)| y.map(|y| (*x, y)));
                scattered(pen, plane, seen, Shape::Circle, *colour, 3.0);
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
            let plane = side(*right);
            pen.within(plane.rect, |pen| ribbon(pen, plane, points, *colour, *solid, *steps));
        }
        Layer::Dots {
            points, colour, shape, ..
        } => {
            let reach = if points.len() > 400 { REACH.1 } else { REACH.0 };
            scattered(pen, planes.0, points.iter().copied(), *shape, *colour, reach);
        }
        Layer::Area {
            outlines,
            colour,
            hatched,
            ..
        } => pen.within(planes.0.rect, |pen| {
            let wear = if *hatched { Wear::Hatched } else { Wear::Wash };
            let corners = |outline: &[(f64, f64)]| outline.iter().map(|(x, y)| planes.0.at(*x, *y)).collect();
            for outline in outlines {
                pen.area(corners(outline), Ink::of(*colour).worn(wear));
            }
            // What is proven has an edge: on grey paper, washes look alike.
            if matches!(colour, Colour::Fits | Colour::Fails) {
                for outline in outlines {
                    let mut edge: Vec<At> = corners(outline);
                    edge.extend(edge.first().copied());
                    pen.line(edge, Ink::of(*colour), 1.2);
                }
            }
        }),
        Layer::Spans { spans } => bands(pen, planes.0, spans),
        Layer::Rule {
            at,
            upright,
            colour,
            dashed,
            right,
            ..
        } => {
            let plane = side(*right && !upright);
            rule(pen, plane, *at, *upright, Ink::line(*colour, *dashed));
        }
        Layer::Moments { moments, colour } => {
            for moment in moments {
                rule(pen, planes.0, moment.at, true, Ink::of(*colour));
            }
        }
        Layer::Bars {
            bars, colour, hatched, ..
        } => pen.within(around(planes.0.rect, 1.0), |pen| {
            let ink = Ink::of(*colour).worn(slots.wear(*hatched));
            slots.draw(pen, planes.0, number, bars, ink);
        }),
        Layer::Cells { cells, .. } => pen.within(planes.0.rect, |pen| heat_map(pen, planes.0, cells, heat)),
    }
    pen.part();
}

/// A rectangle with room around it.
fn around(rect: Rect, room: f64) -> Rect {
    Rect {
        left: rect.left - room,
        top: rect.top - room,
        width: rect.width + 2.0 * room,
        height: rect.height + 2.0 * room,
    }
}

/// A line through what is there; a point between two gaps is a dot.
fn line(pen: &Pen, plane: &Plane, points: &[(f64, Option<f64>)], ink: Ink, steps: bool) {
    for stretch in points.split(|(_, y)| y.is_none()) {
        let seen: Vec<At> = stretch.iter().filter_map(|(x, y)| y.map(|y| plane.at(*x, y))).collect();
        let corners = stairs(thin(&seen), steps);
        match corners.as_slice() {
            [] => {}
            [only] => pen.dot(*only, ink.role, 1.6),
            _ => pen.line(corners, ink, 1.8),
        }
    }
}

/// Points as the corners of stairs, where values hold until the next.
fn stairs(points: Vec<At>, steps: bool) -> Vec<At> {
    if !steps {
        return points;
    }
    let mut corners: Vec<At> = Vec::with_capacity(2 * points.len());
    for point in points {
        if let Some(before) = corners.last().copied() {
            corners.push((point.0, before.1));
        }
        corners.push(point);
    }
    corners
}

fn ribbon(pen: &Pen, plane: &Plane, points: &[(f64, f64, f64)], colour: Colour, solid: bool, steps: bool) {
    let edge = |value: fn(&(f64, f64, f64)) -> f64| {
        let edge: Vec<At> = points.iter().map(|point| plane.at(point.0, value(point))).collect();
        stairs(thin(&edge), steps)
    };
    let above = edge(|point| point.2);
    let mut corners = above.clone();
    corners.extend(edge(|point| point.1).into_iter().rev());
    let wear = if solid { Wear::Solid } else { Wear::Wash };
    if let Some(block) = sliver(&corners) {
        pen.block(block, Ink::of(colour));
        return;
    }
    pen.area(corners, Ink::of(colour).worn(wear));
    if solid {
        pen.line(above, Ink::of(colour), 1.2);
    }
}

/// Points as marks; those that cover each other wholly are drawn once.
fn scattered(
    pen: &Pen,
    plane: &Plane,
    points: impl Iterator<Item = (f64, f64)>,
    shape: Shape,
    colour: Colour,
    reach: f64,
) {
    let mut drawn = HashSet::new();
    for (x, y) in points.filter(|(x, y)| plane.holds(*x, *y)) {
        let at = plane.at(x, y);
        if drawn.insert(at) {
            pen.mark(at, shape, colour, reach);
        }
    }
}

/// A block in the place of an outline that is too narrow to be seen.
fn sliver(corners: &[At]) -> Option<Rect> {
    let range = |side: fn(&At) -> f64| {
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

/// Stretches that touch are told apart by every other one being a quiet band; one that stands alone is a band, and one that is too narrow to be
/// seen as such a stroke.
fn bands(pen: &Pen, plane: &Plane, spans: &[Span]) {
    for (span, band) in spans.iter().zip(banded(spans, plane.x.from)) {
        if span.to < plane.x.from || span.from > plane.x.to {
            continue;
        }
        let (left, right) = (plane.px(span.from.max(plane.x.from)), plane.px(span.to.min(plane.x.to)));
        let narrow = right - left < LEAST;
        if !narrow && !band {
            continue;
        }
        let width = (right - left).max(LEAST);
        // Not `clamp`: a stretch over the whole axis may be wider than it by a rounding.
        let least = f64::midpoint(left, right - width).max(plane.rect.left);
        let rect = Rect {
            left: least.min(plane.rect.right() - width),
            width,
            ..plane.rect
        };
        pen.block(rect, Ink::of(if narrow { Role::Edge } else { Role::Stripe }));
    }
}

/// Which stretches are bands: of those that touch every other one, and the first of them unless the axis begins with it.
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

fn rule(pen: &Pen, plane: &Plane, value: f64, upright: bool, ink: Ink) {
    let along = if upright { plane.x } else { plane.y };
    if !along.holds(value) {
        return;
    }
    let ends = if upright {
        [plane.at(value, plane.y.from), plane.at(value, plane.y.to)]
    } else {
        [plane.at(plane.x.from, value), plane.at(plane.x.to, value)]
    };
    pen.line(ends.to_vec(), ink, 1.4);
}

/// Rectangles by their value; those of one step follow each other and so are one element.
fn heat_map(pen: &Pen, plane: &Plane, cells: &[Cell], (low, high): (f64, f64)) {
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
        let (left, bottom) = plane.at(cell.x.0, cell.y.0);
        let (right, top) = plane.at(cell.x.1, cell.y.1);
        pen.area(
            vec![(left, top), (right, top), (right, bottom), (left, bottom)],
            Ink::of(Role::Heat(step)),
        );
    }
}
