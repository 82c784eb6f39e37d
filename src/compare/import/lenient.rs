//! Lenient deserializers: a number may be a string, absent, null or not finite; a list has a limited length.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

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

#[cfg(test)]
mod tests {
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
