//! What a picture is drawn with: plotters' drawing areas and elements over our [`Canvas`], in pixels and roles.

use std::cell::RefCell;
use std::rc::Rc;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, ShapeStyle, TextStyle};

use super::along::Along;
use super::canvas::{Body, Canvas};
use super::ink::{Ink, Role, Wear};
use super::path::At;
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

/// How a text is set.
#[derive(Clone, Copy)]
pub(super) struct Type {
    pub(super) size: f64,
    pub(super) role: Role,
    pub(super) across: HPos,
    pub(super) down: VPos,
    pub(super) bold: bool,
    pub(super) turned: bool,
    pub(super) halo: bool,
}

impl Type {
    /// From its upper left corner.
    pub(super) fn of(role: Role, size: f64) -> Self {
        Self {
            size,
            role,
            across: HPos::Left,
            down: VPos::Top,
            bold: false,
            turned: false,
            halo: false,
        }
    }

    pub(super) fn across(self, across: HPos) -> Self {
        Self { across, ..self }
    }

    pub(super) fn down(self, down: VPos) -> Self {
        Self { down, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn turned(self) -> Self {
        Self { turned: true, ..self }
    }

    pub(super) fn halo(self) -> Self {
        Self { halo: true, ..self }
    }
}

/// Pixels as tenths.
pub(super) fn tenth(pixels: f64) -> i32 {
    (pixels * 10.0).round() as i32
}

/// A place in pixels as tenths.
pub(super) fn at(x: f64, y: f64) -> At {
    (tenth(x), tenth(y))
}

/// The pen of one picture.
pub(super) struct Pen {
    area: DrawingArea<Canvas, Shift>,
    body: Rc<RefCell<Body>>,
}

/// A panel's axes over its rectangle.
pub(super) struct Plane {
    area: DrawingArea<Canvas, Cartesian2d<Along, Along>>,
    pub(super) x: Along,
    pub(super) y: Along,
    pub(super) rect: Rect,
}

impl Plane {
    /// Where a point lies.
    pub(super) fn at(&self, x: f64, y: f64) -> At {
        self.area.map_coordinate(&(x, y))
    }

    /// Whether a point lies within.
    pub(super) fn holds(&self, x: f64, y: f64) -> bool {
        self.x.holds(x) && self.y.holds(y)
    }

    /// The pixel of an x.
    pub(super) fn px(&self, x: f64) -> f64 {
        f64::from(self.at(x, self.y.from).0) / 10.0
    }

    /// The pixel of a y.
    pub(super) fn py(&self, y: f64) -> f64 {
        f64::from(self.at(self.x.from, y).1) / 10.0
    }
}

impl Pen {
    /// A pen over so many pixels, whose ids begin so.
    pub(super) fn new(prefix: &str, width: f64, height: f64) -> Self {
        let body = Rc::new(RefCell::new(Body::new(prefix.to_owned())));
        let size = (tenth(width).unsigned_abs(), tenth(height).unsigned_abs());
        let canvas = Canvas {
            body: Rc::clone(&body),
            size,
        };
        Self {
            area: canvas.into_drawing_area(),
            body,
        }
    }

    /// The axes of a panel.
    pub(super) fn plane(&self, x: Along, y: Along, rect: Rect) -> Plane {
        let across = tenth(rect.left)..tenth(rect.right());
        let up = tenth(rect.bottom())..tenth(rect.top);
        let area = self.area.apply_coord_spec(Cartesian2d::new(x, y, (across, up)));
        Plane { area, x, y, rect }
    }

    /// A line, so many pixels wide.
    pub(super) fn line(&self, points: Vec<At>, ink: Ink, wide: f64) {
        if points.len() > 1 {
            self.draw(&PathElement::new(points, style(ink, wide)));
        }
    }

    /// An area.
    pub(super) fn area(&self, corners: Vec<At>, ink: Ink) {
        if corners.len() > 2 {
            self.draw(&Polygon::new(corners, style(ink, 0.0)));
        }
    }

    /// A rectangle.
    pub(super) fn block(&self, rect: Rect, ink: Ink) {
        let (left, top) = at(rect.left, rect.top);
        let (right, bottom) = at(rect.right(), rect.bottom());
        self.area(vec![(left, top), (right, top), (right, bottom), (left, bottom)], ink);
    }

    /// The outline of a rectangle.
    pub(super) fn frame(&self, rect: Rect, ink: Ink, wide: f64) {
        let corner = at(rect.left, rect.top);
        let others = [
            at(rect.right(), rect.top),
            at(rect.right(), rect.bottom()),
            at(rect.left, rect.bottom()),
        ];
        self.line([corner].into_iter().chain(others).chain([corner]).collect(), ink, wide);
    }

    /// A filled circle.
    pub(super) fn dot(&self, at: At, role: Role, reach: f64) {
        self.draw(&Circle::new(at, tenth(reach), style(Ink::of(role), 0.0).filled()));
    }

    /// A mark of a shape, whose half width is `reach` pixels.
    pub(super) fn mark(&self, (x, y): At, shape: Shape, colour: Colour, reach: f64) {
        let ink = Ink::of(colour);
        let r = tenth(reach);
        match shape {
            Shape::Circle => self.draw(&Circle::new((x, y), r, style(ink, 0.0).filled())),
            Shape::Ring => self.draw(&Circle::new((x, y), r, style(ink, 1.6))),
            Shape::Cross => {
                let r = r * 9 / 10;
                self.line(vec![(x - r, y - r), (x + r, y + r)], ink, 1.6);
                self.line(vec![(x - r, y + r), (x + r, y - r)], ink, 1.6);
            }
            Shape::Diamond => {
                let r = r * 13 / 10;
                self.area(vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)], ink);
            }
            Shape::Star => self.area(star((x, y), 2.4 * reach), ink),
            Shape::Before | Shape::Beyond => {
                let tip = if shape == Shape::Beyond {
                    r * 14 / 10
                } else {
                    -r * 14 / 10
                };
                let back = -tip * 6 / 10;
                self.area(
                    vec![(x + tip, y), (x + back, y - r * 12 / 10), (x + back, y + r * 12 / 10)],
                    ink,
                );
            }
        }
    }

    /// A text at a place in pixels.
    pub(super) fn text(&self, text: &str, x: f64, y: f64, set: Type) {
        if text.is_empty() {
            return;
        }
        let wear = if set.halo { Wear::Halo } else { Wear::Plain };
        let font = text::font(set.size * 10.0, set.bold);
        let font = if set.turned {
            font.transform(FontTransform::Rotate270)
        } else {
            font
        };
        let key = Ink::of(set.role).worn(wear).key();
        let style = TextStyle::from(font).color(&key).pos(Pos::new(set.across, set.down));
        self.draw(&Text::new(text.to_owned(), at(x, y), style));
    }

    /// Draws only within a rectangle what `marks` draws.
    pub(super) fn within(&self, rect: Rect, marks: impl FnOnce(&Self)) {
        self.body
            .borrow_mut()
            .clip((tenth(rect.left), tenth(rect.top), tenth(rect.width), tenth(rect.height)));
        marks(self);
        self.body.borrow_mut().unclip();
    }

    /// What comes next is an element of its own, whatever its ink.
    pub(super) fn part(&self) {
        self.body.borrow_mut().end();
    }

    /// What was drawn.
    pub(super) fn finish(self) -> String {
        self.body.borrow_mut().finish()
    }

    fn draw<'a, E>(&self, element: &'a E)
    where
        &'a E: plotters::element::PointCollection<'a, At>,
        E: plotters::element::Drawable<Canvas>,
    {
        let drawn = self.area.draw(element);
        debug_assert!(drawn.is_ok(), "writing a text cannot fail");
    }
}

fn style(ink: Ink, wide: f64) -> ShapeStyle {
    ink.key().stroke_width(tenth(wide).unsigned_abs())
}

/// A star of five points around a centre.
fn star((x, y): At, reach: f64) -> Vec<At> {
    let corner = |index: u8| {
        let turn = f64::from(index) * std::f64::consts::PI / 5.0;
        let length = if index.is_multiple_of(2) { reach } else { reach * 0.45 };
        (x + tenth(length * turn.sin()), y - tenth(length * turn.cos()))
    };
    (0..10).map(corner).collect()
}
