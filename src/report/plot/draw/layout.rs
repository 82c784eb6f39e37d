//! Lays out the panels of a plot: below each other with aligned left edges, or side by side as small multiples.

use std::fmt::Write as _;

use super::canvas::escaped;
use super::extent::Extent;
use super::legend;
use super::metrics::LayoutMetrics;
use super::panel::{Margins, OwnLabels, PanelLayout};
use super::path::format_tenths;
use super::style::Role;
use super::text::wrap;
use super::writer::{Rect, SvgWriter, TextStyle, to_tenths};
use super::{Drawing, Frame, Width, theme, top_labels};
use crate::report::plot::{Panel, Plot};

/// Warning at the top of a file.
const SIMULATED: &str = "SIMULATED: no real engine or GPU was measured";

/// Pixels between panels side by side, and around a plot in a file.
const BETWEEN: f64 = 24.0;
const EDGE: f64 = 20.0;

/// What a file has in addition to the panels: title, caption and style.
struct FileOptions<'a> {
    plot: &'a Plot,
    simulated: bool,
    pixels: bool,
}

pub(super) fn whole_plot(plot: &Plot, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{}", plot.name, width.name());
    let panels: Vec<&Panel> = plot.panels.iter().collect();
    compose(plot, &panels, width, &prefix, None)
}

pub(super) fn single_panel(plot: &Plot, index: usize, width: Width) -> Drawing {
    let prefix = format!("plot-{}-{index}-{}", plot.name, width.name());
    let panels: Vec<&Panel> = plot.panels.get(index).into_iter().collect();
    compose(plot, &panels, width, &prefix, None)
}

pub(super) fn file(plot: &Plot, simulated: bool, pixels: bool) -> Drawing {
    let panels: Vec<&Panel> = plot.panels.iter().collect();
    let prefix = format!("plot-{}", plot.name);
    compose(
        plot,
        &panels,
        Width::Wide,
        &prefix,
        Some(&FileOptions {
            plot,
            simulated,
            pixels,
        }),
    )
}

/// Height of the area between the axes in pixels.
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

/// Maximum height of panels whose y axis has categories: a few rows do not need the height of a map.
fn max_category_height(panels: &[&Panel]) -> f64 {
    let need = |panel: &&Panel| match panel.y.names.len() {
        0 => f64::INFINITY,
        names => 24.0 + 44.0 * names as f64,
    };
    panels.iter().map(need).fold(0.0, f64::max)
}

/// Whether all panels have the same x axis.
fn same_x(panels: &[&Panel]) -> bool {
    let same = |one: &Panel, other: &Panel| {
        (&one.x.label, one.x.unit, one.x.scale, &one.x.names)
            == (&other.x.label, other.x.unit, other.x.scale, &other.x.names)
    };
    panels.windows(2).all(|pair| same(pair[0], pair[1]))
}

fn compose(plot: &Plot, panels: &[&Panel], width: Width, prefix: &str, words: Option<&FileOptions>) -> Drawing {
    let metrics = LayoutMetrics::new(width);
    let size = metrics.font;
    let multiples = plot.slider.is_some() && panels.len() > 1;
    let columns = match (multiples, width) {
        (true, Width::Wide) => panels.len().min(3),
        _ => 1,
    };
    let rows = panels.len().div_ceil(columns);
    let high = height(width, rows, multiples).min(max_category_height(panels));
    let cell = (metrics.width - BETWEEN * (columns as f64 - 1.0)) / columns as f64;
    let inner = if columns > 1 { metrics.narrowed(cell) } else { metrics };
    let extents = shared_extents(plot, panels);
    let plans: Vec<PanelLayout> = panels
        .iter()
        .map(|panel| PanelLayout::new(panel, extents, high, inner))
        .collect();

    let heat = legend::heat(plot.panels.iter());
    let entries = legend::entries(plans.iter(), heat);
    let legend_layout = legend::layout(&entries, metrics.width, size);
    let sides = plans.iter().map(|plan| plan.sides(inner));
    let sides = sides.fold((0.0, 0.0), |one: (f64, f64), other| {
        (one.0.max(other.0), one.1.max(other.1))
    });
    let across = (cell - sides.0 - sides.1).max(40.0);
    let ends: Vec<Margins> = (0..plans.len())
        .map(|index| plans[index].ends(across, own_labels(panels, index, columns), inner))
        .collect();

    let header = words.map_or_else(Vec::new, |words| header(words, metrics));
    let foot = words.map_or_else(Vec::new, |words| wrap(&words.plot.caption, size, metrics.width, 8));
    let legend_top = 4.0
        + header.iter().map(|(_, text_style)| text_style.size * 1.5).sum::<f64>()
        + if header.is_empty() { 0.0 } else { 6.0 };
    let mut y = legend_top + legend_layout.height + if entries.is_empty() { 0.0 } else { 10.0 };
    let mut rects = Vec::new();
    for row in 0..rows {
        let indices = row * columns..((row + 1) * columns).min(plans.len());
        let most = |part: fn(&Margins) -> f64| ends[indices.clone()].iter().map(part).fold(0.0, f64::max);
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

    let svg = SvgWriter::new(prefix, metrics.width, total);
    let mut line = 4.0;
    for (text, text_style) in &header {
        svg.text(text, 0.0, line, *text_style);
        line += text_style.size * 1.5;
    }
    legend::draw(&svg, &entries, &legend_layout, 0.0, legend_top, size);
    for (index, (plan, rect)) in plans.iter().zip(&rects).enumerate() {
        plan.draw(&svg, inner, *rect, sides, &ends[index], heat.unwrap_or((0.0, 1.0)));
    }
    if plans.is_empty() {
        svg.text(
            "nothing to draw",
            0.0,
            y - size * 1.5,
            TextStyle::new(Role::SecondaryText, size),
        );
    }
    let mut below = y + 10.0;
    for text in &foot {
        svg.text(text, 0.0, below, TextStyle::new(Role::SecondaryText, size));
        below += size * 1.5;
    }
    let frames = plans
        .iter()
        .zip(&rects)
        .map(|(plan, rect)| frame(plan, *rect))
        .collect();
    Drawing {
        svg: svg_element(plot, width, (metrics.width, total), words, &svg.finish()),
        size: (metrics.width, total),
        frames,
    }
}

/// The x and y extents that panels share. Panels of a slider always share both, so that they are comparable whether
/// they are drawn together or not.
fn shared_extents(plot: &Plot, panels: &[&Panel]) -> (Option<Extent>, Option<Extent>) {
    let all: Vec<&Panel> = plot.panels.iter().collect();
    let both =
        |extent: fn(&Panel) -> Extent, among: &[&Panel]| among.iter().map(|panel| extent(panel)).reduce(Extent::union);
    let up: fn(&Panel) -> Extent = |panel| Extent::y(panel, false);
    match plot.slider {
        Some(_) => (both(Extent::x, &all), both(up, &all)),
        None if same_x(panels) => (both(Extent::x, panels), None),
        None => (None, None),
    }
}

/// Which labels a panel needs: in a column, equal top labels appear once, and the x axis only below the last panel.
fn own_labels(panels: &[&Panel], index: usize, columns: usize) -> OwnLabels {
    let column = columns == 1 && same_x(panels);
    let same = |one: usize, other: usize| {
        let both = panels.get(one).zip(panels.get(other));
        column && both.is_some_and(|(one, other)| top_labels::same_top_labels(one, other))
    };
    OwnLabels {
        above: index == 0 || !same(index - 1, index),
        below: !column || index + 1 == panels.len(),
        footnotes: !same(index, index + 1),
    }
}

fn frame(plan: &PanelLayout, rect: Rect) -> Frame {
    Frame {
        left: rect.left,
        top: rect.top,
        width: rect.width,
        height: rect.height,
        x: plan.x.scale,
        y: plan.y.scale,
        right: plan.right.as_ref().map(|right| right.scale),
    }
}

/// The title and the warning at the top of a file.
fn header(words: &FileOptions, metrics: LayoutMetrics) -> Vec<(String, TextStyle)> {
    let title = TextStyle::new(Role::Text, 17.0).bold();
    let mut lines: Vec<(String, TextStyle)> = wrap(&words.plot.title, 17.0 * 1.08, metrics.width, 3)
        .into_iter()
        .map(|line| (line, title))
        .collect();
    if words.simulated {
        lines.push((
            SIMULATED.to_owned(),
            TextStyle::new(Role::from(crate::report::plot::Colour::Fails), 13.0).bold(),
        ));
    }
    lines
}

fn svg_element(plot: &Plot, width: Width, (wide, high): (f64, f64), words: Option<&FileOptions>, body: &str) -> String {
    let label = escaped(&plot.title);
    let edge = if words.is_some() { EDGE } else { 0.0 };
    let (x, y) = (format_tenths(to_tenths(-edge)), format_tenths(to_tenths(-edge)));
    let (w, h) = (
        format_tenths(to_tenths(wide + 2.0 * edge)),
        format_tenths(to_tenths(high + 2.0 * edge)),
    );
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
