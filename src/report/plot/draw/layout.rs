//! Where the panels of a picture stand: below each other with their left edges in line, or side by side as small multiples.

use std::fmt::Write as _;

use super::canvas::escaped;
use super::extent::Extent;
use super::ink::Role;
use super::legend;
use super::look::Look;
use super::panel::{Around, Ends, Plan};
use super::path::tenths;
use super::pen::{Pen, Rect, Type, tenth};
use super::text::wrap;
use super::{Drawing, Frame, Width, above, theme};
use crate::report::plot::{Panel, Plot};

/// What stands at the head of a file.
const SIMULATED: &str = "SIMULATED: no real engine or GPU was measured";

/// Pixels between panels side by side, and around a picture in a file.
const BETWEEN: f64 = 24.0;
const EDGE: f64 = 20.0;

/// The words around a picture in a file.
struct Words<'a> {
    plot: &'a Plot,
    simulated: bool,
    pixels: bool,
}

/// The whole picture without words.
pub(super) fn whole(plot: &Plot, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{}", plot.name, width.name());
    let panels: Vec<&Panel> = plot.panels.iter().collect();
    compose(plot, &panels, width, &prefix, None)
}

/// One panel without words.
pub(super) fn single(plot: &Plot, index: usize, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{index}-{}", plot.name, width.name());
    let panels: Vec<&Panel> = plot.panels.get(index).into_iter().collect();
    compose(plot, &panels, width, &prefix, None)
}

/// The whole picture with its words.
pub(super) fn file(plot: &Plot, simulated: bool, pixels: bool) -> Drawing {
    let panels: Vec<&Panel> = plot.panels.iter().collect();
    let prefix = format!("plot-{}", plot.name);
    compose(
        plot,
        &panels,
        Width::Wide,
        &prefix,
        Some(&Words {
            plot,
            simulated,
            pixels,
        }),
    )
}

/// How high the place between the axes is.
fn height(width: Width, rows: usize, multiples: bool) -> f64 {
    let heights = match width {
        Width::Wide => [380.0, 250.0, 200.0, 140.0],
        Width::Narrow => [270.0, 200.0, 160.0, 130.0],
    };
    if multiples {
        return if width == Width::Wide { 200.0 } else { 150.0 };
    }
    heights[match rows {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 2,
        _ => 3,
    }]
}

/// How high panels need be at most whose upward places all have names: a few rows on the height of a map are mostly empty.
fn named(panels: &[&Panel]) -> f64 {
    let need = |panel: &&Panel| match panel.y.names.len() {
        0 => f64::INFINITY,
        names => 24.0 + 44.0 * names as f64,
    };
    panels.iter().map(need).fold(0.0, f64::max)
}

/// Whether all panels have one x axis.
fn same_x(panels: &[&Panel]) -> bool {
    let alike = |one: &Panel, other: &Panel| {
        (&one.x.label, one.x.unit, one.x.scale, &one.x.names)
            == (&other.x.label, other.x.unit, other.x.scale, &other.x.names)
    };
    panels.windows(2).all(|pair| alike(pair[0], pair[1]))
}

fn compose(plot: &Plot, panels: &[&Panel], width: Width, prefix: &str, words: Option<&Words>) -> Drawing {
    let look = Look::of(width);
    let size = look.font;
    let multiples = plot.slider.is_some() && panels.len() > 1;
    let columns = match (multiples, width) {
        (true, Width::Wide) => panels.len().min(3),
        _ => 1,
    };
    let rows = panels.len().div_ceil(columns);
    let high = height(width, rows, multiples).min(named(panels));
    let cell = (look.width - BETWEEN * (columns as f64 - 1.0)) / columns as f64;
    let inner = if columns > 1 { look.cell(cell) } else { look };
    let extents = shared(plot, panels);
    let plans: Vec<Plan> = panels
        .iter()
        .map(|panel| Plan::of(panel, extents, high, inner))
        .collect();

    let heat = legend::heat(plot.panels.iter());
    let entries = legend::entries(plans.iter(), heat);
    let laid = legend::lay(&entries, look.width, size);
    let sides = plans.iter().map(|plan| plan.sides(inner));
    let sides = sides.fold((0.0, 0.0), |one: (f64, f64), other| {
        (one.0.max(other.0), one.1.max(other.1))
    });
    let across = (cell - sides.0 - sides.1).max(40.0);
    let ends: Vec<Ends> = (0..plans.len())
        .map(|index| plans[index].ends(across, around(panels, index, columns), inner))
        .collect();

    let head = words.map_or_else(Vec::new, |words| head(words, look));
    let foot = words.map_or_else(Vec::new, |words| wrap(&words.plot.caption, size, look.width, 8));
    let legend_top =
        4.0 + head.iter().map(|(_, set)| set.size * 1.5).sum::<f64>() + if head.is_empty() { 0.0 } else { 6.0 };
    let mut y = legend_top + laid.height + if entries.is_empty() { 0.0 } else { 10.0 };
    let mut rects = Vec::new();
    for row in 0..rows {
        let indices = row * columns..((row + 1) * columns).min(plans.len());
        let most = |part: fn(&Ends) -> f64| ends[indices.clone()].iter().map(part).fold(0.0, f64::max);
        let (top, bottom) = (most(|ends| ends.top), most(|ends| ends.bottom));
        for column in 0..indices.len() {
            let left = column as f64 * (cell + BETWEEN) + sides.0;
            rects.push(Rect {
                left,
                top: y + top,
                width: across,
                height: high,
            });
        }
        y += top + high + bottom + if row + 1 < rows { 12.0 } else { 0.0 };
    }
    if plans.is_empty() {
        y += size * 2.0;
    }
    let total = y + foot.len() as f64 * size * 1.5 + if foot.is_empty() { 4.0 } else { 12.0 };

    let pen = Pen::new(prefix, look.width, total);
    let mut line = 4.0;
    for (text, set) in &head {
        pen.text(text, 0.0, line, *set);
        line += set.size * 1.5;
    }
    legend::draw(&pen, &entries, &laid, 0.0, legend_top, size);
    for (index, (plan, rect)) in plans.iter().zip(&rects).enumerate() {
        plan.draw(&pen, inner, *rect, sides, &ends[index], heat.unwrap_or((0.0, 1.0)));
    }
    if plans.is_empty() {
        pen.text("nothing to draw", 0.0, y - size * 1.5, Type::of(Role::Faint, size));
    }
    let mut below = y + 10.0;
    for text in &foot {
        pen.text(text, 0.0, below, Type::of(Role::Faint, size));
        below += size * 1.5;
    }
    let frames = plans
        .iter()
        .zip(&rects)
        .map(|(plan, rect)| frame(plan, *rect))
        .collect();
    Drawing {
        svg: element(plot, width, (look.width, total), words, &pen.finish()),
        size: (look.width, total),
        frames,
    }
}

/// The extents that panels share, across and up. Those that a slider chooses among are comparable only on the same axes, whether they are drawn
/// together or not.
fn shared(plot: &Plot, panels: &[&Panel]) -> (Option<Extent>, Option<Extent>) {
    let all: Vec<&Panel> = plot.panels.iter().collect();
    let both =
        |extent: fn(&Panel) -> Extent, among: &[&Panel]| among.iter().map(|panel| extent(panel)).reduce(Extent::and);
    let up: fn(&Panel) -> Extent = |panel| Extent::up(panel, false);
    match plot.slider {
        Some(_) => (both(Extent::across, &all), both(up, &all)),
        None if same_x(panels) => (both(Extent::across, panels), None),
        None => (None, None),
    }
}

/// What is written around a panel: in a column, what is the same above each is written above the first, and the x axis below the last.
fn around(panels: &[&Panel], index: usize, columns: usize) -> Around {
    let column = columns == 1 && same_x(panels);
    let same = |one: usize, other: usize| {
        let both = panels.get(one).zip(panels.get(other));
        column && both.is_some_and(|(one, other)| above::alike(one, other))
    };
    Around {
        above: index == 0 || !same(index - 1, index),
        below: !column || index + 1 == panels.len(),
        keys: !same(index, index + 1),
    }
}

fn frame(plan: &Plan, rect: Rect) -> Frame {
    Frame {
        left: rect.left,
        top: rect.top,
        width: rect.width,
        height: rect.height,
        x: plan.x.along,
        y: plan.y.along,
        right: plan.right.as_ref().map(|right| right.along),
    }
}

/// The lines at the head of a file.
fn head(words: &Words, look: Look) -> Vec<(String, Type)> {
    let title = Type::of(Role::Ink, 17.0).bold();
    let mut lines: Vec<(String, Type)> = wrap(&words.plot.title, 17.0 * 1.08, look.width, 3)
        .into_iter()
        .map(|line| (line, title))
        .collect();
    if words.simulated {
        lines.push((
            SIMULATED.to_owned(),
            Type::of(Role::from(crate::report::plot::Colour::Fails), 13.0).bold(),
        ));
    }
    lines
}

fn element(plot: &Plot, width: Width, (wide, high): (f64, f64), words: Option<&Words>, body: &str) -> String {
    let label = escaped(&plot.title);
    let edge = if words.is_some() { EDGE } else { 0.0 };
    let (x, y) = (tenths(tenth(-edge)), tenths(tenth(-edge)));
    let (w, h) = (tenths(tenth(wide + 2.0 * edge)), tenths(tenth(high + 2.0 * edge)));
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="plot plot-{}" viewBox="{x} {y} {w} {h}""#,
        width.name()
    );
    if let Some(words) = words {
        let _ = write!(
            svg,
            r#" width="{w}" height="{h}" font-family="system-ui, Ubuntu, sans-serif"><title>{label}</title><desc>{}</desc><style>{}</style><path class="pa-paper" d="M{x} {y}h{w}v{h}H{x}z"/>{body}</svg>"#,
            escaped(&plot.words),
            if words.pixels { theme::pixels() } else { theme::style() }
        );
    } else {
        let _ = write!(svg, r#" role="img" aria-label="{label}">{body}</svg>"#);
    }
    svg
}
