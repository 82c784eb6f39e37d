//! Which points to probe next: where a guess at the boundary agrees with what is proven, those that it chooses (`choose`);
//! otherwise those whose answer settles most of the open volume, whatever it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::choose::{along, at_chance, faces};
use super::guess::Guess;
use super::lattice::{Cell, below};
use super::view::View;
use super::volume::left_below;
use super::{Boundary, Point};
use crate::fault::{Fault, Result};

/// Open boxes looked at closely.
const CLOSELY: usize = 8;

/// Proven points of each side that a guess rests on, for each axis.
const NEAR: usize = 4;

/// Chances of fitting at which a guess is put to the test.
const CHANCES: [f64; 5] = [0.95, 0.8, 0.5, 0.2, 0.05];

/// Places in a box, as shares of the way from its lowest to its highest cell, for when its middle was asked in vain.
const ELSEWHERE: [(i64, i64); 8] = [(1, 4), (3, 4), (1, 8), (7, 8), (3, 8), (5, 8), (0, 1), (1, 1)];

impl Boundary {
    /// Whether enough is known: `coverage` of the fitting volume is proven, and the tolerances hold on their rays.
    pub fn done(&self, coverage: f64) -> Result<bool> {
        Ok(self.coverage()? >= coverage && self.wide_rays()?.is_empty())
    }

    /// Up to `count` points, best first, none settled or recorded; empty when [`Boundary::done`], or when every open pocket
    /// was asked in vain.
    ///
    /// Without a guess, a point is worth the volume below it that a fit would settle, and the volume above it that a failure
    /// would: the harmonic mean of both is what an answer settles on average if the boundary is anywhere between with equal
    /// chance. Of several points none lies below another, so that no answer makes another one useless.
    pub fn refine(&self, count: usize, coverage: f64) -> Result<Vec<Point>> {
        if !(0.0..=1.0).contains(&coverage) {
            return Err(Fault::usage(format!(
                "option `coverage`: {coverage} is not between 0 and 1"
            )));
        }
        let cells = if self.coverage()? < coverage {
            match self.guided(count)? {
                none if none.is_empty() => self.best_of(self.candidates()?, count)?,
                cells => cells,
            }
        } else {
            let mut chosen: Vec<Cell> = Vec::new();
            for ray in self.wide_rays()? {
                if chosen.len() < count && chosen.iter().all(|other| apart(other, &ray.middle)) {
                    chosen.push(ray.middle);
                }
            }
            chosen
        };
        Ok(cells.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// How many probes there will be in all once `coverage` is reached, if the open volume goes on shrinking as it does for
    /// smooth boundaries: with the (axes - 1)-th root of the probes. None while too little is known.
    pub fn expected(&self, probes: u64, coverage: f64) -> Result<Option<u64>> {
        let view = self.view()?;
        let (fits, open) = (view.volume.fits as f64, view.volume.open as f64);
        if self.coverage()? >= coverage {
            return Ok(Some(probes));
        }
        let axes = i32::try_from(self.lattice.axes().len()).unwrap_or(i32::MAX);
        let wanted = (fits + open / 2.0) * (1.0 - coverage) * 2.0;
        if probes < 8 || wanted <= 0.0 || axes < 2 {
            return Ok(None);
        }
        let all = probes as f64 * (open / wanted).max(1.0).powi(axes - 1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        Ok((all < 1e6).then(|| all.ceil() as u64))
    }

    /// What asking at `cell` settles on average, beyond what the `chosen` settle anyway; `chance` is how likely it fits.
    ///
    /// Without a guess, the boundary is taken to be anywhere between with equal chance: then the answer settles the harmonic
    /// mean of both volumes.
    pub(super) fn worth(&self, cell: &Cell, chosen: &[Cell], chance: Option<f64>) -> Result<f64> {
        let view = self.view()?;
        let mirrored: Vec<Cell> = chosen.iter().map(|cell| self.lattice.mirror(cell)).collect();
        let down = left_below(cell, view.fits.iter().chain(chosen)) as f64;
        let up = left_below(&self.lattice.mirror(cell), view.shut.iter().chain(&mirrored)) as f64;
        let chance = chance.unwrap_or(up / (down + up).max(1.0));
        Ok(chance * down + (1.0 - chance) * up)
    }

    /// Whether a cell is open and was not recorded.
    pub(super) fn askable(&self, cell: &Cell) -> Result<bool> {
        let mirrored = self.lattice.mirror(cell);
        let shut = &self.view()?.shut;
        Ok(!self.seen.contains(cell) && !self.fits.covers(cell) && !shut.iter().any(|wall| below(&mirrored, wall)))
    }

    fn best_of(&self, candidates: Vec<Candidate>, count: usize) -> Result<Vec<Cell>> {
        let mut chosen: Vec<Cell> = Vec::new();
        while chosen.len() < count {
            let mut best: Option<(f64, &Cell)> = None;
            let free = |cell: &Cell| chosen.iter().all(|other| apart(other, cell));
            for (cell, chance) in candidates.iter().filter(|(cell, _)| free(cell)) {
                let worth = self.worth(cell, &chosen, *chance)?;
                if best.is_none_or(|(most, _)| worth > most) {
                    best = Some((worth, cell));
                }
            }
            let Some((_, cell)) = best else { break };
            chosen.push(cell.clone());
        }
        Ok(chosen)
    }

    /// Cells to ask in the largest open boxes.
    fn candidates(&self) -> Result<Vec<Candidate>> {
        let view = self.view()?;
        let mut boxes = BinaryHeap::new();
        for (at, low) in view.lowest.iter().enumerate() {
            for (to, high) in view.highest.iter().enumerate().filter(|(_, high)| below(low, high)) {
                let sides = low.iter().zip(high).map(|(low, high)| (high - low + 1) as f64);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a float cast saturates"
                )]
                let volume = sides.product::<f64>() as u128;
                boxes.push((volume, Reverse(at), Reverse(to)));
            }
        }
        let (mut cells, mut looked) = (Vec::new(), 0);
        while let Some((_, Reverse(at), Reverse(to))) = boxes.pop() {
            let found = self.inside(view, &view.lowest[at], &view.highest[to]);
            looked += usize::from(!found.is_empty());
            cells.extend(found);
            if looked >= CLOSELY {
                break;
            }
        }
        Ok(cells)
    }

    /// Cells to ask in an open box: where the boundary is guessed to run through it, or else its middle, or another cell where
    /// that was asked in vain.
    fn inside(&self, view: &View, low: &Cell, high: &Cell) -> Vec<Candidate> {
        let axes = self.lattice.axes();
        let middle: Cell = axes
            .iter()
            .enumerate()
            .map(|(i, axis)| axis.middle(low[i], high[i]))
            .collect();
        let near = |cells: &[Cell], mirrored: bool| self.nearest(cells, mirrored, &middle);
        let mut found = Vec::new();
        if let Some(guess) = Guess::new(&self.lattice, &near(&view.fits, false), &near(&view.shut, true)) {
            for (from, to) in faces(low, high) {
                let reaches = guess.reaches(&from, &to, &[]);
                for chance in CHANCES {
                    let cell = along(&from, &to, at_chance(&reaches, chance));
                    if !self.seen.contains(&cell) {
                        let chance = guess.share(guess.votes(&cell)).clamp(0.02, 0.98);
                        found.push((cell, Some(chance)));
                    }
                }
            }
        }
        if found.is_empty() {
            let others = ELSEWHERE.iter().map(|(part, of)| {
                let sides = low.iter().zip(high);
                sides.map(|(low, high)| low + (high - low) * part / of).collect()
            });
            let free = std::iter::once(middle)
                .chain(others)
                .find(|cell| !self.seen.contains(cell));
            found.extend(free.map(|cell| (cell, None)));
        }
        found
    }

    /// The cells nearest to one, in shares of the box.
    fn nearest(&self, cells: &[Cell], mirrored: bool, to: &Cell) -> Vec<Cell> {
        let last = self.lattice.last();
        let mut near: Vec<(f64, Cell)> = cells
            .iter()
            .map(|cell| {
                let cell = if mirrored {
                    self.lattice.mirror(cell)
                } else {
                    cell.clone()
                };
                let sides = cell.iter().zip(to).zip(&last);
                let shares = sides.map(|((at, to), last)| (at - to) as f64 / (*last).max(1) as f64);
                (shares.map(|share| share * share).sum(), cell)
            })
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAR * to.len());
        near.into_iter().map(|(_, cell)| cell).collect()
    }
}

/// A cell to ask, and how likely it fits where there is a guess.
type Candidate = (Cell, Option<f64>);

/// Whether neither cell lies below the other.
pub(super) fn apart(a: &Cell, b: &Cell) -> bool {
    !below(a, b) && !below(b, a)
}
