//! From where to where an axis goes: what its layers need, with room for their marks, and from zero where that does not hide what there is to see.

use super::along::Along;
use super::clean::LARGEST;
use crate::report::plot::{Axis, Bar, Layer, Panel, Scale};

/// What the layers of a panel need of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    low: f64,
    high: f64,
    /// Whether zero must be seen: bars and stacks say what they say by their length.
    zero: bool,
    /// Whether marks need room beyond their places.
    marks: bool,
    /// Whether all values are powers of two.
    pub(super) twos: bool,
}

impl Extent {
    const NONE: Self = Self {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
        zero: false,
        marks: false,
        twos: true,
    };

    fn see(&mut self, value: f64, log: bool) {
        if value.abs() <= LARGEST && (!log || value >= 1.0 / LARGEST) {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            self.twos &= value > 0.0 && value.log2().fract() == 0.0;
        }
    }

    /// Room for half a bar at both ends.
    fn beside_bars(&mut self, bars: &[Bar], log: bool) {
        let shown = |place: &f64| place.abs() <= LARGEST && (!log || *place >= 1.0 / LARGEST);
        let places = bars.iter().map(|bar| bar.at).filter(shown);
        let mut places: Vec<f64> = places.map(|place| if log { place.ln() } else { place }).collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
        let half = gaps.fold(f64::INFINITY, f64::min) / 2.0;
        let half = if half.is_finite() { half } else { 0.5 };
        if let (Some(first), Some(last)) = (places.first(), places.last()) {
            let place = |value: f64| if log { value.exp() } else { value };
            self.low = self.low.min(place(first - half));
            self.high = self.high.max(place(last + half));
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            zero: self.zero || other.zero,
            marks: self.marks || other.marks,
            twos: self.twos && other.twos,
        }
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.low > self.high
    }

    /// The x of a panel.
    pub(super) fn across(panel: &Panel) -> Self {
        let log = panel.x.scale == Scale::Log;
        let mut extent = Self::NONE;
        for layer in &panel.layers {
            let mut see = |value: f64| extent.see(value, log);
            match layer {
                Layer::Line { points, dots, .. } => {
                    points.iter().for_each(|point| see(point.0));
                    extent.marks |= dots;
                }
                Layer::Ribbon { points, .. } => points.iter().for_each(|point| see(point.0)),
                Layer::Dots { points, .. } => {
                    points.iter().for_each(|point| see(point.0));
                    extent.marks = true;
                }
                Layer::Area { outlines, .. } => outlines.iter().flatten().for_each(|point| see(point.0)),
                Layer::Spans { spans } => spans.iter().for_each(|span| {
                    see(span.from);
                    see(span.to);
                }),
                Layer::Rule { at, upright: true, .. } => see(*at),
                Layer::Rule { .. } => {}
                Layer::Moments { moments, .. } => moments.iter().for_each(|moment| see(moment.at)),
                Layer::Bars { bars, .. } => {
                    bars.iter().for_each(|bar| see(bar.at));
                    extent.beside_bars(bars, log);
                }
                Layer::Cells { cells, .. } => cells.iter().for_each(|cell| {
                    see(cell.x.0);
                    see(cell.x.1);
                }),
            }
        }
        extent
    }

    /// The y of a panel, on its left or its right scale.
    pub(super) fn up(panel: &Panel, second: bool) -> Self {
        let axis = if second { panel.right.as_ref() } else { Some(&panel.y) };
        let log = axis.is_some_and(|axis| axis.scale == Scale::Log);
        let mut extent = Self::NONE;
        for layer in &panel.layers {
            let mut see = |value: f64| extent.see(value, log);
            match layer {
                Layer::Line {
                    points, right, dots, ..
                } if *right == second => {
                    points.iter().filter_map(|point| point.1).for_each(see);
                    extent.marks |= dots;
                }
                Layer::Ribbon {
                    points, right, solid, ..
                } if *right == second => {
                    points.iter().for_each(|point| {
                        see(point.1);
                        see(point.2);
                    });
                    extent.zero |= solid;
                }
                Layer::Rule {
                    at,
                    upright: false,
                    right,
                    ..
                } if *right == second => see(*at),
                _ if second => {}
                Layer::Dots { points, .. } => {
                    points.iter().for_each(|point| see(point.1));
                    extent.marks = true;
                }
                Layer::Area { outlines, .. } => outlines.iter().flatten().for_each(|point| see(point.1)),
                Layer::Bars { bars, .. } => {
                    for bar in bars {
                        see(bar.value.max(bar.base));
                        see(bar.base.min(bar.value));
                        if let Some((low, high)) = bar.interval {
                            see(low);
                            see(high);
                        }
                    }
                    extent.zero = true;
                }
                Layer::Cells { cells, .. } => cells.iter().for_each(|cell| {
                    see(cell.y.0);
                    see(cell.y.1);
                }),
                _ => {}
            }
        }
        extent
    }

    /// The scale of an axis that shows it. `upwards` axes begin at zero where that does not hide what is to be seen.
    pub(super) fn along(self, axis: &Axis, upwards: bool) -> Along {
        let log = axis.scale == Scale::Log;
        if !axis.names.is_empty() {
            let to = axis.names.len() as f64 - 0.5;
            return Along {
                from: -0.5,
                to,
                log: false,
            };
        }
        if let Some((from, to)) = axis.range
            && from.is_finite()
            && to.is_finite()
            && from < to
            && (!log || from > 0.0)
        {
            return Along { from, to, log };
        }
        if self.is_empty() {
            let from = if log { 1.0 } else { 0.0 };
            return Along {
                from,
                to: from + if log { 9.0 } else { 1.0 },
                log,
            };
        }
        let (mut low, mut high) = (self.low, self.high);
        if log {
            let room = if low == high {
                2.0
            } else {
                (high / low).powf(if self.marks { 0.03 } else { 0.0 })
            };
            return Along {
                from: low / room,
                to: high * room,
                log,
            };
        }
        let from_zero = upwards && low >= 0.0 && (self.zero || low <= 0.7 * high);
        if self.zero || from_zero {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if low == high {
            let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
            return Along {
                from: if from_zero { low } else { low - room },
                to: high + room,
                log,
            };
        }
        let length = high - low;
        let room = match (upwards, self.marks) {
            (true, _) if self.zero => 0.1,
            (true, _) => 0.06,
            (false, true) => 0.02,
            (false, false) => 0.0,
        };
        let below = if from_zero || (upwards && low >= 0.0 && low - room * length < 0.0) {
            0.0
        } else {
            room
        };
        let from = if !upwards && low == 0.0 {
            0.0
        } else {
            low - below * length
        };
        Along {
            from,
            to: high + room * length,
            log,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Extent;
    use crate::report::plot::{Axis, Colour, Layer, Panel, Scale, Shape};

    fn dots(points: Vec<(f64, f64)>) -> Panel {
        Panel {
            layers: vec![Layer::Dots {
                name: String::new(),
                points,
                colour: Colour::Fits,
                shape: Shape::Circle,
            }],
            ..Panel::default()
        }
    }

    proptest! {
        #[test]
        fn every_value_lies_on_its_axis(points in prop::collection::vec((1e-3..1e9_f64, 1e-3..1e9_f64), 1..40), log: bool) {
            let axis = Axis { scale: if log { Scale::Log } else { Scale::Linear }, ..Axis::default() };
            let panel = Panel { x: axis.clone(), y: axis.clone(), ..dots(points.clone()) };
            let (x, y) = (Extent::across(&panel).along(&axis, false), Extent::up(&panel, false).along(&axis, true));
            for (across, up) in points {
                prop_assert!(x.holds(across) && y.holds(up), "{x:?} {y:?} {across} {up}");
            }
            prop_assert!(x.from < x.to && y.from < y.to);
        }
    }

    #[test]
    fn heights_begin_at_zero_unless_that_would_hide_them() {
        let up = |values: &[f64]| {
            let panel = dots(values.iter().map(|value| (0.0, *value)).collect());
            Extent::up(&panel, false).along(&Axis::default(), true)
        };
        assert_eq!(up(&[3.0, 60.0]).from, 0.0);
        assert!(up(&[58.0, 60.0]).from > 50.0);
        assert!(up(&[5.0]).to > 5.0);
        let nothing = Extent::up(&Panel::default(), false);
        assert!(nothing.is_empty() && nothing.along(&Axis::default(), true).to == 1.0);
    }
}
