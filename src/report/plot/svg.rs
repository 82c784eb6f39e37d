//! Writes SVG: shapes and texts in pixels, with roles instead of colours; measures and wraps texts.
//!
//! Consecutive marks of one style become one element, so that 10,000 dots are one `<path>`. Coordinates are relative
//! and in tenths of a pixel, so that these dots take about 100 KB and rounding errors do not add up.

use std::collections::BTreeSet;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Serialize;
use ttf_parser::Face;

use super::style::heat_colour;
use crate::fmt::{escape_html, flow};
use crate::report::plot::{AxisScale, Colour, MarkerShape};

/// A position in tenths of a pixel from the upper left corner.
pub(super) type PixelPoint = (i32, i32);

/// A rectangle in pixels, the units of the `viewBox`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rect {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
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

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn middle(&self) -> (f64, f64) {
        (self.left + self.width / 2.0, self.top + self.height / 2.0)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right() && other.left < self.right() && self.top < other.bottom() && other.top < self.bottom()
    }

    pub(super) fn within(&self, outer: &Self) -> bool {
        let across = outer.left <= self.left && self.right() <= outer.right();
        across && outer.top <= self.top && self.bottom() <= outer.bottom()
    }

    pub(super) fn corners(&self) -> [PixelPoint; 4] {
        let (right, bottom) = (self.right(), self.bottom());
        [
            (self.left, self.top),
            (right, self.top),
            (right, bottom),
            (self.left, bottom),
        ]
        .map(point)
    }
}

/// The area between a panel's axes, and its scales: maps values to pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The area.
    #[serde(flatten)]
    pub rect: Rect,
    /// Scale from the left edge to the right one.
    pub x: AxisScale,
    /// Scale from the lower edge to the upper one.
    pub y: AxisScale,
}

impl Frame {
    pub(super) fn point(&self, x: f64, y: f64) -> PixelPoint {
        point((self.x_pixel(x), self.y_pixel(y)))
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

/// Font size, class and alignment of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    class: &'static str,
    /// Which end is at its position: `start`, `middle` or `end`.
    anchor: &'static str,
    /// From its position down to its baseline, in font sizes.
    shift: f64,
    /// Rotated to read upwards.
    rotated: bool,
}

impl TextStyle {
    /// Secondary text with its position at the upper left corner.
    pub(super) fn new(size: f64) -> Self {
        Self {
            size,
            class: "pa-faint",
            anchor: "start",
            shift: 0.78,
            rotated: false,
        }
    }

    /// Text of other classes: a role; `p-bold`; `p-halo`, an outline in the colour of the paper.
    pub(super) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    pub(super) fn anchor(self, anchor: &'static str) -> Self {
        Self { anchor, ..self }
    }

    /// With its position at half its height.
    pub(super) fn middle(self) -> Self {
        Self { shift: 0.36, ..self }
    }

    pub(super) fn rotated(self) -> Self {
        Self { rotated: true, ..self }
    }
}

/// Converts a position in pixels to tenths.
pub(super) fn point((x, y): (f64, f64)) -> PixelPoint {
    (to_tenths(x), to_tenths(y))
}

fn to_tenths(pixels: f64) -> i32 {
    (pixels * 10.0).round() as i32
}

/// Formats a number of tenths: `12.3`, `0.5`, `4`.
fn format_tenths(value: i32) -> String {
    (f64::from(value) / 10.0).to_string()
}

/// A number of pixels, in tenths.
pub(super) fn pixels(value: f64) -> String {
    format_tenths(to_tenths(value))
}

/// Writes one SVG.
#[derive(Default)]
pub(super) struct SvgWriter {
    /// Prefix of all ids.
    prefix: String,
    text: String,
    /// The attributes and the data of the path that collects marks.
    open: Option<(String, Path)>,
    hatches: BTreeSet<&'static str>,
    clips: Vec<Rect>,
}

impl SvgWriter {
    /// All ids begin with `prefix`.
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// A polyline; `dash` is its `stroke-dasharray`, if any.
    pub(super) fn line(&mut self, points: &[PixelPoint], role: &str, width: f64, dash: &str) {
        let dash = match dash {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        };
        if points.len() > 1 {
            let attributes = format!(r#"class="pl-{role}" stroke-width="{}"{dash}"#, pixels(width));
            self.path(attributes).add(points, false);
        }
    }

    /// The outline of a polygon.
    pub(super) fn outline(&mut self, corners: &[PixelPoint], role: &str, width: f64) {
        let attributes = format!(r#"class="pl-{role}" stroke-width="{}""#, pixels(width));
        self.path(attributes).add(corners, true);
    }

    /// A filled polygon.
    pub(super) fn fill(&mut self, corners: &[PixelPoint], role: &str, opacity: f64) {
        let attributes = match opacity {
            1.0 => format!(r#"class="pa-{role}""#),
            _ => format!(r#"class="pa-{role}" fill-opacity="{opacity}""#),
        };
        self.path(attributes).add(corners, true);
    }

    /// A hatched polygon.
    pub(super) fn hatch(&mut self, corners: &[PixelPoint], role: &'static str) {
        self.hatches.insert(role);
        let attributes = format!(r#"fill="url(#{}-{role})""#, self.prefix);
        self.path(attributes).add(corners, true);
    }

    /// A rectangle in the colour of a value. Adjacent rectangles show no line between them.
    pub(super) fn heat(&mut self, rect: Rect, share: f64) {
        let attributes = format!(r#"fill="{}" shape-rendering="crispEdges""#, heat_colour(share));
        self.path(attributes).add(&rect.corners(), true);
    }

    /// A filled circle, drawn as a line without length that has round ends.
    pub(super) fn dot(&mut self, centre: PixelPoint, role: &str, radius: f64) {
        let width = pixels(2.0 * radius);
        let path = self.path(format!(
            r#"class="pl-{role}" stroke-width="{width}" stroke-linecap="round""#
        ));
        path.go('m', centre);
        path.data.push_str("h0");
    }

    /// A marker whose half width is `reach` pixels.
    pub(super) fn marker(&mut self, (x, y): PixelPoint, shape: MarkerShape, role: &str, reach: f64) {
        // The corners of a polygon around the centre, clockwise from the top, at two alternating distances.
        let corners = |count: u8, turned: f64, lengths: [f64; 2]| -> Vec<PixelPoint> {
            let corner = |index: u8| {
                let (sin, cos) = (TAU * (f64::from(index) + turned) / f64::from(count)).sin_cos();
                let length = reach * lengths[usize::from(index % 2)];
                (x + to_tenths(length * sin), y - to_tenths(length * cos))
            };
            (0..count).map(corner).collect()
        };
        match shape {
            MarkerShape::Circle => self.dot((x, y), role, reach),
            MarkerShape::Ring => {
                let path = self.path(format!(r#"class="pl-{role}" stroke-width="1.6""#));
                path.go('m', (x - to_tenths(reach), y));
                let (r, d) = (pixels(reach), pixels(2.0 * reach));
                let _ = write!(path.data, "a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z");
            }
            MarkerShape::Cross => {
                let ends = corners(4, 0.5, [1.27; 2]);
                self.line(&[ends[0], ends[2]], role, 1.6, "");
                self.line(&[ends[1], ends[3]], role, 1.6, "");
            }
            MarkerShape::Diamond => self.fill(&corners(4, 0.0, [1.3; 2]), role, 1.0),
            MarkerShape::Star => self.fill(&corners(10, 0.0, [2.4, 1.08]), role, 1.0),
            MarkerShape::Square => self.outline(&corners(4, 0.5, [1.41; 2]), role, 1.6),
            MarkerShape::Triangle => self.outline(&corners(3, 0.0, [1.4; 2]), role, 1.6),
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
        let mut attributes = format!(r#"class="{}" x="{x}" y="{y}" font-size="{size}""#, style.class);
        if style.anchor != "start" {
            attributes += &format!(r#" text-anchor="{}""#, style.anchor);
        }
        if style.rotated {
            attributes += &format!(r#" transform="rotate(-90 {x} {y})""#);
        }
        let _ = write!(self.text, "<text {attributes}>{}</text>", escaped(text));
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

    /// Ends the current element, so that the next mark starts a new one even if its style is the same.
    pub(super) fn end_element(&mut self) {
        if let Some((attributes, path)) = self.open.take().filter(|(_, path)| !path.data.is_empty()) {
            let _ = write!(self.text, r#"<path {attributes} d="{}"/>"#, path.data);
        }
    }

    /// The definitions and the marks.
    pub(super) fn finish(mut self) -> String {
        self.end_element();
        let (prefix, mut defs) = (&self.prefix, String::new());
        for role in &self.hatches {
            // A predicted failure does not differ from a predicted fit by hue alone.
            let turn = if *role == Colour::Fails.role() { 135 } else { 45 };
            let _ = write!(
                defs,
                r#"<pattern id="{prefix}-{role}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate({turn})"><path class="pa-{role}" fill-opacity=".12" d="M0 0h6v6h-6z"/><path class="pl-{role}" stroke-width="1.6" d="M1 0v6"/></pattern>"#
            );
        }
        for (number, clip) in self.clips.iter().enumerate() {
            let mut path = Path::default();
            path.add(&clip.corners(), true);
            let (id, data) = (format!("{prefix}-clip-{number}"), path.data);
            let _ = write!(defs, r#"<clipPath id="{id}"><path d="{data}"/></clipPath>"#);
        }
        format!("<defs>{defs}</defs>{}", self.text)
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
    /// Adds a polyline, or a polygon.
    fn add(&mut self, points: &[PixelPoint], closed: bool) {
        for (index, point) in points.iter().enumerate() {
            self.go(if index == 0 { 'm' } else { 'l' }, *point);
        }
        if let Some(first) = points.first().filter(|_| closed) {
            self.data.push('z');
            self.position = *first;
        }
    }

    /// Goes to a point: `m` starts a sub-path, `l` draws a line.
    fn go(&mut self, command: char, to: PixelPoint) {
        let (x, y) = (to.0 - self.position.0, to.1 - self.position.1);
        // A minus sign also separates two numbers.
        let gap = if y < 0 { "" } else { " " };
        self.data += &match (command, x, y) {
            ('l', _, 0) => format!("h{}", format_tenths(x)),
            ('l', 0, _) => format!("v{}", format_tenths(y)),
            _ => format!("{command}{}{gap}{}", format_tenths(x), format_tenths(y)),
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
    escape_html(&text.chars().map(allowed).collect::<String>())
}

/// The height from descent to ascent in em, the unit of SVG's font size. Ubuntu: ascent 932 and descent 189 of 1000
/// (`hhea` table).
const HEIGHT: f64 = 1.121;
/// The factor by which a page's system font may be wider than the bundled font, which is used for measuring and for
/// PNGs.
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

    /// The corners as a renderer parses them.
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
            path.add(&points, false);
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
