//! A map of two axes: the first to the right, the second upwards.

use super::ticks::{ruler, ticks};
use super::{WIDEST, cells, fill, probe_marker};
use crate::boundary::{Axis, Boundary, Point};
use crate::fault::Result;
use crate::report::Page;

/// Maximum number of rows.
const ROWS: usize = 18;

/// Draws the plane of two axes through `through`, which fixes all others; probes outside this plane are left out.
pub(super) fn draw(boundary: &Boundary, x: &Axis, y: &Axis, through: &Point, page: Page) -> Result<Vec<String>> {
    let rows = cells::count(y, ROWS);
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
    let mut lines = vec![format!("{:>gutter$}", y.name(), gutter = gutter.max(y.name().len()))];
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
                    fill(cells::shade(boundary, &point)?, page)
                }
            };
            line.push_str(&cell);
        }
        lines.push(line);
    }
    let (corner, edge) = page.pick(('└', "─"), ('+', "-"));
    lines.push(format!("{}{corner}{}", " ".repeat(gutter - 1), edge.repeat(columns)));
    lines.push(ruler(x, columns, gutter));
    lines.push(format!(
        "{:>width$}",
        x.name(),
        width = (gutter + columns).max(x.name().len())
    ));
    Ok(lines)
}
