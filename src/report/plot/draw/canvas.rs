//! The SVG that plotters draws on. Marks of one ink that follow each other become one element, so that 10,000 dots are one `<path>`; text stays
//! text. Coordinates are tenths of a pixel, as plotters' are whole numbers.

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

use super::ink::{Ink, Role, Wear};
use super::path::{Path, tenths};

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// What ids begin with.
    prefix: String,
    text: String,
    open: Option<(Mark, Path)>,
    hatches: BTreeSet<Role>,
    clips: String,
    clip: usize,
}

/// What must be the same for two marks to be one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A line so wide.
    Line(Ink, u32),
    /// Dots so wide.
    Dots(Ink, u32),
    /// Areas.
    Area(Ink),
}

impl Body {
    /// Nothing yet, with ids that begin so.
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// Ends the element that marks are added to.
    pub(super) fn end(&mut self) {
        let Some((mark, path)) = self.open.take() else { return };
        let (Mark::Line(ink, _) | Mark::Dots(ink, _) | Mark::Area(ink)) = mark;
        let name = ink.role.name();
        let data = path.text();
        let _ = match mark {
            Mark::Line(_, wide) => {
                let dash = match ink.wear {
                    Wear::Dashed => r#" stroke-dasharray="6 4""#,
                    Wear::Dotted => r#" stroke-dasharray="2 3""#,
                    _ => "",
                };
                let wide = tenths(i32::try_from(wide).unwrap_or(10));
                write!(
                    self.text,
                    r#"<path class="pl-{name}" stroke-width="{wide}"{dash} d="{data}"/>"#
                )
            }
            Mark::Dots(_, wide) => {
                let wide = tenths(i32::try_from(wide).unwrap_or(10));
                write!(
                    self.text,
                    r#"<path class="pl-{name}" stroke-width="{wide}" stroke-linecap="round" d="{data}"/>"#
                )
            }
            Mark::Area(ink) => match ink.wear {
                Wear::Hatched => {
                    self.hatches.insert(ink.role);
                    write!(self.text, r#"<path fill="url(#{}-{name})" d="{data}"/>"#, self.prefix)
                }
                Wear::Wash => write!(self.text, r#"<path class="pa-{name}" fill-opacity=".2" d="{data}"/>"#),
                Wear::Solid => write!(self.text, r#"<path class="pa-{name}" fill-opacity=".62" d="{data}"/>"#),
                // Cells and bands touch: a soft edge between two of them would be a line.
                _ if matches!(ink.role, Role::Heat(_) | Role::Stripe) => {
                    write!(
                        self.text,
                        r#"<path class="pa-{name}" shape-rendering="crispEdges" d="{data}"/>"#
                    )
                }
                _ => write!(self.text, r#"<path class="pa-{name}" d="{data}"/>"#),
            },
        };
    }

    /// Draws what follows only within a rectangle (left, top, width, height; tenths), until [`Self::unclip`].
    pub(super) fn clip(&mut self, (left, top, width, height): (i32, i32, i32, i32)) {
        self.end();
        let id = format!("{}-clip-{}", self.prefix, self.clip);
        self.clip += 1;
        let [left, top, width, height] = [left, top, width, height].map(tenths);
        let _ = write!(
            self.clips,
            r#"<clipPath id="{id}"><rect x="{left}" y="{top}" width="{width}" height="{height}"/></clipPath>"#
        );
        let _ = write!(self.text, r#"<g clip-path="url(#{id})">"#);
    }

    /// Ends a clip.
    pub(super) fn unclip(&mut self) {
        self.end();
        self.text.push_str("</g>");
    }

    /// The definitions that the marks need, and the marks.
    pub(super) fn finish(&mut self) -> String {
        self.end();
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

    fn path(&mut self, mark: Mark) -> &mut Path {
        if self.open.as_ref().is_none_or(|(open, _)| *open != mark) {
            self.end();
        }
        &mut self.open.get_or_insert_with(|| (mark, Path::default())).1
    }
}

/// What plotters draws on.
pub(super) struct Canvas {
    pub(super) body: Rc<RefCell<Body>>,
    /// Width and height, tenths of a pixel.
    pub(super) size: (u32, u32),
}

/// The ink of a style.
fn ink(colour: BackendColor) -> Ink {
    Ink::read(colour.rgb)
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
        self.body.borrow_mut().end();
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        self.body.borrow_mut().path(Mark::Dots(ink(colour), 10)).dot(point);
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
        body.path(Mark::Line(ink(style.color()), style.stroke_width()))
            .through(path);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, centre: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        let mut body = self.body.borrow_mut();
        let ink = ink(style.color());
        match fill {
            true => body.path(Mark::Dots(ink, 2 * radius)).dot(centre),
            false => {
                let radius = i32::try_from(radius).unwrap_or(0);
                body.path(Mark::Line(ink, style.stroke_width())).ring(centre, radius);
            }
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, corners: I, style: &S) -> Drawn {
        let mut body = self.body.borrow_mut();
        let path = body.path(Mark::Area(ink(style.color())));
        path.through(corners);
        path.close();
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let mut body = self.body.borrow_mut();
        body.end();
        let size = style.size();
        let anchor = style.anchor();
        let end = match anchor.h_pos {
            HPos::Left => "",
            HPos::Center => r#" text-anchor="middle""#,
            HPos::Right => r#" text-anchor="end""#,
        };
        // From the height of capitals above the line, which most fonts agree on.
        let down = match anchor.v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.36,
            VPos::Bottom => -0.2,
        };
        let (down, size) = ((down * size).round() as i32, size.round() as i32);
        let (down, turn) = match style.transform() {
            FontTransform::Rotate270 => (
                (down, 0),
                format!(r#" transform="rotate(-90 {} {})""#, tenths(at.0 + down), tenths(at.1)),
            ),
            _ => ((0, down), String::new()),
        };
        let (x, y) = (tenths(at.0 + down.0), tenths(at.1 + down.1));
        let bold = match style.style() {
            FontStyle::Bold => " p-bold",
            _ => "",
        };
        let ink = ink(style.color());
        let halo = if ink.wear == Wear::Halo { " p-halo" } else { "" };
        let (name, size) = (ink.role.name(), tenths(size));
        let _ = write!(
            body.text,
            r#"<text class="pa-{name}{halo}{bold}" x="{x}" y="{y}" font-size="{size}"{end}{turn}>"#
        );
        body.text.push_str(&escaped(text));
        body.text.push_str("</text>");
        Ok(())
    }
}

/// Text that cannot be mark-up, without what XML does not allow (XML 1.0, 2.2 Characters).
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
