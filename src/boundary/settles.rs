//! What asking a point would settle, whatever the answer: what a choice by cost weighs.

use super::lattice::Cell;
use super::model::Model;
use super::volume::left_below;
use super::{Boundary, Point};
use crate::fault::Result;

/// Proven points of each side that a guess rests on, for each axis.
const NEAR: usize = 4;

/// What asking a point settles, in lattice points of the box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settles {
    /// Proven to fit if it fits.
    pub fits: f64,
    /// Proven to fail if it fails.
    pub fails: f64,
    /// How likely it fits, 0 to 1: by the limits that agree with the proven points around, else with the boundary anywhere between with equal chance.
    pub chance: f64,
}

impl Boundary {
    /// What asking `point`, looked at inside the box, settles.
    pub fn settles(&self, point: &Point) -> Result<Settles> {
        let view = self.view()?;
        let (_, harder) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
        let sides = harder.iter().zip(self.lattice.last());
        let cell: Vec<i64> = sides.map(|(at, last)| (*at).clamp(0, last)).collect();
        let fits = left_below(&cell, view.fits.iter()) as f64;
        let fails = left_below(&self.lattice.mirror(&cell), view.shut.iter()) as f64;
        Ok(Settles {
            fits,
            fails,
            chance: match self.guessed(&cell, &view.fits, &view.shut) {
                Some(chance) => chance,
                None => fails / (fits + fails).max(1.0),
            },
        })
    }

    /// What the limits say that agree with the proven cells nearest to this one; `shut` is mirrored.
    fn guessed(&self, cell: &Cell, fits: &[Cell], shut: &[Cell]) -> Option<f64> {
        let last = self.lattice.last();
        let nearest = |mut cells: Vec<Cell>| {
            let away = |other: &Cell| -> f64 {
                let sides = other.iter().zip(cell).zip(&last);
                let shares = sides.map(|((at, to), last)| (at - to) as f64 / (*last).max(1) as f64);
                shares.map(|share| share * share).sum()
            };
            cells.sort_by(|a, b| away(a).total_cmp(&away(b)));
            cells.truncate(NEAR * cell.len());
            cells
        };
        let fails = shut.iter().map(|wall| self.lattice.mirror(wall)).collect();
        let model = Model::agreeing(&self.lattice, &nearest(fits.to_vec()), &nearest(fails))?;
        Some(model.fits(&self.lattice, cell).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

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
