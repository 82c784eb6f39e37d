//! Boundary maps in the terminal: one axis as a line, two as a map, more as slices.
//!
//! Every cell shows the class of its middle, so that a map never claims more than the boundary does. Probes are drawn
//! on top. Predicted and contradictory cells have their own characters.

mod cells;

use std::collections::BTreeMap;

use console::Style;

use self::cells::{format_value, ruler, ticks};
use crate::boundary::{Axis, Boundary, Class, Point, Scalar, Scale};
use crate::fault::Result;
use crate::report::Page;

/// Maximum width in columns: wider maps are harder to read.
const WIDEST: usize = 72;
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
    let columns = cells::count(axis, page.width.min(WIDEST).saturating_sub(2 * LEFT).max(8));
    let probes = cells::probes(boundary, |point| {
        cells::cell(axis, point.0.get(axis.name()).copied()?, columns)
    });
    let mut marks = " ".repeat(LEFT);
    let mut line = " ".repeat(LEFT);
    for column in 0..columns {
        marks.push_str(
            &probes
                .get(&column)
                .map_or_else(|| " ".to_owned(), |class| probe_marker(*class, page)),
        );
        let mut point = boundary.smallest();
        point
            .0
            .insert(axis.name().to_owned(), cells::middle(axis, column, columns));
        line.push_str(&fill(shade(boundary, &point)?, page));
    }
    Ok(vec![
        format!("{}{}{}", " ".repeat(LEFT), axis.name(), scale_note(axis)),
        marks.trim_end().to_owned(),
        line,
        ruler(axis, columns, LEFT),
    ])
}

/// Draws the plane of two axes through `through`, which fixes all others; probes outside this plane are left out.
fn draw_map(boundary: &Boundary, x: &Axis, y: &Axis, through: &Point, rows: usize, page: Page) -> Result<Vec<String>> {
    let rows = cells::count(y, rows);
    let labels = ticks(y, rows, (rows / 4).max(2));
    let gutter = labels.iter().map(|(_, text)| text.len()).max().unwrap_or(0).max(1) + 2;
    let columns = cells::count(x, page.width.min(WIDEST).saturating_sub(gutter + 1).max(8));
    let probes = cells::probes(boundary, |point| {
        let coordinate = |axis: &Axis| point.0.get(axis.name()).copied();
        let here = through.0.iter().all(|(name, value)| {
            name == x.name() || name == y.name() || point.0.get(name).is_some_and(|at| at == value)
        });
        let column = cells::cell(x, coordinate(x)?, columns)?;
        here.then_some((cells::cell(y, coordinate(y)?, rows)?, column))
    });
    let mut lines = vec![format!(
        "{:>gutter$}{}",
        y.name(),
        scale_note(y),
        gutter = gutter.max(y.name().len())
    )];
    for row in (0..rows).rev() {
        let label = labels
            .iter()
            .find(|(index, _)| *index == row)
            .map_or("", |(_, text)| text);
        let mut line = format!("{label:>width$} {}", page.pick('│', '|'), width = gutter - 2);
        for column in 0..columns {
            let cell = match probes.get(&(row, column)) {
                Some(class) => probe_marker(*class, page),
                None => {
                    let mut point = through.clone();
                    point.0.insert(x.name().to_owned(), cells::middle(x, column, columns));
                    point.0.insert(y.name().to_owned(), cells::middle(y, row, rows));
                    fill(shade(boundary, &point)?, page)
                }
            };
            line.push_str(&cell);
        }
        lines.push(line);
    }
    let (corner, edge) = page.pick(('└', "─"), ('+', "-"));
    lines.push(format!("{}{corner}{}", " ".repeat(gutter - 1), edge.repeat(columns)));
    lines.push(ruler(x, columns, gutter));
    let name = format!("{}{}", x.name(), scale_note(x));
    lines.push(format!("{name:>width$}", width = (gutter + columns).max(name.len())));
    Ok(lines)
}

/// Names a scale that is not linear.
fn scale_note(axis: &Axis) -> &'static str {
    match axis.scale() {
        Scale::Linear => "",
        Scale::Log => " (log scale)",
    }
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
        let fixed = others
            .iter()
            .map(|axis| format!(", {}={}", axis.name(), format_value(cells::easiest(axis))));
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
