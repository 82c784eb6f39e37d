//! The legend above the panels, in rows that fit the width.

use plotters::style::text_anchor::{HPos, VPos};

use super::bars::BarSlots;
use super::panel::PanelLayout;
use super::style::{FillStyle, HEATS, MarkStyle, Role};
use super::text::{shorten, text_width};
use super::ticks::format_number;
use super::writer::{Rect, SvgWriter, TextStyle, point};
use crate::report::plot::{Layer, Panel, Shape};

/// Pixels of a symbol, between a symbol and its name, and between entries.
const SYMBOL: f64 = 22.0;
const BLANK: f64 = 6.0;
const GAP: f64 = 18.0;
/// Pixels of the colour scale.
const SCALE: f64 = 120.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    name: String,
    symbol: Symbol,
}

#[derive(Clone, Debug, PartialEq)]
enum Symbol {
    Line {
        style: MarkStyle,
        dots: bool,
    },
    Block(MarkStyle),
    Mark {
        shape: Shape,
        colour: crate::report::plot::Colour,
    },
    Heat {
        low: f64,
        high: f64,
    },
}

/// Entries of all layers, without duplicates and without what is labelled directly. `heat` is the range of values.
pub(super) fn entries<'a>(plans: impl Iterator<Item = &'a PanelLayout>, heat: Option<(f64, f64)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for plan in plans {
        let slots = BarSlots::from_layers(&plan.panel.layers);
        for layer in &plan.panel.layers {
            let labelled_directly = match layer {
                Layer::Line { .. } => plan.direct_labels.lines,
                Layer::Rule { .. } => plan.direct_labels.rules,
                _ => false,
            };
            let Some(entry) = entry(layer, &slots, heat).filter(|entry| !labelled_directly && !entry.name.is_empty())
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

fn entry(layer: &Layer, slots: &BarSlots, heat: Option<(f64, f64)>) -> Option<Entry> {
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
    Some(Entry {
        name: name.clone(),
        symbol,
    })
}

/// Lowest and highest value of all heat maps.
pub(super) fn heat<'a>(panels: impl Iterator<Item = &'a Panel>) -> Option<(f64, f64)> {
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

pub(super) fn layout(entries: &[Entry], width: f64, size: f64) -> LegendLayout {
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

pub(super) fn draw(svg: &SvgWriter, entries: &[Entry], layout: &LegendLayout, left: f64, top: f64, size: f64) {
    for (entry, (x, y, name)) in entries.iter().zip(&layout.places) {
        let (x, middle) = (left + x, top + y + layout.line / 2.0);
        let text_style = TextStyle::new(Role::Text, size).align_v(VPos::Center);
        match &entry.symbol {
            Symbol::Line { style, dots } => {
                svg.line(vec![point(x, middle), point(x + SYMBOL, middle)], *style, 2.0);
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
                    svg.rect_outline(rect, MarkStyle::new(style.role), 1.0);
                }
            }
            Symbol::Mark { shape, colour } => svg.marker(point(x + SYMBOL / 2.0, middle), *shape, *colour, 4.0),
            Symbol::Heat { low, high } => {
                let [low, high] = heat_labels(*low, *high);
                let begin = x + text_width(&low, size) + BLANK;
                svg.text(
                    &low,
                    begin - BLANK,
                    middle,
                    TextStyle {
                        align_h: HPos::Right,
                        ..text_style
                    },
                );
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
                        MarkStyle::new(Role::Heat(step)),
                    );
                }
                svg.text(&high, begin + SCALE + BLANK, middle, text_style);
            }
        }
        svg.end_element();
        svg.text(name, x + entry.symbol.width(size) + BLANK, middle, text_style);
    }
}
