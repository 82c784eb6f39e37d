//! Finds the level of concurrency or rate at which something starts: preemption, or a growing queue.

use serde::{Deserialize, Serialize};

/// The levels between which something starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Onset {
    /// The largest tested level below `first_with` without it; `None` if the smallest level had it.
    pub last_without: Option<f64>,
    /// The smallest level with it.
    pub first_with: f64,
    /// Larger levels without it: the more there are, the less `first_with` is a sharp limit.
    pub contradicting: Vec<f64>,
}

/// Where it starts among levels in any order. A level tested several times has it if it ever did. `None` if no level
/// has it.
#[must_use]
pub fn onset(levels: &[(f64, bool)]) -> Option<Onset> {
    let with = |level: f64| levels.iter().any(|(other, has)| *has && *other == level);
    let first_with = levels
        .iter()
        .filter(|(_, has)| *has)
        .map(|(level, _)| *level)
        .reduce(f64::min)?;
    let without = levels.iter().map(|(level, _)| *level).filter(|level| !with(*level));
    let mut contradicting: Vec<f64> = without.clone().filter(|level| *level > first_with).collect();
    contradicting.sort_by(f64::total_cmp);
    contradicting.dedup();
    Some(Onset {
        last_without: without.filter(|level| *level < first_with).reduce(f64::max),
        first_with,
        contradicting,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn onset_lies_between_last_without_and_first_with() {
        let levels = [(64.0, true), (1.0, false), (32.0, false), (128.0, true), (16.0, false)];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(32.0), 64.0));
        assert!(onset.contradicting.is_empty());
    }

    #[test]
    fn contradicting_levels_are_listed() {
        let levels = [
            (1.0, false),
            (8.0, true),
            (8.0, false),
            (16.0, false),
            (16.0, false),
            (32.0, true),
        ];
        let onset = onset(&levels).unwrap();
        assert_eq!((onset.last_without, onset.first_with), (Some(1.0), 8.0));
        assert_eq!(onset.contradicting, [16.0]);
    }

    #[test]
    fn no_onset_if_never_and_no_lower_bound_if_always() {
        assert_eq!(onset(&[]), None);
        assert_eq!(onset(&[(1.0, false), (2.0, false)]), None);
        assert_eq!(onset(&[(4.0, true), (2.0, true)]).unwrap().last_without, None);
    }

    proptest! {
        /// For a sharp threshold, the range contains it and nothing contradicts it, in any order of levels.
        #[test]
        fn threshold_lies_in_the_range(levels in prop::collection::vec(1_u32..300, 1..30), threshold in 1_u32..300) {
            let tried: Vec<_> = levels.iter().map(|level| (f64::from(*level), *level >= threshold)).collect();
            match onset(&tried) {
                Some(onset) => {
                    prop_assert!(onset.first_with >= f64::from(threshold));
                    prop_assert!(onset.last_without.is_none_or(|last| last < f64::from(threshold)));
                    prop_assert_eq!(onset.contradicting, Vec::<f64>::new());
                }
                None => prop_assert!(levels.iter().all(|level| *level < threshold)),
            }
        }
    }
}
