//! The legend above the panels, in rows that fit the width.

use super::marks::{Slot, bar_slots};
use super::scale::format_number;
use super::style::{Fill, Stroke, TEXT};
use super::svg::{Rect, SvgWriter, TextStyle, point, shorten, text_width};
use crate::report::plot::{Layer, Marks, Panel};

/// Pixels of a symbol and between a symbol and its name, between entries, and of the colour scale.
const SYMBOL: f64 = 28.0;
const GAP: f64 = 18.0;
const SCALE: f64 = 120.0;
/// Steps of the colour scale.
const STEPS: u8 = 32;

/// Lowest and highest value of all heat maps.
pub(super) fn heat_range(panels: &[Panel]) -> (f64, f64) {
    let cells = panels
        .iter()
        .flat_map(|panel| &panel.layers)
        .filter_map(|layer| match &layer.marks {
            Marks::Cells { cells } => Some(cells),
            _ => None,
        });
    let values = cells.flatten().map(|cell| cell.value).filter(|value| value.is_finite());
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Draws a symbol and a name for each layer that has a name and no label, without duplicates; gives the lower end.
pub(super) fn draw_legend(
    svg: &mut SvgWriter,
    panels: &[Panel],
    heat: (f64, f64),
    top: f64,
    (width, font): (f64, f64),
) -> f64 {
    let mut named: Vec<(&Layer, Option<Slot>)> = Vec::new();
    for panel in panels {
        for (layer, slot) in panel.layers.iter().zip(bar_slots(&panel.layers)) {
            let labelled = matches!(layer.marks, Marks::Rule { .. } | Marks::Spans { .. });
            if !layer.name.is_empty() && !labelled && !named.iter().any(|(known, _)| alike(known, layer)) {
                named.push((layer, slot));
            }
        }
    }
    let style = TextStyle::new(font).role(TEXT).middle();
    let (mut x, mut middle) = (0.0, top + font * 0.8);
    for (layer, slot) in &named {
        let scale = matches!(layer.marks, Marks::Cells { .. });
        let [low, high] = heat_labels(heat);
        let symbol = match scale {
            true => text_width(&low, font) + SCALE + text_width(&high, font) + 18.0,
            false => SYMBOL,
        };
        let name = shorten(&layer.name, font, width - symbol);
        let all = symbol + text_width(&name, font);
        if x > 0.0 && x + all > width {
            (x, middle) = (0.0, middle + font * 1.6);
        }
        if scale {
            let begin = x + text_width(&low, font) + 6.0;
            svg.text(&low, x, middle, style);
            svg.text(&high, begin + SCALE + 6.0, middle, style);
            let step = SCALE / f64::from(STEPS);
            for index in 0..STEPS {
                let rect = Rect::new(begin + f64::from(index) * step, middle - 6.0, step, 12.0);
                svg.heat(rect, f64::from(index) / f64::from(STEPS - 1));
            }
        } else {
            draw_symbol(svg, layer, *slot, (x, middle));
        }
        svg.end_element();
        svg.text(&name, x + symbol, middle, style);
        x += all + GAP;
    }
    if named.is_empty() {
        top
    } else {
        middle + font * 0.8 + 10.0
    }
}

/// Whether two layers have the same symbol and name.
fn alike(one: &Layer, other: &Layer) -> bool {
    let look = |layer: &Layer| {
        (
            layer.name.clone(),
            layer.colour,
            layer.dashed,
            std::mem::discriminant(&layer.marks),
        )
    };
    let shape = |layer: &Layer| match layer.marks {
        Marks::Dots { shape, .. } | Marks::Line { shape, .. } => Some(shape),
        _ => None,
    };
    look(one) == look(other) && shape(one) == shape(other)
}

fn draw_symbol(svg: &mut SvgWriter, layer: &Layer, slot: Option<Slot>, (x, middle): (f64, f64)) {
    let role = layer.colour.role();
    let centre = point(x + 11.0, middle);
    let fill = match &layer.marks {
        Marks::Line { dots, shape, .. } => {
            svg.line(&[point(x, middle), point(x + 22.0, middle)], Stroke::new(layer, 2.0));
            if *dots {
                svg.marker(centre, *shape, role, 3.0);
            }
            return;
        }
        Marks::Dots { shape, .. } => return svg.marker(centre, *shape, role, 4.0),
        Marks::Bars { .. } => slot.map_or(Fill::Plain, |slot| slot.fill(layer)),
        _ => Fill::of(layer, Fill::Wash),
    };
    let rect = Rect::new(x + 3.0, middle - 5.5, 16.0, 11.0);
    svg.rect(rect, role, fill);
    if fill != Fill::Plain {
        svg.outline(rect, role);
    }
}

fn heat_labels((low, high): (f64, f64)) -> [String; 2] {
    let decimals = match high.abs().max(low.abs()) {
        most if most >= 100.0 => 0,
        most if most >= 1.0 => 1,
        _ => 3,
    };
    [low, high].map(|value| format_number(value, decimals))
}
