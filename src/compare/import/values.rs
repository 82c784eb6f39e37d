//! Deserializes loosely typed files: numbers, lists, objects of scalars; and converts their units and memory
//! breakdowns.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::csv::Row;
use crate::fault::Result;
pub(super) use crate::fmt::GIB;
use crate::memory::{Breakdown, Component, Part, Provenance};

/// Maximum length of a list.
const MAX_LENGTH: usize = 100_000;

/// A number, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LenientNumber(pub(super) Option<f64>);

impl LenientNumber {
    /// Parses a number: `None` if empty, a word for nothing, or not finite.
    ///
    /// # Errors
    ///
    /// Text that is no number.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if matches!(text.to_ascii_lowercase().as_str(), "" | "none" | "null" | "n/a") {
            return Ok(Self(None));
        }
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        Ok(Self(value.is_finite().then_some(value)))
    }

    /// A non-negative integer.
    pub(super) fn count(self) -> Option<u64> {
        self.0
            .filter(|value| (0.0..=9e15).contains(value) && value.fract() == 0.0)
            .map(|value| value as u64)
    }
}

impl<'de> Deserialize<'de> for LenientNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = LenientNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E>(self, value: f64) -> Result<LenientNumber, E> {
                Ok(LenientNumber(value.is_finite().then_some(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<LenientNumber, E> {
                Ok(LenientNumber(Some(value as f64)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<LenientNumber, E> {
                Ok(LenientNumber(Some(value as f64)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<LenientNumber, E> {
                LenientNumber::parse(text).map_err(E::custom)
            }

            fn visit_unit<E>(self) -> Result<LenientNumber, E> {
                Ok(LenientNumber(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Deserializes a list of limited length, so that a hostile file cannot exhaust memory.
pub(super) fn bounded_list<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct BoundedList<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for BoundedList<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = seq.next_element()? {
                if list.len() == MAX_LENGTH {
                    return Err(A::Error::custom(format!("there are more than {MAX_LENGTH} entries")));
                }
                list.push(element);
            }
            Ok(list)
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(BoundedList(PhantomData))
}

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

/// Statistics of a list; numbers that are not finite are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ListStats {
    pub(super) count: u64,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) last: Option<f64>,
    sum: f64,
}

impl ListStats {
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
        self.last = Some(value);
    }
}

impl<'de> Deserialize<'de> for ListStats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = ListStats;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ListStats, A::Error> {
                let mut stats = ListStats::default();
                while let Some(LenientNumber(value)) = seq.next_element()? {
                    if let Some(value) = value {
                        stats.add(value);
                    }
                }
                Ok(stats)
            }

            fn visit_unit<E>(self) -> Result<ListStats, E> {
                Ok(ListStats::default())
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// What `nvidia-smi` and torch's counters divided by 1024^2 give.
pub(super) const MIB: f64 = 1024.0 * 1024.0;

pub(super) const GB: f64 = 1e9;

/// Converts to bytes; `None` if negative or larger than any device.
pub(super) fn bytes(figure: Option<f64>, unit: f64) -> Option<i64> {
    figure
        .map(|figure| (figure * unit).round())
        .filter(|bytes| (0.0..=9e15).contains(bytes))
        .map(|bytes| bytes as i64)
}

#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// Adds a part, if the source has a value.
    pub(super) fn add(
        &mut self,
        component: Component,
        bytes: Option<i64>,
        provenance: Provenance,
        source: impl Into<String>,
    ) {
        if let Some(bytes) = bytes {
            self.0.push(Part {
                component,
                bytes,
                provenance,
                source: source.into(),
                within: None,
            });
        }
    }

    pub(super) fn bytes(&self, component: Component) -> Option<i64> {
        self.0
            .iter()
            .find(|part| part.component == component)
            .map(|part| part.bytes)
    }

    /// The breakdown of `total` bytes. KV in use becomes part of the pool; if it exceeds the pool, it is left
    /// out.
    pub(super) fn breakdown(mut self, total: Option<i64>) -> Result<Option<Breakdown>> {
        let Some(total) = total.and_then(|total| u64::try_from(total).ok()) else {
            return Ok(None);
        };
        if let Some(pool) = self.bytes(Component::KvPool) {
            self.0
                .retain(|part| part.component != Component::KvUsed || part.bytes <= pool);
            for part in &mut self.0 {
                if part.component == Component::KvUsed {
                    part.within = Some(Component::KvPool);
                }
            }
        }
        Breakdown::new(None, total, self.0).map(Some)
    }
}

#[cfg(test)]
mod lenient_tests {
    use super::*;

    #[test]
    fn numbers_in_any_form() {
        let read = |text: &str| serde_json::from_str::<LenientNumber>(text).map(|lenient| lenient.0);
        assert_eq!(read("3").unwrap(), Some(3.0));
        assert_eq!(read("\"6.7e9\"").unwrap(), Some(6.7e9));
        for nothing in ["null", "\"\"", "\"inf\"", "\"NaN\"", "\"None\""] {
            assert_eq!(read(nothing).unwrap(), None, "{nothing}");
        }
        assert!(read("\"many\"").is_err() && read("true").is_err() && read("[1]").is_err());
        assert_eq!(LenientNumber(Some(-1.0)).count(), None);
        assert_eq!(LenientNumber(Some(16.0)).count(), Some(16));
    }
}

#[cfg(test)]
mod scalars_tests {
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

#[cfg(test)]
mod list_stats_tests {
    use super::*;

    #[test]
    fn statistics_are_computed_without_the_list() {
        let stats: ListStats = serde_json::from_str("[3, 1.5, null, 4.5]").unwrap();
        assert_eq!((stats.count, stats.mean()), (3, Some(3.0)));
        assert_eq!((stats.min, stats.max, stats.last), (Some(1.5), Some(4.5), Some(4.5)));
        assert_eq!(serde_json::from_str::<ListStats>("[]").unwrap().mean(), None);
    }
}
