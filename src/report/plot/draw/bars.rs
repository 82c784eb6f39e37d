//! Bars: which stand beside each other, which on top of each other, and how wide they are.

use plotters::style::text_anchor::{HPos, VPos};

use super::ink::{Ink, Role, Wear};
use super::look::Look;
use super::path::At;
use super::pen::{Pen, Plane, Rect, Type, at};
use super::text::wide;
use super::ticks::Measure;
use crate::report::plot::{Bar, Layer};

/// What of a place its bars take.
const FULL: f64 = 0.78;
/// Pixels of the widest bar.
const WIDEST: f64 = 72.0;
/// Bars of a layer at most whose values are written.
const FEW: usize = 16;

/// The slots that a place is divided into: the n-th layer stands in the slot of its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    of: Vec<Option<usize>>,
    count: usize,
    /// Whether any stand on others.
    stacked: bool,
}

impl Slots {
    /// Those of layers: one for each layer of bars, unless it stands on the bars before it, or begins a stack at another place than they do.
    pub(super) fn of(layers: &[Layer]) -> Self {
        let stands =
            |layer: &Layer| matches!(layer, Layer::Bars { bars, .. } if bars.iter().any(|bar| bar.base != 0.0));
        let mut slots = Self {
            stacked: layers.iter().any(stands),
            ..Self::default()
        };
        // Where bars stand on the ground in the newest slot.
        let mut grounds: Vec<f64> = Vec::new();
        for layer in layers {
            let Layer::Bars { bars, .. } = layer else {
                slots.of.push(None);
                continue;
            };
            let beside = bars.iter().any(|bar| grounds.contains(&bar.at));
            if slots.count == 0 || !stands(layer) && (beside || !slots.stacked) {
                slots.count += 1;
                grounds.clear();
            }
            grounds.extend(bars.iter().filter(|bar| bar.base == 0.0).map(|bar| bar.at));
            slots.of.push(Some(slots.count - 1));
        }
        slots
    }

    /// How its bars are worn: components of a stack as the areas of one over time.
    pub(super) fn wear(&self, hatched: bool) -> Wear {
        match (hatched, self.stacked) {
            (true, _) => Wear::Hatched,
            (false, true) => Wear::Solid,
            (false, false) => Wear::Plain,
        }
    }

    /// Pixels of a bar, and between two.
    fn wide(&self, plane: &Plane, bars: &[Bar]) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let wide = (room(plane, bars) * FULL / count).min(WIDEST);
        (wide, if count > 1.0 && wide > 6.0 { 1.5 } else { 0.0 })
    }

    /// How many bars a slot lies aside of its place.
    fn aside(&self, slot: usize) -> f64 {
        slot as f64 - (self.count as f64 - 1.0) / 2.0
    }

    /// Writes the values above bars, where they are few and have room, and none stands on another.
    pub(super) fn tell(&self, pen: &Pen, plane: &Plane, layers: &[Layer], measure: Measure, look: Look) {
        if self.of.iter().flatten().count() != self.count {
            return;
        }
        let set = Type::of(Role::Ink, look.font)
            .across(HPos::Center)
            .down(VPos::Bottom)
            .halo();
        for (layer, slot) in layers.iter().zip(&self.of) {
            let (Layer::Bars { bars, .. }, Some(slot)) = (layer, slot) else {
                continue;
            };
            let (room, gap) = self.wide(plane, bars);
            let texts: Vec<String> = bars.iter().map(|bar| measure.figure(bar.value)).collect();
            if bars.len() > FEW || texts.iter().any(|text| wide(text, look.font) > room + 8.0) {
                continue;
            }
            for (bar, text) in bars.iter().zip(&texts) {
                let highest = bar
                    .interval
                    .map_or(bar.value, |(_, high)| high.max(bar.value))
                    .max(bar.base);
                let x = plane.px(bar.at) + self.aside(*slot) * room - gap / 2.0;
                if plane.holds(bar.at, bar.value) {
                    pen.text(text, x, plane.py(highest) - 1.0, set);
                }
            }
        }
    }

    /// Draws the bars of a layer.
    pub(super) fn draw(&self, pen: &Pen, plane: &Plane, layer: usize, bars: &[Bar], ink: Ink) {
        let Some(Some(slot)) = self.of.get(layer) else { return };
        let (wide, gap) = self.wide(plane, bars);
        let middle = |bar: &Bar| plane.px(bar.at) + self.aside(*slot) * wide;
        let block = |bar: &Bar| {
            let (top, bottom) = (plane.py(bar.value.max(bar.base)), plane.py(bar.value.min(bar.base)));
            Rect {
                left: middle(bar) - wide / 2.0,
                top,
                width: wide - gap,
                height: bottom - top,
            }
        };
        for bar in bars {
            pen.block(block(bar), ink);
        }
        if ink.wear != Wear::Plain {
            for bar in bars {
                pen.frame(block(bar), Ink::of(ink.role), 1.0);
            }
        }
        for bar in bars {
            if let Some((low, high)) = bar.interval {
                let (x, low, high) = (middle(bar) - gap / 2.0, plane.py(low), plane.py(high));
                let cap = (wide / 5.0).min(5.0);
                let strokes: [[At; 2]; 3] = [
                    [at(x, low), at(x, high)],
                    [at(x - cap, low), at(x + cap, low)],
                    [at(x - cap, high), at(x + cap, high)],
                ];
                for stroke in strokes {
                    pen.line(stroke.to_vec(), Ink::of(Role::Ink), 1.3);
                }
            }
        }
    }
}

/// Pixels from one place to the next.
fn room(plane: &Plane, bars: &[Bar]) -> f64 {
    let mut places: Vec<f64> = bars.iter().map(|bar| plane.px(bar.at)).collect();
    places.sort_by(f64::total_cmp);
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
    let least = gaps.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least
    } else {
        plane.rect.width / 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::Colour;

    fn bars(bars: &[(f64, f64)]) -> Layer {
        let bar = |&(at, base): &(f64, f64)| Bar {
            at,
            base,
            value: base + 1.0,
            interval: None,
        };
        Layer::Bars {
            name: String::new(),
            bars: bars.iter().map(bar).collect(),
            colour: Colour::Quiet,
            hatched: false,
        }
    }

    #[test]
    fn stacks_at_different_places_are_one_column_each() {
        // Measured at 0, expected at 1; what only one of them has stands on it there.
        let two = [
            bars(&[(0.0, 0.0)]),
            bars(&[(1.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(1.0, 1.0)]),
        ];
        assert_eq!(Slots::of(&two).of, [Some(0); 4]);
        // Two stacks at one place stand beside each other, and so do bars that are none.
        let beside = [
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
        ];
        assert_eq!(Slots::of(&beside).of, [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(
            Slots::of(&[bars(&[(0.0, 0.0)]), bars(&[(1.0, 0.0)])]).of,
            [Some(0), Some(1)]
        );
    }
}
