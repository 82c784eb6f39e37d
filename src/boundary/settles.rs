//! What asking a point would settle, whatever the answer: what a choice by cost weighs.

use super::{Boundary, Point};
use crate::fault::Result;

/// What asking a point settles, in lattice points of the box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settles {
    /// Proven to fit if it fits.
    pub fits: f64,
    /// Proven to fail if it fails.
    pub fails: f64,
    /// How likely it fits, 0 to 1: by the limits that agree with what is proven, else with the boundary anywhere between with
    /// equal chance.
    pub chance: f64,
}

impl Boundary {
    /// What asking `point`, looked at inside the box, settles.
    pub fn settles(&self, point: &Point) -> Result<Settles> {
        let view = self.view()?;
        let (_, harder) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
        let sides = harder.iter().zip(self.lattice.last());
        let cell: Vec<i64> = sides.map(|(at, last)| (*at).clamp(0, last)).collect();
        let fits = view.open_below(&self.lattice, &cell, &[]) as f64;
        let fails = view.open_above(&self.lattice, &cell, &[]) as f64;
        Ok(Settles {
            fits,
            fails,
            chance: match self.guess()? {
                Some(guess) => guess.share(guess.votes(&cell)),
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
        let settles = map.settles(&point(41)).unwrap();
        assert_eq!((settles.fits, settles.fails), (21.0, 60.0));
        assert!((settles.chance - 60.0 / 81.0).abs() < 1e-9);
        assert_eq!(map.settles(&point(10)).unwrap().fits, 0.0);
    }
}
