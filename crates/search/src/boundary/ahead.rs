//! The probes that a search expects to make, from which the time left is estimated.

use serde::{Deserialize, Serialize};

use super::Point;

/// The answer that is expected of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The point fits.
    Fits,
    /// The engine tries the requests, and they do not fit.
    Fails,
    /// The engine refuses the requests unseen: they are longer than it allows.
    Refused,
}

impl Expected {
    /// The answer of a point that fits or does not fit.
    #[must_use]
    pub fn of(fits: bool) -> Self {
        if fits { Self::Fits } else { Self::Fails }
    }
}

/// The probes that a search expects to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ahead {
    /// The points that are known, and what they should find.
    pub points: Vec<(Point, Expected)>,
    /// How many other probes should fit.
    pub fitting: f64,
    /// How many other probes should fail.
    pub failing: f64,
    /// How far the number of these others is usually off, as a share of it.
    pub spread: f64,
    /// Points near which these others will be, if that is known, and how many of them near each, in proportion.
    pub near: Vec<(Point, f64)>,
    /// Whether the answers are confirmed after these probes.
    pub confirms: bool,
}

impl Ahead {
    /// A number of unknown probes. The share `failing` of them fails.
    #[must_use]
    pub fn of(probes: f64, failing: f64, spread: f64) -> Self {
        Self {
            fitting: probes * (1.0 - failing),
            failing: probes * failing,
            spread,
            ..Self::default()
        }
    }

    /// The first so many of them. Of points and others, the points are kept: they confirm answers.
    #[must_use]
    pub fn at_most(mut self, probes: i64) -> Self {
        let probes = probes.max(0);
        self.points.truncate(usize::try_from(probes).unwrap_or(usize::MAX));
        let rest = probes - self.points.len() as i64;
        self.cut(rest as f64 / (self.fitting + self.failing));
        self
    }

    /// Those before a search ends because so many were chosen one by one. Nothing is confirmed then.
    #[must_use]
    pub fn until_chosen(mut self, chosen: i64) -> Self {
        if self.cut(chosen.max(0) as f64 / (self.fitting + self.failing)) {
            self.points.clear();
        }
        self
    }

    /// Those before a search ends because so many of them failed, each of which cost a start. Nothing is confirmed then.
    #[must_use]
    pub fn until_failed(mut self, failures: f64) -> Self {
        if self.cut(failures.max(0.0) / self.failing) {
            self.points.clear();
        }
        self
    }

    /// Leaves this share of the unknown probes, if it is less than all. Where that ends is certain.
    fn cut(&mut self, share: f64) -> bool {
        // Of none, the share is infinite, or not a number.
        if share.is_nan() || share >= 1.0 {
            return false;
        }
        self.fitting *= share;
        self.failing *= share;
        self.spread = 0.0;
        true
    }

    /// The number of probes.
    #[must_use]
    pub fn probes(&self) -> i64 {
        self.points.len() as i64 + (self.fitting + self.failing).round() as i64
    }

    /// How likely each number of unknown probes is, with the number of those that fail.
    pub(crate) fn chances(&self) -> Vec<Chance> {
        let expected = self.fitting + self.failing;
        if expected <= 0.0 {
            return vec![Chance {
                probes: 0.0,
                failing: 0.0,
                weight: 1.0,
            }];
        }
        let share = self.failing / expected;
        let mut chances = Vec::new();
        for (probes, weight) in self.numbers(expected) {
            // The chance of each number of failures from the one of the number before; in logarithms, as the first of
            // thousands of probes is too small for a number.
            let (fails, fits) = (share.max(f64::EPSILON).ln(), (1.0 - share).max(f64::EPSILON).ln());
            let mut chance = probes * fits;
            let mut failing = 0.0;
            while failing <= probes {
                let weight = weight * chance.exp();
                if weight > UNLIKELY {
                    chances.push(Chance {
                        probes,
                        failing,
                        weight,
                    });
                }
                chance += ((probes - failing) / (failing + 1.0)).ln() + fails - fits;
                failing += 1.0;
            }
        }
        chances
    }

    /// Whole numbers of probes around the expected one, and how likely each is: as far below as above in logarithms.
    fn numbers(&self, expected: f64) -> Vec<(f64, f64)> {
        let step = (expected / NUMBERS).ceil().max(1.0);
        let least = (expected * (-2.5 * self.spread).exp()).floor();
        let count = ((expected * (2.5 * self.spread).exp() - least) / step).ceil() as i32 + 1;
        let numbers = (0..=count).map(|index| least + step * f64::from(index));
        // An expected number that is not whole lies between two that are.
        let between = if step > 1.0 {
            0.5 * step
        } else {
            (expected - expected.round()).abs()
        };
        let spread = self.spread.hypot(between / expected).max(1e-3);
        let rated = numbers.map(|number| {
            let away = (number.max(0.5) / expected).ln();
            (number, (-0.5 * (away / spread).powi(2)).exp() / number.max(0.5))
        });
        let rated: Vec<(f64, f64)> = rated.collect();
        let all: f64 = rated.iter().map(|(_, weight)| weight).sum();
        rated
            .into_iter()
            .map(|(number, weight)| (number, weight / all))
            .collect()
    }
}

/// At most about so many numbers of probes are told apart below the expected one.
const NUMBERS: f64 = 20.0;

/// Less likely outcomes are left out.
const UNLIKELY: f64 = 1e-6;

/// A number of unknown probes, of which some fail, and how likely that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    pub(crate) probes: f64,
    pub(crate) failing: f64,
    pub(crate) weight: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_cuts_what_is_ahead() {
        let ahead = Ahead {
            points: vec![(Point::default(), Expected::Fits); 3],
            ..Ahead::of(20.0, 0.5, 0.3)
        };
        assert_eq!(ahead.probes(), 23);
        assert_eq!(ahead.clone().at_most(11).probes(), 11);
        assert_eq!(ahead.clone().at_most(2).probes(), 2);
        // Each other probe fails.
        assert_eq!(ahead.clone().until_failed(4.0).probes(), 8);
        assert_eq!(ahead.clone().until_chosen(5).probes(), 5);
        assert_eq!(ahead.until_chosen(30).probes(), 23);
        assert_eq!(Ahead::default().until_failed(0.0).at_most(5), Ahead::default());
    }

    #[test]
    fn the_chances_are_those_of_independent_probes() {
        let chances = Ahead::of(12.0, 0.25, 0.0).chances();
        let sum = |of: fn(&Chance) -> f64| chances.iter().map(|chance| chance.weight * of(chance)).sum::<f64>();
        assert!((sum(|_| 1.0) - 1.0).abs() < 1e-3);
        assert!((sum(|chance| chance.failing) - 3.0).abs() < 0.1);
        assert!((sum(|chance| chance.failing * chance.failing) - 9.0 - 2.25).abs() < 0.5);
        let one = Ahead::of(1.0, 0.5, 0.1).chances();
        assert!(
            one.iter().all(|chance| chance.probes == 1.0),
            "a whole number that is sure: {one:?}"
        );
    }
}
