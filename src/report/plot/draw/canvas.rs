//! The SVG backend for plotters. Consecutive marks of one style become one element, so that 10,000 dots are one
//! `<path>`. Coordinates are tenths of a pixel, because plotters uses whole numbers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle,
    FontTransform,
};

use super::path::{Path, format_tenths};
use super::style::{FillStyle, MarkStyle, Role};

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// The SVG text written so far.
#[derive(Debug, Default)]
pub(super) struct SvgBody {
    /// Prefix of all ids.
    prefix: String,
    text: String,
    open: Option<(Element, Path)>,
    hatches: BTreeSet<Role>,
    clips: String,
    clip: usize,
}

/// Marks with the same value become one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// A line; its width in tenths of a pixel.
    Line(MarkStyle, u32),
    /// Dots; their diameter in tenths of a pixel.
    Dots(MarkStyle, u32),
    Area(MarkStyle),
}

impl SvgBody {
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// Closes the element that marks are being added to.
    pub(super) fn end_element(&mut self) {
        let Some((mark, path)) = self.open.take() else { return };
        let (Element::Line(style, _) | Element::Dots(style, _) | Element::Area(style)) = mark;
        let name = style.role.name();
        let data = path.data();
        let _ = match mark {
            Element::Line(_, wide) => {
                let dash = match style.fill {
                    FillStyle::Dashed => r#" stroke-dasharray="6 4""#,
                    FillStyle::Dotted => r#" stroke-dasharray="2 3""#,
                    _ => "",
                };
                let wide = format_tenths(i32::try_from(wide).unwrap_or(10));
                write!(
                    self.text,
                    r#"<path class="pl-{name}" stroke-width="{wide}"{dash} d="{data}"/>"#
                )
            }
            Element::Dots(_, wide) => {
                let wide = format_tenths(i32::try_from(wide).unwrap_or(10));
                write!(
                    self.text,
                    r#"<path class="pl-{name}" stroke-width="{wide}" stroke-linecap="round" d="{data}"/>"#
                )
            }
            Element::Area(style) => match style.fill {
                FillStyle::Hatched => {
                    self.hatches.insert(style.role);
                    write!(self.text, r#"<path fill="url(#{}-{name})" d="{data}"/>"#, self.prefix)
                }
                FillStyle::Wash => write!(self.text, r#"<path class="pa-{name}" fill-opacity=".2" d="{data}"/>"#),
                FillStyle::Solid => write!(self.text, r#"<path class="pa-{name}" fill-opacity=".62" d="{data}"/>"#),
                // Cells and bands touch: anti-aliasing would draw a line between them.
                _ if matches!(style.role, Role::Heat(_) | Role::Stripe) => {
                    write!(
                        self.text,
                        r#"<path class="pa-{name}" shape-rendering="crispEdges" d="{data}"/>"#
                    )
                }
                _ => write!(self.text, r#"<path class="pa-{name}" d="{data}"/>"#),
            },
        };
    }

    /// Clips what follows to a rectangle (left, top, width, height; tenths of a pixel), until [`Self::unclip`].
    pub(super) fn clip(&mut self, (left, top, width, height): (i32, i32, i32, i32)) {
        self.end_element();
        let id = format!("{}-clip-{}", self.prefix, self.clip);
        self.clip += 1;
        let [left, top, width, height] = [left, top, width, height].map(format_tenths);
        let _ = write!(
            self.clips,
            r#"<clipPath id="{id}"><rect x="{left}" y="{top}" width="{width}" height="{height}"/></clipPath>"#
        );
        let _ = write!(self.text, r#"<g clip-path="url(#{id})">"#);
    }

    pub(super) fn unclip(&mut self) {
        self.end_element();
        self.text.push_str("</g>");
    }

    /// The definitions and the marks.
    pub(super) fn finish(&mut self) -> String {
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
        let defs = if defs.is_empty() {
            defs
        } else {
            format!("<defs>{defs}</defs>")
        };
        format!("{defs}{}", self.text)
    }

    fn path(&mut self, mark: Element) -> &mut Path {
        if self.open.as_ref().is_none_or(|(open, _)| *open != mark) {
            self.end_element();
        }
        &mut self.open.get_or_insert_with(|| (mark, Path::default())).1
    }
}

pub(super) struct Canvas {
    pub(super) body: Rc<RefCell<SvgBody>>,
    /// Width and height, tenths of a pixel.
    pub(super) size: (u32, u32),
}

fn unpack(colour: BackendColor) -> MarkStyle {
    MarkStyle::read(colour.rgb)
}

impl DrawingBackend for Canvas {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        self.body.borrow_mut().end_element();
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        self.body
            .borrow_mut()
            .path(Element::Dots(unpack(colour), 10))
            .dot(point);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        match fill {
            true => self.fill_polygon(corners, style),
            false => self.draw_path(corners.into_iter().chain([(left, top)]), style),
        }
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let mut body = self.body.borrow_mut();
        body.path(Element::Line(unpack(style.color()), style.stroke_width()))
            .polyline(path);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, centre: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        let mut body = self.body.borrow_mut();
        let mark = unpack(style.color());
        match fill {
            true => body.path(Element::Dots(mark, 2 * radius)).dot(centre),
            false => {
                let radius = i32::try_from(radius).unwrap_or(0);
                body.path(Element::Line(mark, style.stroke_width()))
                    .ring(centre, radius);
            }
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, corners: I, style: &S) -> Drawn {
        let mut body = self.body.borrow_mut();
        let path = body.path(Element::Area(unpack(style.color())));
        path.polyline(corners);
        path.close();
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let mut body = self.body.borrow_mut();
        body.end_element();
        let size = style.size();
        let anchor = style.anchor();
        let end = match anchor.h_pos {
            HPos::Left => "",
            HPos::Center => r#" text-anchor="middle""#,
            HPos::Right => r#" text-anchor="end""#,
        };
        // Relative to the height of capitals, on which most fonts agree.
        let down = match anchor.v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.36,
            VPos::Bottom => -0.2,
        };
        let (down, size) = ((down * size).round() as i32, size.round() as i32);
        let (down, turn) = match style.transform() {
            FontTransform::Rotate270 => (
                (down, 0),
                format!(
                    r#" transform="rotate(-90 {} {})""#,
                    format_tenths(at.0 + down),
                    format_tenths(at.1)
                ),
            ),
            _ => ((0, down), String::new()),
        };
        let (x, y) = (format_tenths(at.0 + down.0), format_tenths(at.1 + down.1));
        let bold = match style.style() {
            FontStyle::Bold => " p-bold",
            _ => "",
        };
        let mark = unpack(style.color());
        let halo = if mark.fill == FillStyle::Halo { " p-halo" } else { "" };
        let (name, size) = (mark.role.name(), format_tenths(size));
        let _ = write!(
            body.text,
            r#"<text class="pa-{name}{halo}{bold}" x="{x}" y="{y}" font-size="{size}"{end}{turn}>"#
        );
        body.text.push_str(&escaped(text));
        body.text.push_str("</text>");
        Ok(())
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
