//! The boundary as a picture in the terminal: one axis as a line, two as a map, more as slices of maps.
//!
//! Every cell shows what is known of its middle, so that a picture never claims more than the boundary does; probes are
//! drawn over it.

mod cells;
mod flat;
mod line;
mod slices;
mod ticks;

use console::Style;

use crate::boundary::{Boundary, Class};
use crate::fault::Result;
use crate::report::Page;

/// Columns of a picture at most: wider ones are harder to read.
const WIDEST: usize = 72;

/// Draws a boundary; the text has no line end after its last line.
pub fn draw(boundary: &Boundary, page: Page) -> Result<String> {
    let mut lines = match boundary.lattice().axes() {
        [axis] => line::draw(boundary, axis, page)?,
        [x, y] => flat::draw(boundary, x, y, &boundary.smallest(), page)?,
        [x, y, rest @ ..] => slices::draw(boundary, x, y, rest, page)?,
        [] => Vec::new(),
    };
    lines.push(legend(page));
    Ok(lines.join("\n"))
}

/// What a cell is filled with.
fn fill(class: Class, page: Page) -> String {
    let (character, style) = match class {
        Class::Fits => (page.pick("█", "#"), Style::new().green()),
        Class::Unknown => (page.pick("░", "-"), Style::new().yellow()),
        Class::Fails => (page.pick("·", "."), Style::new().red()),
    };
    page.paint(character, style)
}

/// What a probe is drawn as, by what it said.
fn mark(class: Class, page: Page) -> String {
    let (character, style) = match class {
        Class::Fits => ("o", Style::new().green().bold()),
        Class::Unknown => ("?", Style::new().yellow().bold()),
        Class::Fails => ("x", Style::new().red().bold()),
    };
    page.paint(character, style)
}

fn legend(page: Page) -> String {
    let entry = |class: Class, name: &str| format!("{} {name}", fill(class, page));
    let cells = [
        entry(Class::Fits, "fits"),
        entry(Class::Unknown, "unknown"),
        entry(Class::Fails, "fails"),
    ];
    let probes = format!(
        "probes: {} fitted  {} failed  {} undecided",
        mark(Class::Fits, page),
        mark(Class::Fails, page),
        mark(Class::Unknown, page)
    );
    let line = format!("{}   {probes}", cells.join("  "));
    if console::measure_text_width(&line) <= page.width {
        return line;
    }
    [cells.join("  "), probes].join("\n")
}

#[cfg(test)]
mod tests;
