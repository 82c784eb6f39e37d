//! Writes SVG: shapes and texts in pixels, with roles instead of colours, and path data as short as possible.
//!
//! Consecutive marks of one style become one element, so that 10,000 dots are one `<path>`. Coordinates are relative
//! and in tenths of a pixel, so that these dots take about 100 KB and rounding errors do not add up.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::scale::AxisScale;
use super::style::{FillStyle, MarkStyle, Role};
use crate::report::plot::{Colour, Shape};

/// A position in tenths of a pixel from the upper left corner.
pub(super) type PixelPoint = (i32, i32);

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

    /// Extended by `room` on each side.
    pub(super) fn extended(self, room: f64) -> Self {
        Self {
            left: self.left - room,
            top: self.top - room,
            width: self.width + 2.0 * room,
            height: self.height + 2.0 * room,
        }
    }
}

/// Which side of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlignH {
    Left,
    Center,
    Right,
}

/// Which height of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlignV {
    Top,
    Center,
    Bottom,
}

/// Font size, role and alignment of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    role: Role,
    align_h: AlignH,
    align_v: AlignV,
    bold: bool,
    rotated: bool,
    halo: bool,
}

impl TextStyle {
    /// Anchored at its upper left corner.
    pub(super) fn new(role: Role, size: f64) -> Self {
        Self {
            size,
            role,
            align_h: AlignH::Left,
            align_v: AlignV::Top,
            bold: false,
            rotated: false,
            halo: false,
        }
    }

    pub(super) fn align_h(self, align_h: AlignH) -> Self {
        Self { align_h, ..self }
    }

    pub(super) fn align_v(self, align_v: AlignV) -> Self {
        Self { align_v, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Rotated to be read from below.
    pub(super) fn rotated(self) -> Self {
        Self { rotated: true, ..self }
    }

    pub(super) fn halo(self) -> Self {
        Self { halo: true, ..self }
    }
}

/// The area between a panel's axes: maps values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlotArea {
    pub(super) x: AxisScale,
    pub(super) y: AxisScale,
    pub(super) rect: Rect,
}

impl PlotArea {
    pub(super) fn point(&self, x: f64, y: f64) -> PixelPoint {
        let between = |start: f64, end: f64, share: f64| {
            let (start, end) = (f64::from(to_tenths(start)), f64::from(to_tenths(end)));
            (start + share * (end - start)).round() as i32
        };
        (
            between(self.rect.left, self.rect.right(), self.x.share(x)),
            between(self.rect.bottom(), self.rect.top, self.y.share(y)),
        )
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

/// Converts pixels to tenths.
pub(super) fn to_tenths(pixels: f64) -> i32 {
    (pixels * 10.0).round() as i32
}

/// Converts a position in pixels to tenths.
pub(super) fn point(x: f64, y: f64) -> PixelPoint {
    (to_tenths(x), to_tenths(y))
}

/// Marks with the same value become one element. Widths are in tenths of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Line(MarkStyle, i32),
    Dots(MarkStyle, i32),
    Area(MarkStyle),
}

/// Writes one SVG.
#[derive(Debug)]
pub(super) struct SvgWriter {
    /// Prefix of all ids.
    prefix: String,
    /// Width and height, to which all coordinates are limited.
    size: PixelPoint,
    text: String,
    /// The element that marks are being added to.
    open: Option<(Element, Path)>,
    hatches: BTreeSet<Role>,
    clips: String,
    clip_count: usize,
}

impl SvgWriter {
    /// All ids begin with `prefix`.
    pub(super) fn new(prefix: &str, width: f64, height: f64) -> Self {
        Self {
            prefix: prefix.to_owned(),
            size: point(width, height),
            text: String::new(),
            open: None,
            hatches: BTreeSet::new(),
            clips: String::new(),
            clip_count: 0,
        }
    }

    /// A polyline; its width is in pixels.
    pub(super) fn line(&mut self, points: &[PixelPoint], style: impl Into<MarkStyle>, width: f64) {
        if points.len() > 1 {
            let points: Vec<PixelPoint> = points.iter().map(|point| self.limited(*point)).collect();
            self.path(Element::Line(style.into(), to_tenths(width)))
                .polyline(points);
        }
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, corners: &[PixelPoint], style: impl Into<MarkStyle>) {
        if corners.len() > 2 {
            let corners: Vec<PixelPoint> = corners.iter().map(|corner| self.limited(*corner)).collect();
            let path = self.path(Element::Area(style.into()));
            path.polyline(corners);
            path.close();
        }
    }

    /// A filled rectangle.
    pub(super) fn rect(&mut self, rect: Rect, style: impl Into<MarkStyle>) {
        let (left, top) = point(rect.left, rect.top);
        let (right, bottom) = point(rect.right(), rect.bottom());
        self.polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)], style);
    }

    /// The outline of a rectangle; its width is in pixels.
    pub(super) fn rect_outline(&mut self, rect: Rect, style: impl Into<MarkStyle>, width: f64) {
        let corner = point(rect.left, rect.top);
        let corners = [
            corner,
            point(rect.right(), rect.top),
            point(rect.right(), rect.bottom()),
            point(rect.left, rect.bottom()),
            corner,
        ];
        self.line(&corners, style, width);
    }

    /// A filled circle; its radius is in pixels.
    pub(super) fn dot(&mut self, centre: PixelPoint, role: Role, radius: f64) {
        let centre = self.limited(centre);
        let element = Element::Dots(MarkStyle::new(role), 2 * to_tenths(radius));
        self.path(element).dot(centre);
    }

    /// A marker whose half width is `reach` pixels.
    pub(super) fn marker(&mut self, (x, y): PixelPoint, shape: Shape, colour: Colour, reach: f64) {
        let style = MarkStyle::new(colour);
        let r = to_tenths(reach);
        match shape {
            Shape::Circle => self.dot((x, y), style.role, reach),
            Shape::Ring => {
                let centre = self.limited((x, y));
                self.path(Element::Line(style, 16)).ring(centre, r);
            }
            Shape::Cross => {
                let r = r * 9 / 10;
                self.line(&[(x - r, y - r), (x + r, y + r)], style, 1.6);
                self.line(&[(x - r, y + r), (x + r, y - r)], style, 1.6);
            }
            Shape::Diamond => {
                let r = r * 13 / 10;
                self.polygon(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], style);
            }
            Shape::Star => self.polygon(&star((x, y), 2.4 * reach), style),
            Shape::Before | Shape::Beyond => {
                let tip = if shape == Shape::Beyond {
                    r * 14 / 10
                } else {
                    -r * 14 / 10
                };
                let back = x - tip * 6 / 10;
                self.polygon(&[(x + tip, y), (back, y - r * 12 / 10), (back, y + r * 12 / 10)], style);
            }
        }
    }

    /// A text at a position in pixels.
    pub(super) fn text(&mut self, text: &str, x: f64, y: f64, style: TextStyle) {
        if text.is_empty() {
            return;
        }
        self.end_element();
        let (x, y) = self.limited(point(x, y));
        let size = style.size * 10.0;
        let anchor = match style.align_h {
            AlignH::Left => "",
            AlignH::Center => r#" text-anchor="middle""#,
            AlignH::Right => r#" text-anchor="end""#,
        };
        // Relative to the height of capitals, on which most fonts agree.
        let shift = match style.align_v {
            AlignV::Top => 0.78,
            AlignV::Center => 0.36,
            AlignV::Bottom => -0.2,
        };
        let shift = (shift * size).round() as i32;
        let (x, y, rotation) = if style.rotated {
            let x = x + shift;
            let rotation = format!(r#" transform="rotate(-90 {} {})""#, format_tenths(x), format_tenths(y));
            (x, y, rotation)
        } else {
            (x, y + shift, String::new())
        };
        let (name, size) = (style.role.name(), format_tenths(size.round() as i32));
        let halo = if style.halo { " p-halo" } else { "" };
        let bold = if style.bold { " p-bold" } else { "" };
        let (x, y) = (format_tenths(x), format_tenths(y));
        let _ = write!(
            self.text,
            r#"<text class="pa-{name}{halo}{bold}" x="{x}" y="{y}" font-size="{size}"{anchor}{rotation}>{}</text>"#,
            escaped(text)
        );
    }

    /// Clips what `draw` writes to a rectangle.
    pub(super) fn clipped(&mut self, rect: Rect, draw: impl FnOnce(&mut Self)) {
        self.end_element();
        let id = format!("{}-clip-{}", self.prefix, self.clip_count);
        self.clip_count += 1;
        let [left, top, width, height] =
            [rect.left, rect.top, rect.width, rect.height].map(|pixels| format_tenths(to_tenths(pixels)));
        let _ = write!(
            self.clips,
            r#"<clipPath id="{id}"><rect x="{left}" y="{top}" width="{width}" height="{height}"/></clipPath>"#
        );
        let _ = write!(self.text, r#"<g clip-path="url(#{id})">"#);
        draw(self);
        self.end_element();
        self.text.push_str("</g>");
    }

    /// Ends the current element, so that the next mark starts a new one whatever its style.
    pub(super) fn end_element(&mut self) {
        let Some((element, path)) = self.open.take() else {
            return;
        };
        let (Element::Line(style, _) | Element::Dots(style, _) | Element::Area(style)) = element;
        let (name, data) = (style.role.name(), path.data);
        let (class, attributes) = match element {
            Element::Line(_, width) => {
                let dash = match style.fill {
                    FillStyle::Dashed => r#" stroke-dasharray="6 4""#,
                    FillStyle::Dotted => r#" stroke-dasharray="2 3""#,
                    _ => "",
                };
                ("pl", format!(r#" stroke-width="{}"{dash}"#, format_tenths(width)))
            }
            Element::Dots(_, width) => {
                let width = format_tenths(width);
                ("pl", format!(r#" stroke-width="{width}" stroke-linecap="round""#))
            }
            Element::Area(_) => match style.fill {
                FillStyle::Hatched => {
                    self.hatches.insert(style.role);
                    let _ = write!(self.text, r#"<path fill="url(#{}-{name})" d="{data}"/>"#, self.prefix);
                    return;
                }
                FillStyle::Wash => ("pa", r#" fill-opacity=".2""#.to_owned()),
                FillStyle::Solid => ("pa", r#" fill-opacity=".62""#.to_owned()),
                // Cells and bands touch: anti-aliasing would draw a line between them.
                _ if matches!(style.role, Role::Heat(_) | Role::Stripe) => {
                    ("pa", r#" shape-rendering="crispEdges""#.to_owned())
                }
                _ => ("pa", String::new()),
            },
        };
        let _ = write!(self.text, r#"<path class="{class}-{name}"{attributes} d="{data}"/>"#);
    }

    /// The definitions and the marks.
    pub(super) fn finish(mut self) -> String {
        self.end_element();
        let mut defs = String::new();
        for role in &self.hatches {
            let name = role.name();
            let _ = write!(
                defs,
                concat!(
                    r#"<pattern id="{}-{}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">"#,
                    r#"<path class="pa-{}" fill-opacity=".12" d="M0 0h6v6h-6z"/><path class="pl-{}" stroke-width="1.6" d="M1 0v6"/></pattern>"#
                ),
                self.prefix, name, name, name
            );
        }
        defs.push_str(&self.clips);
        if !defs.is_empty() {
            defs = format!("<defs>{defs}</defs>");
        }
        format!("{defs}{}", self.text)
    }

    fn limited(&self, (x, y): PixelPoint) -> PixelPoint {
        (x.min(self.size.0).max(0), y.min(self.size.1).max(0))
    }

    /// The path of the open element, or of a new one if `element` differs.
    fn path(&mut self, element: Element) -> &mut Path {
        if self.open.as_ref().is_none_or(|(open, _)| *open != element) {
            self.end_element();
        }
        &mut self.open.get_or_insert_with(|| (element, Path::default())).1
    }
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

/// The `d` of a path in relative coordinates. Format: SVG 2, 9.3 Path data.
#[derive(Debug, Default)]
struct Path {
    data: String,
    position: PixelPoint,
    /// Start of the open sub-path.
    start: PixelPoint,
    /// The command that a further pair of numbers would repeat.
    repeats: Option<char>,
}

impl Path {
    /// Starts a sub-path.
    fn move_to(&mut self, to: PixelPoint) {
        // Pairs after an `m` would be lines, so every `m` is written.
        self.repeats = None;
        self.pair('m', to);
        self.repeats = Some('l');
        (self.position, self.start) = (to, to);
    }

    fn line_to(&mut self, to: PixelPoint) {
        if to.1 == self.position.1 && to.0 != self.position.0 {
            self.single('h', to.0 - self.position.0);
        } else if to.0 == self.position.0 && to.1 != self.position.1 {
            self.single('v', to.1 - self.position.1);
        } else if to != self.position {
            self.pair('l', to);
        }
        self.position = to;
    }

    fn polyline(&mut self, points: impl IntoIterator<Item = PixelPoint>) {
        for (index, point) in points.into_iter().enumerate() {
            match index {
                0 => self.move_to(point),
                _ => self.line_to(point),
            }
        }
    }

    fn close(&mut self) {
        self.data.push('z');
        self.repeats = None;
        self.position = self.start;
    }

    /// A sub-path without length: a dot if line ends are round.
    fn dot(&mut self, centre: PixelPoint) {
        self.move_to(centre);
        self.data.push_str("h0");
        self.repeats = None;
    }

    fn ring(&mut self, centre: PixelPoint, radius: i32) {
        self.move_to((centre.0 - radius, centre.1));
        let (r, d) = (format_tenths(radius), format_tenths(2 * radius));
        let _ = write!(self.data, "a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z");
        self.repeats = None;
    }

    fn single(&mut self, command: char, by: i32) {
        self.data.push(command);
        self.data.push_str(&format_tenths(by));
        self.repeats = None;
    }

    fn pair(&mut self, command: char, to: PixelPoint) {
        let x = format_tenths(to.0 - self.position.0);
        let y = format_tenths(to.1 - self.position.1);
        if self.repeats == Some(command) {
            self.separate(&x);
        } else {
            self.data.push(command);
            self.repeats = Some(command);
        }
        self.data.push_str(&x);
        self.separate(&y);
        self.data.push_str(&y);
    }

    /// Writes a space unless the sign already separates two numbers.
    fn separate(&mut self, next: &str) {
        if !next.starts_with('-') {
            self.data.push(' ');
        }
    }
}

/// Formats a number of tenths: `12.3`, `-.5`, `4`.
pub(super) fn format_tenths(value: i32) -> String {
    let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    match (size / 10, size % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, part) => format!("{sign}.{part}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

/// Escapes a text for XML and replaces characters that XML does not allow (XML 1.0, 2.2 Characters).
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resvg::tiny_skia::PathSegment;

    use super::*;

    /// The corners as a renderer reads them.
    fn corners(data: &str) -> Vec<PixelPoint> {
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path stroke="#000" d="{data}"/></svg>"##
        );
        let tree = resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).unwrap();
        let Some(resvg::usvg::Node::Path(path)) = tree.root().children().first() else {
            return Vec::new();
        };
        let whole = |point: resvg::tiny_skia::Point| ((point.x * 10.0).round() as i32, (point.y * 10.0).round() as i32);
        let corner = |segment| match segment {
            PathSegment::MoveTo(point) | PathSegment::LineTo(point) => Some(whole(point)),
            _ => None,
        };
        path.data().segments().filter_map(corner).collect()
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 5, -5, 10, -123].map(format_tenths),
            ["0", ".5", "-.5", "1", "-12.3"]
        );
    }

    #[test]
    fn a_dot_takes_a_dozen_bytes() {
        let mut path = Path::default();
        for at in 0..1000 {
            path.dot((at * 7, 3000 - at * 3));
        }
        assert!(path.data.len() < 12_000, "{}", path.data.len());
    }

    proptest! {
        #[test]
        fn a_line_is_read_back_as_it_was_written(mut points in prop::collection::vec((0..9600_i32, 0..4000_i32), 2..40)) {
            points.dedup();
            prop_assume!(points.len() > 1);
            let mut path = Path::default();
            path.polyline(points.iter().copied());
            prop_assert_eq!(corners(&path.data), points);
        }
    }
}
