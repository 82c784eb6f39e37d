//! The numbers and short texts of an object, whatever they are called; arrays and objects in it pass by.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::loose::Loose;
use crate::csv::Row;

/// Bytes of a text that is kept: longer ones are logs and generated texts.
const LONGEST: usize = 1024;

/// Numbers and short texts by name. What is null, empty or nested is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scalars(pub(super) BTreeMap<String, Scalar>);

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Number(f64),
    Text(String),
}

impl Scalars {
    /// The cells of a row.
    pub(super) fn of(row: Row) -> Self {
        let cells = row.into_iter().filter(|(_, cell)| !cell.trim().is_empty());
        Self(cells.map(|(name, cell)| (name, Scalar::of(&cell))).collect())
    }

    /// The number of that name.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Scalar::Number(value) => Some(*value),
            Scalar::Text(text) => Loose::parse(text).ok()?.0,
        }
    }

    /// The text of that name.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(ToString::to_string)
    }

    /// The whole number of that name, not below zero.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        Loose(self.number(name)).count()
    }
}

impl Scalar {
    fn of(text: &str) -> Self {
        match Loose::parse(text) {
            Ok(Loose(Some(value))) => Scalar::Number(value),
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
                    if let Some(value) = map.next_value::<Kept>()?.0 {
                        scalars.0.insert(key, value);
                    }
                }
                Ok(scalars)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// A scalar, or nothing.
struct Kept(Option<Scalar>);

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Kept;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Kept, E> {
                Ok(Kept(Some(Scalar::Text(value.to_string()))))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Kept, E> {
                Ok(Kept(value.is_finite().then_some(Scalar::Number(value))))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Kept, E> {
                Ok(Kept(Some(Scalar::Number(value as f64))))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Kept, E> {
                Ok(Kept(Some(Scalar::Number(value as f64))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Kept, E> {
                let kept = !text.is_empty() && text.len() <= LONGEST;
                Ok(Kept(kept.then(|| Scalar::Text(text.to_owned()))))
            }

            fn visit_unit<E>(self) -> Result<Kept, E> {
                Ok(Kept(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kept, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Kept(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kept, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Kept(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_passes_by() {
        let scalars: Scalars =
            serde_json::from_str(r#"{"a": 1, "b": "x", "c": [1, {"d": 2}], "e": {}, "f": null, "g": "", "h": "2.5"}"#)
                .unwrap();
        assert_eq!(scalars.0.keys().collect::<Vec<_>>(), ["a", "b", "h"]);
        assert_eq!((scalars.count("a"), scalars.number("h")), (Some(1), Some(2.5)));
        assert_eq!(scalars.text("b").as_deref(), Some("x"));
        assert_eq!(scalars.number("b"), None);
    }
}
