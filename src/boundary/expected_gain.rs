//! The volume that probing a point would settle, for strategies that weigh it against cost.

use super::{Boundary, Point};
use crate::fault::Result;

/// What probing a point would settle, in lattice points of the search range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedGain {
    /// Volume proven to fit if it fits.
    pub fits: f64,
    /// Volume proven to fail if it fails.
    pub fails: f64,
    /// The probability that it fits, 0 to 1: by the hypotheses, or without any, assuming that the boundary is equally
    /// likely anywhere between.
    pub chance: f64,
}

impl Boundary {
    /// What probing `point` would settle. The point is clamped to the search range.
    pub fn expected_gain(&self, point: &Point) -> Result<ExpectedGain> {
        let view = self.view()?;
        let (_, harder) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
        let sides = harder.iter().zip(self.lattice.last());
        let cell: Vec<i64> = sides.map(|(at, last)| (*at).clamp(0, last)).collect();
        let fits = view.open_below(&self.lattice, &cell, &[]) as f64;
        let fails = view.open_above(&self.lattice, &cell, &[]) as f64;
        Ok(ExpectedGain {
            fits,
            fails,
            chance: match self.hypotheses()? {
                Some(hypotheses) => hypotheses.share(hypotheses.votes(&cell)),
                None => fails / (fits + fails).max(1.0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Answer, Options, Verdict};
    use super::*;

    #[test]
    fn both_sides_and_the_chance() {
        let mut map = Boundary::new(&json!({ "input": [1, 100] }), Options::default()).unwrap();
        let point = |input: i64| Point::default().with("input", input);
        map.record(&point(20), &Answer::from(Verdict::Ok)).unwrap();
        let gain = map.expected_gain(&point(41)).unwrap();
        assert_eq!((gain.fits, gain.fails), (21.0, 60.0));
        assert!((gain.chance - 60.0 / 81.0).abs() < 1e-9);
        assert_eq!(map.expected_gain(&point(10)).unwrap().fits, 0.0);
    }
}
