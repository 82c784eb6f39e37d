//! What a script gives of a picture: axes as a label or a map, series as a map of names or a list of maps. Friendly to write, checked to the key.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::report::plot::{Axis, Scale};
use crate::unit::Unit;

/// A quantity along which a picture is drawn: `"latency, ms"`, or a map of an [`Axis`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Side {
    /// As the picture says it.
    pub(super) axis: Axis,
    /// As a text says it.
    pub(super) text: String,
}

/// What tells an axis in a script's string: its unit, at its end behind a comma, or alone.
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

impl Side {
    fn of(text: &str) -> Self {
        let unit = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
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

    /// On a logarithmic scale, where that is wanted.
    pub(super) fn log(mut self, wanted: bool) -> Axis {
        if wanted {
            self.axis.scale = Scale::Log;
        }
        self.axis
    }

    /// Whether it is a time.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.axis.unit, Unit::Seconds | Unit::Milliseconds)
    }
}

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::of(&text)),
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
                "it is a label such as \"latency, ms\", or a map with `label`, but not {other}"
            ))),
        }
    }
}

/// One of the two axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    X,
    Y,
}

/// Things with names: a map of names to what each has, or a list of maps with `name`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named<T>(pub(super) Vec<T>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// What can be read from a name and what stands behind it.
pub(super) trait Behind: DeserializeOwned {
    /// What stands behind a name in a map.
    type Short: DeserializeOwned;
    /// Both together.
    fn of(name: String, short: Self::Short) -> Self;
}

impl<'de, T: Behind> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all: Result<Vec<T>, D::Error> = match Value::deserialize(deserializer)? {
            Value::Object(map) => map
                .into_iter()
                .map(|(name, short)| match read(short) {
                    Ok(short) => Ok(T::of(name, short)),
                    Err(error) => Err(within::<D::Error>(&format!("`{name}`"), &error)),
                })
                .collect(),
            Value::Array(list) => (1..)
                .zip(list)
                .map(|(place, one)| {
                    let name = match one.get("name") {
                        Some(Value::String(name)) => format!("`{name}`"),
                        _ => format!("number {place} of the list"),
                    };
                    read(one).map_err(|error: serde_json::Error| within(&name, &error))
                })
                .collect(),
            other => Err(D::Error::custom(format!(
                "they are a map of names, or a list of maps with `name`, but not {other}"
            ))),
        };
        all.map(Self)
    }
}

fn read<T: DeserializeOwned, E: Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(E::custom)
}

/// Something told of a place of the x axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// The place: a number, or a name of an axis of names.
    pub at: Value,
    /// A word or two.
    pub text: String,
}

/// What is kept unless it is said otherwise.
pub(super) fn kept() -> bool {
    true
}

/// An error, with whose it is.
fn within<E: Error>(whose: &str, error: &serde_json::Error) -> E {
    E::custom(format!("{whose}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(value: Value) -> Side {
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
    fn what_is_wrong_with_a_thing_is_said_with_its_name() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only the errors of reading it are looked at")]
        struct Thing {
            name: String,
            size: u64,
        }
        impl Behind for Thing {
            type Short = u64;
            fn of(name: String, size: u64) -> Self {
                Self { name, size }
            }
        }
        let error = |value: Value| serde_json::from_value::<Named<Thing>>(value).unwrap_err().to_string();
        assert!(error(json!({ "first": 1, "other": "much" })).starts_with("`other`: "));
        assert!(error(json!([{ "name": "first", "length": 2 }])).starts_with("`first`: unknown field `length`"));
        assert!(error(json!([{ "name": "first", "size": 2 }, { "size": 3 }])).starts_with("number 2 of the list: "));
    }

    #[test]
    fn what_is_no_axis_is_said() {
        let error = |value: Value| serde_json::from_value::<Side>(value).unwrap_err().to_string();
        assert!(error(json!(3)).contains("a label such as"));
        assert!(error(json!({ "label": "x", "log": true })).contains("unknown field `log`"));
    }
}
