//! The legend: what each mark means, in rows that fit, above the panels.

use plotters::style::text_anchor::{HPos, VPos};

use super::bars::Slots;
use super::ink::{HEATS, Ink, Role, Wear};
use super::panel::Plan;
use super::pen::{Pen, Rect, Type, at};
use super::text::{shorten, wide};
use super::ticks::number;
use crate::report::plot::{Layer, Panel, Shape};

/// Pixels of a symbol, and blanks behind it and behind its name.
const SYMBOL: f64 = 22.0;
const BLANK: f64 = 6.0;
const GAP: f64 = 18.0;
/// Pixels of the scale of values.
const SCALE: f64 = 120.0;

/// A symbol and what it means.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    name: String,
    symbol: Symbol,
}

#[derive(Clone, Debug, PartialEq)]
enum Symbol {
    Line {
        ink: Ink,
        dots: bool,
    },
    Block(Ink),
    Mark {
        shape: Shape,
        colour: crate::report::plot::Colour,
    },
    Heat {
        low: f64,
        high: f64,
    },
}

/// What the layers of panels mean, each once; but not what is named beside them. `heat` are the ends of the scale of values.
pub(super) fn entries<'a>(plans: impl Iterator<Item = &'a Plan>, heat: Option<(f64, f64)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for plan in plans {
        let slots = Slots::of(&plan.panel.layers);
        for layer in &plan.panel.layers {
            let beside = match layer {
                Layer::Line { .. } => plan.beside.lines,
                Layer::Rule { .. } => plan.beside.rules,
                _ => false,
            };
            let Some(entry) = entry(layer, &slots, heat).filter(|entry| !beside && !entry.name.is_empty()) else {
                continue;
            };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    // Marks stand behind what they are drawn on, whichever panel has them first.
    entries.sort_by_key(|entry| matches!(entry.symbol, Symbol::Mark { .. }));
    entries
}

fn entry(layer: &Layer, slots: &Slots, heat: Option<(f64, f64)>) -> Option<Entry> {
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
                ink: Ink::line(*colour, *dashed),
                dots: *dots,
            },
        ),
        Layer::Ribbon {
            name, colour, solid, ..
        } => {
            let wear = if *solid { Wear::Solid } else { Wear::Wash };
            (name, Symbol::Block(Ink::of(*colour).worn(wear)))
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
            let wear = if *hatched { Wear::Hatched } else { Wear::Wash };
            (name, Symbol::Block(Ink::of(*colour).worn(wear)))
        }
        Layer::Bars {
            name, colour, hatched, ..
        } => {
            let wear = slots.wear(*hatched);
            (name, Symbol::Block(Ink::of(*colour).worn(wear)))
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
                ink: Ink::line(*colour, *dashed),
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

/// The lowest and highest value of all heat maps of some panels.
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

/// The rows of a legend: for each entry its place and what of its name fits.
pub(super) struct Laid {
    places: Vec<(f64, f64, String)>,
    /// Pixels from above to below.
    pub(super) height: f64,
    line: f64,
}

/// Lays entries into rows of a width.
pub(super) fn lay(entries: &[Entry], width: f64, size: f64) -> Laid {
    let line = size * 1.6;
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::new();
    for entry in entries {
        let symbol = entry.symbol.wide(size);
        let name = shorten(&entry.name, size, width - symbol - BLANK);
        let all = symbol + BLANK + wide(&name, size);
        if x > 0.0 && x + all > width {
            (x, y) = (0.0, y + line);
        }
        places.push((x, y, name));
        x += all + GAP;
    }
    let height = if places.is_empty() { 0.0 } else { y + line };
    Laid { places, height, line }
}

impl Symbol {
    fn wide(&self, size: f64) -> f64 {
        match self {
            Self::Heat { low, high } => {
                let [low, high] = heat_labels(*low, *high);
                wide(&low, size) + SCALE + wide(&high, size) + 2.0 * BLANK
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
    [number(low, decimals), number(high, decimals)]
}

/// Draws it with its upper left corner at a place.
pub(super) fn draw(pen: &Pen, entries: &[Entry], laid: &Laid, left: f64, top: f64, size: f64) {
    for (entry, (x, y, name)) in entries.iter().zip(&laid.places) {
        let (x, middle) = (left + x, top + y + laid.line / 2.0);
        let set = Type::of(Role::Ink, size).down(VPos::Center);
        match &entry.symbol {
            Symbol::Line { ink, dots } => {
                pen.line(vec![at(x, middle), at(x + SYMBOL, middle)], *ink, 2.0);
                if *dots {
                    pen.dot(at(x + SYMBOL / 2.0, middle), ink.role, 3.0);
                }
            }
            Symbol::Block(ink) => {
                let rect = Rect {
                    left: x + 3.0,
                    top: middle - 5.5,
                    width: SYMBOL - 6.0,
                    height: 11.0,
                };
                pen.block(rect, *ink);
                if ink.wear != Wear::Plain {
                    pen.frame(rect, Ink::of(ink.role), 1.0);
                }
            }
            Symbol::Mark { shape, colour } => pen.mark(at(x + SYMBOL / 2.0, middle), *shape, *colour, 4.0),
            Symbol::Heat { low, high } => {
                let [low, high] = heat_labels(*low, *high);
                let begin = x + wide(&low, size) + BLANK;
                pen.text(
                    &low,
                    begin - BLANK,
                    middle,
                    Type {
                        across: HPos::Right,
                        ..set
                    },
                );
                for step in 0..HEATS {
                    let width = SCALE / f64::from(HEATS);
                    let left = begin + f64::from(step) * width;
                    pen.block(
                        Rect {
                            left,
                            top: middle - 6.0,
                            width: width + 0.3,
                            height: 12.0,
                        },
                        Ink::of(Role::Heat(step)),
                    );
                }
                pen.text(&high, begin + SCALE + BLANK, middle, set);
            }
        }
        pen.part();
        pen.text(name, x + entry.symbol.wide(size) + BLANK, middle, set);
    }
}
