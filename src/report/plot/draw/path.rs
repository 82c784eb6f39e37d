//! The `d` of an SVG path, as short as it can be said: relative coordinates in tenths of a pixel, so that 10,000 dots are some 100 KB and no
//! rounding adds up along a line. Format: SVG 2, 9.3 Path data.

use std::fmt::Write as _;

/// A place in tenths of a pixel from the upper left corner.
pub(super) type At = (i32, i32);

/// Path data that grows.
#[derive(Debug, Default)]
pub(super) struct Path {
    text: String,
    /// Where the pen is.
    at: At,
    /// Where the open sub-path began.
    begun: At,
    /// The command that the next pair of numbers would repeat.
    repeats: Option<char>,
}

impl Path {
    /// Lifts the pen and puts it down.
    pub(super) fn go(&mut self, to: At) {
        // Pairs after an `m` would be lines, so that each `m` is said.
        self.repeats = None;
        self.pair('m', to);
        self.repeats = Some('l');
        (self.at, self.begun) = (to, to);
    }

    /// A straight line.
    pub(super) fn line(&mut self, to: At) {
        if to.1 == self.at.1 && to.0 != self.at.0 {
            self.single('h', to.0 - self.at.0);
        } else if to.0 == self.at.0 && to.1 != self.at.1 {
            self.single('v', to.1 - self.at.1);
        } else if to != self.at {
            self.pair('l', to);
        }
        self.at = to;
    }

    /// Lines through all points, from the first.
    pub(super) fn through(&mut self, points: impl IntoIterator<Item = At>) {
        for (index, point) in points.into_iter().enumerate() {
            match index {
                0 => self.go(point),
                _ => self.line(point),
            }
        }
    }

    /// Back to where the sub-path began.
    pub(super) fn close(&mut self) {
        self.text.push('z');
        self.repeats = None;
        self.at = self.begun;
    }

    /// A sub-path without length: with round ends of the line, a dot.
    pub(super) fn dot(&mut self, at: At) {
        self.go(at);
        self.text.push_str("h0");
        self.repeats = None;
    }

    /// A circle.
    pub(super) fn ring(&mut self, centre: At, radius: i32) {
        self.go((centre.0 - radius, centre.1));
        let (r, d) = (tenths(radius), tenths(2 * radius));
        let _ = write!(self.text, "a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z");
        self.repeats = None;
    }

    /// The data.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn single(&mut self, command: char, by: i32) {
        self.text.push(command);
        self.text.push_str(&tenths(by));
        self.repeats = None;
    }

    fn pair(&mut self, command: char, to: At) {
        let (x, y) = (tenths(to.0 - self.at.0), tenths(to.1 - self.at.1));
        if self.repeats == Some(command) {
            self.apart(&x);
        } else {
            self.text.push(command);
            self.repeats = Some(command);
        }
        self.text.push_str(&x);
        self.apart(&y);
        self.text.push_str(&y);
    }

    /// A blank, where the sign does not part two numbers already.
    fn apart(&mut self, next: &str) {
        if !next.starts_with('-') {
            self.text.push(' ');
        }
    }
}

/// A number of tenths: `12.3`, `-.5`, `4`.
pub(super) fn tenths(tenths: i32) -> String {
    let (sign, size) = (if tenths < 0 { "-" } else { "" }, tenths.unsigned_abs());
    match (size / 10, size % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, part) => format!("{sign}.{part}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resvg::tiny_skia::PathSegment;

    use super::{At, Path, tenths};

    /// The corners that a renderer sees.
    fn seen(data: &str) -> Vec<At> {
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path stroke="#000" d="{data}"/></svg>"##
        );
        let tree = resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).unwrap();
        let Some(resvg::usvg::Node::Path(path)) = tree.root().children().first() else {
            return Vec::new();
        };
        let whole = |point: resvg::tiny_skia::Point| ((point.x * 10.0).round() as i32, (point.y * 10.0).round() as i32);
        let at = |segment| match segment {
            PathSegment::MoveTo(point) | PathSegment::LineTo(point) => Some(whole(point)),
            _ => None,
        };
        path.data().segments().filter_map(at).collect()
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 5, -5, 10, -123].map(tenths), ["0", ".5", "-.5", "1", "-12.3"]);
    }

    #[test]
    fn a_dot_takes_a_dozen_bytes() {
        let mut path = Path::default();
        for at in 0..1000 {
            path.dot((at * 7, 3000 - at * 3));
        }
        assert!(path.text().len() < 12_000, "{}", path.text().len());
    }

    proptest! {
        #[test]
        fn a_line_is_read_back_as_it_was_written(mut points in prop::collection::vec((0..9600_i32, 0..4000_i32), 2..40)) {
            points.dedup();
            prop_assume!(points.len() > 1);
            let mut path = Path::default();
            path.through(points.iter().copied());
            prop_assert_eq!(seen(path.text()), points);
        }
    }
}
