//! Boundary maps in the terminal: one axis as a line, two as a map, more as slices.
//!
//! Every cell shows the class of its middle, so that a map never claims more than the boundary does. Probes are drawn
//! on top. Predicted and contradictory cells have their own characters.

mod cells;
mod line;
mod map;
mod slices;
mod ticks;

use console::Style;

use crate::boundary::{Boundary, Class};
use crate::fault::Result;
use crate::report::Page;

/// Maximum width in columns: wider maps are harder to read.
const WIDEST: usize = 72;

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
    let mut lines = match boundary.lattice().axes() {
        [axis] => line::draw(boundary, axis, page)?,
        [x, y] => map::draw(boundary, x, y, &boundary.smallest(), page)?,
        [x, y, rest @ ..] => slices::draw(boundary, x, y, rest, page)?,
        [] => Vec::new(),
    };
    lines.push(legend(&lines, page));
    Ok(lines.join("\n"))
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
