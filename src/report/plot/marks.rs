//! Draws each kind of layer between the axes.

use std::collections::HashSet;

use super::downsample::reduced;
use super::style::{EDGE, Fill, STRIPE, Stroke, TEXT};
use super::svg::{AlignH, AlignV, PixelPoint, PlotArea, Rect, SvgWriter, TextStyle, point, text_width};
use crate::report::plot::{Bar, Cell, Colour, Layer, Shape, Span};

/// Minimum width in pixels: a single moment must be visible too.
const LEAST: f64 = 2.0;
/// Radius of dots if there are few, and if there are many.
const REACH: (f64, f64) = (4.0, 2.2);

/// Draws a layer between the axes that it is read on. Labels are drawn by the panel.
pub(super) fn draw_layer(
    svg: &mut SvgWriter,
    layer: &Layer,
    area: &PlotArea,
    slot: Option<Slot>,
    (low, high): (f64, f64),
) {
    svg.end_element();
    match layer {
        Layer::Line {
            points,
            colour,
            dashed,
            steps,
            dots,
            ..
        } => {
            svg.clipped(area.rect, 1.0, |svg| {
                line(svg, area, points, Stroke::new(*colour, *dashed, 1.8), *steps);
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
            ..
        } => svg.clipped(area.rect, 0.0, |svg| ribbon(svg, area, points, *colour, *solid, *steps)),
        Layer::Dots {
            points, colour, shape, ..
        } => {
            let reach = if points.len() > 400 { REACH.1 } else { REACH.0 };
            markers(svg, area, points.iter().copied(), *shape, *colour, reach);
        }
        Layer::Area {
            outlines,
            colour,
            hatched,
            ..
        } => svg.clipped(area.rect, 0.0, |svg| {
            let corners = |outline: &Vec<(f64, f64)>| -> Vec<PixelPoint> {
                let finite = outline.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
                finite.map(|(x, y)| area.point(*x, *y)).collect()
            };
            let fill = if *hatched { Fill::Hatched } else { Fill::Wash };
            for outline in outlines {
                svg.polygon(&corners(outline), colour.role(), fill);
            }
            // Proven regions have an edge: on grey paper, translucent areas look the same.
            if matches!(colour, Colour::Fits | Colour::Fails) {
                for outline in outlines {
                    let mut edge = corners(outline);
                    edge.extend(edge.first().copied());
                    svg.line(&edge, Stroke::solid(colour.role(), 1.2));
                }
            }
        }),
        Layer::Spans { spans } => stripes(svg, area, spans),
        Layer::Rule {
            at,
            upright,
            colour,
            dashed,
            ..
        } => rule(svg, area, *at, *upright, Stroke::new(*colour, *dashed, 1.4)),
        Layer::Moments { moments, colour } => {
            for moment in moments {
                rule(svg, area, moment.at, true, Stroke::new(*colour, false, 1.4));
            }
        }
        Layer::Bars {
            bars, colour, hatched, ..
        } => svg.clipped(area.rect, 1.0, |svg| {
            if let Some(slot) = slot {
                slot.draw(svg, area, bars, colour.role(), *hatched);
            }
        }),
        Layer::Cells { cells, .. } => svg.clipped(area.rect, 0.0, |svg| {
            for cell in cells.iter().filter(|cell| cell.value.is_finite()) {
                let share = if high > low {
                    (cell.value - low) / (high - low)
                } else {
                    0.5
                };
                svg.heat(cell_rect(area, cell), share);
            }
        }),
    }
    svg.end_element();
}

fn cell_rect(area: &PlotArea, cell: &Cell) -> Rect {
    let (left, top) = (area.x_pixel(cell.x.0), area.y_pixel(cell.y.1));
    Rect {
        left,
        top,
        width: area.x_pixel(cell.x.1) - left,
        height: area.y_pixel(cell.y.0) - top,
    }
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
            [] => {}
            [only] => svg.dot(*only, stroke.role, 1.6),
            _ => svg.line(&corners, stroke),
        }
    }
}

fn ribbon(svg: &mut SvgWriter, area: &PlotArea, points: &[(f64, f64, f64)], colour: Colour, solid: bool, steps: bool) {
    let edge = |value: fn(&(f64, f64, f64)) -> f64| -> Vec<PixelPoint> {
        // A band down to 0 reaches the lower end of a logarithmic axis.
        let least = if area.y.log {
            area.y.from / 10.0
        } else {
            f64::NEG_INFINITY
        };
        let points: Vec<(f64, Option<f64>)> = points
            .iter()
            .map(|point| (point.0, Some(value(point).max(least))))
            .collect();
        stretches(area, &points, steps).concat()
    };
    let above = edge(|point| point.2);
    let mut corners = above.clone();
    corners.extend(edge(|point| point.1).into_iter().rev());
    svg.polygon(&corners, colour.role(), if solid { Fill::Solid } else { Fill::Wash });
    if solid {
        svg.line(&above, Stroke::solid(colour.role(), 1.2));
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
            svg.marker(at, shape, colour.role(), reach);
        }
    }
}

/// Of adjacent phases every other one is a stripe. A phase that is too narrow to be seen is a stroke.
fn stripes(svg: &mut SvgWriter, area: &PlotArea, spans: &[Span]) {
    let mut before: Option<(&Span, bool)> = None;
    for (index, span) in spans.iter().enumerate() {
        let touches = |one: &Span, other: &Span| one.to >= other.from;
        let striped = match before.filter(|(before, _)| touches(before, span)) {
            Some((_, striped)) => !striped,
            // The first of several at the start of the axis stays blank.
            None => !(index == 0 && span.from <= area.x.from && spans.get(1).is_some_and(|next| touches(span, next))),
        };
        before = Some((span, striped));
        let (left, right) = (
            area.x_pixel(span.from).max(area.rect.left),
            area.x_pixel(span.to).min(area.rect.right()),
        );
        let narrow = right - left < LEAST;
        if left > area.rect.right() || right < area.rect.left || !(narrow || striped) {
            continue;
        }
        let width = (right - left).max(LEAST);
        let rect = Rect {
            left: left.min(area.rect.right() - width),
            width,
            ..area.rect
        };
        svg.rect(rect, if narrow { EDGE } else { STRIPE }, Fill::Plain);
    }
}

fn rule(svg: &mut SvgWriter, area: &PlotArea, value: f64, upright: bool, stroke: Stroke) {
    let ends = if upright {
        [area.point(value, area.y.from), area.point(value, area.y.to)]
    } else {
        [area.point(area.x.from, value), area.point(area.x.to, value)]
    };
    if (if upright { area.x } else { area.y }).contains(value) {
        svg.line(&ends, stroke);
    }
}

/// Share of a category's width that its bars fill.
const FULL: f64 = 0.78;
/// Maximum width of a bar in pixels.
const WIDEST: f64 = 72.0;
/// Maximum number of bars in a layer that get value labels.
const FEW: usize = 16;

/// The place of a layer of bars within each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    index: usize,
    count: usize,
    stacked: bool,
}

/// The slot of each layer, if it has bars. Stacked layers share the slot of the layer below them, and so does a layer
/// that starts a stack at other positions.
pub(super) fn bar_slots(layers: &[Layer]) -> Vec<Option<Slot>> {
    let stands = |layer: &Layer| matches!(layer, Layer::Bars { bars, .. } if bars.iter().any(|bar| bar.base != 0.0));
    let stacked = layers.iter().any(stands);
    let mut count = 0;
    // Positions at which a stack starts in the newest slot.
    let mut grounds: Vec<f64> = Vec::new();
    let mut indices = Vec::new();
    for layer in layers {
        let Layer::Bars { bars, .. } = layer else {
            indices.push(None);
            continue;
        };
        let side_by_side = bars.iter().any(|bar| grounds.contains(&bar.at));
        if count == 0 || !stands(layer) && (side_by_side || !stacked) {
            count += 1;
            grounds.clear();
        }
        grounds.extend(bars.iter().filter(|bar| bar.base == 0.0).map(|bar| bar.at));
        indices.push(Some(count - 1));
    }
    let slot = |index: usize| Slot { index, count, stacked };
    indices.into_iter().map(|index| index.map(slot)).collect()
}

impl Slot {
    /// Components of a stack are filled like those of a stack over time.
    pub(super) fn fill(self, hatched: bool) -> Fill {
        match (hatched, self.stacked) {
            (true, _) => Fill::Hatched,
            (false, true) => Fill::Solid,
            (false, false) => Fill::Plain,
        }
    }

    /// Width of a bar with the gap to the next, in pixels.
    fn width(self, area: &PlotArea, bars: &[Bar]) -> f64 {
        let mut places: Vec<f64> = bars.iter().map(|bar| area.x_pixel(bar.at)).collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
        let room = gaps.reduce(f64::min).unwrap_or(area.rect.width / 3.0);
        (room * FULL / self.count as f64).min(WIDEST)
    }

    /// The middle of a bar in pixels.
    fn middle(self, area: &PlotArea, bar: &Bar, width: f64) -> f64 {
        area.x_pixel(bar.at) + (self.index as f64 - (self.count as f64 - 1.0) / 2.0) * width
    }

    fn draw(self, svg: &mut SvgWriter, area: &PlotArea, bars: &[Bar], role: &'static str, hatched: bool) {
        let width = self.width(area, bars);
        let gap = if self.count > 1 && width > 6.0 { 1.5 } else { 0.0 };
        let fill = self.fill(hatched);
        for bar in bars {
            let (one, other) = (area.y_pixel(bar.value), area.y_pixel(bar.base));
            let rect = Rect {
                left: self.middle(area, bar, width) - width / 2.0,
                top: one.min(other),
                width: width - gap,
                height: (one - other).abs(),
            };
            svg.rect(rect, role, fill);
            if fill != Fill::Plain {
                svg.outline(rect, role);
            }
        }
        for bar in bars {
            let Some((low, high)) = bar.interval else { continue };
            let (x, low, high) = (
                self.middle(area, bar, width) - gap / 2.0,
                area.y_pixel(low),
                area.y_pixel(high),
            );
            let cap = (width / 5.0).min(5.0);
            for stroke in [
                [point(x, low), point(x, high)],
                [point(x - cap, low), point(x + cap, low)],
                [point(x - cap, high), point(x + cap, high)],
            ] {
                svg.line(&stroke, Stroke::solid(TEXT, 1.3));
            }
        }
    }

    /// Writes the values above bars if they are few, have room, and none is stacked.
    pub(super) fn draw_values(
        self,
        svg: &mut SvgWriter,
        area: &PlotArea,
        bars: &[Bar],
        format: impl Fn(f64) -> String,
        font: f64,
    ) {
        let width = self.width(area, bars);
        let texts: Vec<String> = bars.iter().map(|bar| format(bar.value)).collect();
        let wide = texts.iter().any(|text| text_width(text, font) > width + 8.0);
        if self.stacked || bars.len() > FEW || wide {
            return;
        }
        let style = TextStyle {
            role: TEXT,
            h: AlignH::Center,
            v: AlignV::Bottom,
            halo: true,
            ..TextStyle::new(font)
        };
        for (bar, text) in bars.iter().zip(&texts) {
            let highest = bar
                .interval
                .map_or(bar.value, |(_, high)| high.max(bar.value))
                .max(bar.base);
            if area.contains(bar.at, bar.value) {
                svg.text(text, self.middle(area, bar, width), area.y_pixel(highest) - 1.0, style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(layers: &[&[(f64, f64)]]) -> Vec<usize> {
        let bar = |&(at, base): &(f64, f64)| Bar {
            at,
            base,
            value: base + 1.0,
            interval: None,
        };
        let layers: Vec<Layer> = layers
            .iter()
            .map(|bars| Layer::bars("", bars.iter().map(bar), Colour::Quiet))
            .collect();
        bar_slots(&layers).into_iter().map(|slot| slot.unwrap().index).collect()
    }

    #[test]
    fn stacks_at_different_places_are_one_column_each() {
        // Measured at 0, expected at 1; a component that only one of them has is stacked there.
        assert_eq!(
            slots(&[&[(0.0, 0.0)], &[(1.0, 0.0)], &[(0.0, 1.0)], &[(1.0, 1.0)]]),
            [0; 4]
        );
        // Two stacks at one position stand side by side, and so do bars that are not stacked.
        assert_eq!(
            slots(&[&[(0.0, 0.0)], &[(0.0, 1.0)], &[(0.0, 0.0)], &[(0.0, 1.0)]]),
            [0, 0, 1, 1]
        );
        assert_eq!(slots(&[&[(0.0, 0.0)], &[(1.0, 0.0)]]), [0, 1]);
    }
}
