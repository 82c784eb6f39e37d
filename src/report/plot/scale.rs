//! Scales: the range of an axis, its mapping from values to positions, its heading and its ticks. Bytes are shown as
//! GiB, tokens in powers of two, times as ms, s, minutes or hours; steps of 1-2-5 otherwise.

use serde::{Deserialize, Serialize};

use crate::fmt::grouped;
use crate::report::plot::{Axis, Layer, Panel, Scale};
use crate::unit::Unit;

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

    /// Whether a value lies between the ends; allows for rounding.
    pub(super) fn contains(&self, value: f64) -> bool {
        value.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }
}

/// The largest absolute value that is drawn, far beyond any measurement. Beyond it, lengths of axes overflow.
const LARGEST: f64 = 1e100;

fn can_show(value: f64, log: bool) -> bool {
    value.abs() <= LARGEST && (!log || value >= 1.0 / LARGEST)
}

/// The note about values that the axes of a panel cannot show; `None` if there are none.
pub(super) fn unshowable_note(panel: &Panel) -> Option<String> {
    let log = |axis: &Axis| axis.scale == Scale::Log;
    let count = |layer: &Layer| {
        let y = if layer.on_right() { panel.right.as_ref() } else { None };
        // Areas and bars may begin below a logarithmic axis; points cannot lie there.
        let points = matches!(layer, Layer::Line { .. } | Layer::Dots { .. } | Layer::Moments { .. });
        let hidden = |values: Vec<f64>, log: bool| values.into_iter().filter(|value| !can_show(*value, log)).count();
        let (xs, ys) = layer.values();
        hidden(xs, points && log(&panel.x)) + hidden(ys, points && log(y.unwrap_or(&panel.y)))
    };
    match panel.layers.iter().map(count).sum::<usize>() {
        0 => None,
        1 => Some("1 value cannot be shown on these axes".to_owned()),
        many => Some(format!("{many} values cannot be shown on these axes")),
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
    powers_of_two: bool,
}

impl Extent {
    fn new(values: impl IntoIterator<Item = f64>, axis: &Axis) -> Self {
        let mut extent = Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            zero: false,
            marks: false,
            powers_of_two: true,
        };
        let log = axis.scale == Scale::Log;
        for value in values.into_iter().filter(|value| can_show(*value, log)) {
            extent.low = extent.low.min(value);
            extent.high = extent.high.max(value);
            extent.powers_of_two &= value > 0.0 && value.log2().fract() == 0.0;
        }
        extent
    }

    /// The extent on the x axis, with half a bar at both ends.
    pub(super) fn x(panel: &Panel) -> Self {
        let mut extent = Self::new(panel.layers.iter().flat_map(|layer| layer.values().0), &panel.x);
        for layer in &panel.layers {
            if let Layer::Bars { bars, .. } = layer {
                let mut places: Vec<f64> = bars
                    .iter()
                    .map(|bar| bar.at)
                    .filter(|at| can_show(*at, false))
                    .collect();
                places.sort_by(f64::total_cmp);
                let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
                let half = gaps.reduce(f64::min).unwrap_or(1.0) / 2.0;
                let ends = [places.first().map(|at| at - half), places.last().map(|at| at + half)];
                extent = extent.union(Self::new(ends.into_iter().flatten(), &panel.x));
            }
            extent.marks |= matches!(layer, Layer::Line { dots: true, .. } | Layer::Dots { .. });
        }
        extent
    }

    /// The extent on the left y axis, or on the right one.
    pub(super) fn y(panel: &Panel, right: bool) -> Self {
        let axis = if right { panel.right.as_ref() } else { None }.unwrap_or(&panel.y);
        let layers = || panel.layers.iter().filter(|layer| layer.on_right() == right);
        let mut extent = Self::new(layers().flat_map(|layer| layer.values().1), axis);
        extent.zero = layers().any(|layer| matches!(layer, Layer::Bars { .. } | Layer::Ribbon { solid: true, .. }));
        extent.marks = layers().any(|layer| matches!(layer, Layer::Line { dots: true, .. } | Layer::Dots { .. }));
        extent
    }

    /// Shows zero, too.
    pub(super) fn with_zero(self) -> Self {
        Self { zero: true, ..self }
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

    /// The scale that shows this extent. A y axis (`upwards`) starts at zero unless that would hide differences.
    pub(super) fn scale(self, axis: &Axis, upwards: bool) -> AxisScale {
        let log = axis.scale == Scale::Log && axis.names.is_empty();
        let scale = |from: f64, to: f64| AxisScale { from, to, log };
        if !axis.names.is_empty() {
            return scale(-0.5, axis.names.len() as f64 - 0.5);
        }
        let valid = |(from, to): &(f64, f64)| from.is_finite() && to.is_finite() && from < to && (!log || *from > 0.0);
        if let Some((from, to)) = axis.range.filter(valid) {
            return scale(from, to);
        }
        let (mut low, mut high) = (self.low, self.high);
        if low > high {
            return if log { scale(1.0, 10.0) } else { scale(0.0, 1.0) };
        }
        if log {
            let room = if low == high {
                2.0
            } else {
                (high / low).powf(if self.marks { 0.03 } else { 0.0 })
            };
            return scale(low / room, high * room);
        }
        if self.zero || (upwards && low >= 0.0 && low <= 0.7 * high) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let room = match (high - low, upwards) {
            (0.0, _) if low == 0.0 => 1.0,
            (0.0, _) => 0.1 * low.abs(),
            (length, true) => length * if self.zero { 0.1 } else { 0.06 },
            (length, false) => length * if self.marks { 0.02 } else { 0.0 },
        };
        // Nothing is below zero where no value is.
        let from = if low >= 0.0 && (low - room < 0.0) {
            low
        } else {
            low - room
        };
        scale(from, high + room)
    }
}

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// An axis with its scale, ready to be drawn.
#[derive(Debug)]
pub(super) struct AxisLayout {
    pub(super) scale: AxisScale,
    pub(super) unit: TickUnit,
    pub(super) heading: String,
    /// Whether both ends have a tick.
    ends: bool,
    /// The names of its categories, if any.
    pub(super) names: Vec<String>,
}

impl AxisLayout {
    pub(super) fn new(axis: &Axis, extent: Extent, upwards: bool) -> Self {
        let scale = extent.scale(axis, upwards);
        let most = scale.from.abs().max(scale.to.abs());
        let unit = TickUnit::new(axis.unit, most, scale.log && extent.powers_of_two);
        Self {
            heading: heading(axis, unit),
            scale,
            unit,
            ends: axis.ends && axis.names.is_empty(),
            names: axis.names.clone(),
        }
    }

    /// At most about `most` ticks, or all category names. Ticks closer than `min_gap` (share of the axis) to a labelled
    /// end are dropped.
    pub(super) fn ticks(&self, most: usize, min_gap: f64) -> Vec<Tick> {
        if !self.names.is_empty() {
            let tick = |(at, name): (usize, &String)| Tick {
                at: at as f64,
                label: name.clone(),
            };
            return self.names.iter().enumerate().map(tick).collect();
        }
        let ticks = self.unit.ticks(self.scale, most);
        match self.ends {
            true => self.unit.with_ends(self.scale, ticks, min_gap),
            false => ticks,
        }
    }

    /// The ticks of a vertical axis of a height in pixels.
    pub(super) fn vertical_ticks(&self, height: f64) -> Vec<Tick> {
        let most = ((height / 34.0) as usize).clamp(3, 8);
        self.ticks(most, 18.0 / height)
    }
}

/// What is written at an axis: its label, and its unit unless the label has it.
pub(super) fn heading(axis: &Axis, unit: TickUnit) -> String {
    let name = if axis.names.is_empty() { unit.name } else { "" };
    match axis.label.as_str() {
        "" => name.to_owned(),
        label if label.ends_with(name) => label.to_owned(),
        label => format!("{label}, {name}"),
    }
}

/// The unit in which ticks of an axis are written; `size` is its multiple of the axis' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TickUnit {
    pub(super) size: f64,
    /// Its name after the axis' label; empty for counts.
    pub(super) name: &'static str,
    powers_of_two: bool,
    whole_numbers: bool,
}

impl TickUnit {
    /// The unit for values up to `most`. Ticks are powers of two for tokens, and if all values are.
    pub(super) fn new(unit: Unit, most: f64, powers_of_two: bool) -> Self {
        let most = most.abs();
        let (size, name) = match unit {
            Unit::Bytes => {
                const NAMES: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
                let power = (most.max(1.0).log2() / 10.0).floor().min(5.0);
                (1024_f64.powf(power), NAMES[power as usize])
            }
            Unit::Tokens => (1.0, "tokens"),
            Unit::TokensPerSecond => (1.0, "tokens/s"),
            Unit::RequestsPerSecond => (1.0, "requests/s"),
            Unit::Seconds if most >= 3.0 * 3600.0 => (3600.0, "hours"),
            Unit::Seconds if most >= 300.0 => (60.0, "minutes"),
            Unit::Seconds if most >= 1.0 || most == 0.0 => (1.0, "s"),
            Unit::Seconds => (1e-3, "ms"),
            Unit::Milliseconds if most >= 10_000.0 => (1e3, "s"),
            Unit::Milliseconds => (1.0, "ms"),
            Unit::Percent => (1.0, "%"),
            Unit::Watts => (1.0, "W"),
            Unit::Celsius => (1.0, "°C"),
            Unit::Count => (1.0, ""),
        };
        Self {
            size,
            name,
            powers_of_two: powers_of_two || unit == Unit::Tokens,
            whole_numbers: matches!(unit, Unit::Count | Unit::Tokens),
        }
    }

    /// Formats a value with at least three digits: `48.2`, `1,833`; whole counts as `11`.
    pub(super) fn format(self, value: f64) -> String {
        let value = value / self.size;
        let decimals = match value.abs() {
            size if size >= 100.0 || size == 0.0 => 0,
            size if self.whole_numbers && size.fract() == 0.0 => 0,
            size if size >= 10.0 => 1,
            size if size >= 1.0 => 2,
            _ => 3,
        };
        format_number(value, decimals)
    }

    /// The ticks of a scale, at most about `most`.
    pub(super) fn ticks(self, scale: AxisScale, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        let logarithmic = if scale.log {
            self.logarithmic(scale, most)
        } else {
            Vec::new()
        };
        if logarithmic.len() > 1 {
            return logarithmic;
        }
        // A single tick does not show a scale.
        let mut tries = (most..most + 8).map(|tried| self.linear(scale, tried));
        let best = tries.find(|ticks| (2..=most + 1).contains(&ticks.len()));
        best.unwrap_or_else(|| self.linear(scale, most))
    }

    /// Adds ticks at both ends and drops those closer to an end than `min_gap` (share of the axis). An axis of whole
    /// values extends half a step beyond them: then the outermost values are labelled.
    fn with_ends(self, scale: AxisScale, ticks: Vec<Tick>, min_gap: f64) -> Vec<Tick> {
        let half = |at: f64| at.fract().abs() == 0.5;
        let end = |at: f64| {
            let value = at / self.size;
            self.tick(value, if value.fract() == 0.0 { 0 } else { 2 })
        };
        let whole = half(scale.from) && half(scale.to) && scale.from + 1.0 < scale.to;
        let inset = if whole { 0.5 } else { 0.0 };
        let within = |tick: &Tick| (min_gap..=1.0 - min_gap).contains(&scale.share(tick.at));
        let inner = ticks.into_iter().filter(within);
        let ends = [end(scale.from + inset), end(scale.to - inset)];
        let [from, to] = ends;
        std::iter::once(from).chain(inner).chain([to]).collect()
    }

    fn linear(self, scale: AxisScale, most: usize) -> Vec<Tick> {
        let (from, to) = (scale.from / self.size, scale.to / self.size);
        let least = (to - from) / most as f64;
        let step = if self.powers_of_two && least > 4.0 {
            2_f64.powf(least.log2().ceil())
        } else if self.name == "minutes" && least > 10.0 {
            let steps = [15.0, 30.0, 60.0].into_iter();
            steps.filter(|step| *step >= least).reduce(f64::min).unwrap_or(120.0)
        } else {
            nice_step(least)
        };
        if !(step.is_finite() && step > 0.0) {
            return Vec::new();
        }
        let first = (from / step - 1e-9).ceil();
        let values = (0..=most + 1).map(|index| (first + index as f64) * step);
        let within = values.take_while(|value| *value <= to + step * 1e-9);
        within.map(|value| self.tick(value, decimals(step))).collect()
    }

    fn logarithmic(self, scale: AxisScale, most: usize) -> Vec<Tick> {
        let range = scale.from / self.size * (1.0 - 1e-9)..=scale.to / self.size * (1.0 + 1e-9);
        let powers = |base: f64, parts: &[f64]| -> Vec<f64> {
            let all = (-30..=60).flat_map(|power| parts.iter().map(move |part| part * base.powi(power)));
            all.filter(|value| range.contains(value)).collect()
        };
        let choices = match self.powers_of_two {
            true => vec![powers(2.0, &[1.0])],
            false => [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]]
                .map(|parts| powers(10.0, parts))
                .into(),
        };
        let densest = choices.iter().find(|values| values.len() <= most).or(choices.last());
        let values = densest.map_or(&[][..], Vec::as_slice);
        let step = values.len().div_ceil(most).max(1);
        let tick = |value: &f64| self.tick(*value, decimals(*value));
        values.iter().step_by(step).map(tick).collect()
    }

    fn tick(self, value: f64, decimals: usize) -> Tick {
        Tick {
            at: value * self.size,
            label: format_number(value, decimals),
        }
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    // Steps of 25 are easy to read; steps of 2.5 are not.
    let parts: &[f64] = if power >= 10.0 {
        &[1.0, 2.0, 2.5, 5.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let mut steps = parts.iter().map(|part| part * power);
    steps.find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// The number of decimals that a step needs.
fn decimals(step: f64) -> usize {
    let whole = |decimals: &i32| {
        let scaled = step * 10_f64.powi(*decimals);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-9)
    };
    (0..9)
        .find(whole)
        .map_or(9, |decimals| decimals.unsigned_abs() as usize)
}

/// Formats a number with thousands separators; millions and more in short if that loses nothing.
pub(super) fn format_number(value: f64, decimals: usize) -> String {
    for (size, name) in [(1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if value.abs() >= size && (value / size * 100.0).fract().abs() < 1e-9 {
            return format!("{}{name}", value / size);
        }
    }
    let text = grouped(&format!("{:.decimals$}", value.abs()));
    let negative = value < 0.0 && text.chars().any(|digit| ('1'..='9').contains(&digit));
    if negative { format!("−{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::plot::{Colour, Shape};

    fn dots(points: Vec<(f64, f64)>) -> Panel {
        Panel {
            layers: vec![Layer::dots("", points, Colour::Fits, Shape::Circle)],
            ..Panel::default()
        }
    }

    proptest! {
        #[test]
        fn every_value_lies_on_its_axis(points in prop::collection::vec((1e-3..1e9_f64, 1e-3..1e9_f64), 1..40), log: bool, share in 0.0..1.0_f64) {
            let axis = Axis { scale: if log { Scale::Log } else { Scale::Linear }, ..Axis::default() };
            let panel = Panel { x: axis.clone(), y: axis.clone(), ..dots(points.clone()) };
            let (x, y) = (Extent::x(&panel).scale(&axis, false), Extent::y(&panel, false).scale(&axis, true));
            for (across, up) in points {
                prop_assert!(x.contains(across) && y.contains(up), "{x:?} {y:?} {across} {up}");
            }
            prop_assert!(x.from < x.to && y.from < y.to);
            prop_assert!((x.share(x.value(share)) - share).abs() < 1e-6);
        }

        #[test]
        fn ticks_lie_on_their_axis_and_are_few(from in -1e6..1e6_f64, length in 1e-3..1e9_f64, log: bool, most in 2..12_usize) {
            let from = if log { from.abs() + 1e-3 } else { from };
            let scale = AxisScale { from, to: from + length, log };
            for unit in [Unit::Bytes, Unit::Tokens, Unit::Seconds, Unit::Milliseconds, Unit::Count] {
                let ticks = TickUnit::new(unit, scale.to, false).ticks(scale, most);
                prop_assert!(ticks.len() <= most + 1, "{ticks:?}");
                prop_assert!(ticks.iter().all(|tick| scale.share(tick.at) > -1e-6 && scale.share(tick.at) < 1.0 + 1e-6), "{ticks:?}");
                prop_assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at), "{ticks:?}");
            }
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
        assert_eq!(up(&[]).to, 1.0);
    }

    #[test]
    fn values_that_an_axis_cannot_show_are_noted() {
        let mut panel = dots(vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]);
        assert!(unshowable_note(&panel).unwrap().starts_with("1 value "));
        panel.x.scale = Scale::Log;
        assert!(unshowable_note(&panel).unwrap().starts_with("2 values"));
    }

    fn labels(unit: Unit, from: f64, to: f64, log: bool, most: usize) -> Vec<String> {
        let ticks = TickUnit::new(unit, to, false).ticks(AxisScale { from, to, log }, most);
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_have_a_suitable_unit_and_steps() {
        let gib = 1024_f64.powi(3);
        assert_eq!(TickUnit::new(Unit::Bytes, 80.0 * gib, false).name, "GiB");
        assert_eq!(TickUnit::new(Unit::Bytes, 512.0, false).name, "bytes");
        assert_eq!(TickUnit::new(Unit::Bytes, f64::MAX, false).name, "PiB");
        assert_eq!(TickUnit::new(Unit::Seconds, 20_000.0, false).name, "hours");
        let cases = [
            (labels(Unit::Bytes, 0.0, 80.0 * gib, false, 5), "0 20 40 60 80"),
            (labels(Unit::Tokens, 0.0, 8192.0, false, 5), "0 2,048 4,096 6,144 8,192"),
            (
                labels(Unit::Tokens, 128.0, 4096.0, true, 8),
                "128 256 512 1,024 2,048 4,096",
            ),
            (labels(Unit::Tokens, 128.0, 4096.0, true, 3), "128 512 2,048"),
            (labels(Unit::Seconds, 0.0, 0.2, false, 5), "0 50 100 150 200"),
            (labels(Unit::Seconds, 0.0, 600.0, false, 5), "0 2 4 6 8 10"),
            (
                labels(Unit::Milliseconds, 1.0, 1000.0, true, 8),
                "1 3 10 30 100 300 1,000",
            ),
        ];
        for (ticks, expected) in cases {
            assert_eq!(ticks.join(" "), expected);
        }
        // There is never a single tick.
        for most in 3..6 {
            assert!(labels(Unit::Bytes, 17.61 * gib, 17.69 * gib, false, most).len() > 1);
        }
    }

    #[test]
    fn numbers_have_separators_and_three_digits() {
        assert_eq!(format_number(8192.0, 0), "8,192");
        assert_eq!(format_number(-0.25, 2), "−0.25");
        assert_eq!(format_number(1_500_000.0, 0), "1.5M");
        assert_eq!(format_number(1_048_576.0, 0), "1,048,576");
        assert_eq!(format_number(-0.0, 0), "0");
        let format = |unit, value| TickUnit::new(unit, 64.0, false).format(value);
        assert_eq!(
            (format(Unit::Count, 11.0), format(Unit::Count, 2.5)),
            ("11".into(), "2.50".into())
        );
        assert_eq!(format(Unit::Seconds, 11.0), "11.0");
    }

    #[test]
    fn both_ends_of_a_search_range_have_ticks() {
        let named = |from, to| {
            let axis = Axis {
                range: Some((from, to)),
                ends: true,
                ..Axis::new("", Unit::Tokens)
            };
            let layout = AxisLayout::new(&axis, Extent::x(&Panel::default()), false);
            let ticks = layout.ticks(5, 0.1);
            ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>()
        };
        assert_eq!(named(127.5, 8192.5), ["128", "2,048", "4,096", "6,144", "8,192"]);
        assert_eq!(named(1800.0, 8100.0), ["1,800", "4,096", "6,144", "8,100"]);
    }
}
