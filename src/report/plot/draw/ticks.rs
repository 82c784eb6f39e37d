//! Readable ticks: bytes as GiB, tokens in powers of two, times as ms, s, minutes or hours; steps of 1-2-5 otherwise.

use super::scale::AxisScale;
use crate::unit::Unit;

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// The unit in which ticks of an axis are written; `size` is its multiple of the axis' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TickUnit {
    pub(super) size: f64,
    /// Its name after the axis' label; empty for counts.
    pub(super) name: &'static str,
    /// Whether ticks are powers of two.
    powers_of_two: bool,
    /// Whether values are whole numbers.
    whole_numbers: bool,
}

impl TickUnit {
    /// The unit for values up to `most`. `twos` says that all values are powers of two.
    pub(super) fn new(unit: Unit, most: f64, powers_of_two: bool) -> Self {
        let most = most.abs();
        let (size, name) = match unit {
            Unit::Bytes => {
                const NAMES: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
                let mut sizes = (1..NAMES.len()).map(|power| 1024_f64.powi(i32::try_from(power).unwrap_or(0)));
                let index = sizes.position(|size| most < size).unwrap_or(NAMES.len() - 1);
                (1024_f64.powi(i32::try_from(index).unwrap_or(0)), NAMES[index])
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
        format_number(
            value,
            match value.abs() {
                size if size >= 100.0 || size == 0.0 => 0,
                size if self.whole_numbers && size.fract() == 0.0 => 0,
                size if size >= 10.0 => 1,
                size if size >= 1.0 => 2,
                _ => 3,
            },
        )
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
        let tries = (most..most + 8).map(|tried| self.linear(scale, tried));
        let best = tries.clone().find(|ticks| (2..=most + 1).contains(&ticks.len()));
        best.unwrap_or_else(|| self.linear(scale, most))
    }

    /// Adds ticks at both ends and drops those closer to an end than `min_gap` (share of the axis). An axis of whole
    /// values extends half a step beyond them: then the outermost values are labelled.
    pub(super) fn with_ends(self, scale: AxisScale, ticks: Vec<Tick>, min_gap: f64) -> Vec<Tick> {
        let half = |at: f64| at.fract().abs() == 0.5;
        let end = |at: f64| {
            let value = at / self.size;
            self.tick(value, if value.fract() == 0.0 { 0 } else { 2 })
        };
        let (from, to) = match half(scale.from) && half(scale.to) && scale.from + 1.0 < scale.to {
            true => (end(scale.from + 0.5), end(scale.to - 0.5)),
            false => (end(scale.from), end(scale.to)),
        };
        let within = |tick: &Tick| (min_gap..=1.0 - min_gap).contains(&scale.share(tick.at));
        let inner = ticks.into_iter().filter(within);
        std::iter::once(from).chain(inner).chain(std::iter::once(to)).collect()
    }

    fn linear(self, scale: AxisScale, most: usize) -> Vec<Tick> {
        let (from, to) = (scale.from / self.size, scale.to / self.size);
        let least = (to - from) / most as f64;
        let step = if self.powers_of_two && least > 4.0 {
            2_f64.powf(least.log2().ceil())
        } else if matches!(self.name, "minutes") && least > 10.0 {
            [15.0, 30.0, 60.0]
                .into_iter()
                .find(|step| *step >= least)
                .unwrap_or(120.0)
        } else {
            nice_step(least)
        };
        if !(step.is_finite() && step > 0.0) {
            return Vec::new();
        }
        let first = (from / step - 1e-9).ceil();
        let decimals = decimals(step);
        let mut ticks = Vec::new();
        for index in 0..=most + 1 {
            let value = (first + index as f64) * step;
            if value > to + step * 1e-9 {
                break;
            }
            ticks.push(self.tick(value, decimals));
        }
        ticks
    }

    fn logarithmic(self, scale: AxisScale, most: usize) -> Vec<Tick> {
        let (from, to) = (
            scale.from / self.size * (1.0 - 1e-9),
            scale.to / self.size * (1.0 + 1e-9),
        );
        let within = |value: &f64| (from..=to).contains(value);
        let every = |values: Vec<f64>| -> Vec<f64> {
            let step = values.len().div_ceil(most).max(1);
            values.into_iter().step_by(step).collect()
        };
        let values = if self.powers_of_two {
            every((-20..=60).map(|power| 2_f64.powi(power)).filter(within).collect())
        } else {
            let decades: Vec<f64> = (-20..=30).map(|power| 10_f64.powi(power)).collect();
            let each = |parts: &[f64]| -> Vec<f64> {
                let all = decades
                    .iter()
                    .flat_map(|decade| parts.iter().map(move |part| part * decade));
                all.filter(within).collect()
            };
            let choices = [each(&[1.0, 2.0, 5.0]), each(&[1.0, 3.0]), each(&[1.0])];
            match choices.into_iter().find(|values| values.len() <= most) {
                Some(values) => values,
                None => every(each(&[1.0])),
            }
        };
        values
            .into_iter()
            .map(|value| self.tick(value, decimals(value)))
            .collect()
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
    let parts = if power >= 10.0 {
        [1.0, 2.0, 2.5, 5.0]
    } else {
        [1.0, 2.0, 5.0, 10.0]
    };
    let step = parts
        .into_iter()
        .map(|part| part * power)
        .find(|step| *step >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0 * power)
}

/// The number of decimals that a step needs.
fn decimals(step: f64) -> usize {
    (0..9)
        .find(|decimals| {
            let scaled = step * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-9)
        })
        .and_then(|decimals| usize::try_from(decimals).ok())
        .unwrap_or(9)
}

/// Formats a number with thousands separators; millions and more in short if that loses nothing.
pub(super) fn format_number(value: f64, decimals: usize) -> String {
    for (size, name) in [(1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if value.abs() >= size && (value / size * 100.0).fract().abs() < 1e-9 {
            return format!("{}{name}", value / size);
        }
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, part) = text
        .split_once('.')
        .map_or((text.as_str(), ""), |(whole, part)| (whole, part));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let minus = if value < 0.0 && text.chars().any(|digit| ('1'..='9').contains(&digit)) {
        "−"
    } else {
        ""
    };
    match part {
        "" => format!("{minus}{out}"),
        _ => format!("{minus}{out}.{part}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(unit: Unit, from: f64, to: f64, log: bool, most: usize) -> Vec<String> {
        let ticks = TickUnit::new(unit, to, false).ticks(AxisScale { from, to, log }, most);
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn bytes_are_shown_in_gibibytes() {
        let gib = 1024_f64.powi(3);
        assert_eq!(TickUnit::new(Unit::Bytes, 80.0 * gib, false).name, "GiB");
        assert_eq!(
            labels(Unit::Bytes, 0.0, 80.0 * gib, false, 5),
            ["0", "20", "40", "60", "80"]
        );
        assert_eq!(TickUnit::new(Unit::Bytes, 512.0, false).name, "bytes");
        assert_eq!(TickUnit::new(Unit::Bytes, f64::MAX, false).name, "PiB");
    }

    #[test]
    fn counts_have_no_decimals() {
        let figure = |unit, value| TickUnit::new(unit, 64.0, false).format(value);
        assert_eq!(
            (figure(Unit::Count, 11.0), figure(Unit::Count, 2.5)),
            ("11".into(), "2.50".into())
        );
        assert_eq!(
            (figure(Unit::Tokens, 3.0), figure(Unit::Seconds, 11.0)),
            ("3".into(), "11.0".into())
        );
    }

    #[test]
    fn token_ticks_are_powers_of_two() {
        assert_eq!(
            labels(Unit::Tokens, 0.0, 8192.0, false, 5),
            ["0", "2,048", "4,096", "6,144", "8,192"]
        );
        assert_eq!(
            labels(Unit::Tokens, 128.0, 4096.0, true, 8),
            ["128", "256", "512", "1,024", "2,048", "4,096"]
        );
        assert_eq!(labels(Unit::Tokens, 128.0, 4096.0, true, 3), ["128", "512", "2,048"]);
    }

    #[test]
    fn times_use_a_suitable_unit() {
        assert_eq!(
            labels(Unit::Seconds, 0.0, 0.2, false, 5),
            ["0", "50", "100", "150", "200"]
        );
        assert_eq!(
            labels(Unit::Seconds, 0.0, 600.0, false, 5),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(TickUnit::new(Unit::Seconds, 20_000.0, false).name, "hours");
        assert_eq!(
            labels(Unit::Milliseconds, 1.0, 1000.0, true, 8),
            ["1", "3", "10", "30", "100", "300", "1,000"]
        );
    }

    #[test]
    fn numbers_have_separators() {
        assert_eq!(format_number(8192.0, 0), "8,192");
        assert_eq!(format_number(-0.25, 2), "−0.25");
        assert_eq!(format_number(1_500_000.0, 0), "1.5M");
        assert_eq!(format_number(1_048_576.0, 0), "1,048,576");
        assert_eq!(format_number(-0.0, 0), "0");
    }

    #[test]
    fn there_is_never_a_single_tick() {
        let gib = 1024_f64.powi(3);
        for most in 3..6 {
            let labels = labels(Unit::Bytes, 17.61 * gib, 17.69 * gib, false, most);
            assert!(labels.len() > 1, "{most}: {labels:?}");
        }
    }

    #[test]
    fn both_ends_of_a_search_range_have_ticks() {
        let named = |from, to, min_gap| {
            let scale = AxisScale { from, to, log: false };
            let measure = TickUnit::new(Unit::Tokens, to, false);
            let ticks = measure.with_ends(scale, measure.ticks(scale, 5), min_gap);
            ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>()
        };
        assert_eq!(named(127.5, 8192.5, 0.1), ["128", "2,048", "4,096", "6,144", "8,192"]);
        assert_eq!(named(1800.0, 8100.0, 0.1), ["1,800", "4,096", "6,144", "8,100"]);
    }

    proptest! {
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
}
