//! Coordinates of points, and one axis of a boundary: its range, its scale, its easier end, and the lattice of its
//! values.
//!
//! The rest of this module works in *hardness*: the number of lattice steps from the easiest end. In these units every
//! axis has the same direction, whatever it means.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::names;

/// One coordinate. Lengths and counts are integers; a memory fraction is not.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A length in tokens, or a count.
    Int(i64),
    /// A share, or another continuous quantity.
    Float(f64),
}

impl Scalar {
    /// The value as a float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
        }
    }
}

/// Coordinates by axis name: `input=512 output=128 concurrency=1`.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(pub BTreeMap<String, Scalar>);

impl Point {
    /// The integer coordinate on `axis`, if there is one.
    #[must_use]
    pub fn int(&self, axis: &str) -> Option<i64> {
        match self.0.get(axis)? {
            Scalar::Int(value) => Some(*value),
            Scalar::Float(_) => None,
        }
    }

    /// Sets one coordinate.
    #[must_use]
    pub fn with(mut self, axis: &str, value: i64) -> Self {
        self.0.insert(axis.to_owned(), Scalar::Int(value));
        self
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (axis, value)) in self.0.iter().enumerate() {
            write!(f, "{}{axis}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Lattice steps of a float axis without a tolerance.
const FLOAT_STEPS: i64 = 1000;

/// Larger integers are not exact as floats.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// How the midpoint of two values is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Arithmetic mean.
    #[default]
    Linear,
    /// Geometric mean.
    Log,
}

names!(Scale { Linear "linear", Log "log", });

/// Which end of an axis is easier for the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Easier {
    /// Smaller values are easier: lengths, concurrency.
    #[default]
    Down,
    /// Larger values are easier: a memory fraction.
    Up,
}

names!(Easier { Down "down", Up "up", });

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a range or a map")]
struct Spec {
    range: (Scalar, Scalar),
    #[serde(default)]
    scale: Scale,
    #[serde(default)]
    easier: Easier,
    tolerance: Option<f64>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    name: String,
    low: f64,
    high: f64,
    whole: bool,
    scale: Scale,
    easier: Easier,
    tolerance: Option<f64>,
    last: i64,
}

impl Axis {
    /// Reads `[lowest, highest]` or `#{ range, scale, easier, tolerance }`. A range of two integers has integer
    /// values. Any other range has steps of `tolerance`, or 1,000 equal steps.
    pub fn parse(name: &str, value: &Value) -> Result<Self> {
        let fault = |what: String| {
            Error::usage(format!("axis `{name}`: {what}"))
                .hint("write `[lowest, highest]` or `#{ range: [lowest, highest], scale: \"log\", easier: \"up\", tolerance: 64 }`")
        };
        let map = match value {
            Value::Array(_) => json!({ "range": value }),
            map => map.clone(),
        };
        let spec: Spec = serde_json::from_value(map).map_err(|error| fault(error.to_string()))?;
        let (low, high) = (spec.range.0.as_f64(), spec.range.1.as_f64());
        if !(low.abs() <= LARGEST && high.abs() <= LARGEST) {
            return Err(fault(format!("the range {low} to {high} is too large")));
        }
        if low > high {
            return Err(fault(format!("the lowest value {low} is above the highest {high}")));
        }
        if spec.scale == Scale::Log && low <= 0.0 {
            return Err(fault(format!("a log scale cannot begin at {low}")));
        }
        if let Some(tolerance) = spec.tolerance
            && !(tolerance > 0.0 && tolerance.is_finite())
        {
            return Err(fault(format!("the tolerance must be above 0, not {tolerance}")));
        }
        let whole = matches!(spec.range, (Scalar::Int(_), Scalar::Int(_)));
        let last = match spec.tolerance {
            _ if whole => (high - low) as i64,
            _ if low == high => 0,
            Some(step) if spec.scale == Scale::Linear => ((high - low) / step).ceil().clamp(1.0, 1e9) as i64,
            _ => FLOAT_STEPS,
        };
        Ok(Self {
            name: name.to_owned(),
            low,
            high,
            whole,
            scale: spec.scale,
            easier: spec.easier,
            tolerance: spec.tolerance,
            last,
        })
    }

    /// The name: the key in points.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lowest and the highest value.
    #[must_use]
    pub fn range(&self) -> (Scalar, Scalar) {
        (self.scalar(self.low), self.scalar(self.high))
    }

    /// How midpoints are computed, and how charts scale the axis.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Which end is easier.
    #[must_use]
    pub fn easier(&self) -> Easier {
        self.easier
    }

    /// The value at the easier end.
    #[must_use]
    pub fn easiest(&self) -> Scalar {
        self.value(0)
    }

    /// A point's value on this axis.
    #[must_use]
    pub fn of(&self, point: &Point) -> Option<f64> {
        point.0.get(&self.name).map(|value| value.as_f64())
    }

    /// The value, negated where larger values are easier, so that larger means harder.
    #[must_use]
    pub fn difficulty(&self, value: f64) -> f64 {
        match self.easier {
            Easier::Down => value,
            Easier::Up => -value,
        }
    }

    /// Where a value lies between the lowest (0) and the highest (1) on the axis' own scale; 0 on an axis of one value. Values
    /// beyond the ends are at the end.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        if self.low == self.high {
            return 0.0;
        }
        self.unbounded_share(value).clamp(0.0, 1.0)
    }

    /// The widest acceptable gap, in the axis' own unit.
    #[must_use]
    pub fn tolerance(&self) -> Option<f64> {
        self.tolerance
    }

    /// The hardness of the hardest value. The axis has one more lattice value than this.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// The hardness of a value, rounded to the easier and to the harder lattice value. Works beyond the range too.
    pub(super) fn hardness(&self, value: Scalar) -> Result<(i64, i64)> {
        let at = value.as_f64();
        if !at.is_finite() || at.abs() > LARGEST || (self.whole && at.fract() != 0.0) {
            let kind = if self.whole { "an integer" } else { "a number" };
            return Err(Error::usage(format!(
                "axis `{}` takes {kind}, not `{value}`",
                self.name
            )));
        }
        let position = match self.easier {
            Easier::Down => self.position(at),
            Easier::Up => self.last as f64 - self.position(at),
        };
        let nearest = position.round();
        Ok(if (position - nearest).abs() < 1e-6 {
            (nearest as i64, nearest as i64)
        } else {
            (position.floor() as i64, position.ceil() as i64)
        })
    }

    pub(super) fn value(&self, hardness: i64) -> Scalar {
        self.scalar(self.real(hardness))
    }

    /// The hardness halfway between two others by the axis' scale; never outside them.
    pub(super) fn middle(&self, from: i64, to: i64) -> i64 {
        let even = from + (to - from) / 2;
        if self.scale == Scale::Linear || !self.whole {
            return even;
        }
        let mean = (self.real(from) * self.real(to)).sqrt().round();
        self.hardness(Scalar::Float(mean))
            .map_or(even, |(hardness, _)| hardness.clamp(from.min(to), from.max(to)))
    }

    /// `count` evenly spaced hardnesses from end to end by the axis' scale, fewer if the axis has fewer values. A
    /// single one is the middle.
    pub(super) fn spread(&self, count: usize) -> Vec<i64> {
        let step = |index: usize| {
            let share = index as f64 / (count - 1) as f64;
            let even = (share * self.last as f64).round();
            let at = if self.whole && self.scale == Scale::Log {
                let share = if self.easier == Easier::Up { 1.0 - share } else { share };
                let value = (self.low * (self.high / self.low).powf(share)).round();
                self.hardness(Scalar::Float(value))
                    .map_or(even, |(hardness, _)| hardness as f64)
            } else {
                even
            };
            (at as i64).clamp(0, self.last)
        };
        let mut steps: Vec<i64> = match count {
            0 => Vec::new(),
            1 => vec![self.middle(0, self.last)],
            _ => (0..count).map(step).collect(),
        };
        steps.dedup();
        steps
    }

    /// The easier edge of the interval that a lattice value represents: halfway to its neighbour by the axis' scale.
    /// At the ends of the axis the interval extends as far outwards as inwards.
    pub(super) fn edge(&self, hardness: i64) -> f64 {
        if self.last == 0 {
            // A single value has no neighbours: its interval is 1 wide, or a tenth of the value.
            let half = if self.whole || self.low == 0.0 {
                0.5
            } else {
                self.low.abs() / 20.0
            };
            let outer = (hardness > 0) == (self.easier == Easier::Down);
            return if outer { self.low + half } else { self.low - half };
        }
        let inner = hardness.clamp(1, self.last);
        let (before, after) = (self.real(inner - 1), self.real(inner));
        let (end, other) = if hardness < inner {
            (before, after)
        } else {
            (after, before)
        };
        match (self.scale, hardness == inner) {
            (Scale::Linear, true) => f64::midpoint(before, after),
            (Scale::Log, true) => (before * after).sqrt(),
            (Scale::Linear, false) => end + (end - other) / 2.0,
            (Scale::Log, false) => end * (end / other).sqrt(),
        }
    }

    /// The distance between two hardnesses, in the axis' own unit.
    pub(super) fn distance(&self, from: i64, to: i64) -> f64 {
        (self.real(to) - self.real(from)).abs()
    }

    /// A value in the axis' own unit, as scripts see it.
    pub(super) fn scalar(&self, value: f64) -> Scalar {
        if self.whole {
            Scalar::Int(value.round() as i64)
        } else {
            Scalar::Float(tidy(value))
        }
    }

    /// Steps from the lowest value, not rounded.
    fn position(&self, value: f64) -> f64 {
        if self.whole || self.low == self.high {
            return value - self.low;
        }
        self.unbounded_share(value) * self.last as f64
    }

    fn unbounded_share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            // A log axis has no values at or below 0.
            Scale::Log if value <= 0.0 => -1.0,
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    fn real(&self, hardness: i64) -> f64 {
        let steps = match self.easier {
            Easier::Down => hardness,
            Easier::Up => self.last - hardness,
        } as f64;
        if self.whole || self.last == 0 {
            return self.low + steps;
        }
        let share = steps / self.last as f64;
        match self.scale {
            Scale::Linear => self.low + (self.high - self.low) * share,
            Scale::Log => self.low * (self.high / self.low).powf(share),
        }
    }
}

/// Removes floating-point noise, so that 0.1 + 0.2 reads 0.3.
fn tidy(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 11.0 - value.abs().log10().floor();
    let unit = 10f64.powf(digits);
    let rounded = (value * unit).round() / unit;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn axis(value: Value) -> Axis {
        Axis::parse("input", &value).unwrap()
    }

    #[test]
    fn integers_stay_integers() {
        let axis = axis(json!([128, 8192]));
        assert_eq!(axis.last(), 8064);
        assert_eq!(axis.hardness(Scalar::Int(128)).unwrap(), (0, 0));
        assert_eq!(axis.hardness(Scalar::Float(130.0)).unwrap(), (2, 2));
        assert_eq!(axis.value(8064), Scalar::Int(8192));
        assert!(axis.hardness(Scalar::Float(0.5)).is_err());
    }

    #[test]
    fn a_larger_memory_fraction_is_easier() {
        let axis = axis(json!({ "range": [0.5, 0.9], "easier": "up", "tolerance": 0.1 }));
        assert_eq!(axis.last(), 4);
        assert_eq!(axis.hardness(Scalar::Float(0.9)).unwrap(), (0, 0));
        assert_eq!(axis.hardness(Scalar::Float(0.65)).unwrap(), (2, 3));
        assert_eq!(axis.value(2), Scalar::Float(0.7));
    }

    #[test]
    fn the_middle_follows_the_scale() {
        let log = axis(json!({ "range": [1, 4096], "scale": "log" }));
        assert_eq!(log.value(log.middle(0, log.last())), Scalar::Int(64));
        let linear = axis(json!([1, 4097]));
        assert_eq!(linear.value(linear.middle(0, linear.last())), Scalar::Int(2049));
    }

    #[test]
    fn each_value_stands_for_the_stretch_around_it() {
        let linear = axis(json!([1, 64]));
        assert_eq!([0, 1, 63, 64].map(|at| linear.edge(at)), [0.5, 1.5, 63.5, 64.5]);
        let log = axis(json!({ "range": [1, 4], "scale": "log" }));
        assert_eq!(
            [0, 2, 4].map(|at| (log.edge(at) * 1e3).round()),
            [707.0, 2449.0, 4619.0]
        );
        let up = axis(json!({ "range": [0.5, 0.9], "easier": "up", "tolerance": 0.1 }));
        assert_eq!([0, 4, 5].map(|at| (up.edge(at) * 1e3).round()), [950.0, 550.0, 450.0]);
        assert_eq!([0, 1].map(|at| axis(json!([512, 512])).edge(at)), [511.5, 512.5]);
        let single = axis(json!({ "range": [0.9, 0.9], "easier": "up" }));
        assert!(single.edge(0) > 0.9 && single.edge(1) < 0.9);
    }

    #[test]
    fn a_wrong_axis_is_refused_with_the_reason() {
        for (value, word) in [
            (json!([8, 2]), "above"),
            (json!([1]), "length 1"),
            (json!({ "range": [1, 2], "scle": "log" }), "scle"),
            (json!({ "range": [0, 2], "scale": "log" }), "log scale"),
            (json!({ "range": [1, 2], "tolerance": 0 }), "tolerance"),
            (json!("wide"), "wide"),
        ] {
            let fault = Axis::parse("input", &value).unwrap_err();
            assert!(
                fault.message.contains("`input`") && fault.message.contains(word),
                "{fault}"
            );
        }
    }
}
