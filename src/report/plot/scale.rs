//! Scales: the range of an axis, its mapping from values to positions, its heading and its ticks. Bytes are shown as
//! GiB, tokens in powers of two, times as ms, s, minutes or hours; steps of 1-2-5 otherwise.

use serde::{Deserialize, Serialize};

use crate::boundary;
use crate::fmt::{Count, Unit, grouped, without_negative_zero};
use crate::report::plot::{Axis, Layer, Marks, Panel, Scale};

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
    /// The scale of a boundary's axis, from its lowest to its highest value.
    pub fn from_boundary(axis: &boundary::Axis) -> Self {
        let (low, high) = axis.range();
        Self {
            from: low.as_f64(),
            to: high.as_f64(),
            log: axis.scale() == Scale::Log,
        }
    }

    /// The position of a value: 0 at the start, 1 at the end, limited to ten lengths beyond the ends.
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if share.is_nan() { 0.0 } else { share.clamp(-10.0, 10.0) }
    }

    /// The value at a position.
    pub fn value(&self, share: f64) -> f64 {
        if self.log {
            self.from * (self.to / self.from).powf(share)
        } else {
            self.from + share * (self.to - self.from)
        }
    }

    /// Whether a value lies between the ends; allows for rounding.
    pub fn contains(&self, value: f64) -> bool {
        value.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    /// The cell of a value, of `cells` cells.
    pub fn cell(&self, value: f64, cells: usize) -> usize {
        ((self.share(value).clamp(0.0, 1.0) * cells as f64) as usize).min(cells.saturating_sub(1))
    }
}

/// The largest absolute value that is drawn, far beyond any measurement. Beyond it, lengths of axes overflow.
const LARGEST: f64 = 1e100;

fn can_show(value: f64, log: bool) -> bool {
    value.abs() <= LARGEST && (!log || value >= 1.0 / LARGEST)
}

/// The note about points that the axes of a panel cannot show; `None` if there are none.
pub(super) fn unshowable_note(panel: &Panel) -> Option<String> {
    let hidden = |values: Vec<f64>, axis: &Axis| {
        let log = axis.scale == Scale::Log;
        values.into_iter().filter(|value| !can_show(*value, log)).count()
    };
    // Areas and bars may begin below a logarithmic axis.
    let points = |layer: &&Layer| matches!(layer.marks, Marks::Line { .. } | Marks::Dots { .. });
    let layers = panel.layers.iter().filter(points).map(Layer::values);
    let count = layers.map(|(xs, ys)| hidden(xs, &panel.x) + hidden(ys, &panel.y)).sum();
    (count > 0).then(|| format!("{} cannot be shown on these axes", Count(count, "value")))
}

/// The lowest and the highest of some values; the first is above the second if there are none.
pub(super) fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// The scale that fits an axis to these panels. A y axis (`upwards`) starts at zero unless that would hide differences.
fn fitting(axis: &Axis, panels: &[Panel], upwards: bool) -> AxisScale {
    let log = axis.scale == Scale::Log && axis.names.is_empty();
    let scale = |from: f64, to: f64| AxisScale { from, to, log };
    let valid = |(from, to): &(f64, f64)| from < to && can_show(*from, log) && can_show(*to, log);
    if !axis.names.is_empty() {
        return scale(-0.5, axis.names.len() as f64 - 0.5);
    }
    if let Some((from, to)) = axis.range.filter(valid) {
        return scale(from, to);
    }
    let layers = || panels.iter().flat_map(|panel| &panel.layers);
    let values = layers().flat_map(|layer| if upwards { layer.values().1 } else { layer.values().0 });
    let (low, high) = extremes(values.filter(|value| can_show(*value, log)));
    if low > high {
        return if log { scale(1.0, 10.0) } else { scale(0.0, 1.0) };
    }
    if log {
        let room = if low == high { 2.0 } else { (high / low).powf(0.03) };
        return scale(low / room, high * room);
    }
    // Bars are read by their length.
    let bars = layers().any(|layer| matches!(layer.marks, Marks::Bars { .. }));
    let (low, high) = if upwards && (bars || (0.0..=0.7 * high).contains(&low)) {
        (low.min(0.0), high.max(0.0))
    } else {
        (low, high)
    };
    let room = match high - low {
        0.0 if low == 0.0 => 1.0,
        0.0 => 0.1 * low.abs(),
        length => length * if upwards { 0.08 } else { 0.02 },
    };
    // The axis does not go below zero unless a value does.
    let from = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
    scale(from, high + room)
}

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// An axis with its scale, ready to be drawn.
pub(in crate::report) struct AxisLayout {
    pub(in crate::report) scale: AxisScale,
    pub(super) heading: String,
    /// The size of the unit's multiple used for the ticks: 2^30 for GiB.
    pub(super) size: f64,
    /// The names of its categories, if any.
    pub(super) names: Vec<String>,
    powers_of_two: bool,
    /// The smallest distance of ticks.
    least_step: f64,
    /// Whether its ends have ticks.
    ends: bool,
}

impl AxisLayout {
    /// The x axis, or `upwards` the y axis, that these panels share: label and unit of the first panel's axis, with a
    /// range that fits all panels.
    pub(super) fn new(panels: &[Panel], upwards: bool) -> Self {
        let own = |panel: &Panel| {
            let mut axis = if upwards { panel.y.clone() } else { panel.x.clone() };
            // A label that repeats the panel's title is omitted; its unit stays.
            if axis.label == panel.title {
                axis.label.clear();
            }
            axis
        };
        let axis = panels.first().map(own).unwrap_or_default();
        let scale = fitting(&axis, panels, upwards);
        let (size, unit) = multiple(axis.unit, scale.from.abs().max(scale.to.abs()));
        // Counts along x are levels of load, which are doubled.
        let doubled = scale.log && !upwards && axis.unit == Unit::Count;
        Self {
            scale,
            heading: heading(&axis, unit),
            size,
            names: axis.names,
            powers_of_two: doubled || axis.unit == Unit::Tokens,
            least_step: 0.0,
            ends: false,
        }
    }

    /// An axis of a boundary.
    pub(in crate::report) fn from_boundary(axis: &boundary::Axis) -> Self {
        let scale = AxisScale::from_boundary(axis);
        let is_whole = matches!(axis.range().0, boundary::Scalar::Int(_));
        Self {
            scale,
            heading: format!("{}{}", axis.name(), if scale.log { " (log scale)" } else { "" }),
            size: 1.0,
            names: Vec::new(),
            powers_of_two: scale.log || matches!(axis.name(), "input" | "output"),
            least_step: if is_whole { 1.0 } else { 0.0 },
            ends: true,
        }
    }

    /// At most about `most` ticks, or all category names. A single one would not show a scale.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        if !self.names.is_empty() {
            let tick = |(at, name): (u32, &String)| Tick {
                at: at.into(),
                label: name.clone(),
            };
            return (0..).zip(&self.names).map(tick).collect();
        }
        let (scale, size) = (self.scale, self.size);
        let (from, to) = (scale.from / size, scale.to / size);
        let powers = if scale.log {
            self.powers(from, to, most)
        } else {
            Vec::new()
        };
        let mut steps = (most.max(2)..most + 8).map(|most| self.steps(from, to, most));
        let mut values = match powers.len() {
            0 | 1 => steps.find(|values| values.len() > 1).unwrap_or_default(),
            _ => powers,
        };
        if self.ends {
            values.retain(|value| (0.1..0.9).contains(&scale.share(*value)));
            values = [&[from], &values[..], &[to]].concat();
        }
        // Steps all have the decimals of the finest one; powers have their own.
        let finest = values.iter().map(|value| decimals(*value)).max().unwrap_or(0);
        let tick = |value: f64| Tick {
            at: value * size,
            label: format_number(value, if scale.log { decimals(value) } else { finest }),
        };
        values.into_iter().map(tick).collect()
    }

    /// Multiples of a step of 1, 2 or 5 times a power of ten; of a power of two for tokens.
    fn steps(&self, from: f64, to: f64, most: usize) -> Vec<f64> {
        let least = ((to - from) / most as f64).max(self.least_step);
        let power = 10_f64.powf(least.log10().floor());
        let mut decimal = [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * power);
        let step = if self.powers_of_two && least > 4.0 {
            2_f64.powf(least.log2().ceil())
        } else {
            decimal.find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(least)
        };
        let first = (from / step - 1e-9).ceil();
        let values = (0..=most).map(|index| (first + index as f64) * step);
        values.take_while(|value| *value <= to + step * 1e-9).collect()
    }

    /// Powers of ten and parts of them; or powers of two.
    fn powers(&self, from: f64, to: f64, most: usize) -> Vec<f64> {
        let range = from * (1.0 - 1e-9)..=to * (1.0 + 1e-9);
        let (base, choices): (f64, &[&[f64]]) = if self.powers_of_two {
            (2.0, &[&[1.0]])
        } else {
            (10.0, &[&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]])
        };
        let mut values = Vec::new();
        for parts in choices {
            let all = (-30..=60).flat_map(|power| parts.iter().map(move |part| part * base.powi(power)));
            values = all.filter(|value| range.contains(value)).collect();
            if values.len() <= most {
                break;
            }
        }
        let every = values.len().div_ceil(most.max(1)).max(1);
        values.into_iter().step_by(every).collect()
    }
}

impl Axis {
    /// Its label with its unit: `latency, ms`.
    pub fn heading(&self) -> String {
        heading(self, unit_name(self.unit))
    }
}

/// The heading of an axis: its label, and its unit unless the label has it.
pub(super) fn heading(axis: &Axis, unit: &str) -> String {
    let unit = if axis.names.is_empty() { unit } else { "" };
    match axis.label.as_str() {
        "" => unit.to_owned(),
        label if label.ends_with(unit) => label.to_owned(),
        label => format!("{label}, {unit}"),
    }
}

/// The name of a unit after a value or a label; empty for counts.
pub fn unit_name(unit: Unit) -> &'static str {
    multiple(unit, 1.0).1
}

/// The multiple of a unit used for values up to `most`: its size and its name.
pub(super) fn multiple(unit: Unit, most: f64) -> (f64, &'static str) {
    const BYTES: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let power = (most.max(1.0).log2() / 10.0).floor().min(5.0);
    match unit {
        Unit::Bytes => (1024_f64.powf(power), BYTES[power as usize]),
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
    }
}

/// The number of decimals that a number needs.
fn decimals(value: f64) -> usize {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').split('.').nth(1).map_or(0, str::len)
}

/// Formats a number with thousands separators and a proper minus sign.
pub(super) fn format_number(value: f64, decimals: usize) -> String {
    grouped(&without_negative_zero(format!("{value:.decimals$}"))).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::plot::{Colour, MarkerShape};

    fn dots(points: Vec<(f64, f64)>) -> Panel {
        Panel {
            layers: vec![Layer::dots("", points, Colour::Fits, MarkerShape::Circle)],
            ..Panel::default()
        }
    }

    fn ticks(unit: Unit, scale: AxisScale, most: usize) -> Vec<Tick> {
        let axis = Axis::new("", unit)
            .with_range((scale.from, scale.to))
            .with_scale(if scale.log { Scale::Log } else { Scale::Linear });
        let panel = Panel::new("", Axis::default(), axis, []);
        AxisLayout::new(&[panel], true).ticks(most)
    }

    proptest! {
        #[test]
        fn every_value_lies_on_its_axis(points in prop::collection::vec((1e-3..1e9_f64, 1e-3..1e9_f64), 1..40), log: bool, share in 0.0..1.0_f64) {
            let axis = Axis { scale: if log { Scale::Log } else { Scale::Linear }, ..Axis::default() };
            let panel = Panel { x: axis.clone(), y: axis.clone(), ..dots(points.clone()) };
            let panels = std::slice::from_ref(&panel);
            let (x, y) = (AxisLayout::new(panels, false).scale, AxisLayout::new(panels, true).scale);
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
                let ticks = ticks(unit, scale, most);
                prop_assert!(ticks.len() <= most.max(4) + 1, "{ticks:?}");
                prop_assert!(ticks.iter().all(|tick| scale.share(tick.at) > -1e-6 && scale.share(tick.at) < 1.0 + 1e-6), "{ticks:?}");
                prop_assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at), "{ticks:?}");
            }
        }
    }

    #[test]
    fn heights_begin_at_zero_unless_that_would_hide_them() {
        let up = |values: &[f64]| {
            let panel = dots(values.iter().map(|value| (0.0, *value)).collect());
            AxisLayout::new(&[panel], true).scale
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
        let ticks = ticks(unit, AxisScale { from, to, log }, most);
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_have_a_suitable_unit_and_steps() {
        let gib = 1024_f64.powi(3);
        assert_eq!(multiple(Unit::Bytes, 80.0 * gib).1, "GiB");
        assert_eq!(multiple(Unit::Bytes, 512.0).1, "bytes");
        assert_eq!(multiple(Unit::Bytes, f64::MAX).1, "PiB");
        assert_eq!(multiple(Unit::Seconds, 20_000.0).1, "hours");
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
        // An axis never has a single tick.
        for most in 3..6 {
            assert!(labels(Unit::Bytes, 17.61 * gib, 17.69 * gib, false, most).len() > 1);
        }
    }

    #[test]
    fn numbers_have_separators_and_a_minus_sign() {
        assert_eq!(format_number(8192.0, 0), "8,192");
        assert_eq!(format_number(-0.25, 2), "−0.25");
        assert_eq!(format_number(-0.001, 2), "0.00");
    }
}
