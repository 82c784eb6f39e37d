//! The range of an axis: covers its layers with room for markers, from zero unless that would hide differences.

use super::filter::LARGEST;
use super::scale::AxisScale;
use crate::report::plot::{Axis, Bar, Layer, Panel, Scale};

/// The range of values that the layers of a panel need on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    low: f64,
    high: f64,
    /// Whether zero must be shown: bars and stacks are read by their length.
    zero: bool,
    /// Whether markers need room beyond their positions.
    marks: bool,
    /// Whether all values are powers of two.
    pub(super) powers_of_two: bool,
}

impl Extent {
    const EMPTY: Self = Self {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
        zero: false,
        marks: false,
        powers_of_two: true,
    };

    fn include(&mut self, value: f64, log: bool) {
        if value.abs() <= LARGEST && (!log || value >= 1.0 / LARGEST) {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            self.powers_of_two &= value > 0.0 && value.log2().fract() == 0.0;
        }
    }

    /// Adds half a bar at both ends.
    fn include_bar_edges(&mut self, bars: &[Bar], log: bool) {
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

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            zero: self.zero || other.zero,
            marks: self.marks || other.marks,
            powers_of_two: self.powers_of_two && other.powers_of_two,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.low > self.high
    }

    pub(super) fn x(panel: &Panel) -> Self {
        let log = panel.x.scale == Scale::Log;
        let mut extent = Self::EMPTY;
        for layer in &panel.layers {
            let mut include = |value: f64| extent.include(value, log);
            match layer {
                Layer::Line { points, dots, .. } => {
                    points.iter().for_each(|point| include(point.0));
                    extent.marks |= dots;
                }
                Layer::Ribbon { points, .. } => points.iter().for_each(|point| include(point.0)),
                Layer::Dots { points, .. } => {
                    points.iter().for_each(|point| include(point.0));
                    extent.marks = true;
                }
                Layer::Area { outlines, .. } => outlines.iter().flatten().for_each(|point| include(point.0)),
                Layer::Spans { spans } => spans.iter().for_each(|span| {
                    include(span.from);
                    include(span.to);
                }),
                Layer::Rule { at, upright: true, .. } => include(*at),
                Layer::Rule { .. } => {}
                Layer::Moments { moments, .. } => moments.iter().for_each(|moment| include(moment.at)),
                Layer::Bars { bars, .. } => {
                    bars.iter().for_each(|bar| include(bar.at));
                    extent.include_bar_edges(bars, log);
                }
                Layer::Cells { cells, .. } => cells.iter().for_each(|cell| {
                    include(cell.x.0);
                    include(cell.x.1);
                }),
            }
        }
        extent
    }

    /// The extent on the left y axis, or on the right one if `second`.
    pub(super) fn y(panel: &Panel, second: bool) -> Self {
        let axis = if second { panel.right.as_ref() } else { Some(&panel.y) };
        let log = axis.is_some_and(|axis| axis.scale == Scale::Log);
        let mut extent = Self::EMPTY;
        for layer in &panel.layers {
            let mut include = |value: f64| extent.include(value, log);
            match layer {
                Layer::Line {
                    points, right, dots, ..
                } if *right == second => {
                    points.iter().filter_map(|point| point.1).for_each(include);
                    extent.marks |= dots;
                }
                Layer::Ribbon {
                    points, right, solid, ..
                } if *right == second => {
                    points.iter().for_each(|point| {
                        include(point.1);
                        include(point.2);
                    });
                    extent.zero |= solid;
                }
                Layer::Rule {
                    at,
                    upright: false,
                    right,
                    ..
                } if *right == second => include(*at),
                _ if second => {}
                Layer::Dots { points, .. } => {
                    points.iter().for_each(|point| include(point.1));
                    extent.marks = true;
                }
                Layer::Area { outlines, .. } => outlines.iter().flatten().for_each(|point| include(point.1)),
                Layer::Bars { bars, .. } => {
                    for bar in bars {
                        include(bar.value.max(bar.base));
                        include(bar.base.min(bar.value));
                        if let Some((low, high)) = bar.interval {
                            include(low);
                            include(high);
                        }
                    }
                    extent.zero = true;
                }
                Layer::Cells { cells, .. } => cells.iter().for_each(|cell| {
                    include(cell.y.0);
                    include(cell.y.1);
                }),
                _ => {}
            }
        }
        extent
    }

    /// The scale that shows this extent. A y axis (`upwards`) starts at zero unless that would hide differences.
    pub(super) fn scale(self, axis: &Axis, upwards: bool) -> AxisScale {
        let log = axis.scale == Scale::Log;
        if !axis.names.is_empty() {
            let to = axis.names.len() as f64 - 0.5;
            return AxisScale {
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
            return AxisScale { from, to, log };
        }
        if self.is_empty() {
            let from = if log { 1.0 } else { 0.0 };
            return AxisScale {
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
            return AxisScale {
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
            return AxisScale {
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
        AxisScale {
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
            let (x, y) = (Extent::x(&panel).scale(&axis, false), Extent::y(&panel, false).scale(&axis, true));
            for (across, up) in points {
                prop_assert!(x.contains(across) && y.contains(up), "{x:?} {y:?} {across} {up}");
            }
            prop_assert!(x.from < x.to && y.from < y.to);
        }
    }

    #[test]
    fn heights_begin_at_zero_unless_that_would_hide_them() {
        let up = |values: &[f64]| {
            let panel = dots(values.iter().map(|value| (0.0, *value)).collect());
            Extent::y(&panel, false).scale(&Axis::default(), true)
        };
        assert_eq!(up(&[3.0, 60.0]).from, 0.0);
        assert!(up(&[58.0, 60.0]).from > 50.0);
        assert!(up(&[5.0]).to > 5.0);
        let nothing = Extent::y(&Panel::default(), false);
        assert!(nothing.is_empty() && nothing.scale(&Axis::default(), true).to == 1.0);
    }
}
