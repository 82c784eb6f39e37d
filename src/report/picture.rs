//! Boundary maps in the terminal: one axis as a row, two as a map, more as slices.
//!
//! Every cell shows the class of its middle, so that a map never claims more than the boundary does. Probes are drawn
//! on top. Predicted and contradictory cells have their own characters.

use std::collections::BTreeMap;

use console::{Style, measure_text_width};

use crate::boundary::{Axis, Boundary, Class, Easier, Point, Scalar};
use crate::fault::Result;
use crate::fmt::flow;
use crate::report::Page;
use crate::report::evidence::{NOT_SENT, ProbeClass};
use crate::report::findings::at_most_as_hard;
use crate::report::plot::{AxisScale, Canvas};

/// Maximum number of rows.
const ROWS: usize = 18;
/// Maximum number of slices.
const MAX_SLICES: usize = 3;

/// What a cell shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shade {
    Fits,
    Open,
    Fails,
    /// Unknown, but predicted to fit.
    Likely,
    /// Unknown, but predicted to fail.
    Unlikely,
    /// Results contradict each other: not safe.
    Band,
    /// Refused for its length, or beyond what could be tested.
    Beyond,
}

/// The shades in the order of the legend, which always explains the first three, and the others if they are drawn.
const SHADES: [(Shade, &str); 6] = [
    (Shade::Fits, "fits"),
    (Shade::Open, "unknown"),
    (Shade::Fails, "fails"),
    (Shade::Likely, "predicted to fit"),
    (Shade::Unlikely, "predicted to fail"),
    (Shade::Band, "contradictory"),
];

/// The characters of probes in the order of the legend, which always explains the first three.
const MARKS: [(ProbeClass, &str, &str); 5] = [
    (ProbeClass::Fits, "o", "fitted"),
    (ProbeClass::Fails, "x", "failed"),
    (ProbeClass::Unclear, "?", "undecided"),
    (ProbeClass::Clipped, "!", "refused for its length"),
    (ProbeClass::NotSent, "%", NOT_SENT),
];

/// Draws a boundary; the text has no line end after its last line.
pub fn draw(boundary: &Boundary, page: Page) -> Result<String> {
    let mut lines = draw_cells(boundary, ROWS, MAX_SLICES, page)?;
    lines.extend(legend(boundary, &lines, page));
    Ok(lines.join("\n"))
}

/// What the part of the search range is that neither fits nor fails nor is open.
pub(super) fn beyond(boundary: &Boundary) -> &'static str {
    match boundary.untested() {
        Some(_) => "beyond what could be tested",
        None => "beyond a length limit",
    }
}

/// Draws a boundary in so many rows of cells: of more than two axes, the slice with the most probes.
pub(super) fn draw_compact(boundary: &Boundary, rows: usize, page: Page) -> Result<String> {
    let mut lines = draw_cells(boundary, rows, 1, page)?;
    lines.retain(|line| !line.is_empty());
    lines.extend(legend(boundary, &lines, page).into_iter().next());
    Ok(lines.join("\n"))
}

fn draw_cells(boundary: &Boundary, rows: usize, slices: usize, page: Page) -> Result<Vec<String>> {
    let axes = boundary.lattice().axes();
    // An axis of one value has nothing to show.
    let (mut shown, fixed): (Vec<&Axis>, Vec<&Axis>) = axes.iter().partition(|axis| axis.range().0 != axis.range().1);
    if shown.is_empty() {
        shown.extend(fixed.first());
    }
    if shown.len() > 2 {
        // Lengths make the map.
        shown.sort_by_key(|axis| !matches!(axis.name(), "input" | "output"));
    }
    let mut lines = Vec::new();
    let held = fixed
        .iter()
        .filter(|axis| !shown.iter().any(|shown| shown.name() == axis.name()));
    let held: Vec<String> = held.map(|axis| format!("{}={}", axis.name(), axis.range().0)).collect();
    if !held.is_empty() {
        lines.push(format!("at {}", held.join(" ")));
    }
    let mut through = boundary.smallest();
    match shown[..] {
        [] => {}
        [x] => lines.extend(draw_map(boundary, x, None, &through, 1, page)?),
        [x, y] => lines.extend(draw_map(boundary, x, Some(y), &through, rows, page)?),
        [x, y, third, ref others @ ..] => {
            let easiest = |axis: &&Axis| match axis.easier() {
                Easier::Down => axis.range().0,
                Easier::Up => axis.range().1,
            };
            let fixed = others
                .iter()
                .map(|axis| format!(", {}={}", axis.name(), format_value(easiest(axis))));
            let fixed: String = fixed.collect();
            for value in slice_values(boundary, third, slices) {
                through.0.insert(third.name().to_owned(), value);
                lines.push(format!("slice at {}={}{fixed}", third.name(), format_value(value)));
                lines.extend(draw_map(boundary, x, Some(y), &through, rows, page)?);
                lines.push(String::new());
            }
        }
    }
    Ok(lines)
}

/// Draws the row of an axis, or the plane of two, through `through`, which fixes all others; probes elsewhere are left out.
fn draw_map(
    boundary: &Boundary,
    x: &Axis,
    y: Option<&Axis>,
    through: &Point,
    rows: usize,
    page: Page,
) -> Result<Vec<String>> {
    let vertical = y.map(|y| Cells::new(y, rows));
    let rows = vertical.as_ref().map_or(1, |vertical| vertical.count);
    let y_ticks = vertical
        .as_ref()
        .map_or_else(Vec::new, |vertical| vertical.ticks((rows / 4).max(2)));
    let gutter = y_ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0).max(1) + 2;
    let horizontal = Cells::new(x, Canvas::columns(gutter, page));
    let probes = probes(boundary, |point| {
        let here = through.0.iter().all(|(name, value)| {
            let drawn = name == x.name() || y.is_some_and(|y| name == y.name());
            drawn || point.0.get(name).is_some_and(|at| at == value)
        });
        let row = vertical.as_ref().map_or(Some(0), |vertical| vertical.of(point))?;
        let cell = (row, horizontal.of(point)?);
        here.then_some(cell)
    });
    let clipped = boundary.clipped();
    let cell = |row: usize, column: usize| -> Result<String> {
        if let Some(class) = probes.get(&(row, column)) {
            return Ok(probe_marker(*class, page));
        }
        let mut point = through.clone();
        for (cells, index) in [(Some(&horizontal), column), (vertical.as_ref(), row)] {
            if let Some(cells) = cells {
                point.0.insert(cells.axis.name().to_owned(), cells.middle(index));
            }
        }
        Ok(fill(shade(boundary, &clipped, &point)?, page))
    };
    let from_below = (0..rows).rev();
    let drawn: Result<Vec<String>> = from_below
        .map(|row| (0..horizontal.count).map(|column| cell(row, column)).collect())
        .collect();
    let canvas = Canvas {
        y_label: vertical.as_ref().map_or_else(String::new, Cells::name),
        x_label: horizontal.name(),
        y_ticks: y_ticks.into_iter().map(|(row, text)| (rows - 1 - row, text)).collect(),
        x_ticks: horizontal.ticks_in_a_row(),
        columns: horizontal.count,
        rows: drawn?,
    };
    let lines = canvas.lines(page).into_iter();
    Ok(lines.skip(usize::from(y.is_none())).collect())
}

/// An axis divided into cells.
struct Cells<'a> {
    axis: &'a Axis,
    scale: AxisScale,
    count: usize,
}

impl<'a> Cells<'a> {
    /// At most `most` cells, and no more than the axis has values.
    fn new(axis: &'a Axis, most: usize) -> Self {
        let (low, high) = axis.range();
        let values = match (low, high) {
            (Scalar::Int(low), Scalar::Int(high)) => usize::try_from(high - low + 1).unwrap_or(most),
            _ => most,
        };
        let scale = AxisScale::of(axis);
        let count = values.min(most).max(1);
        Self { axis, scale, count }
    }

    /// The cell of a point; none outside the search range.
    fn of(&self, point: &Point) -> Option<usize> {
        let value = point.0.get(self.axis.name())?.as_f64();
        let within = (self.scale.from..=self.scale.to).contains(&value);
        within.then(|| self.scale.cell(value, self.count))
    }

    /// The value at the middle of a cell, rounded if the axis has integers.
    fn middle(&self, index: usize) -> Scalar {
        let value = self.scale.value((index as f64 + 0.5) / self.count as f64);
        match self.axis.range().0 {
            Scalar::Int(_) => Scalar::Int(value.round() as i64),
            Scalar::Float(_) => Scalar::Float(value),
        }
    }

    /// Labels of a few cells. The first and the last cell show the ends of the axis, others their middle.
    fn ticks(&self, most: usize) -> Vec<(usize, String)> {
        let (low, high) = self.axis.range();
        let last = self.count - 1;
        let most = most.clamp(2, self.count.max(2));
        let value = |index: usize| match index {
            0 => low,
            index if index == last => high,
            index => self.middle(index),
        };
        let mut cells: Vec<usize> = (0..most).map(|number| number * last / (most - 1)).collect();
        cells.dedup();
        cells
            .into_iter()
            .map(|index| (index, format_value(value(index))))
            .collect()
    }

    /// As many labels as have room side by side.
    fn ticks_in_a_row(&self) -> Vec<(usize, String)> {
        let widest = self.ticks(2).iter().map(|(_, text)| text.len()).max().unwrap_or(1);
        self.ticks((self.count / (widest + 3)).clamp(2, 6))
    }

    /// Names the axis, and its scale if that is not linear.
    fn name(&self) -> String {
        let note = if self.scale.log { " (log scale)" } else { "" };
        format!("{}{note}", self.axis.name())
    }
}

fn format_value(value: Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => {
            let short = format!("{value:.4}");
            short.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Probe results by cell.
fn probes<K: Ord>(boundary: &Boundary, cell: impl Fn(&Point) -> Option<K>) -> BTreeMap<K, ProbeClass> {
    let mut probes: BTreeMap<K, ProbeClass> = BTreeMap::new();
    for (point, record) in boundary.records() {
        let Some(at) = cell(&point) else { continue };
        let class = ProbeClass::of(record);
        let shown = probes.entry(at).or_insert(class);
        *shown = class.max(*shown);
    }
    probes
}

/// The values that were probed most; if there are fewer, also the ends of the axis.
fn slice_values(boundary: &Boundary, axis: &Axis, most: usize) -> Vec<Scalar> {
    let mut probed: BTreeMap<String, (usize, Scalar)> = BTreeMap::new();
    for (point, _) in boundary.records() {
        if let Some(value) = point.0.get(axis.name()) {
            probed.entry(value.to_string()).or_insert((0, *value)).0 += 1;
        }
    }
    let mut probed: Vec<(usize, Scalar)> = probed.into_values().collect();
    probed.sort_by(|(a, _), (b, _)| b.cmp(a));
    let (low, high) = axis.range();
    let mut values: Vec<Scalar> = probed.into_iter().map(|(_, value)| value).take(most).collect();
    for end in [low, high] {
        if values.len() < most && !values.contains(&end) {
            values.push(end);
        }
    }
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values
}

/// `clipped` are the smallest points that are beyond a length limit.
fn shade(boundary: &Boundary, clipped: &[Point], point: &Point) -> Result<Shade> {
    let axes = boundary.lattice().axes();
    let is_beyond = |limit: &Point| at_most_as_hard(axes, limit, point);
    Ok(match boundary.classify(point)? {
        Class::Fits => Shade::Fits,
        Class::Fails if boundary.is_in_band(point)? => Shade::Band,
        Class::Fails => Shade::Fails,
        Class::Unknown if clipped.iter().any(is_beyond) => Shade::Beyond,
        Class::Unknown if boundary.is_likely(point)? => Shade::Likely,
        Class::Unknown if boundary.is_unlikely(point)? => Shade::Unlikely,
        Class::Unknown => Shade::Open,
    })
}

/// A cell of a shade. The characters of rare shades appear nowhere else in a map.
fn fill(shade: Shade, page: Page) -> String {
    let (character, style) = match shade {
        Shade::Fits => (page.pick("█", "#"), Style::new().green()),
        // Yellow is invisible on white, and blue on black.
        Shade::Likely => (page.pick("▒", "*"), Style::new().cyan()),
        Shade::Unlikely => (":", Style::new().dim().red()),
        Shade::Open => (page.pick("░", "-"), Style::new().dim()),
        Shade::Band => (page.pick("≈", "~"), Style::new().magenta()),
        Shade::Fails => (page.pick("·", "."), Style::new().red()),
        Shade::Beyond => ("/", Style::new().dim()),
    };
    page.paint(character, style)
}

/// The marker of a probe.
fn probe_marker(class: ProbeClass, page: Page) -> String {
    let style = match class {
        ProbeClass::Fits => Style::new().green().bold(),
        ProbeClass::Unclear | ProbeClass::Clipped => Style::new().bold(),
        ProbeClass::NotSent | ProbeClass::Fails => Style::new().red().bold(),
    };
    let character = MARKS.iter().find(|(known, ..)| *known == class);
    page.paint(character.map_or("", |(_, character, _)| character), style)
}

/// Explains the characters: the shades, then the probes, each in as few lines as hold them.
fn legend(boundary: &Boundary, drawn: &[String], page: Page) -> Vec<String> {
    let contains = |part: &str| drawn.iter().any(|line| line.contains(part));
    let shown = |(index, (shade, _)): &(usize, (Shade, &str))| *index < 3 || contains(&fill(*shade, page));
    let shades = SHADES.into_iter().chain([(Shade::Beyond, beyond(boundary))]);
    let shades = shades.enumerate().filter(shown);
    let shades = shades.map(|(_, (shade, name))| format!("{} {name}", fill(shade, page)));
    let fits = |line: &str| measure_text_width(line) <= page.width;
    let mut lines = flow(shades, "  ", fits);
    let probes = MARKS.into_iter().enumerate().filter_map(|(index, (class, _, name))| {
        let marker = probe_marker(class, page);
        let title = if index == 0 { "probes: " } else { "" };
        (index < 3 || contains(&marker)).then(|| format!("{title}{marker} {name}"))
    });
    lines.extend(flow(probes, "  ", fits));
    lines
}

#[cfg(test)]
mod tests {
    //! Maps of small boundaries, compared as text.

    use serde_json::{Value, json};

    use super::draw;
    use crate::boundary::{Answer, Boundary, Options, Point};
    use crate::report::Page;

    fn boundary(axes: Value, answers: &[(Value, &str)]) -> Boundary {
        let mut boundary = Boundary::new(&axes, Options::default()).unwrap();
        for (point, verdict) in answers {
            let point: Point = serde_json::from_value(point.clone()).unwrap();
            boundary
                .record(&point, &Answer::parse(&json!(verdict)).unwrap())
                .unwrap();
        }
        boundary
    }

    fn picture(boundary: &Boundary, width: usize) -> String {
        let page = Page {
            width,
            ..Page::default()
        };
        let text = draw(boundary, page).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        format!("\n{}\n", lines.join("\n"))
    }

    #[test]
    fn one_axis_is_a_row() {
        let boundary = boundary(
            json!({ "input": [1, 100] }),
            &[
                (json!({ "input": 50 }), "ok"),
                (json!({ "input": 80 }), "oom"),
                (json!({ "input": 60 }), "timeout"),
            ],
        );
        assert_eq!(
            picture(&boundary, 42),
            "
  |##################o---?-------x.......
  +--------------------------------------
   1      21     39      60     78    100
                                    input
# fits  - unknown  . fails
probes: o fitted  x failed  ? undecided
"
        );
    }

    #[test]
    fn what_is_refused_for_its_length_has_its_own_mark_and_region() {
        let mut boundary = boundary(json!({ "input": [1, 100] }), &[(json!({ "input": 50 }), "ok")]);
        let refused = json!({ "verdict": "refused", "cause": "length_limit" });
        boundary
            .record(&Point::default().with("input", 80), &Answer::parse(&refused).unwrap())
            .unwrap();
        let text = picture(&boundary, 42);
        assert!(text.contains("#o-") && text.contains("-!///"), "{text}");
        for named in ["/ beyond a length limit", "! refused for its length"] {
            assert!(text.contains(named), "{named}: {text}");
        }
    }

    #[test]
    fn two_axes_are_a_map() {
        let boundary = boundary(
            json!({ "input": [0, 9], "output": [0, 5] }),
            &[
                (json!({ "input": 4, "output": 2 }), "ok"),
                (json!({ "input": 7, "output": 1 }), "oom"),
            ],
        );
        assert_eq!(
            picture(&boundary, 80),
            "
output
5 |*****--...
  |*****--...
  |*****--...
  |####o*-...
  |#####*-x..
0 |#####*--::
  +----------
   0        9
        input
# fits  - unknown  . fails  * predicted to fit  : predicted to fail
probes: o fitted  x failed  ? undecided
"
        );
    }

    #[test]
    fn three_axes_are_slices() {
        let boundary = boundary(
            json!({ "a": [0, 3], "b": [0, 1], "c": [1, 8] }),
            &[
                (json!({ "a": 1, "b": 1, "c": 4 }), "ok"),
                (json!({ "a": 2, "b": 1, "c": 4 }), "oom"),
            ],
        );
        let text = picture(&boundary, 80);
        assert!(text.contains("slice at c=1\n") && text.contains("slice at c=4\n") && text.contains("slice at c=8\n"));
        assert!(text.contains("1 |#ox.\n0 |##--\n"), "{text}");
    }

    #[test]
    fn an_axis_of_one_value_is_not_drawn_and_a_log_scale_is_named() {
        let boundary = boundary(
            json!({ "input": [2000, 2000], "output": [500, 500], "concurrency": { "range": [1, 1000], "scale": "log" } }),
            &[
                (json!({ "input": 2000, "output": 500, "concurrency": 31 }), "ok"),
                (json!({ "input": 2000, "output": 500, "concurrency": 33 }), "queued"),
            ],
        );
        let text = picture(&boundary, 62);
        let lines: Vec<&str> = text.trim_start().lines().collect();
        assert_eq!(lines[0], "at input=2000 output=500", "{text}");
        assert!(text.contains(" concurrency (log scale)\n"), "{text}");
        // 58 cells: 32 is in the middle of a scale from 1 to 1,000.
        let (fitting, failing) = (lines[1].matches('#').count(), lines[1].matches('.').count());
        assert!(fitting.abs_diff(28) <= 1 && failing.abs_diff(28) <= 1, "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_page() {
        let wide = boundary(
            json!({ "input": { "range": [128, 131_072], "scale": "log" }, "output": [128, 32_768] }),
            &[
                (json!({ "input": 4096, "output": 2000 }), "ok"),
                (json!({ "input": 60_000, "output": 9000 }), "oom"),
            ],
        );
        for width in [24, 40, 80, 200] {
            for unicode in [true, false] {
                let page = Page {
                    width,
                    unicode,
                    colour: true,
                };
                for line in draw(&wide, page).unwrap().lines() {
                    // The legend cannot be cut any further.
                    let limit = width.max(40);
                    assert!(console::measure_text_width(line) <= limit, "{width}: {line}");
                }
            }
        }
    }
}
