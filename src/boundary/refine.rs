//! Which points to probe next: those whose answer settles most of the open volume, whatever it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lattice::{Cell, below};
use super::volume::left_below;
use super::{Boundary, Point};
use crate::fault::{Fault, Result};

/// Open boxes looked at closely.
const CLOSELY: usize = 24;

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
    /// A point is worth the volume below it that a fit would settle, and the volume above it that a failure would: the
    /// harmonic mean of both is what an answer settles on average if the boundary is anywhere between with equal chance.
    /// Of several points none lies below another, so that no answer makes another one useless.
    pub fn refine(&self, count: usize, coverage: f64) -> Result<Vec<Point>> {
        if !(0.0..=1.0).contains(&coverage) {
            return Err(Fault::usage(format!(
                "option `coverage`: {coverage} is not between 0 and 1"
            )));
        }
        let cells = if self.coverage()? < coverage {
            self.best_of(self.candidates()?, count)?
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

    /// What asking at `cell` settles on average, beyond what the `chosen` settle anyway.
    pub(super) fn worth(&self, cell: &Cell, chosen: &[Cell]) -> Result<f64> {
        let view = self.view()?;
        let with = |known: &[Cell], more: Vec<Cell>| [known, &more].concat();
        let mirrored: Vec<Cell> = chosen.iter().map(|cell| self.lattice.mirror(cell)).collect();
        let down = left_below(cell, &with(&view.fits, chosen.to_vec())) as f64;
        let up = left_below(&self.lattice.mirror(cell), &with(&view.shut, mirrored)) as f64;
        Ok(2.0 * down * up / (down + up).max(1.0))
    }

    /// Whether a cell is open and was not recorded.
    pub(super) fn askable(&self, cell: &Cell) -> Result<bool> {
        let mirrored = self.lattice.mirror(cell);
        let shut = &self.view()?.shut;
        Ok(!self.seen.contains(cell) && !self.fits.covers(cell) && !shut.iter().any(|wall| below(&mirrored, wall)))
    }

    fn best_of(&self, candidates: Vec<Cell>, count: usize) -> Result<Vec<Cell>> {
        let mut chosen: Vec<Cell> = Vec::new();
        while chosen.len() < count {
            let mut best: Option<(f64, &Cell)> = None;
            for cell in candidates
                .iter()
                .filter(|cell| chosen.iter().all(|other| apart(other, cell)))
            {
                let worth = self.worth(cell, &chosen)?;
                if best.is_none_or(|(most, _)| worth > most) {
                    best = Some((worth, cell));
                }
            }
            let Some((_, cell)) = best else { break };
            chosen.push(cell.clone());
        }
        Ok(chosen)
    }

    /// A cell to ask in each of the largest open boxes.
    fn candidates(&self) -> Result<Vec<Cell>> {
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
        let mut cells: Vec<Cell> = Vec::new();
        while let Some((_, Reverse(at), Reverse(to))) = boxes.pop() {
            if let Some(cell) = self.inside(&view.lowest[at], &view.highest[to])
                && !cells.contains(&cell)
            {
                cells.push(cell);
            }
            if cells.len() >= CLOSELY {
                break;
            }
        }
        Ok(cells)
    }

    /// The middle of an open box, or another cell of it where that was asked in vain.
    fn inside(&self, low: &Cell, high: &Cell) -> Option<Cell> {
        let axes = self.lattice.axes();
        let middle: Cell = axes
            .iter()
            .enumerate()
            .map(|(i, axis)| axis.middle(low[i], high[i]))
            .collect();
        let others = ELSEWHERE.iter().map(|(part, of)| {
            let sides = low.iter().zip(high);
            sides.map(|(low, high)| low + (high - low) * part / of).collect()
        });
        std::iter::once(middle)
            .chain(others)
            .find(|cell| !self.seen.contains(cell))
    }
}

/// Whether neither cell lies below the other.
fn apart(a: &Cell, b: &Cell) -> bool {
    !below(a, b) && !below(b, a)
}
