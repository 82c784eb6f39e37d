//! Which points to probe next: those that the hypotheses choose (`choose`), or without hypotheses those whose answer
//! settles most of the open volume.

use super::choose::{cell_along, diagonal_and_faces, reach_at_chance};
use super::largest_boxes::LargestBoxes;
use super::lattice::{Cell, below};
use super::version_space::VersionSpace;
use super::view::View;
use super::{Boundary, Point};
use crate::fault::{Fault, Result};

/// Open boxes to examine in detail.
const DETAILED_BOXES: usize = 8;

/// Proven points of each side, per axis, that local hypotheses are fitted to.
const NEAREST_PER_AXIS: usize = 4;

/// Probabilities of fitting at which a box is probed.
const CHANCES: [f64; 5] = [0.95, 0.8, 0.5, 0.2, 0.05];

/// After this many failures in a row, every other probe bisects an open box, whatever the hypotheses say.
const FAILURES_BEFORE_BISECTING: usize = 10;
/// After this many probes, one in `BISECT_EVERY` does.
const PROBES_BEFORE_BISECTING: usize = 96;
const BISECT_EVERY: usize = 16;

/// Positions in a box from its lowest to its highest cell, for when its middle was probed without a clear answer.
const FALLBACK_POSITIONS: [(i64, i64); 8] = [(1, 4), (3, 4), (1, 8), (7, 8), (3, 8), (5, 8), (0, 1), (1, 1)];

impl Boundary {
    /// Whether enough is known: `coverage` of the fitting volume is proven, and the tolerances hold on their rays.
    pub fn done(&self, coverage: f64) -> Result<bool> {
        Ok(self.has_coverage(coverage)? && self.wide_rays()?.is_empty())
    }

    /// Up to `count` points to probe, best first, none of them settled or recorded. Empty when [`Boundary::done`], or
    /// when every open box was probed without a clear answer.
    ///
    /// Without hypotheses, a point is worth the volume below it that a fit would settle and the volume above it that
    /// a failure would settle. The expected settled volume is their harmonic mean if the boundary is equally likely
    /// anywhere between. No returned point lies below another, so no answer makes another one useless.
    pub fn refine(&self, count: usize, coverage: f64) -> Result<Vec<Point>> {
        if !(0.0..=1.0).contains(&coverage) {
            return Err(Fault::usage(format!(
                "option `coverage`: {coverage} is not between 0 and 1"
            )));
        }
        let cells = if !self.has_coverage(coverage)? {
            let committee_choice = if self.bisects_next() {
                Vec::new()
            } else {
                self.committee_choice(count)?
            };
            match committee_choice {
                none if none.is_empty() => self.best_of(self.candidates(!self.bisects_next())?, count)?,
                cells => cells,
            }
        } else {
            let mut chosen: Vec<Cell> = Vec::new();
            for ray in self.wide_rays()? {
                if chosen.len() < count && chosen.iter().all(|other| incomparable(other, &ray.middle)) {
                    chosen.push(ray.middle);
                }
            }
            chosen
        };
        Ok(cells.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The expected total number of probes to reach `coverage`, after `probes` of them. `None` while too little is
    /// known.
    ///
    /// A staircase of n corners under a smooth boundary leaves an open volume that shrinks with the (axes - 1)-th
    /// root of n. Half of the probes so far located the boundary, which is not repeated, so only the other half
    /// grows.
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

    /// The expected volume that probing `cell` settles, beyond what the `chosen` cells settle anyway. `chance` is the
    /// probability that it fits.
    ///
    /// Without hypotheses, the boundary is assumed equally likely anywhere between, and the result is the harmonic
    /// mean of both volumes.
    pub(super) fn gain(&self, cell: &Cell, chosen: &[Cell], chance: Option<f64>) -> Result<f64> {
        let view = self.view()?;
        let down = view.open_below(&self.lattice, cell, chosen) as f64;
        let up = view.open_above(&self.lattice, cell, chosen) as f64;
        let chance = chance.unwrap_or(up / (down + up).max(1.0));
        Ok(chance * down + (1.0 - chance) * up)
    }

    /// Whether a cell is open and was not recorded.
    pub(super) fn is_probeable(&self, cell: &Cell) -> bool {
        !self.tested.contains(cell) && !self.fits.covers(cell) && !self.is_excluded(cell)
    }

    fn best_of(&self, candidates: Vec<Candidate>, count: usize) -> Result<Vec<Cell>> {
        let mut chosen: Vec<Cell> = Vec::new();
        while chosen.len() < count {
            let mut best: Option<(f64, &Cell)> = None;
            let free = |cell: &Cell| chosen.iter().all(|other| incomparable(other, cell));
            for (cell, chance) in candidates.iter().filter(|(cell, _)| free(cell)) {
                let gain = self.gain(cell, &chosen, *chance)?;
                if best.is_none_or(|(most, _)| gain > most) {
                    best = Some((gain, cell));
                }
            }
            let Some((_, cell)) = best else { break };
            chosen.push(cell.clone());
        }
        Ok(chosen)
    }

    /// Whether the next probe bisects one of the largest open boxes, whatever the hypotheses say.
    ///
    /// Wrong hypotheses may keep proposing points that settle almost nothing. The middle of a box settles a share of
    /// it with any answer, so every limit is found in a bounded number of probes. Depends only on the recorded
    /// answers, so a resumed search continues in the same way.
    fn bisects_next(&self) -> bool {
        let records = self.records();
        let (probes, last) = (records.len(), self.last_failures());
        last >= FAILURES_BEFORE_BISECTING && last.is_multiple_of(2)
            || probes >= PROBES_BEFORE_BISECTING && probes.is_multiple_of(BISECT_EVERY)
    }

    /// Cells to probe in the largest open boxes: by local hypotheses if `use_hypotheses` and there are any, otherwise
    /// the middles.
    fn candidates(&self, use_hypotheses: bool) -> Result<Vec<Candidate>> {
        let view = self.view()?;
        let (mut cells, mut verified) = (Vec::new(), 0);
        for (low, high) in LargestBoxes::new(&view.lowest, &view.highest) {
            let found = self.candidates_in(view, low, high, use_hypotheses);
            verified += usize::from(!found.is_empty());
            cells.extend(found);
            if verified >= DETAILED_BOXES {
                break;
            }
        }
        Ok(cells)
    }

    /// Cells to probe in an open box: where local hypotheses expect the boundary, else the middle, else a fallback
    /// position if the middle was probed without a clear answer.
    fn candidates_in(&self, view: &View, low: &Cell, high: &Cell, use_hypotheses: bool) -> Vec<Candidate> {
        let axes = self.lattice.axes();
        let middle: Cell = axes
            .iter()
            .enumerate()
            .map(|(i, axis)| axis.middle(low[i], high[i]))
            .collect();
        let mut found = Vec::new();
        let near = |cells: &[Cell]| self.nearest(cells, &middle);
        if use_hypotheses
            && let Some(hypotheses) =
                VersionSpace::from_nearest(&self.lattice, &near(&view.fits), &near(&view.excluded))
        {
            for (from, to) in diagonal_and_faces(low, high) {
                let reaches = hypotheses.reaches(&from, &to, &[]);
                for chance in CHANCES {
                    let cell = cell_along(&from, &to, reach_at_chance(&reaches, chance));
                    if !self.tested.contains(&cell) {
                        let chance = hypotheses.share(hypotheses.votes(&cell)).clamp(0.02, 0.98);
                        found.push((cell, Some(chance)));
                    }
                }
            }
        }
        if found.is_empty() {
            let others = FALLBACK_POSITIONS.iter().map(|(part, of)| {
                let sides = low.iter().zip(high);
                sides.map(|(low, high)| low + (high - low) * part / of).collect()
            });
            let free = std::iter::once(middle)
                .chain(others)
                .find(|cell| !self.tested.contains(cell));
            found.extend(free.map(|cell| (cell, None)));
        }
        found
    }

    /// The cells nearest to another, with distances relative to the search range.
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
        near.truncate(NEAREST_PER_AXIS * self.lattice.free().len());
        near.into_iter().map(|(_, cell)| cell.clone()).collect()
    }
}

/// A cell to probe, and its probability of fitting if there are hypotheses.
type Candidate = (Cell, Option<f64>);

/// Whether neither cell lies below the other.
pub(super) fn incomparable(a: &Cell, b: &Cell) -> bool {
    !below(a, b) && !below(b, a)
}
