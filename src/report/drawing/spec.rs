//! Arguments and results of the plot functions of scripts: axes as a label or a map, series as a map of names or a list
//! of maps; and what all plots have: a name, a description in words, a table.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::fault::{self, Fault};
use crate::report::plot::{Axis, Colour, Entry, Plot, Scale, Sheet};
use crate::unit::Unit;

/// An axis as a script gives it: `"latency, ms"`, or a map of an [`Axis`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AxisSpec {
    /// For the plot.
    pub(super) axis: Axis,
    /// For the text.
    pub(super) text: String,
}

/// Units that a label may end with, after a comma, or consist of.
const UNITS: [(&str, Unit); 12] = [
    ("tokens", Unit::Tokens),
    ("tokens/s", Unit::TokensPerSecond),
    ("requests/s", Unit::RequestsPerSecond),
    ("s", Unit::Seconds),
    ("seconds", Unit::Seconds),
    ("ms", Unit::Milliseconds),
    ("%", Unit::Percent),
    ("W", Unit::Watts),
    ("C", Unit::Celsius),
    ("°C", Unit::Celsius),
    ("B", Unit::Bytes),
    ("bytes", Unit::Bytes),
];

impl AxisSpec {
    fn parse(text: &str) -> Self {
        let unit = |name: &str| UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, unit)| *unit);
        let (label, unit) = match text.rsplit_once(", ") {
            Some((label, name)) if unit(name).is_some() => (label, unit(name)),
            _ if matches!(text, "s" | "seconds" | "ms") => ("time", unit(text)),
            _ => (text, unit(text)),
        };
        let axis = Axis {
            label: label.to_owned(),
            unit: unit.unwrap_or_default(),
            ..Axis::default()
        };
        Self {
            axis,
            text: text.to_owned(),
        }
    }

    /// The axis, logarithmic if `wanted`.
    pub(super) fn log(mut self, wanted: bool) -> Axis {
        if wanted {
            self.axis.scale = Scale::Log;
        }
        self.axis
    }

    pub(super) fn is_time(&self) -> bool {
        matches!(self.axis.unit, Unit::Seconds | Unit::Milliseconds)
    }
}

impl<'de> Deserialize<'de> for AxisSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::parse(&text)),
            map @ Value::Object(_) => {
                let axis: Axis = read(map)?;
                let unit = UNITS.iter().find(|(_, unit)| *unit == axis.unit);
                let text = match unit {
                    Some((name, _)) if !axis.label.is_empty() => format!("{}, {name}", axis.label),
                    Some((name, _)) => (*name).to_owned(),
                    None => axis.label.clone(),
                };
                Ok(Self { axis, text })
            }
            other => Err(D::Error::custom(format!(
                "expected a label such as \"latency, ms\" or a map with `label`, got {other}"
            ))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AxisName {
    X,
    Y,
}

/// A list of named things: a map of names to values, or a list of maps with `name`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named<T>(pub(super) Vec<T>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A type that can also be written as a name and a short value.
pub(super) trait FromShorthand: DeserializeOwned {
    /// The value behind the name.
    type Short: DeserializeOwned;
    fn from_shorthand(name: String, short: Self::Short) -> Self;
}

impl<'de, T: FromShorthand> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all: Result<Vec<T>, D::Error> = match Value::deserialize(deserializer)? {
            Value::Object(map) => map
                .into_iter()
                .map(|(name, short)| match read(short) {
                    Ok(short) => Ok(T::from_shorthand(name, short)),
                    Err(error) => Err(prefixed::<D::Error>(&format!("`{name}`"), &error)),
                })
                .collect(),
            Value::Array(list) => (1..)
                .zip(list)
                .map(|(place, one)| {
                    let name = match one.get("name") {
                        Some(Value::String(name)) => format!("`{name}`"),
                        _ => format!("number {place} of the list"),
                    };
                    read(one).map_err(|error: serde_json::Error| prefixed(&name, &error))
                })
                .collect(),
            other => Err(D::Error::custom(format!(
                "expected a map of names or a list of maps with `name`, got {other}"
            ))),
        };
        all.map(Self)
    }
}

fn read<T: DeserializeOwned, E: Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(E::custom)
}

/// A text at a position of the x axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// A number, or a category.
    pub at: Value,
    pub text: String,
}

/// The default of `keep`.
pub(super) fn keep_by_default() -> bool {
    true
}

/// Prefixes an error with what it is about.
fn prefixed<E: Error>(whose: &str, error: &serde_json::Error) -> E {
    E::custom(format!("{whose}: {error}"))
}

/// Maximum number of rows of the table beside a plot.
const ROWS: usize = 500;

/// A plot of a script: data for the report, and text for the terminal.
#[derive(Clone, Debug)]
pub struct ScriptPlot {
    /// The data.
    pub plot: Plot,
    /// The text.
    pub text: String,
    /// Whether the run keeps the plot.
    pub keep: bool,
}

/// The name of a plot: the given one, or a slug of its title.
///
/// # Errors
///
/// `usage` for a name with characters other than `a-z`, `0-9` and `-`.
pub(super) fn plot_name(given: Option<String>, title: &str) -> fault::Result<String> {
    let allowed = |letter: char| matches!(letter, 'a'..='z' | '0'..='9');
    if let Some(name) = given {
        let valid = !name.is_empty() && name.chars().all(|letter| allowed(letter) || letter == '-');
        let fault = || Fault::usage(format!("a picture cannot be named `{name}`"));
        return match valid {
            true => Ok(name),
            false => Err(fault().hint("use only a-z, 0-9 and -")),
        };
    }
    let letters = title.to_lowercase();
    let words: Vec<&str> = letters
        .split(|letter| !allowed(letter))
        .filter(|word| !word.is_empty())
        .collect();
    Ok(if words.is_empty() {
        "picture".to_owned()
    } else {
        words.join("-")
    })
}

/// The description of a plot: the given one, or its title and a sentence about each series.
pub(super) fn description(given: String, title: &str, sentences: &[String]) -> String {
    match given.is_empty() {
        true => format!("{title}. {}", sentences.join(" ")).trim_end().to_owned(),
        false => given,
    }
}

/// Describes a series by its lowest and highest value.
pub(super) fn sentence(name: &str, points: &[(String, f64)]) -> String {
    let name = if name.is_empty() { "It" } else { name };
    let lowest = points.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let highest = points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match (lowest, highest) {
        (Some(low), Some(high)) if points.len() > 1 => {
            format!(
                "{name} is {} at {} (minimum) and {} at {} (maximum).",
                format_number(low.1),
                low.0,
                format_number(high.1),
                high.0
            )
        }
        (Some(only), _) => format!("{name} is {} at {}.", format_number(only.1), only.0),
        _ => format!("{name} has no values."),
    }
}

/// Formats a number with about three digits.
pub(super) fn format_number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A table of the values; empty if it would be too long.
pub(super) fn limited_table(columns: Vec<String>, rows: Vec<Vec<Entry>>) -> Sheet {
    if rows.len() > ROWS {
        return Sheet::default();
    }
    Sheet {
        title: String::new(),
        columns,
        rows,
    }
}

/// The colour of the series at an index.
pub(super) fn colour(index: usize) -> Colour {
    Colour::Series(u8::try_from(index).unwrap_or(u8::MAX))
}

/// `text`, or `other` if it is empty.
pub(super) fn or(text: &str, other: &str) -> String {
    if text.is_empty() { other } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(value: Value) -> AxisSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_label_may_name_its_unit() {
        let latency = side(json!("p95 latency, ms")).axis;
        assert_eq!(
            (latency.label.as_str(), latency.unit),
            ("p95 latency", Unit::Milliseconds)
        );
        let rate = side(json!("tokens/s")).axis;
        assert_eq!((rate.label.as_str(), rate.unit), ("tokens/s", Unit::TokensPerSecond));
        assert_eq!(side(json!("seconds")).axis.label, "time");
        let other = side(json!("first, then second")).axis;
        assert_eq!((other.label.as_str(), other.unit), ("first, then second", Unit::Count));
        assert_eq!(side(json!({ "label": "used", "unit": "bytes" })).axis.unit, Unit::Bytes);
    }

    #[test]
    fn errors_name_the_item_they_are_about() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only the errors of reading it are looked at")]
        struct Thing {
            name: String,
            size: u64,
        }
        impl FromShorthand for Thing {
            type Short = u64;
            fn from_shorthand(name: String, size: u64) -> Self {
                Self { name, size }
            }
        }
        let error = |value: Value| serde_json::from_value::<Named<Thing>>(value).unwrap_err().to_string();
        assert!(error(json!({ "first": 1, "other": "much" })).starts_with("`other`: "));
        assert!(error(json!([{ "name": "first", "length": 2 }])).starts_with("`first`: unknown field `length`"));
        assert!(error(json!([{ "name": "first", "size": 2 }, { "size": 3 }])).starts_with("number 2 of the list: "));
    }

    #[test]
    fn invalid_axes_are_errors() {
        let error = |value: Value| serde_json::from_value::<AxisSpec>(value).unwrap_err().to_string();
        assert!(error(json!(3)).contains("a label such as"));
        assert!(error(json!({ "label": "x", "log": true })).contains("unknown field `log`"));
    }

    #[test]
    fn a_title_gives_a_name() {
        assert_eq!(
            plot_name(None, "Throughput & latency, p95").unwrap(),
            "throughput-latency-p95"
        );
        assert_eq!(plot_name(None, "…").unwrap(), "picture");
        assert_eq!(plot_name(Some("mine-2".into()), "x").unwrap(), "mine-2");
        assert!(plot_name(Some("../x".into()), "x").is_err());
    }

    #[test]
    fn a_series_is_described_in_a_sentence() {
        let points = [("1".to_owned(), 60.0), ("64".to_owned(), 1833.25)];
        assert_eq!(
            sentence("vllm", &points),
            "vllm is 60 at 1 (minimum) and 1833 at 64 (maximum)."
        );
        assert_eq!(sentence("", &[]), "It has no values.");
    }
}
