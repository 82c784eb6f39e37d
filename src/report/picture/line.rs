//! A map of one axis as a line: probes above the cells, values below.

use super::ticks::ruler;
use super::{WIDEST, cells, fill, probe_marker};
use crate::boundary::{Axis, Boundary, Point};
use crate::fault::Result;
use crate::report::Page;

/// Columns before the first cell.
const LEFT: usize = 1;

pub(super) fn draw(boundary: &Boundary, axis: &Axis, page: Page) -> Result<Vec<String>> {
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
        let point = Point([(axis.name().to_owned(), cells::middle(axis, column, columns))].into());
        line.push_str(&fill(cells::shade(boundary, &point)?, page));
    }
    Ok(vec![
        format!("{}{}", " ".repeat(LEFT), axis.name()),
        marks.trim_end().to_owned(),
        line,
        ruler(axis, columns, LEFT),
    ])
}
