//! Charts and tables that scripts draw: charts as data for the report and as text, tables as text that fits the page.
//!
//! Pure. A text is kept in the run's journal as it was printed, so it has no colours.

mod charts;

pub use charts::{BarChart, HeatMap, LineChart, ScriptPlot};

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::report::plot::Axis;
use crate::unit::Unit;

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

/// An axis as a script gives it: `"latency, ms"`, or a map of an [`Axis`].
pub(super) fn axis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Axis, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        map @ Value::Object(_) => return read(map),
        other => {
            return Err(D::Error::custom(format!(
                "expected a label such as \"latency, ms\" or a map with `label`, got {other}"
            )));
        }
    };
    let unit = |name: &str| UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, unit)| *unit);
    let (label, unit) = match text.rsplit_once(", ") {
        Some((label, name)) if unit(name).is_some() => (label, unit(name)),
        _ if matches!(text.as_str(), "s" | "seconds" | "ms") => ("time", unit(&text)),
        _ => (text.as_str(), unit(&text)),
    };
    Ok(Axis::new(label, unit.unwrap_or_default()))
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
        // Errors begin with what they are about.
        let about = |whose: &str, error: &D::Error| D::Error::custom(format!("{whose}: {error}"));
        let all: Result<Vec<T>, D::Error> = match Value::deserialize(deserializer)? {
            Value::Object(map) => map
                .into_iter()
                .map(|(name, short)| match read(short) {
                    Ok(short) => Ok(T::from_shorthand(name, short)),
                    Err(error) => Err(about(&format!("`{name}`"), &error)),
                })
                .collect(),
            Value::Array(list) => (1..)
                .zip(list)
                .map(|(place, one)| {
                    let name = match one.get("name") {
                        Some(Value::String(name)) => format!("`{name}`"),
                        _ => format!("number {place} of the list"),
                    };
                    read(one).map_err(|error| about(&name, &error))
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
    pub(super) at: Value,
    pub(super) text: String,
}

/// The default of `keep`.
pub(super) fn keep_by_default() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_may_name_its_unit() {
        let read = |value: Value| axis(value).unwrap();
        let part = |text: &str| {
            let axis = read(json!(text));
            (axis.label.clone(), axis.unit, axis.heading())
        };
        let latency = (
            "p95 latency".to_owned(),
            Unit::Milliseconds,
            "p95 latency, ms".to_owned(),
        );
        assert_eq!(part("p95 latency, ms"), latency);
        let rate = ("tokens/s".to_owned(), Unit::TokensPerSecond, "tokens/s".to_owned());
        assert_eq!(part("tokens/s"), rate);
        assert_eq!(
            part("seconds"),
            ("time".to_owned(), Unit::Seconds, "time, s".to_owned())
        );
        assert_eq!(part("first, then second").1, Unit::Count);
        assert_eq!(read(json!({ "label": "used", "unit": "bytes" })).unit, Unit::Bytes);
    }

    #[test]
    fn errors_name_the_item_they_are_about() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Thing {
            #[serde(rename = "name")]
            _name: String,
            #[serde(rename = "size")]
            _size: u64,
        }
        impl FromShorthand for Thing {
            type Short = u64;
            fn from_shorthand(name: String, size: u64) -> Self {
                Self {
                    _name: name,
                    _size: size,
                }
            }
        }
        let error = |value: Value| serde_json::from_value::<Named<Thing>>(value).unwrap_err().to_string();
        assert!(error(json!({ "first": 1, "other": "much" })).starts_with("`other`: "));
        assert!(error(json!([{ "name": "first", "length": 2 }])).starts_with("`first`: unknown field `length`"));
        assert!(error(json!([{ "name": "first", "size": 2 }, { "size": 3 }])).starts_with("number 2 of the list: "));
        let error = |value: Value| axis(value).unwrap_err().to_string();
        assert!(error(json!(3)).contains("a label such as"));
        assert!(error(json!({ "label": "x", "log": true })).contains("unknown field `log`"));
    }
}
