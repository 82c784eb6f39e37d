//! Scales: the range of an axis, its mapping from values to positions, its heading, and which values it can show.

use serde::{Deserialize, Serialize};

use super::ticks::{Tick, TickUnit};
use crate::report::plot::{Axis, Bar, Layer, Panel, Scale};

/// The range of an axis and its kind. `from < to`, both above 0 if it is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisScale {
    /// The value at its start: left or bottom.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
    /// Whether it is logarithmic.
    pub log: bool,
}

impl AxisScale {
    /// The position of a value: 0 at the start, 1 at the end, limited to ten lengths beyond the ends.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if share.is_nan() { 0.0 } else { share.clamp(-10.0, 10.0) }
    }

    /// The value at a position.
    #[must_use]
    pub fn value(&self, share: f64) -> f64 {
        if self.log {
            self.from * (self.to / self.from).powf(share)
        } else {
            self.from + share * (self.to - self.from)
        }
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        // Allows for rounding beyond the ends.
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }
}

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

pub(super) struct AxisLayout {
    pub(super) scale: AxisScale,
    pub(super) measure: TickUnit,
    pub(super) heading: String,
    /// Whether both ends have a tick.
    ends: bool,
    /// The names of its categories, if any.
    pub(super) names: Vec<String>,
}

impl AxisLayout {
    pub(super) fn new(axis: &Axis, extent: Extent, upwards: bool) -> Self {
        let scale = extent.scale(axis, upwards);
        let measure = TickUnit::new(
            axis.unit,
            scale.from.abs().max(scale.to.abs()),
            scale.log && extent.powers_of_two,
        );
        let name = if axis.names.is_empty() { measure.name } else { "" };
        let heading = match (axis.label.as_str(), name) {
            (label, "") => label.to_owned(),
            ("", name) => name.to_owned(),
            (label, name) if label == name || label.ends_with(name) => label.to_owned(),
            (label, name) => format!("{label}, {name}"),
        };
        Self {
            scale,
            measure,
            heading,
            ends: axis.ends && axis.names.is_empty(),
            names: axis.names.clone(),
        }
    }

    /// At most about `most` ticks, or all category names. Ticks closer than `min_gap` to a labelled end are dropped.
    pub(super) fn ticks(&self, most: usize, min_gap: f64) -> Vec<Tick> {
        if self.names.is_empty() {
            let ticks = self.measure.ticks(self.scale, most);
            return match self.ends {
                true => self.measure.with_ends(self.scale, ticks, min_gap),
                false => ticks,
            };
        }
        let named = self.names.iter().enumerate().map(|(at, name)| Tick {
            at: at as f64,
            label: name.clone(),
        });
        named.collect()
    }

    /// The ticks of a vertical axis of a height in pixels.
    pub(super) fn vertical_ticks(&self, height: f64) -> Vec<Tick> {
        let most = ((height / 34.0) as usize).clamp(3, 8);
        self.ticks(most, 18.0 / height)
    }
}

/// The panel without such values, and a note if there were any.
pub(super) fn drop_unshowable(panel: &Panel) -> (Panel, Option<String>) {
    let mut panel = panel.clone();
    let x = ValidValues::for_axis(&panel.x);
    let left = ValidValues::for_axis(&panel.y);
    let right = panel.right.as_ref().map_or(left, ValidValues::for_axis);
    let mut dropped = 0;
    for layer in &mut panel.layers {
        dropped += drop_non_finite(layer, x, left, right);
    }
    (panel, dropped_note(dropped))
}

/// The note about dropped values.
pub(in crate::report) fn dropped_note(dropped: usize) -> Option<String> {
    (dropped > 0).then(|| match dropped {
        1 => "1 value cannot be shown on these axes".to_owned(),
        _ => format!("{dropped} values cannot be shown on these axes"),
    })
}

/// The largest absolute value that is drawn, far beyond any measurement.
pub(super) const LARGEST: f64 = 1e100;

/// Which values an axis can show.
#[derive(Clone, Copy)]
struct ValidValues {
    log: bool,
}

impl ValidValues {
    fn for_axis(axis: &Axis) -> Self {
        Self {
            log: axis.scale == Scale::Log,
        }
    }

    fn accepts(self, value: f64) -> bool {
        // Beyond these, lengths of axes overflow.
        value.abs() <= LARGEST && (!self.log || value >= 1.0 / LARGEST)
    }
}

/// Drops what cannot be drawn and returns how many values that were.
fn drop_non_finite(layer: &mut Layer, x: ValidValues, left: ValidValues, right: ValidValues) -> usize {
    match layer {
        Layer::Line {
            points, right: second, ..
        } => {
            let y = if *second { right } else { left };
            let before = points.len();
            points.retain(|point| x.accepts(point.0));
            let mut dropped = before - points.len();
            for (_, value) in points.iter_mut() {
                if value.is_some_and(|value| !y.accepts(value)) {
                    *value = None;
                    dropped += 1;
                }
            }
            dropped
        }
        Layer::Ribbon { points, .. } => retain_counted(points, |point| {
            x.accepts(point.0) && point.1.abs() <= LARGEST && point.2.abs() <= LARGEST
        }),
        Layer::Dots { points, .. } => retain_counted(points, |point| x.accepts(point.0) && left.accepts(point.1)),
        Layer::Area { outlines, .. } => {
            let finite = |point: &(f64, f64)| point.0.abs() <= LARGEST && point.1.abs() <= LARGEST;
            outlines.iter_mut().map(|outline| retain_counted(outline, finite)).sum()
        }
        Layer::Spans { spans } => retain_counted(spans, |span| {
            span.from.abs() <= LARGEST && span.to.abs() <= LARGEST && span.from <= span.to
        }),
        Layer::Moments { moments, .. } => retain_counted(moments, |moment| x.accepts(moment.at)),
        Layer::Bars { bars, .. } => {
            for bar in bars.iter_mut() {
                bar.interval = bar
                    .interval
                    .filter(|(low, high)| low.abs() <= LARGEST && high.abs() <= LARGEST);
            }
            retain_counted(bars, |bar| {
                x.accepts(bar.at) && left.accepts(bar.value) && bar.base.abs() <= LARGEST
            })
        }
        Layer::Cells { cells, .. } => retain_counted(cells, |cell| {
            [cell.x.0, cell.x.1, cell.y.0, cell.y.1, cell.value]
                .iter()
                .all(|value| value.abs() <= LARGEST)
        }),
        Layer::Rule { .. } => 0,
    }
}

/// Keeps what `accepts` accepts and returns how many items were dropped.
fn retain_counted<T>(items: &mut Vec<T>, accepts: impl Fn(&T) -> bool) -> usize {
    let before = items.len();
    items.retain(accepts);
    before - items.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::plot::{Colour, Shape};

    proptest! {
        #[test]
        fn a_share_leads_back_to_its_value(from in 0.1..100.0_f64, length in 0.1..1e6_f64, share in 0.0..1.0_f64, log: bool) {
            let scale = AxisScale { from, to: from + length, log };
            let there = scale.value(share);
            prop_assert!((scale.share(there) - share).abs() < 1e-6);
            prop_assert!(scale.contains(there));
        }
    }

    #[test]
    fn positions_beyond_the_ends_are_limited() {
        let scale = AxisScale {
            from: 1.0,
            to: 10.0,
            log: true,
        };
        assert_eq!(scale.share(0.0), -10.0);
        assert_eq!(scale.share(f64::INFINITY), 10.0);
    }

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

    #[test]
    fn values_that_an_axis_cannot_show_are_dropped_and_noted() {
        let mut panel = Panel {
            layers: vec![Layer::Dots {
                name: String::new(),
                points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)],
                colour: Colour::Fits,
                shape: Shape::Circle,
            }],
            ..Panel::default()
        };
        assert!(drop_unshowable(&panel).1.unwrap().starts_with("1 value "));
        panel.x = Axis {
            scale: Scale::Log,
            ..Axis::default()
        };
        let (kept, note) = drop_unshowable(&panel);
        assert!(note.unwrap().starts_with("2 values"));
        assert!(matches!(&kept.layers[0], Layer::Dots { points, .. } if points.len() == 1));
    }
}
