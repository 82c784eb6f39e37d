//! Writes the `d` of an SVG path as short as possible: relative coordinates in tenths of a pixel, so that 10,000 dots
//! take about 100 KB and rounding errors do not add up. Format: SVG 2, 9.3 Path data.

use std::fmt::Write as _;

/// A position in tenths of a pixel from the upper left corner.
pub(super) type PixelPoint = (i32, i32);

#[derive(Debug, Default)]
pub(super) struct Path {
    text: String,
    at: PixelPoint,
    /// Start of the open sub-path.
    start: PixelPoint,
    /// The command that a further pair of numbers would repeat.
    repeats: Option<char>,
}

impl Path {
    /// Starts a sub-path.
    pub(super) fn move_to(&mut self, to: PixelPoint) {
        // Pairs after an `m` would be lines, so every `m` is written.
        self.repeats = None;
        self.pair('m', to);
        self.repeats = Some('l');
        (self.at, self.start) = (to, to);
    }

    pub(super) fn line_to(&mut self, to: PixelPoint) {
        if to.1 == self.at.1 && to.0 != self.at.0 {
            self.single('h', to.0 - self.at.0);
        } else if to.0 == self.at.0 && to.1 != self.at.1 {
            self.single('v', to.1 - self.at.1);
        } else if to != self.at {
            self.pair('l', to);
        }
        self.at = to;
    }

    pub(super) fn polyline(&mut self, points: impl IntoIterator<Item = PixelPoint>) {
        for (index, point) in points.into_iter().enumerate() {
            match index {
                0 => self.move_to(point),
                _ => self.line_to(point),
            }
        }
    }

    pub(super) fn close(&mut self) {
        self.text.push('z');
        self.repeats = None;
        self.at = self.start;
    }

    /// A sub-path without length: a dot if line ends are round.
    pub(super) fn dot(&mut self, at: PixelPoint) {
        self.move_to(at);
        self.text.push_str("h0");
        self.repeats = None;
    }

    pub(super) fn ring(&mut self, centre: PixelPoint, radius: i32) {
        self.move_to((centre.0 - radius, centre.1));
        let (r, d) = (format_tenths(radius), format_tenths(2 * radius));
        let _ = write!(self.text, "a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z");
        self.repeats = None;
    }

    pub(super) fn data(&self) -> &str {
        &self.text
    }

    fn single(&mut self, command: char, by: i32) {
        self.text.push(command);
        self.text.push_str(&format_tenths(by));
        self.repeats = None;
    }

    fn pair(&mut self, command: char, to: PixelPoint) {
        let (x, y) = (format_tenths(to.0 - self.at.0), format_tenths(to.1 - self.at.1));
        if self.repeats == Some(command) {
            self.separate(&x);
        } else {
            self.text.push(command);
            self.repeats = Some(command);
        }
        self.text.push_str(&x);
        self.separate(&y);
        self.text.push_str(&y);
    }

    /// Writes a space unless the sign already separates two numbers.
    fn separate(&mut self, next: &str) {
        if !next.starts_with('-') {
            self.text.push(' ');
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resvg::tiny_skia::PathSegment;

    use super::{Path, PixelPoint, format_tenths};

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
        assert!(path.data().len() < 12_000, "{}", path.data().len());
    }

    proptest! {
        #[test]
        fn a_line_is_read_back_as_it_was_written(mut points in prop::collection::vec((0..9600_i32, 0..4000_i32), 2..40)) {
            points.dedup();
            prop_assume!(points.len() > 1);
            let mut path = Path::default();
            path.polyline(points.iter().copied());
            prop_assert_eq!(corners(path.data()), points);
        }
    }
}
