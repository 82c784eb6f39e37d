//! Writes shapes and texts, in pixels and roles, to the SVG backend.

use std::cell::RefCell;
use std::rc::Rc;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, ShapeStyle, TextStyle as FontSettings};

use super::canvas::{Canvas, SvgBody};
use super::path::PixelPoint;
use super::scale::AxisScale;
use super::style::{FillStyle, MarkStyle, Role};
use super::text;
use crate::report::plot::{Colour, Shape};

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Font size, role and alignment of a text.
#[derive(Clone, Copy)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    pub(super) role: Role,
    pub(super) align_h: HPos,
    pub(super) align_v: VPos,
    pub(super) bold: bool,
    pub(super) rotated: bool,
    pub(super) halo: bool,
}

impl TextStyle {
    /// Anchored at its upper left corner.
    pub(super) fn new(role: Role, size: f64) -> Self {
        Self {
            size,
            role,
            align_h: HPos::Left,
            align_v: VPos::Top,
            bold: false,
            rotated: false,
            halo: false,
        }
    }

    pub(super) fn align_h(self, align_h: HPos) -> Self {
        Self { align_h, ..self }
    }

    pub(super) fn align_v(self, align_v: VPos) -> Self {
        Self { align_v, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn rotated(self) -> Self {
        Self { rotated: true, ..self }
    }

    pub(super) fn halo(self) -> Self {
        Self { halo: true, ..self }
    }
}

/// Converts pixels to tenths.
pub(super) fn to_tenths(pixels: f64) -> i32 {
    (pixels * 10.0).round() as i32
}

/// Converts a position in pixels to tenths.
pub(super) fn point(x: f64, y: f64) -> PixelPoint {
    (to_tenths(x), to_tenths(y))
}

/// Writes one SVG.
pub(super) struct SvgWriter {
    target: DrawingArea<Canvas, Shift>,
    body: Rc<RefCell<SvgBody>>,
}

/// The area between a panel's axes: maps values to pixels.
pub(super) struct PlotArea {
    target: DrawingArea<Canvas, Cartesian2d<AxisScale, AxisScale>>,
    pub(super) x: AxisScale,
    pub(super) y: AxisScale,
    pub(super) rect: Rect,
}

impl PlotArea {
    pub(super) fn point(&self, x: f64, y: f64) -> PixelPoint {
        self.target.map_coordinate(&(x, y))
    }

    pub(super) fn contains(&self, x: f64, y: f64) -> bool {
        self.x.contains(x) && self.y.contains(y)
    }

    pub(super) fn x_pixel(&self, x: f64) -> f64 {
        f64::from(self.point(x, self.y.from).0) / 10.0
    }

    pub(super) fn y_pixel(&self, y: f64) -> f64 {
        f64::from(self.point(self.x.from, y).1) / 10.0
    }
}

impl SvgWriter {
    /// All ids begin with `prefix`.
    pub(super) fn new(prefix: &str, width: f64, height: f64) -> Self {
        let body = Rc::new(RefCell::new(SvgBody::new(prefix.to_owned())));
        let size = (to_tenths(width).unsigned_abs(), to_tenths(height).unsigned_abs());
        let canvas = Canvas {
            body: Rc::clone(&body),
            size,
        };
        Self {
            target: canvas.into_drawing_area(),
            body,
        }
    }

    pub(super) fn plot_area(&self, x: AxisScale, y: AxisScale, rect: Rect) -> PlotArea {
        let across = to_tenths(rect.left)..to_tenths(rect.right());
        let up = to_tenths(rect.bottom())..to_tenths(rect.top);
        let target = self.target.apply_coord_spec(Cartesian2d::new(x, y, (across, up)));
        PlotArea { target, x, y, rect }
    }

    /// A polyline; `wide` is its width in pixels.
    pub(super) fn line(&self, points: Vec<PixelPoint>, style: MarkStyle, wide: f64) {
        if points.len() > 1 {
            self.draw(&PathElement::new(points, packed(style, wide)));
        }
    }

    /// A filled polygon.
    pub(super) fn polygon(&self, corners: Vec<PixelPoint>, style: MarkStyle) {
        if corners.len() > 2 {
            self.draw(&Polygon::new(corners, packed(style, 0.0)));
        }
    }

    /// A filled rectangle.
    pub(super) fn rect(&self, rect: Rect, style: MarkStyle) {
        let (left, top) = point(rect.left, rect.top);
        let (right, bottom) = point(rect.right(), rect.bottom());
        self.polygon(vec![(left, top), (right, top), (right, bottom), (left, bottom)], style);
    }

    /// The outline of a rectangle.
    pub(super) fn rect_outline(&self, rect: Rect, style: MarkStyle, wide: f64) {
        let corner = point(rect.left, rect.top);
        let others = [
            point(rect.right(), rect.top),
            point(rect.right(), rect.bottom()),
            point(rect.left, rect.bottom()),
        ];
        self.line(
            [corner].into_iter().chain(others).chain([corner]).collect(),
            style,
            wide,
        );
    }

    /// A filled circle.
    pub(super) fn dot(&self, at: PixelPoint, role: Role, reach: f64) {
        self.draw(&Circle::new(
            at,
            to_tenths(reach),
            packed(MarkStyle::new(role), 0.0).filled(),
        ));
    }

    /// A marker whose half width is `reach` pixels.
    pub(super) fn marker(&self, (x, y): PixelPoint, shape: Shape, colour: Colour, reach: f64) {
        let style = MarkStyle::new(colour);
        let r = to_tenths(reach);
        match shape {
            Shape::Circle => self.draw(&Circle::new((x, y), r, packed(style, 0.0).filled())),
            Shape::Ring => self.draw(&Circle::new((x, y), r, packed(style, 1.6))),
            Shape::Cross => {
                let r = r * 9 / 10;
                self.line(vec![(x - r, y - r), (x + r, y + r)], style, 1.6);
                self.line(vec![(x - r, y + r), (x + r, y - r)], style, 1.6);
            }
            Shape::Diamond => {
                let r = r * 13 / 10;
                self.polygon(vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)], style);
            }
            Shape::Star => self.polygon(star((x, y), 2.4 * reach), style),
            Shape::Before | Shape::Beyond => {
                let tip = if shape == Shape::Beyond {
                    r * 14 / 10
                } else {
                    -r * 14 / 10
                };
                let back = -tip * 6 / 10;
                self.polygon(
                    vec![(x + tip, y), (x + back, y - r * 12 / 10), (x + back, y + r * 12 / 10)],
                    style,
                );
            }
        }
    }

    pub(super) fn text(&self, text: &str, x: f64, y: f64, text_style: TextStyle) {
        if text.is_empty() {
            return;
        }
        let fill = if text_style.halo {
            FillStyle::Halo
        } else {
            FillStyle::Plain
        };
        let font = text::font(text_style.size * 10.0, text_style.bold);
        let font = if text_style.rotated {
            font.transform(FontTransform::Rotate270)
        } else {
            font
        };
        let key = MarkStyle::new(text_style.role).with_fill(fill).key();
        let style = FontSettings::from(font)
            .color(&key)
            .pos(Pos::new(text_style.align_h, text_style.align_v));
        self.draw(&Text::new(text.to_owned(), point(x, y), style));
    }

    /// Clips what `marks` draws to a rectangle.
    pub(super) fn clipped(&self, rect: Rect, marks: impl FnOnce(&Self)) {
        self.body.borrow_mut().clip((
            to_tenths(rect.left),
            to_tenths(rect.top),
            to_tenths(rect.width),
            to_tenths(rect.height),
        ));
        marks(self);
        self.body.borrow_mut().unclip();
    }

    /// Ends the current element, so that the next mark starts a new one whatever its style.
    pub(super) fn end_element(&self) {
        self.body.borrow_mut().end_element();
    }

    pub(super) fn finish(self) -> String {
        self.body.borrow_mut().finish()
    }

    fn draw<'a, E>(&self, element: &'a E)
    where
        &'a E: plotters::element::PointCollection<'a, PixelPoint>,
        E: plotters::element::Drawable<Canvas>,
    {
        let drawn = self.target.draw(element);
        debug_assert!(drawn.is_ok(), "writing a text cannot fail");
    }
}

fn packed(style: MarkStyle, wide: f64) -> ShapeStyle {
    style.key().stroke_width(to_tenths(wide).unsigned_abs())
}

/// A five-pointed star.
fn star((x, y): PixelPoint, reach: f64) -> Vec<PixelPoint> {
    let corner = |index: u8| {
        let turn = f64::from(index) * std::f64::consts::PI / 5.0;
        let length = if index.is_multiple_of(2) { reach } else { reach * 0.45 };
        (x + to_tenths(length * turn.sin()), y - to_tenths(length * turn.cos()))
    };
    (0..10).map(corner).collect()
}
