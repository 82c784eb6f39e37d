//! Deserializes the numbers and short strings of an object by name, and skips nested values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::lenient::LenientNumber;
use crate::csv::Row;

/// Maximum bytes of a string: longer ones are logs and generated texts.
const MAX_TEXT: usize = 1024;

/// Numbers and short strings by name, without null, empty and nested values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scalars(pub(super) BTreeMap<String, Scalar>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Number(f64),
    Text(String),
}

impl Scalars {
    /// From the cells of a CSV row.
    pub(super) fn from_row(row: Row) -> Self {
        let cells = row.into_iter().filter(|(_, cell)| !cell.trim().is_empty());
        Self(cells.map(|(name, cell)| (name, Scalar::from_text(&cell))).collect())
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Scalar::Number(value) => Some(*value),
            Scalar::Text(text) => LenientNumber::parse(text).ok()?.0,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(ToString::to_string)
    }

    /// The non-negative integer of that name.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        LenientNumber(self.number(name)).count()
    }
}

impl Scalar {
    fn from_text(text: &str) -> Self {
        match LenientNumber::parse(text) {
            Ok(LenientNumber(Some(value))) => Scalar::Number(value),
            _ => Scalar::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(value) => write!(f, "{value}"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Scalars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Scalars;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalars, A::Error> {
                let mut scalars = Scalars::default();
                while let Some(key) = map.next_key::<String>()? {
                    if let Some(value) = map.next_value::<OptionalScalar>()?.0 {
                        scalars.0.insert(key, value);
                    }
                }
                Ok(scalars)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

struct OptionalScalar(Option<Scalar>);

impl<'de> Deserialize<'de> for OptionalScalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = OptionalScalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, value: bool) -> Result<OptionalScalar, E> {
                Ok(OptionalScalar(Some(Scalar::Text(value.to_string()))))
            }

            fn visit_f64<E>(self, value: f64) -> Result<OptionalScalar, E> {
                Ok(OptionalScalar(value.is_finite().then_some(Scalar::Number(value))))
            }

            fn visit_i64<E>(self, value: i64) -> Result<OptionalScalar, E> {
                Ok(OptionalScalar(Some(Scalar::Number(value as f64))))
            }

            fn visit_u64<E>(self, value: u64) -> Result<OptionalScalar, E> {
                Ok(OptionalScalar(Some(Scalar::Number(value as f64))))
            }

            fn visit_str<E>(self, text: &str) -> Result<OptionalScalar, E> {
                let kept = !text.is_empty() && text.len() <= MAX_TEXT;
                Ok(OptionalScalar(kept.then(|| Scalar::Text(text.to_owned()))))
            }

            fn visit_unit<E>(self) -> Result<OptionalScalar, E> {
                Ok(OptionalScalar(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OptionalScalar, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(OptionalScalar(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptionalScalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(OptionalScalar(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_are_skipped() {
        let scalars: Scalars =
            serde_json::from_str(r#"{"a": 1, "b": "x", "c": [1, {"d": 2}], "e": {}, "f": null, "g": "", "h": "2.5"}"#)
                .unwrap();
        assert_eq!(scalars.0.keys().collect::<Vec<_>>(), ["a", "b", "h"]);
        assert_eq!((scalars.count("a"), scalars.number("h")), (Some(1), Some(2.5)));
        assert_eq!(scalars.text("b").as_deref(), Some("x"));
        assert_eq!(scalars.number("b"), None);
    }
}
