//! Statistics of a long list of numbers, computed without storing the list.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::lenient::LenientNumber;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_computed_without_the_list() {
        let stats: ListStats = serde_json::from_str("[3, 1.5, null, 4.5]").unwrap();
        assert_eq!((stats.count, stats.mean()), (3, Some(3.0)));
        assert_eq!((stats.min, stats.max, stats.last), (Some(1.5), Some(4.5), Some(4.5)));
        assert_eq!(serde_json::from_str::<ListStats>("[]").unwrap().mean(), None);
    }
}
