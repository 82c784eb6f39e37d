//! Writes SVG: shapes and texts in pixels, with roles instead of colours; measures and wraps texts.
//!
//! Consecutive marks of one style become one element, so that 10,000 dots are one `<path>`. Coordinates are relative
//! and in tenths of a pixel, so that these dots take about 100 KB and rounding errors do not add up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

use ttf_parser::Face;

use super::scale::AxisScale;
use super::style::{FAINT, Fill, Stroke, TEXT, heat_colour};
use crate::fmt::flow;
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
    pub(super) fn new(left: f64, top: f64, width: f64, height: f64) -> Self {
        Self {
            left,
            top,
            width,
            height,
        }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right() && other.left < self.right() && self.top < other.bottom() && other.top < self.bottom()
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn corners(&self) -> [PixelPoint; 4] {
        let (right, bottom) = (self.right(), self.bottom());
        [
            point(self.left, self.top),
            point(right, self.top),
            point(right, bottom),
            point(self.left, bottom),
        ]
    }
}

/// Font size, role and alignment of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    role: &'static str,
    /// Which end is at its position: `start`, `middle` or `end`.
    anchor: &'static str,
    /// From its position down to its baseline, in font sizes.
    shift: f64,
    bold: bool,
    /// To be read from below.
    rotated: bool,
    /// With an outline in the colour of the paper.
    halo: bool,
}

impl TextStyle {
    /// Secondary text with its position at the upper left corner.
    pub(super) fn new(size: f64) -> Self {
        Self {
            size,
            role: FAINT,
            anchor: "start",
            shift: 0.78,
            bold: false,
            rotated: false,
            halo: false,
        }
    }

    pub(super) fn role(self, role: &'static str) -> Self {
        Self { role, ..self }
    }

    pub(super) fn anchor(self, anchor: &'static str) -> Self {
        Self { anchor, ..self }
    }

    /// With its position at half its height.
    pub(super) fn middle(self) -> Self {
        Self { shift: 0.36, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn rotated(self) -> Self {
        Self { rotated: true, ..self }
    }

    /// Primary text among marks.
    pub(super) fn on_marks(self) -> Self {
        Self {
            role: TEXT,
            halo: true,
            ..self
        }
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
        point(self.x_pixel(x), self.y_pixel(y))
    }

    /// The rectangle between two x and two y values.
    pub(super) fn rect_of(&self, x: (f64, f64), y: (f64, f64)) -> Rect {
        let (left, top) = (self.x_pixel(x.0), self.y_pixel(y.1));
        Rect::new(left, top, self.x_pixel(x.1) - left, self.y_pixel(y.0) - top)
    }

    pub(super) fn contains(&self, x: f64, y: f64) -> bool {
        self.x.contains(x) && self.y.contains(y)
    }

    pub(super) fn x_pixel(&self, x: f64) -> f64 {
        self.rect.left + self.x.share(x) * self.rect.width
    }

    pub(super) fn y_pixel(&self, y: f64) -> f64 {
        self.rect.bottom() - self.y.share(y) * self.rect.height
    }
}

/// Converts a position in pixels to tenths.
pub(super) fn point(x: f64, y: f64) -> PixelPoint {
    (to_tenths(x), to_tenths(y))
}

fn to_tenths(pixels: f64) -> i32 {
    (pixels * 10.0).round() as i32
}

/// Formats a number of tenths: `12.3`, `-.5`, `4`.
fn format_tenths(value: i32) -> String {
    let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    match (size / 10, size % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, part) => format!("{sign}.{part}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

/// A number of pixels, in tenths.
pub(super) fn pixels(value: f64) -> String {
    format_tenths(to_tenths(value))
}

/// Writes one SVG.
#[derive(Debug)]
pub(super) struct SvgWriter {
    /// Prefix of all ids.
    prefix: String,
    text: String,
    /// The attributes of the path that marks are being added to, and its data.
    open: Option<(String, Path)>,
    hatches: BTreeSet<&'static str>,
    clips: Vec<Rect>,
}

impl SvgWriter {
    /// All ids begin with `prefix`.
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            text: String::new(),
            open: None,
            hatches: BTreeSet::new(),
            clips: Vec::new(),
        }
    }

    /// A polyline.
    pub(super) fn line(&mut self, points: &[PixelPoint], stroke: Stroke) {
        let dash = match stroke.dash {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        };
        let attributes = format!(
            r#"class="pl-{}" stroke-width="{}"{dash}"#,
            stroke.role,
            pixels(stroke.width)
        );
        if points.len() > 1 {
            self.shape(attributes, points, false);
        }
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, corners: &[PixelPoint], role: &'static str, fill: Fill) {
        let attributes = match fill {
            Fill::Plain => format!(r#"class="pa-{role}""#),
            Fill::Wash => format!(r#"class="pa-{role}" fill-opacity=".2""#),
            Fill::Solid => format!(r#"class="pa-{role}" fill-opacity=".62""#),
            Fill::Hatched => {
                self.hatches.insert(role);
                format!(r#"fill="url(#{}-{role})""#, self.prefix)
            }
        };
        if corners.len() > 2 {
            self.shape(attributes, corners, true);
        }
    }

    /// A filled rectangle.
    pub(super) fn rect(&mut self, rect: Rect, role: &'static str, fill: Fill) {
        self.polygon(&rect.corners(), role, fill);
    }

    /// A rectangle in the colour of a value. Touching ones show no line between them.
    pub(super) fn heat(&mut self, rect: Rect, share: f64) {
        let attributes = format!(r#"fill="{}" shape-rendering="crispEdges""#, heat_colour(share));
        self.shape(attributes, &rect.corners(), true);
    }

    /// The outline of a rectangle.
    pub(super) fn outline(&mut self, rect: Rect, role: &'static str) {
        let [first, second, third, fourth] = rect.corners();
        self.line(&[first, second, third, fourth, first], Stroke::solid(role, 1.0));
    }

    /// A filled circle, drawn as a line without length that has round ends.
    pub(super) fn dot(&mut self, centre: PixelPoint, role: &'static str, radius: f64) {
        let width = pixels(2.0 * radius);
        let attributes = format!(r#"class="pl-{role}" stroke-width="{width}" stroke-linecap="round""#);
        let path = self.path(attributes);
        path.go('m', centre);
        path.data.push_str("h0");
    }

    /// A marker whose half width is `reach` pixels.
    pub(super) fn marker(&mut self, (x, y): PixelPoint, shape: Shape, role: &'static str, reach: f64) {
        let r = to_tenths(reach);
        match shape {
            Shape::Circle => self.dot((x, y), role, reach),
            Shape::Ring => {
                let path = self.path(format!(r#"class="pl-{role}" stroke-width="1.6""#));
                path.go('m', (x - r, y));
                let (r, d) = (format_tenths(r), format_tenths(2 * r));
                let _ = write!(path.data, "a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z");
            }
            Shape::Cross => {
                let r = r * 9 / 10;
                self.line(&[(x - r, y - r), (x + r, y + r)], Stroke::solid(role, 1.6));
                self.line(&[(x - r, y + r), (x + r, y - r)], Stroke::solid(role, 1.6));
            }
            Shape::Diamond => {
                let r = r * 13 / 10;
                self.polygon(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], role, Fill::Plain);
            }
            Shape::Star => {
                let corner = |index: u8| {
                    let turn = f64::from(index) * std::f64::consts::PI / 5.0;
                    let length = 2.4 * reach * if index.is_multiple_of(2) { 1.0 } else { 0.45 };
                    (x + to_tenths(length * turn.sin()), y - to_tenths(length * turn.cos()))
                };
                let corners: Vec<PixelPoint> = (0..10).map(corner).collect();
                self.polygon(&corners, role, Fill::Plain);
            }
            Shape::Square => {
                let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
                let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
                self.line(&corners, Stroke::solid(role, 1.6));
            }
            Shape::Triangle => {
                let (top, half) = ((x, y - r * 12 / 10), r * 12 / 10);
                let corners = [top, (x + half, y + r), (x - half, y + r), top];
                self.line(&corners, Stroke::solid(role, 1.6));
            }
        }
    }

    /// A text at a position in pixels.
    pub(super) fn text(&mut self, text: &str, x: f64, y: f64, style: TextStyle) {
        if text.is_empty() {
            return;
        }
        self.end_element();
        let shift = style.shift * style.size;
        let (x, y) = if style.rotated { (x + shift, y) } else { (x, y + shift) };
        let (x, y, size) = (pixels(x), pixels(y), pixels(style.size));
        let anchor = match style.anchor {
            "start" => String::new(),
            anchor => format!(r#" text-anchor="{anchor}""#),
        };
        let rotation = match style.rotated {
            true => format!(r#" transform="rotate(-90 {x} {y})""#),
            false => String::new(),
        };
        let class = [style.halo.then_some(" p-halo"), style.bold.then_some(" p-bold")];
        let class: String = class.into_iter().flatten().collect();
        let (role, text) = (style.role, escaped(text));
        let _ = write!(
            self.text,
            r#"<text class="pa-{role}{class}" x="{x}" y="{y}" font-size="{size}"{anchor}{rotation}>{text}</text>"#
        );
    }

    /// Clips what `draw` writes to a rectangle.
    pub(super) fn clipped(&mut self, rect: Rect, draw: impl FnOnce(&mut Self)) {
        self.end_element();
        let number = self.clips.len();
        self.clips.push(rect);
        let _ = write!(self.text, r#"<g clip-path="url(#{}-clip-{number})">"#, self.prefix);
        draw(self);
        self.end_element();
        self.text.push_str("</g>");
    }

    /// Ends the current element, so that the next mark starts a new one whatever its style.
    pub(super) fn end_element(&mut self) {
        if let Some((attributes, path)) = self.open.take() {
            let _ = write!(self.text, r#"<path {attributes} d="{}"/>"#, path.data);
        }
    }

    /// The definitions and the marks.
    pub(super) fn finish(mut self) -> String {
        self.end_element();
        let mut defs = String::new();
        let prefix = &self.prefix;
        for role in &self.hatches {
            // A predicted failure does not differ from a predicted fit by hue alone.
            let turn = if *role == Colour::Fails.role() { 135 } else { 45 };
            let _ = write!(
                defs,
                concat!(
                    r#"<pattern id="{0}-{1}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate({2})">"#,
                    r#"<path class="pa-{1}" fill-opacity=".12" d="M0 0h6v6h-6z"/><path class="pl-{1}" stroke-width="1.6" d="M1 0v6"/></pattern>"#
                ),
                prefix, role, turn
            );
        }
        for (number, clip) in self.clips.iter().enumerate() {
            let mut path = Path::default();
            path.polyline(&clip.corners());
            let _ = write!(
                defs,
                r#"<clipPath id="{prefix}-clip-{number}"><path d="{}z"/></clipPath>"#,
                path.data
            );
        }
        format!("<defs>{defs}</defs>{}", self.text)
    }

    fn shape(&mut self, attributes: String, points: &[PixelPoint], closed: bool) {
        let path = self.path(attributes);
        path.polyline(points);
        if closed && let Some(first) = points.first() {
            path.data.push('z');
            path.position = *first;
        }
    }

    /// The open path, or a new one if it has other attributes.
    fn path(&mut self, attributes: String) -> &mut Path {
        if self.open.as_ref().is_none_or(|(open, _)| *open != attributes) {
            self.end_element();
        }
        &mut self.open.get_or_insert_with(|| (attributes, Path::default())).1
    }
}

/// The `d` of a path in relative coordinates. Format: SVG 2, 9.3 Path data.
#[derive(Debug, Default)]
struct Path {
    data: String,
    position: PixelPoint,
}

impl Path {
    fn polyline(&mut self, points: &[PixelPoint]) {
        for (index, point) in points.iter().enumerate() {
            self.go(if index == 0 { 'm' } else { 'l' }, *point);
        }
    }

    /// Goes to a point: `m` starts a sub-path, `l` draws a line.
    fn go(&mut self, command: char, to: PixelPoint) {
        let (x, y) = (to.0 - self.position.0, to.1 - self.position.1);
        let _ = match (command, x, y) {
            ('l', _, 0) => write!(self.data, "h{}", format_tenths(x)),
            ('l', 0, _) => write!(self.data, "v{}", format_tenths(y)),
            // A sign separates two numbers, too.
            (_, _, ..0) => write!(self.data, "{command}{}{}", format_tenths(x), format_tenths(y)),
            _ => write!(self.data, "{command}{} {}", format_tenths(x), format_tenths(y)),
        };
        self.position = to;
    }
}

/// Escapes a text for XML and replaces characters that XML does not allow (XML 1.0, 2.2 Characters).
pub(super) fn escaped(text: &str) -> String {
    let allowed = |letter: char| match letter {
        '\t' | '\n' | '\r' => ' ',
        '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        _ => letter,
    };
    crate::fmt::escape_html(&text.chars().map(allowed).collect::<String>())
}

/// The height from descent to ascent in em, the unit of SVG's font size. Ubuntu: ascent 932 and descent 189 of 1000
/// (`hhea` table).
const HEIGHT: f64 = 1.121;
/// How much wider the system's font on a page may be than the bundled one, which measures and writes the PNG.
const MARGIN: f64 = 1.2;

/// The width of a text in pixels, with a margin.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    static FONT: LazyLock<Option<Face>> = LazyLock::new(|| Face::parse(epaint_default_fonts::UBUNTU_LIGHT, 0).ok());
    let Some(font) = &*FONT else {
        return text.chars().count() as f64 * size;
    };
    let advance = |letter: char| {
        let glyph = font.glyph_index(letter).unwrap_or_default();
        f64::from(font.glyph_hor_advance(glyph).unwrap_or_default())
    };
    let height = f64::from(font.ascender()) - f64::from(font.descender());
    text.chars().map(advance).sum::<f64>() * size * HEIGHT * MARGIN / height
}

/// The widest of some texts.
pub(super) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, size: f64) -> f64 {
    texts.into_iter().map(|text| text_width(text, size)).fold(0.0, f64::max)
}

/// Shortens a text to a width, with an ellipsis; empty if not even two letters fit.
pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut width = text_width("…", size);
    let fits = text.chars().take_while(|letter| {
        width += text_width(letter.encode_utf8(&mut [0; 4]), size);
        width <= room
    });
    let cut: String = fits.collect();
    if cut.chars().count() < 2 {
        String::new()
    } else {
        format!("{}…", cut.trim_end())
    }
}

/// Wraps a text to a width, to at most `most` lines; the last one is shortened.
pub(super) fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let words = text.split_whitespace().map(str::to_owned);
    let mut lines = flow(words, " ", |line| text_width(line, size) <= room);
    if lines.len() > most {
        let rest = lines.split_off(most.max(1) - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| shorten(line, size, room)).collect()
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

    proptest! {
        #[test]
        fn a_line_is_read_back_as_it_was_written(mut points in prop::collection::vec((0..9600_i32, 0..4000_i32), 2..40)) {
            points.dedup();
            prop_assume!(points.len() > 1);
            let mut path = Path::default();
            path.polyline(&points);
            prop_assert_eq!(corners(&path.data), points);
        }

        #[test]
        fn a_cut_text_fits(text in "\\PC{0,40}", room in 0.0..300.0_f64) {
            let cut = shorten(&text, 12.0, room);
            prop_assert!(cut.is_empty() || text_width(&cut, 12.0) <= room + 1e-6);
        }
    }

    #[test]
    fn a_text_is_as_wide_as_the_renderer_draws_it() {
        for text in ["output length, tokens", "8,192", "WWWWWWWW", "illicit"] {
            let svg = format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="900" height="90"><text y="50" font-size="20" font-family="Ubuntu">{text}</text></svg>"#
            );
            let mut options = resvg::usvg::Options::default();
            options
                .fontdb_mut()
                .load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
            let tree = resvg::usvg::Tree::from_str(&svg, &options).unwrap();
            let drawn = f64::from(tree.root().abs_layer_bounding_box().width());
            let measured = text_width(text, 20.0) / MARGIN;
            assert!(
                (drawn - measured).abs() < 0.06 * measured + 2.0,
                "{text}: drawn {drawn}, measured {measured}"
            );
        }
    }

    #[test]
    fn long_texts_are_shortened_or_wrapped_between_words() {
        assert_eq!(shorten("load", 12.0, 200.0), "load");
        assert_eq!(shorten("loading the weights", 12.0, 5.0), "");
        let cut = shorten("loading the weights", 12.0, 60.0);
        assert!(cut.starts_with("load") && cut.ends_with('…'), "{cut}");
        assert_eq!(wrap("KV cache", 12.0, 20.0, 3), ["KV", ""]);
        assert_eq!(
            wrap("KV cache of the engine", 12.0, 60.0, 3),
            ["KV cache", "of the", "engine"]
        );
        assert_eq!(wrap("a b c d e f g h", 12.0, 24.0, 2).len(), 2);
    }
}
