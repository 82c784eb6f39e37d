//! Bars: which are side by side or stacked, and how wide they are.

use plotters::style::text_anchor::{HPos, VPos};

use super::metrics::LayoutMetrics;
use super::path::PixelPoint;
use super::style::{FillStyle, MarkStyle, Role};
use super::text::text_width;
use super::ticks::TickUnit;
use super::writer::{PlotArea, Rect, SvgWriter, TextStyle, point};
use crate::report::plot::{Bar, Layer};

/// Share of a category's width that its bars fill.
const FULL: f64 = 0.78;
/// Maximum width of a bar in pixels.
const WIDEST: f64 = 72.0;
/// Maximum number of bars in a layer that get value labels.
const FEW: usize = 16;

/// Assigns each bar layer a slot within its category.
#[derive(Clone, Debug, Default)]
pub(super) struct BarSlots {
    by_layer: Vec<Option<usize>>,
    count: usize,
    stacked: bool,
}

impl BarSlots {
    /// Assigns each bar layer a slot. Stacked layers share the slot of the layer below them, and so does a layer that
    /// starts a stack at other positions.
    pub(super) fn from_layers(layers: &[Layer]) -> Self {
        let stands =
            |layer: &Layer| matches!(layer, Layer::Bars { bars, .. } if bars.iter().any(|bar| bar.base != 0.0));
        let mut slots = Self {
            stacked: layers.iter().any(stands),
            ..Self::default()
        };
        // Positions at which a stack starts in the newest slot.
        let mut grounds: Vec<f64> = Vec::new();
        for layer in layers {
            let Layer::Bars { bars, .. } = layer else {
                slots.by_layer.push(None);
                continue;
            };
            let side_by_side = bars.iter().any(|bar| grounds.contains(&bar.at));
            if slots.count == 0 || !stands(layer) && (side_by_side || !slots.stacked) {
                slots.count += 1;
                grounds.clear();
            }
            grounds.extend(bars.iter().filter(|bar| bar.base == 0.0).map(|bar| bar.at));
            slots.by_layer.push(Some(slots.count - 1));
        }
        slots
    }

    /// Components of a stack are filled like those of a stack over time.
    pub(super) fn fill(&self, hatched: bool) -> FillStyle {
        match (hatched, self.stacked) {
            (true, _) => FillStyle::Hatched,
            (false, true) => FillStyle::Solid,
            (false, false) => FillStyle::Plain,
        }
    }

    /// Width of a bar and of the gap between two, in pixels.
    fn bar_width(&self, area: &PlotArea, bars: &[Bar]) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let wide = (room(area, bars) * FULL / count).min(WIDEST);
        (wide, if count > 1.0 && wide > 6.0 { 1.5 } else { 0.0 })
    }

    /// Offset of a slot from its position, in bar widths.
    fn offset(&self, slot: usize) -> f64 {
        slot as f64 - (self.count as f64 - 1.0) / 2.0
    }

    /// Writes the values above bars if they are few, have room, and none is stacked.
    pub(super) fn draw_values(
        &self,
        svg: &SvgWriter,
        area: &PlotArea,
        layers: &[Layer],
        measure: TickUnit,
        metrics: LayoutMetrics,
    ) {
        if self.by_layer.iter().flatten().count() != self.count {
            return;
        }
        let text_style = TextStyle::new(Role::Text, metrics.font)
            .align_h(HPos::Center)
            .align_v(VPos::Bottom)
            .halo();
        for (layer, slot) in layers.iter().zip(&self.by_layer) {
            let (Layer::Bars { bars, .. }, Some(slot)) = (layer, slot) else {
                continue;
            };
            let (room, gap) = self.bar_width(area, bars);
            let texts: Vec<String> = bars.iter().map(|bar| measure.format(bar.value)).collect();
            if bars.len() > FEW || texts.iter().any(|text| text_width(text, metrics.font) > room + 8.0) {
                continue;
            }
            for (bar, text) in bars.iter().zip(&texts) {
                let highest = bar
                    .interval
                    .map_or(bar.value, |(_, high)| high.max(bar.value))
                    .max(bar.base);
                let x = area.x_pixel(bar.at) + self.offset(*slot) * room - gap / 2.0;
                if area.contains(bar.at, bar.value) {
                    svg.text(text, x, area.y_pixel(highest) - 1.0, text_style);
                }
            }
        }
    }

    pub(super) fn draw(&self, svg: &SvgWriter, area: &PlotArea, layer: usize, bars: &[Bar], style: MarkStyle) {
        let Some(Some(slot)) = self.by_layer.get(layer) else {
            return;
        };
        let (wide, gap) = self.bar_width(area, bars);
        let middle = |bar: &Bar| area.x_pixel(bar.at) + self.offset(*slot) * wide;
        let block = |bar: &Bar| {
            let (top, bottom) = (
                area.y_pixel(bar.value.max(bar.base)),
                area.y_pixel(bar.value.min(bar.base)),
            );
            Rect {
                left: middle(bar) - wide / 2.0,
                top,
                width: wide - gap,
                height: bottom - top,
            }
        };
        for bar in bars {
            svg.rect(block(bar), style);
        }
        if style.fill != FillStyle::Plain {
            for bar in bars {
                svg.rect_outline(block(bar), MarkStyle::new(style.role), 1.0);
            }
        }
        for bar in bars {
            if let Some((low, high)) = bar.interval {
                let (x, low, high) = (middle(bar) - gap / 2.0, area.y_pixel(low), area.y_pixel(high));
                let cap = (wide / 5.0).min(5.0);
                let strokes: [[PixelPoint; 2]; 3] = [
                    [point(x, low), point(x, high)],
                    [point(x - cap, low), point(x + cap, low)],
                    [point(x - cap, high), point(x + cap, high)],
                ];
                for stroke in strokes {
                    svg.line(stroke.to_vec(), MarkStyle::new(Role::Text), 1.3);
                }
            }
        }
    }
}

/// Pixels from one position to the next.
fn room(area: &PlotArea, bars: &[Bar]) -> f64 {
    let mut places: Vec<f64> = bars.iter().map(|bar| area.x_pixel(bar.at)).collect();
    places.sort_by(f64::total_cmp);
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
    let least = gaps.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least
    } else {
        area.rect.width / 3.0
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
        // Measured at 0, expected at 1; a component that only one of them has is stacked there.
        let two = [
            bars(&[(0.0, 0.0)]),
            bars(&[(1.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(1.0, 1.0)]),
        ];
        assert_eq!(BarSlots::from_layers(&two).by_layer, [Some(0); 4]);
        // Two stacks at one position stand side by side, and so do bars that are not stacked.
        let side_by_side = [
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
            bars(&[(0.0, 0.0)]),
            bars(&[(0.0, 1.0)]),
        ];
        assert_eq!(
            BarSlots::from_layers(&side_by_side).by_layer,
            [Some(0), Some(0), Some(1), Some(1)]
        );
        assert_eq!(
            BarSlots::from_layers(&[bars(&[(0.0, 0.0)]), bars(&[(1.0, 0.0)])]).by_layer,
            [Some(0), Some(1)]
        );
    }
}
