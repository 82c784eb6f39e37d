//! Which points to probe next: where a guess at the boundary agrees with what is proven, those that it chooses (`choose`);
//! otherwise those whose answer settles most of the open volume, whatever it is.

use super::boxes::Boxes;
use super::choose::{along, at_chance, faces};
use super::guess::Guess;
use super::lattice::{Cell, below};
use super::view::View;
use super::{Boundary, Point};
use crate::fault::{Fault, Result};

/// Open boxes looked at closely.
const CLOSELY: usize = 8;

/// Proven points of each side that a guess rests on, for each axis.
const NEAR: usize = 4;

/// Chances of fitting at which a guess is put to the test.
const CHANCES: [f64; 5] = [0.95, 0.8, 0.5, 0.2, 0.05];

/// Failures in a row after which every other question halves an open box, whatever a guess says ...
const VAIN: usize = 10;
/// ... and how many questions are asked before that is done once in so many.
const MANY: usize = 96;
const EVERY: usize = 16;

/// Places in a box, as shares of the way from its lowest to its highest cell, for when its middle was asked in vain.
const ELSEWHERE: [(i64, i64); 8] = [(1, 4), (3, 4), (1, 8), (7, 8), (3, 8), (5, 8), (0, 1), (1, 1)];

impl Boundary {
    /// Whether enough is known: `coverage` of the fitting volume is proven, and the tolerances hold on their rays.
    pub fn done(&self, coverage: f64) -> Result<bool> {
        Ok(self.covers(coverage)? && self.wide_rays()?.is_empty())
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
        let cells = if !self.covers(coverage)? {
            let guided = if self.halves_next() {
                Vec::new()
            } else {
                self.guided(count)?
            };
            match guided {
                none if none.is_empty() => self.best_of(self.candidates(!self.halves_next())?, count)?,
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

    /// How many probes there will be in all once `coverage` is reached, of which `probes` were made. None while too little is known.
    ///
    /// What a staircase of n corners leaves open under a smooth boundary shrinks with the (axes - 1)-th root of n. Half of the probes so
    /// far went into learning where it runs, which is not done again: so the other half alone grows.
    pub fn expected(&self, probes: u64, coverage: f64) -> Result<Option<u64>> {
        let open = 1.0 - self.coverage()?;
        let wanted = 1.0 - coverage;
        if open <= wanted {
            return Ok(Some(probes));
        }
        let axes = i32::try_from(self.lattice.free().len()).unwrap_or(i32::MAX);
        if probes < 8 || wanted <= 0.0 || axes < 2 {
            return Ok(None);
        }
        let all = probes as f64 * (1.0 + (open / wanted).powi(axes - 1)) / 2.0;
        Ok((all < 1e6).then(|| all.ceil() as u64))
    }

    /// What asking at `cell` settles on average, beyond what the `chosen` settle anyway; `chance` is how likely it fits.
    ///
    /// Without a guess, the boundary is taken to be anywhere between with equal chance: then the answer settles the harmonic
    /// mean of both volumes.
    pub(super) fn worth(&self, cell: &Cell, chosen: &[Cell], chance: Option<f64>) -> Result<f64> {
        let view = self.view()?;
        let down = view.open_below(&self.lattice, cell, chosen) as f64;
        let up = view.open_above(&self.lattice, cell, chosen) as f64;
        let chance = chance.unwrap_or(up / (down + up).max(1.0));
        Ok(chance * down + (1.0 - chance) * up)
    }

    /// Whether a cell is open and was not recorded.
    pub(super) fn askable(&self, cell: &Cell) -> bool {
        !self.seen.contains(cell) && !self.fits.covers(cell) && !self.shut(cell)
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

    /// Whether the next question halves one of the largest open boxes, whatever a guess says.
    ///
    /// A guess that is wrong may go on asking where hardly anything is settled. The middle of a box settles a share of it
    /// whatever the answer, so that any limit is found in a bounded number of probes. Depends on nothing but the recorded answers:
    /// a search that is taken up goes on in the same way.
    fn halves_next(&self) -> bool {
        let records = self.records();
        let (many, last) = (records.len(), self.last_failures());
        last >= VAIN && last.is_multiple_of(2) || many >= MANY && many.is_multiple_of(EVERY)
    }

    /// Cells to ask in the largest open boxes: with a guess at each where there is one and it is `guessed`, else the middles.
    fn candidates(&self, guessed: bool) -> Result<Vec<Candidate>> {
        let view = self.view()?;
        let (mut cells, mut looked) = (Vec::new(), 0);
        for (low, high) in Boxes::new(&view.lowest, &view.highest) {
            let found = self.inside(view, low, high, guessed);
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
    fn inside(&self, view: &View, low: &Cell, high: &Cell, guessed: bool) -> Vec<Candidate> {
        let axes = self.lattice.axes();
        let middle: Cell = axes
            .iter()
            .enumerate()
            .map(|(i, axis)| axis.middle(low[i], high[i]))
            .collect();
        let mut found = Vec::new();
        let near = |cells: &[Cell]| self.nearest(cells, &middle);
        if guessed && let Some(guess) = Guess::of_part(&self.lattice, &near(&view.fits), &near(&view.walls)) {
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
    fn nearest(&self, cells: &[Cell], to: &Cell) -> Vec<Cell> {
        let last = self.lattice.last();
        let mut near: Vec<(f64, &Cell)> = cells
            .iter()
            .map(|cell| {
                let sides = cell.iter().zip(to).zip(&last);
                let shares = sides.map(|((at, to), last)| (at - to) as f64 / (*last).max(1) as f64);
                (shares.map(|share| share * share).sum(), cell)
            })
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAR * self.lattice.free().len());
        near.into_iter().map(|(_, cell)| cell.clone()).collect()
    }
}

/// A cell to ask, and how likely it fits where there is a guess.
type Candidate = (Cell, Option<f64>);

/// Whether neither cell lies below the other.
pub(super) fn apart(a: &Cell, b: &Cell) -> bool {
    !below(a, b) && !below(b, a)
}
