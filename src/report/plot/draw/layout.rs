//! Lays out a drawing: the panels below each other with aligned left edges, or side by side as small multiples, and the
//! legend above them in rows that fit the width.

use std::fmt::Write as _;

use super::labels::same_top_labels;
use super::marks::BarSlots;
use super::panel::{Margins, OwnLabels, PanelLayout};
use super::scale::Extent;
use super::style::{FillStyle, HEATS, LayoutMetrics, MarkStyle, Role, file_css, png_css};
use super::text::{shorten, text_width, wrap};
use super::ticks::format_number;
use super::writer::{AlignH, AlignV, Rect, SvgWriter, TextStyle, escaped, format_tenths, point, to_tenths};
use super::{Drawing, Frame, Width};
use crate::report::plot::{Colour, Layer, Panel, Plot, Shape};

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

    let heat = heat_range(plot.panels.iter());
    let entries = legend_entries(plans.iter(), heat);
    let legend_layout = layout_legend(&entries, metrics.width, size);
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

    let mut svg = SvgWriter::new(prefix, metrics.width, total);
    let mut line = 4.0;
    for (text, text_style) in &header {
        svg.text(text, 0.0, line, *text_style);
        line += text_style.size * 1.5;
    }
    draw_legend(&mut svg, &entries, &legend_layout, 0.0, legend_top, size);
    for (index, (plan, rect)) in plans.iter().zip(&rects).enumerate() {
        plan.draw(&mut svg, inner, *rect, sides, &ends[index], heat.unwrap_or((0.0, 1.0)));
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
        column && both.is_some_and(|(one, other)| same_top_labels(one, other))
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
            TextStyle::new(Role::from(Colour::Fails), 13.0).bold(),
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
            if words.pixels { png_css() } else { file_css() }
        );
    } else {
        let _ = write!(svg, r#" role="img" aria-label="{label}">{body}</svg>"#);
    }
    svg
}

/// Pixels of a symbol, between a symbol and its name, and between entries.
const SYMBOL: f64 = 22.0;
const BLANK: f64 = 6.0;
const GAP: f64 = 18.0;
/// Pixels of the colour scale.
const SCALE: f64 = 120.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LegendEntry {
    name: String,
    symbol: Symbol,
}

#[derive(Clone, Debug, PartialEq)]
enum Symbol {
    Line { style: MarkStyle, dots: bool },
    Block(MarkStyle),
    Mark { shape: Shape, colour: Colour },
    Heat { low: f64, high: f64 },
}

/// Entries of all layers, without duplicates and without what is labelled directly. `heat` is the range of values.
fn legend_entries<'a>(plans: impl Iterator<Item = &'a PanelLayout>, heat: Option<(f64, f64)>) -> Vec<LegendEntry> {
    let mut entries: Vec<LegendEntry> = Vec::new();
    for plan in plans {
        let slots = BarSlots::from_layers(&plan.panel.layers);
        for layer in &plan.panel.layers {
            let labelled_directly = match layer {
                Layer::Line { .. } => plan.direct_labels.lines,
                Layer::Rule { .. } => plan.direct_labels.rules,
                _ => false,
            };
            let Some(entry) =
                legend_entry(layer, &slots, heat).filter(|entry| !labelled_directly && !entry.name.is_empty())
            else {
                continue;
            };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    // Markers come after what they are drawn on, whichever panel has them first.
    entries.sort_by_key(|entry| matches!(entry.symbol, Symbol::Mark { .. }));
    entries
}

fn legend_entry(layer: &Layer, slots: &BarSlots, heat: Option<(f64, f64)>) -> Option<LegendEntry> {
    let (name, symbol) = match layer {
        Layer::Line {
            name,
            colour,
            dashed,
            dots,
            ..
        } => (
            name,
            Symbol::Line {
                style: MarkStyle::line(*colour, *dashed),
                dots: *dots,
            },
        ),
        Layer::Ribbon {
            name, colour, solid, ..
        } => {
            let fill = if *solid { FillStyle::Solid } else { FillStyle::Wash };
            (name, Symbol::Block(MarkStyle::new(*colour).with_fill(fill)))
        }
        Layer::Dots {
            name, colour, shape, ..
        } => (
            name,
            Symbol::Mark {
                shape: *shape,
                colour: *colour,
            },
        ),
        Layer::Area {
            name, colour, hatched, ..
        } => {
            let fill = if *hatched { FillStyle::Hatched } else { FillStyle::Wash };
            (name, Symbol::Block(MarkStyle::new(*colour).with_fill(fill)))
        }
        Layer::Bars {
            name, colour, hatched, ..
        } => {
            let fill = slots.fill(*hatched);
            (name, Symbol::Block(MarkStyle::new(*colour).with_fill(fill)))
        }
        Layer::Rule {
            name,
            colour,
            dashed,
            upright: false,
            ..
        } => (
            name,
            Symbol::Line {
                style: MarkStyle::line(*colour, *dashed),
                dots: false,
            },
        ),
        Layer::Cells { name, .. } => {
            let (low, high) = heat?;
            (name, Symbol::Heat { low, high })
        }
        _ => return None,
    };
    Some(LegendEntry {
        name: name.clone(),
        symbol,
    })
}

/// Lowest and highest value of all heat maps.
fn heat_range<'a>(panels: impl Iterator<Item = &'a Panel>) -> Option<(f64, f64)> {
    let cells = panels.flat_map(|panel| &panel.layers).filter_map(|layer| match layer {
        Layer::Cells { cells, .. } => Some(cells),
        _ => None,
    });
    let values = cells.flatten().map(|cell| cell.value).filter(|value| value.is_finite());
    values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    })
}

/// Position and shortened name of each entry.
pub(super) struct LegendLayout {
    places: Vec<(f64, f64, String)>,
    pub(super) height: f64,
    line: f64,
}

fn layout_legend(entries: &[LegendEntry], width: f64, size: f64) -> LegendLayout {
    let line = size * 1.6;
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::new();
    for entry in entries {
        let symbol = entry.symbol.width(size);
        let name = shorten(&entry.name, size, width - symbol - BLANK);
        let all = symbol + BLANK + text_width(&name, size);
        if x > 0.0 && x + all > width {
            (x, y) = (0.0, y + line);
        }
        places.push((x, y, name));
        x += all + GAP;
    }
    let height = if places.is_empty() { 0.0 } else { y + line };
    LegendLayout { places, height, line }
}

impl Symbol {
    fn width(&self, size: f64) -> f64 {
        match self {
            Self::Heat { low, high } => {
                let [low, high] = heat_labels(*low, *high);
                text_width(&low, size) + SCALE + text_width(&high, size) + 2.0 * BLANK
            }
            _ => SYMBOL,
        }
    }
}

fn heat_labels(low: f64, high: f64) -> [String; 2] {
    let decimals = match high.abs().max(low.abs()) {
        most if most >= 100.0 => 0,
        most if most >= 1.0 => 1,
        _ => 3,
    };
    [format_number(low, decimals), format_number(high, decimals)]
}

fn draw_legend(svg: &mut SvgWriter, entries: &[LegendEntry], layout: &LegendLayout, left: f64, top: f64, size: f64) {
    for (entry, (x, y, name)) in entries.iter().zip(&layout.places) {
        let (x, middle) = (left + x, top + y + layout.line / 2.0);
        let text_style = TextStyle::new(Role::Text, size).align_v(AlignV::Center);
        match &entry.symbol {
            Symbol::Line { style, dots } => {
                svg.line(&[point(x, middle), point(x + SYMBOL, middle)], *style, 2.0);
                if *dots {
                    svg.dot(point(x + SYMBOL / 2.0, middle), style.role, 3.0);
                }
            }
            Symbol::Block(style) => {
                let rect = Rect {
                    left: x + 3.0,
                    top: middle - 5.5,
                    width: SYMBOL - 6.0,
                    height: 11.0,
                };
                svg.rect(rect, *style);
                if style.fill != FillStyle::Plain {
                    svg.rect_outline(rect, style.role, 1.0);
                }
            }
            Symbol::Mark { shape, colour } => svg.marker(point(x + SYMBOL / 2.0, middle), *shape, *colour, 4.0),
            Symbol::Heat { low, high } => {
                let [low, high] = heat_labels(*low, *high);
                let begin = x + text_width(&low, size) + BLANK;
                svg.text(&low, begin - BLANK, middle, text_style.align_h(AlignH::Right));
                for step in 0..HEATS {
                    let width = SCALE / f64::from(HEATS);
                    let left = begin + f64::from(step) * width;
                    svg.rect(
                        Rect {
                            left,
                            top: middle - 6.0,
                            width: width + 0.3,
                            height: 12.0,
                        },
                        Role::Heat(step),
                    );
                }
                svg.text(&high, begin + SCALE + BLANK, middle, text_style);
            }
        }
        svg.end_element();
        svg.text(name, x + entry.symbol.width(size) + BLANK, middle, text_style);
    }
}
