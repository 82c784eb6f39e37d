//! A long list of numbers, of which only the spread is wanted: nothing of it is held.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::loose::Loose;

/// The spread of a list; not finite numbers are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// Numbers in it.
    pub(super) count: u64,
    /// The smallest.
    pub(super) min: Option<f64>,
    /// The largest.
    pub(super) max: Option<f64>,
    /// The last.
    pub(super) last: Option<f64>,
    sum: f64,
}

impl Spread {
    /// The arithmetic mean.
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

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Spread;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spread, A::Error> {
                let mut spread = Spread::default();
                while let Some(Loose(value)) = seq.next_element()? {
                    if let Some(value) = value {
                        spread.add(value);
                    }
                }
                Ok(spread)
            }

            fn visit_unit<E>(self) -> Result<Spread, E> {
                Ok(Spread::default())
            }
        }
        deserializer.deserialize_any(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_list_is_held_but_its_spread() {
        let spread: Spread = serde_json::from_str("[3, 1.5, null, 4.5]").unwrap();
        assert_eq!((spread.count, spread.mean()), (3, Some(3.0)));
        assert_eq!((spread.min, spread.max, spread.last), (Some(1.5), Some(4.5), Some(4.5)));
        assert_eq!(serde_json::from_str::<Spread>("[]").unwrap().mean(), None);
    }
}
