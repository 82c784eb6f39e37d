//! The legend above the panels, in rows that fit the width.

use super::marks::bar_slots;
use super::panel::PanelLayout;
use super::scale::format_number;
use super::style::{Fill, Stroke, TEXT};
use super::svg::{AlignH, AlignV, Rect, SvgWriter, TextStyle, point, shorten, text_width};
use crate::report::plot::{Layer, Panel, Shape};

/// Pixels of a symbol, between a symbol and its name, between entries, and of the colour scale.
const SYMBOL: f64 = 22.0;
const BLANK: f64 = 6.0;
const GAP: f64 = 18.0;
const SCALE: f64 = 120.0;
/// Steps of the colour scale.
const STEPS: u8 = 32;

pub(super) struct Legend {
    /// Position of each entry, its symbol and its name.
    entries: Vec<(f64, f64, Symbol, String)>,
    pub(super) height: f64,
    font: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Symbol {
    Line { stroke: Stroke, dots: bool },
    Block { role: &'static str, fill: Fill },
    Mark { shape: Shape, role: &'static str },
    Heat { low: f64, high: f64 },
}

/// Lowest and highest value of all heat maps.
pub(super) fn heat_range(panels: &[Panel]) -> Option<(f64, f64)> {
    let cells = panels
        .iter()
        .flat_map(|panel| &panel.layers)
        .filter_map(|layer| match layer {
            Layer::Cells { cells, .. } => Some(cells),
            _ => None,
        });
    let values = cells.flatten().map(|cell| cell.value).filter(|value| value.is_finite());
    values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    })
}

impl Legend {
    /// What is named and not labelled directly, without duplicates. `heat` is the range of the colour scale.
    pub(super) fn new(panels: &[PanelLayout], heat: Option<(f64, f64)>, width: f64, font: f64) -> Self {
        let mut named: Vec<(Symbol, &str)> = Vec::new();
        for PanelLayout { panel, side, .. } in panels {
            for (layer, slot) in panel.layers.iter().zip(bar_slots(&panel.layers)) {
                let entry = match layer {
                    Layer::Line { .. } if side.lines => None,
                    Layer::Rule { .. } if side.rules => None,
                    _ => symbol(layer, slot.map_or(Fill::Plain, |slot| slot.fill(false)), heat),
                };
                named.extend(entry.filter(|entry| !entry.1.is_empty() && !named.contains(entry)));
            }
        }
        // Markers come after what they are drawn on, whichever panel has them first.
        named.sort_by_key(|(symbol, _)| matches!(symbol, Symbol::Mark { .. }));
        let row = font * 1.6;
        let (mut x, mut y) = (0.0, 0.0);
        let mut entries = Vec::new();
        for (symbol, name) in named {
            let name = shorten(name, font, width - symbol.width(font) - BLANK);
            let all = symbol.width(font) + BLANK + text_width(&name, font);
            if x > 0.0 && x + all > width {
                (x, y) = (0.0, y + row);
            }
            entries.push((x, y, symbol, name));
            x += all + GAP;
        }
        Self {
            height: if entries.is_empty() { 0.0 } else { y + row + 10.0 },
            entries,
            font,
        }
    }

    pub(super) fn draw(&self, svg: &mut SvgWriter, top: f64) {
        let style = TextStyle {
            role: TEXT,
            v: AlignV::Center,
            ..TextStyle::new(self.font)
        };
        for (x, y, symbol, name) in &self.entries {
            let middle = top + y + self.font * 0.8;
            match *symbol {
                Symbol::Line { stroke, dots } => {
                    svg.line(&[point(*x, middle), point(x + SYMBOL, middle)], stroke);
                    if dots {
                        svg.dot(point(x + SYMBOL / 2.0, middle), stroke.role, 3.0);
                    }
                }
                Symbol::Block { role, fill } => {
                    let rect = Rect {
                        left: x + 3.0,
                        top: middle - 5.5,
                        width: SYMBOL - 6.0,
                        height: 11.0,
                    };
                    svg.rect(rect, role, fill);
                    if fill != Fill::Plain {
                        svg.outline(rect, role);
                    }
                }
                Symbol::Mark { shape, role } => svg.marker(point(x + SYMBOL / 2.0, middle), shape, role, 4.0),
                Symbol::Heat { low, high } => {
                    let [low, high] = heat_labels(low, high);
                    let begin = x + text_width(&low, self.font) + BLANK;
                    let right = TextStyle {
                        h: AlignH::Right,
                        ..style
                    };
                    svg.text(&low, begin - BLANK, middle, right);
                    for step in 0..STEPS {
                        let width = SCALE / f64::from(STEPS);
                        let rect = Rect {
                            left: begin + f64::from(step) * width,
                            top: middle - 6.0,
                            width,
                            height: 12.0,
                        };
                        svg.heat(rect, f64::from(step) / f64::from(STEPS - 1));
                    }
                    svg.text(&high, begin + SCALE + BLANK, middle, style);
                }
            }
            svg.end_element();
            svg.text(name, x + symbol.width(self.font) + BLANK, middle, style);
        }
    }
}

impl Symbol {
    fn width(&self, font: f64) -> f64 {
        match self {
            Self::Heat { low, high } => {
                let labels = heat_labels(*low, *high).map(|label| text_width(&label, font));
                labels.iter().sum::<f64>() + SCALE + 2.0 * BLANK
            }
            _ => SYMBOL,
        }
    }
}

/// The symbol and the name of a layer; `fill` is that of its bars.
fn symbol(layer: &Layer, fill: Fill, heat: Option<(f64, f64)>) -> Option<(Symbol, &str)> {
    let filled = |hatched: bool, fill: Fill| if hatched { Fill::Hatched } else { fill };
    let (symbol, name) = match layer {
        Layer::Line {
            name,
            colour,
            dashed,
            dots,
            ..
        } => {
            let stroke = Stroke::new(*colour, *dashed, 2.0);
            (Symbol::Line { stroke, dots: *dots }, name)
        }
        Layer::Rule {
            name,
            colour,
            dashed,
            upright: false,
            ..
        } => {
            let stroke = Stroke::new(*colour, *dashed, 2.0);
            (Symbol::Line { stroke, dots: false }, name)
        }
        Layer::Ribbon {
            name, colour, solid, ..
        } => {
            let fill = if *solid { Fill::Solid } else { Fill::Wash };
            (
                Symbol::Block {
                    role: colour.role(),
                    fill,
                },
                name,
            )
        }
        Layer::Area {
            name, colour, hatched, ..
        } => {
            let fill = filled(*hatched, Fill::Wash);
            (
                Symbol::Block {
                    role: colour.role(),
                    fill,
                },
                name,
            )
        }
        Layer::Bars {
            name, colour, hatched, ..
        } => {
            let fill = filled(*hatched, fill);
            (
                Symbol::Block {
                    role: colour.role(),
                    fill,
                },
                name,
            )
        }
        Layer::Dots {
            name, colour, shape, ..
        } => {
            let (shape, role) = (*shape, colour.role());
            (Symbol::Mark { shape, role }, name)
        }
        Layer::Cells { name, .. } => {
            let (low, high) = heat?;
            (Symbol::Heat { low, high }, name)
        }
        Layer::Rule { .. } | Layer::Spans { .. } | Layer::Moments { .. } => return None,
    };
    Some((symbol, name))
}

fn heat_labels(low: f64, high: f64) -> [String; 2] {
    let decimals = match high.abs().max(low.abs()) {
        most if most >= 100.0 => 0,
        most if most >= 1.0 => 1,
        _ => 3,
    };
    [low, high].map(|value| format_number(value, decimals))
}
