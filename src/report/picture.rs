//! Boundary maps in the terminal: one axis as a line, two as a map, more as slices.
//!
//! Every cell shows the class of its middle, so that a map never claims more than the boundary does. Probes are drawn
//! on top. Predicted and contradictory cells have their own characters.

use std::collections::BTreeMap;

use console::Style;

use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Scalar, Scale};
use crate::fault::Result;
use crate::report::Page;
use crate::report::plot::{AxisScale, Canvas, ruler};

/// Maximum number of rows.
const ROWS: usize = 18;
/// Maximum number of slices.
const MAX_SLICES: usize = 3;
/// Columns before the first cell of a line.
const LEFT: usize = 1;

/// What a cell shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shade {
    Fits,
    /// Unknown, but predicted to fit.
    Likely,
    Open,
    /// Results contradict each other: not safe.
    Band,
    Fails,
}

/// Shades that the legend always explains, and those that it explains if they are drawn.
const ALWAYS_IN_LEGEND: [(Shade, &str); 3] = [(Shade::Fits, "fits"), (Shade::Open, "unknown"), (Shade::Fails, "fails")];
const IN_LEGEND_IF_DRAWN: [(Shade, &str); 2] = [(Shade::Likely, "predicted to fit"), (Shade::Band, "contradictory")];

/// Draws a boundary; the text has no line end after its last line.
pub fn draw(boundary: &Boundary, page: Page) -> Result<String> {
    let mut lines = draw_cells(boundary, ROWS, MAX_SLICES, page)?;
    lines.push(legend(&lines, page));
    Ok(lines.join("\n"))
}

/// Draws a boundary in so many rows of cells: of more than two axes, the slice with the most probes.
pub(super) fn draw_compact(boundary: &Boundary, rows: usize, page: Page) -> Result<String> {
    let mut lines = draw_cells(boundary, rows, 1, page)?;
    lines.retain(|line| !line.is_empty());
    lines.extend(legend(&lines, page).lines().next().map(str::to_owned));
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
    let mut lines = match shown[..] {
        [axis] => draw_line(boundary, axis, page)?,
        [x, y] => draw_map(boundary, x, y, &boundary.smallest(), rows, page)?,
        [x, y, ref rest @ ..] => draw_slices(boundary, x, y, rest, (rows, slices), page)?,
        [] => Vec::new(),
    };
    let held = fixed
        .iter()
        .filter(|axis| !shown.iter().any(|shown| shown.name() == axis.name()));
    let held: Vec<String> = held.map(|axis| format!("{}={}", axis.name(), axis.range().0)).collect();
    if !held.is_empty() {
        lines.insert(0, format!("at {}", held.join(" ")));
    }
    Ok(lines)
}

fn draw_line(boundary: &Boundary, axis: &Axis, page: Page) -> Result<Vec<String>> {
    let cells = Cells::new(axis, Canvas::columns(2 * LEFT - 1, page));
    let probes = probes(boundary, |point| cells.of(point));
    let indent = " ".repeat(LEFT);
    let mut marks = indent.clone();
    let mut line = indent.clone();
    for column in 0..cells.count {
        let probe = probes.get(&column);
        marks.push_str(&probe.map_or_else(|| " ".to_owned(), |class| probe_marker(*class, page)));
        let mut point = boundary.smallest();
        point.0.insert(axis.name().to_owned(), cells.middle(column));
        line.push_str(&fill(shade(boundary, &point)?, page));
    }
    Ok(vec![
        format!("{indent}{}", cells.name()),
        marks.trim_end().to_owned(),
        line,
        ruler(&cells.ticks_in_a_row(), cells.count, LEFT),
    ])
}

/// Draws the plane of two axes through `through`, which fixes all others; probes outside this plane are left out.
fn draw_map(boundary: &Boundary, x: &Axis, y: &Axis, through: &Point, rows: usize, page: Page) -> Result<Vec<String>> {
    let vertical = Cells::new(y, rows);
    let y_ticks = vertical.ticks((vertical.count / 4).max(2));
    let gutter = y_ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0).max(1) + 2;
    let horizontal = Cells::new(x, Canvas::columns(gutter, page));
    let probes = probes(boundary, |point| {
        let here = through.0.iter().all(|(name, value)| {
            name == x.name() || name == y.name() || point.0.get(name).is_some_and(|at| at == value)
        });
        let cell = (vertical.of(point)?, horizontal.of(point)?);
        here.then_some(cell)
    });
    let cell = |row: usize, column: usize| -> Result<String> {
        if let Some(class) = probes.get(&(row, column)) {
            return Ok(probe_marker(*class, page));
        }
        let mut point = through.clone();
        point.0.insert(x.name().to_owned(), horizontal.middle(column));
        point.0.insert(y.name().to_owned(), vertical.middle(row));
        Ok(fill(shade(boundary, &point)?, page))
    };
    let from_below = (0..vertical.count).rev();
    let rows: Result<Vec<String>> = from_below
        .map(|row| (0..horizontal.count).map(|column| cell(row, column)).collect())
        .collect();
    let canvas = Canvas {
        y_label: vertical.name(),
        x_label: horizontal.name(),
        y_ticks: y_ticks
            .into_iter()
            .map(|(row, text)| (vertical.count - 1 - row, text))
            .collect(),
        x_ticks: horizontal.ticks_in_a_row(),
        columns: horizontal.count,
        rows: rows?,
    };
    Ok(canvas.lines(page))
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
        let scale = AxisScale {
            from: low.as_f64(),
            to: high.as_f64(),
            log: axis.scale() == Scale::Log,
        };
        let count = values.min(most).max(1);
        Self { axis, scale, count }
    }

    /// The cell of a point; none outside the search range.
    fn of(&self, point: &Point) -> Option<usize> {
        let value = point.0.get(self.axis.name())?.as_f64();
        let within = (self.scale.from..=self.scale.to).contains(&value);
        let index = (self.scale.share(value) * self.count as f64) as usize;
        within.then_some(index.min(self.count - 1))
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
        let tick = |index: usize| match index {
            0 => (0, format_value(low)),
            index if index == last => (last, format_value(high)),
            index => (index, format_value(self.middle(index))),
        };
        let mut ticks: Vec<_> = (0..most).map(|number| tick(number * last / (most - 1))).collect();
        ticks.dedup_by_key(|(index, _)| *index);
        ticks
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

/// Probe results by cell. If several share a cell, a failing one is shown, then a fitting one.
fn probes<K: Ord>(boundary: &Boundary, cell: impl Fn(&Point) -> Option<K>) -> BTreeMap<K, Class> {
    let rank = |class: Class| match class {
        Class::Unknown => 0,
        Class::Fits => 1,
        Class::Fails => 2,
    };
    let mut probes: BTreeMap<K, Class> = BTreeMap::new();
    for (point, record) in boundary.records() {
        let Some(at) = cell(&point) else { continue };
        let class = match record.moves {
            Moves::Fits => Class::Fits,
            Moves::Fails => Class::Fails,
            Moves::None => Class::Unknown,
        };
        let shown = probes.entry(at).or_insert(class);
        if rank(class) > rank(*shown) {
            *shown = class;
        }
    }
    probes
}

fn draw_slices(
    boundary: &Boundary,
    x: &Axis,
    y: &Axis,
    rest: &[&Axis],
    (rows, slices): (usize, usize),
    page: Page,
) -> Result<Vec<String>> {
    let Some((third, others)) = rest.split_first() else {
        return Ok(Vec::new());
    };
    let mut through = boundary.smallest();
    let mut lines = Vec::new();
    for value in slice_values(boundary, third, slices) {
        through.0.insert(third.name().to_owned(), value);
        let easiest = |axis: &Axis| match axis.easier() {
            Easier::Down => axis.range().0,
            Easier::Up => axis.range().1,
        };
        let fixed = others
            .iter()
            .map(|axis| format!(", {}={}", axis.name(), format_value(easiest(axis))));
        lines.push(format!(
            "slice at {}={}{}",
            third.name(),
            format_value(value),
            fixed.collect::<String>()
        ));
        lines.extend(draw_map(boundary, x, y, &through, rows, page)?);
        lines.push(String::new());
    }
    Ok(lines)
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

fn shade(boundary: &Boundary, point: &Point) -> Result<Shade> {
    Ok(match boundary.classify(point)? {
        Class::Fits => Shade::Fits,
        Class::Fails if boundary.is_in_band(point)? => Shade::Band,
        Class::Fails => Shade::Fails,
        Class::Unknown if boundary.is_likely(point)? => Shade::Likely,
        Class::Unknown => Shade::Open,
    })
}

/// The character of a shade. Those of rare shades appear nowhere else in a map.
fn character(shade: Shade, page: Page) -> &'static str {
    match shade {
        Shade::Fits => page.pick("█", "#"),
        Shade::Likely => page.pick("▒", "*"),
        Shade::Open => page.pick("░", "-"),
        Shade::Band => page.pick("≈", "~"),
        Shade::Fails => page.pick("·", "."),
    }
}

fn fill(shade: Shade, page: Page) -> String {
    let style = match shade {
        Shade::Fits => Style::new().green(),
        // Yellow is invisible on white, and blue on black.
        Shade::Likely => Style::new().cyan(),
        Shade::Open => Style::new().dim(),
        Shade::Band => Style::new().magenta(),
        Shade::Fails => Style::new().red(),
    };
    page.paint(character(shade, page), style)
}

/// The marker of a probe.
fn probe_marker(class: Class, page: Page) -> String {
    let (character, style) = match class {
        Class::Fits => ("o", Style::new().green().bold()),
        Class::Unknown => ("?", Style::new().bold()),
        Class::Fails => ("x", Style::new().red().bold()),
    };
    page.paint(character, style)
}

/// Explains the characters in as few lines as fit.
fn legend(drawn: &[String], page: Page) -> String {
    let entry = |(shade, name): &(Shade, &str)| format!("{} {name}", fill(*shade, page));
    let shown = |(shade, _): &&(Shade, &str)| drawn.iter().any(|line| line.contains(character(*shade, page)));
    let probes = format!(
        "probes: {} fitted  {} failed  {} undecided",
        probe_marker(Class::Fits, page),
        probe_marker(Class::Fails, page),
        probe_marker(Class::Unknown, page)
    );
    let cells = ALWAYS_IN_LEGEND.iter().map(entry).collect::<Vec<_>>().join("  ");
    let rare: Vec<String> = IN_LEGEND_IF_DRAWN.iter().filter(shown).map(entry).collect();
    let mut lines = vec![cells];
    for (part, between) in [(rare.join("  "), "  "), (probes, "   ")] {
        let last = lines.last().map_or("", String::as_str);
        let joined = format!("{last}{between}{part}");
        if part.is_empty() {
            continue;
        } else if console::measure_text_width(&joined) <= page.width {
            lines.pop();
            lines.push(joined);
        } else {
            lines.push(part);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
