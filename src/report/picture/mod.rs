//! The boundary as a picture in the terminal: one axis as a line, two as a map, more as slices of maps.
//!
//! Every cell shows what is known of its middle, so that a picture never claims more than the boundary does; probes are
//! drawn over it. What is only predicted has a shade of its own, and so have contradictory answers.

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

/// What a cell shows of its middle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shade {
    /// Proven to fit.
    Fits,
    /// Open, and predicted to fit.
    Likely,
    /// Open.
    Open,
    /// Answers contradict each other: not safe.
    Band,
    /// Proven to fail.
    Fails,
}

/// The shades that are always explained, and those that are where they are drawn.
const ALWAYS: [(Shade, &str); 3] = [(Shade::Fits, "fits"), (Shade::Open, "unknown"), (Shade::Fails, "fails")];
const RARELY: [(Shade, &str); 2] = [(Shade::Likely, "predicted to fit"), (Shade::Band, "contradictory")];

/// Draws a boundary; the text has no line end after its last line.
pub fn draw(boundary: &Boundary, page: Page) -> Result<String> {
    let mut lines = match boundary.lattice().axes() {
        [axis] => line::draw(boundary, axis, page)?,
        [x, y] => flat::draw(boundary, x, y, &boundary.smallest(), page)?,
        [x, y, rest @ ..] => slices::draw(boundary, x, y, rest, page)?,
        [] => Vec::new(),
    };
    lines.push(legend(&lines, page));
    Ok(lines.join("\n"))
}

/// The character of a shade; nothing else in a picture has those that are not always there.
fn character(shade: Shade, page: Page) -> &'static str {
    match shade {
        Shade::Fits => page.pick("█", "#"),
        Shade::Likely => page.pick("▒", "*"),
        Shade::Open => page.pick("░", "-"),
        Shade::Band => page.pick("≈", "~"),
        Shade::Fails => page.pick("·", "."),
    }
}

/// What a cell is filled with.
fn fill(shade: Shade, page: Page) -> String {
    let style = match shade {
        Shade::Fits => Style::new().green(),
        // Yellow vanishes on white, and blue on black.
        Shade::Likely => Style::new().cyan(),
        Shade::Open => Style::new().dim(),
        Shade::Band => Style::new().magenta(),
        Shade::Fails => Style::new().red(),
    };
    page.paint(character(shade, page), style)
}

/// What a probe is drawn as, by what it said.
fn mark(class: Class, page: Page) -> String {
    let (character, style) = match class {
        Class::Fits => ("o", Style::new().green().bold()),
        Class::Unknown => ("?", Style::new().bold()),
        Class::Fails => ("x", Style::new().red().bold()),
    };
    page.paint(character, style)
}

/// Says what the characters mean, in as few lines as fit.
fn legend(drawn: &[String], page: Page) -> String {
    let entry = |(shade, name): &(Shade, &str)| format!("{} {name}", fill(*shade, page));
    let shown = |(shade, _): &&(Shade, &str)| drawn.iter().any(|line| line.contains(character(*shade, page)));
    let probes = format!(
        "probes: {} fitted  {} failed  {} undecided",
        mark(Class::Fits, page),
        mark(Class::Fails, page),
        mark(Class::Unknown, page)
    );
    let cells = ALWAYS.iter().map(entry).collect::<Vec<_>>().join("  ");
    let rare: Vec<String> = RARELY.iter().filter(shown).map(entry).collect();
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
