//! Ticks that people like: bytes as GiB, tokens in powers of two with separators, times as seconds, minutes or milliseconds; 1-2-5 otherwise.

use super::along::Along;
use crate::unit::Unit;

/// A place on an axis that is named.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// In what an axis is labelled: so many of its unit are one of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) size: f64,
    /// Its name behind the axis' label; empty for things counted.
    pub(super) name: &'static str,
    /// Whether ticks are powers of two.
    twos: bool,
    /// Whether things are counted, of which there is a whole number.
    counts: bool,
}

impl Measure {
    /// That of values up to `most`. `twos` tells that all values are powers of two.
    pub(super) fn of(unit: Unit, most: f64, twos: bool) -> Self {
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
            twos: twos || unit == Unit::Tokens,
            counts: matches!(unit, Unit::Count | Unit::Tokens),
        }
    }

    /// A value in three digits or more: `48.2`, `1,833`; what is counted as a whole number, where it is one: `11`.
    pub(super) fn figure(self, value: f64) -> String {
        let value = value / self.size;
        number(
            value,
            match value.abs() {
                size if size >= 100.0 || size == 0.0 => 0,
                size if self.counts && size.fract() == 0.0 => 0,
                size if size >= 10.0 => 1,
                size if size >= 1.0 => 2,
                _ => 3,
            },
        )
    }

    /// The ticks of a scale, about `most` of them at most.
    pub(super) fn ticks(self, along: Along, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        let logarithmic = if along.log {
            self.logarithmic(along, most)
        } else {
            Vec::new()
        };
        if logarithmic.len() > 1 {
            return logarithmic;
        }
        // One tick alone gives no scale.
        let tries = (most..most + 8).map(|tried| self.linear(along, tried));
        let scale = tries.clone().find(|ticks| (2..=most + 1).contains(&ticks.len()));
        scale.unwrap_or_else(|| self.linear(along, most))
    }

    /// Ticks with both ends of the scale among them, and without what stands closer to an end than `apart` of the whole. A scale of whole
    /// values reaches half a step beyond them: the ends that are named are those values.
    pub(super) fn with_ends(self, along: Along, ticks: Vec<Tick>, apart: f64) -> Vec<Tick> {
        let half = |at: f64| at.fract().abs() == 0.5;
        let end = |at: f64| {
            let value = at / self.size;
            self.tick(value, if value.fract() == 0.0 { 0 } else { 2 })
        };
        let (from, to) = match half(along.from) && half(along.to) && along.from + 1.0 < along.to {
            true => (end(along.from + 0.5), end(along.to - 0.5)),
            false => (end(along.from), end(along.to)),
        };
        let within = |tick: &Tick| (apart..=1.0 - apart).contains(&along.share(tick.at));
        let inner = ticks.into_iter().filter(within);
        std::iter::once(from).chain(inner).chain(std::iter::once(to)).collect()
    }

    fn linear(self, along: Along, most: usize) -> Vec<Tick> {
        let (from, to) = (along.from / self.size, along.to / self.size);
        let least = (to - from) / most as f64;
        let step = if self.twos && least > 4.0 {
            2_f64.powf(least.log2().ceil())
        } else if matches!(self.name, "minutes") && least > 10.0 {
            [15.0, 30.0, 60.0]
                .into_iter()
                .find(|step| *step >= least)
                .unwrap_or(120.0)
        } else {
            nice(least)
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

    fn logarithmic(self, along: Along, most: usize) -> Vec<Tick> {
        let (from, to) = (
            along.from / self.size * (1.0 - 1e-9),
            along.to / self.size * (1.0 + 1e-9),
        );
        let within = |value: &f64| (from..=to).contains(value);
        let every = |values: Vec<f64>| -> Vec<f64> {
            let step = values.len().div_ceil(most).max(1);
            values.into_iter().step_by(step).collect()
        };
        let values = if self.twos {
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
            label: number(value, decimals),
        }
    }
}

/// The least step of 1, 2 or 5 times a power of ten that is not smaller.
fn nice(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    // Quarters of a hundred are read as easily; quarters of a unit are not.
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

/// The decimals that a step needs.
fn decimals(step: f64) -> usize {
    (0..9)
        .find(|decimals| {
            let scaled = step * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-9)
        })
        .and_then(|decimals| usize::try_from(decimals).ok())
        .unwrap_or(9)
}

/// A number with separators of thousands; millions and more short where nothing is lost.
pub(super) fn number(value: f64, decimals: usize) -> String {
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
        let ticks = Measure::of(unit, to, false).ticks(Along { from, to, log }, most);
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn bytes_are_told_in_gibibytes() {
        let gib = 1024_f64.powi(3);
        assert_eq!(Measure::of(Unit::Bytes, 80.0 * gib, false).name, "GiB");
        assert_eq!(
            labels(Unit::Bytes, 0.0, 80.0 * gib, false, 5),
            ["0", "20", "40", "60", "80"]
        );
        assert_eq!(Measure::of(Unit::Bytes, 512.0, false).name, "bytes");
        assert_eq!(Measure::of(Unit::Bytes, f64::MAX, false).name, "PiB");
    }

    #[test]
    fn what_is_counted_is_whole() {
        let figure = |unit, value| Measure::of(unit, 64.0, false).figure(value);
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
    fn tokens_come_in_powers_of_two() {
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
    fn times_are_told_in_what_suits_them() {
        assert_eq!(
            labels(Unit::Seconds, 0.0, 0.2, false, 5),
            ["0", "50", "100", "150", "200"]
        );
        assert_eq!(
            labels(Unit::Seconds, 0.0, 600.0, false, 5),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(Measure::of(Unit::Seconds, 20_000.0, false).name, "hours");
        assert_eq!(
            labels(Unit::Milliseconds, 1.0, 1000.0, true, 8),
            ["1", "3", "10", "30", "100", "300", "1,000"]
        );
    }

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(number(8192.0, 0), "8,192");
        assert_eq!(number(-0.25, 2), "−0.25");
        assert_eq!(number(1_500_000.0, 0), "1.5M");
        assert_eq!(number(1_048_576.0, 0), "1,048,576");
        assert_eq!(number(-0.0, 0), "0");
    }

    #[test]
    fn one_tick_alone_gives_no_scale() {
        let gib = 1024_f64.powi(3);
        for most in 3..6 {
            let told = labels(Unit::Bytes, 17.61 * gib, 17.69 * gib, false, most);
            assert!(told.len() > 1, "{most}: {told:?}");
        }
    }

    #[test]
    fn a_box_has_its_ends_named() {
        let named = |from, to, apart| {
            let along = Along { from, to, log: false };
            let measure = Measure::of(Unit::Tokens, to, false);
            let ticks = measure.with_ends(along, measure.ticks(along, 5), apart);
            ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>()
        };
        assert_eq!(named(127.5, 8192.5, 0.1), ["128", "2,048", "4,096", "6,144", "8,192"]);
        assert_eq!(named(1800.0, 8100.0, 0.1), ["1,800", "4,096", "6,144", "8,100"]);
    }

    proptest! {
        #[test]
        fn ticks_lie_on_their_axis_and_are_few(from in -1e6..1e6_f64, length in 1e-3..1e9_f64, log: bool, most in 2..12_usize) {
            let from = if log { from.abs() + 1e-3 } else { from };
            let along = Along { from, to: from + length, log };
            for unit in [Unit::Bytes, Unit::Tokens, Unit::Seconds, Unit::Milliseconds, Unit::Count] {
                let ticks = Measure::of(unit, along.to, false).ticks(along, most);
                prop_assert!(ticks.len() <= most + 1, "{ticks:?}");
                prop_assert!(ticks.iter().all(|tick| along.share(tick.at) > -1e-6 && along.share(tick.at) < 1.0 + 1e-6), "{ticks:?}");
                prop_assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at), "{ticks:?}");
            }
        }
    }
}
