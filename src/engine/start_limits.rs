//! The lengths and the concurrency that one start of an engine must serve: taken from a point, from the range of a
//! boundary, or from the script.

use std::fmt;

use serde_json::Value;

use crate::boundary::Point;
use crate::fault::{Fault, Result};
use crate::run::Limits;

impl Limits {
    pub(super) const SMALLEST: Self = Self::new(1, 1, 1);

    pub(super) const fn new(input: u64, output: u64, concurrency: u64) -> Self {
        Self {
            input,
            output,
            total: input.saturating_add(output),
            concurrency,
        }
    }

    /// Limits for exactly this point.
    ///
    /// # Errors
    ///
    /// `usage` if the point has no `input` or `output`, or a value below 1.
    pub fn of_point(point: &Point) -> Result<Self> {
        let axis = |name: &str, default: Option<i64>| {
            let value = match point.0.get(name) {
                Some(_) => point.int(name),
                None => default,
            };
            value
                .and_then(|value| u64::try_from(value).ok())
                .filter(|value| *value >= 1)
                .ok_or_else(|| {
                    Fault::usage(format!(
                        "the point ({point}) needs a whole number from 1 up as `{name}`"
                    ))
                    .hint("a point is `#{ input: 512, output: 128, concurrency: 1 }`")
                })
        };
        Ok(Self::new(
            axis("input", None)?,
            axis("output", None)?,
            axis("concurrency", Some(1))?,
        ))
    }

    /// The point that needs exactly these limits.
    pub(super) fn point(&self) -> Result<Point> {
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        Ok(Point::default()
            .with("input", whole(self.input)?)
            .with("output", whole(self.output)?)
            .with("concurrency", whole(self.concurrency)?))
    }

    /// The upper ends of `axes`, as passed to `boundary()`, enlarged to include `point`.
    pub(super) fn from_axes(axes: Option<&Value>, point: Self) -> Self {
        let highest = |name: &str, least: u64| {
            let ends = axes.and_then(|axes| ends(axes.get(name)?));
            ends.map_or(least, |(_, highest)| highest.max(least))
        };
        Self::new(
            highest("input", point.input),
            highest("output", point.output),
            highest("concurrency", point.concurrency),
        )
    }

    /// The lower ends of `axes`; `self` supplies missing axes.
    pub(super) fn lower_ends(self, axes: &Value) -> Self {
        let lowest = |name: &str, or: u64| axes.get(name).and_then(ends).map_or(or, |(lowest, _)| lowest);
        Self::new(
            lowest("input", self.input),
            lowest("output", self.output),
            lowest("concurrency", self.concurrency),
        )
    }

    /// Tokens in the KV cache when all requests have reached their full length.
    pub(super) fn resident(self) -> u64 {
        self.input.saturating_add(self.output).saturating_mul(self.concurrency)
    }

    /// Whether a start with these limits also serves `other`.
    pub fn cover(&self, other: &Self) -> bool {
        self.input >= other.input
            && self.output >= other.output
            && self.total >= other.total
            && self.concurrency >= other.concurrency
    }

    /// Caps the limits at `total` tokens per sequence.
    pub(super) fn capped(self, total: u64) -> Self {
        Self {
            input: self.input.min(total),
            output: self.output.min(total),
            total: self.total.min(total),
            concurrency: self.concurrency,
        }
    }

    /// The larger of each limit.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            total: self.total.max(other.total),
            concurrency: self.concurrency.max(other.concurrency),
        }
    }
}

/// `input=8192 output=4096 concurrency=1`, with `total=…` if it is less than input + output.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            input,
            output,
            total,
            concurrency,
        } = self;
        write!(f, "input={input} output={output} ")?;
        if *total < input.saturating_add(*output) {
            write!(f, "total={total} ")?;
        }
        write!(f, "concurrency={concurrency}")
    }
}

/// The lowest and the highest value of an axis, given as `[lowest, highest]` or with a `range`.
fn ends(axis: &Value) -> Option<(u64, u64)> {
    let range = axis.get("range").unwrap_or(axis).as_array()?;
    let values = || range.iter().filter_map(Value::as_f64);
    let highest = values().fold(f64::NEG_INFINITY, f64::max);
    let lowest = values().fold(f64::INFINITY, f64::min);
    (highest >= 1.0).then(|| (lowest.max(0.0).ceil() as u64, highest.ceil() as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_point_without_concurrency_has_one_sequence() {
        let point = Point::default().with("input", 10).with("output", 3);
        assert_eq!(Limits::of_point(&point).unwrap(), Limits::new(10, 3, 1));
    }

    #[test]
    fn an_impossible_point_is_named() {
        let point = Point::default().with("input", 10);
        assert!(Limits::of_point(&point).unwrap_err().message.contains("`output`"));
        let point = Point::default().with("input", 10).with("output", 0);
        assert!(Limits::of_point(&point).is_err());
    }

    #[test]
    fn the_box_takes_both_forms_of_an_axis_and_the_point() {
        let axes = json!({ "input": [128, 8192], "output": { "range": [1, 64] } });
        assert_eq!(
            Limits::from_axes(Some(&axes), Limits::new(16, 100, 4)),
            Limits::new(8192, 100, 4)
        );
        assert_eq!(
            Limits::from_axes(None, Limits::new(16, 100, 4)),
            Limits::new(16, 100, 4)
        );
    }

    #[test]
    fn covering_means_every_limit() {
        assert!(Limits::new(10, 10, 2).cover(&Limits::new(10, 9, 1)));
        assert!(!Limits::new(10, 10, 2).cover(&Limits::new(10, 9, 3)));
        assert!(!Limits::new(10, 10, 2).capped(12).cover(&Limits::new(10, 9, 1)));
    }

    #[test]
    fn the_total_is_shown_where_it_limits() {
        assert_eq!(Limits::new(10, 8, 2).to_string(), "input=10 output=8 concurrency=2");
        assert_eq!(
            Limits::new(10, 8, 2).capped(12).to_string(),
            "input=10 output=8 total=12 concurrency=2"
        );
    }
}
