//! Chooses the next points by the votes of the hypotheses (query by committee).
//!
//! A probe is worth the volume that it is expected to prove fitting, plus the disputed volume that its answer is
//! expected to settle, more so if it halves the hypotheses. Volume proven failing has no worth of its own.

use super::largest_boxes::LargestBoxes;
use super::lattice::{Cell, below, box_volume, cell_along, diagonal_and_faces, evenly_spaced};
use super::open_region::OpenBox;
use super::plan::Plan;
use super::version_space::{Agreement, VersionSpace};
use super::view::View;
use super::{Boundary, Candidate};
use crate::error::Result;

/// Limits on the lowest and highest open cells to consider. With thousands of answers, using all of them would take
/// longer than all other steps.
const MOST_LOWS: usize = 128;
const MOST_HIGHS: usize = 1024;
/// Boxes to examine in detail, divided by the number of free axes.
const DETAILED_BOXES: usize = 24;
const EXPLORED_BOXES: usize = 8;
/// Candidates kept from the most promising boxes.
const MOST_PROMISING: usize = 128;
/// Candidates whose volume is counted exactly.
const EXACT_COUNTS: usize = 32;
/// Probabilities of fitting at which candidates are taken from a box.
const LIKELY_CHANCES: [f64; 6] = [1.0, 0.97, 0.93, 0.85, 0.7, 0.5];
/// As [`LIKELY_CHANCES`], for the corners of a plan.
const PLANNED_CHANCES: [f64; 7] = [1.0, 0.97, 0.93, 0.85, 0.7, 0.5, 0.3];
/// Probabilities of fitting at which a box is probed.
pub(super) const CHANCES: [f64; 5] = [0.95, 0.8, 0.5, 0.2, 0.05];
/// The worth of an answer that halves the hypotheses, as a share of the disputed volume. By volume alone, hypotheses
/// that admit much would dominate, although excluding the others takes as many answers.
const HALVING: f64 = 0.2;
/// As [`HALVING`], where an axis counts requests. The remaining hypotheses then differ by orders of magnitude, and by
/// volume alone the largest ones would be ruled out one at a time.
const HALVING_REQUESTS: f64 = 0.8;
/// From this coverage on, plans need so many corners that greedy choices are as good.
pub(super) const FINE: f64 = 0.99;
/// The smallest expected gain, as a share of the fitting volume, for which the hypotheses choose the point.
const MIN_GAIN: f64 = 1e-4;
/// As [`MIN_GAIN`], for a point that few hypotheses admit.
const MIN_GAIN_UNLIKELY: f64 = 2e-3;

/// After this many failures in a row the hypotheses are too optimistic: only points with at least this probability of
/// fitting are probed, if there are any.
const FAILURES: usize = 4;
const MIN_CHANCE_AFTER_FAILURES: f64 = 0.35;

/// After this many failures in a row, a point is worth half as much for each failure near it beyond the first.
/// Otherwise hypotheses that are wrong there would propose one point after another, token by token.
const FAILURES_NEARBY: usize = 2;
/// Points are near each other if they differ by at most 1/`NEARBY` of the range on every axis.
const NEARBY: i64 = 128;

impl Boundary {
    /// The candidates that the hypotheses propose, best first. Empty if there are no hypotheses or they expect little gain.
    pub(super) fn committee_candidates(&self, coverage: f64) -> Result<Vec<Candidate>> {
        let view = self.view()?;
        let (Some(hypotheses), Some(open_region)) = (self.hypotheses()?, self.open_region()?) else {
            return Ok(Vec::new());
        };
        let (disputed, all) = (open_region.disputed(), view.volume.fits as f64 + open_region.fitting());
        let mut candidates = self.box_candidates(hypotheses, view);
        let mut most = f64::INFINITY;
        if let ([first, second], true) = (
            &self.lattice.free()[..],
            hypotheses.agreement == Agreement::Exact && coverage < FINE,
        ) {
            let (first, second) = (*first, *second);
            // The disputed volume may have to be proven, too.
            let missing = |all: f64| coverage * all + disputed - view.volume.fits as f64;
            let plan = Plan::new(hypotheses, view, [first, second], &self.lattice.last(), missing);
            candidates.extend(self.planned(hypotheses, view, &plan));
            most = plan.least;
        } else {
            candidates.extend(promising(hypotheses, view, &open_region.boxes, &self.lattice.free()));
        }
        let block_ends =
            |(least, cell): (f64, Cell)| hypotheses.block_ends(cell).into_iter().map(move |cell| (least, cell));
        let mut candidates: Vec<(f64, Cell)> = candidates.into_iter().flat_map(block_ends).collect();
        candidates.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.total_cmp(&a.0)));
        candidates.dedup_by(|a, b| a.1 == b.1);
        let halving = if hypotheses.counts_requests() {
            HALVING_REQUESTS
        } else {
            HALVING
        };
        let mut rated: Vec<(f64, f64, Cell)> = Vec::new();
        for (least, cell) in candidates {
            if self.is_probeable(&cell) {
                let votes = hypotheses.votes(&cell);
                let doubt = self.doubt_nearby(&cell);
                let likely = open_region.chance(votes);
                let halving = halving * 4.0 * likely * (1.0 - likely) * disputed;
                let disputed_drop = doubt * (disputed - open_region.disputed_after(votes) + halving);
                let chance = doubt * likely;
                rated.push((chance * least.min(most) + disputed_drop, disputed_drop, cell));
            }
        }
        if self.last_failures() >= FAILURES {
            let likely_enough = |cell: &Cell| open_region.chance(hypotheses.votes(cell)) >= MIN_CHANCE_AFTER_FAILURES;
            if rated.iter().any(|(_, _, cell)| likely_enough(cell)) {
                rated.retain(|(_, _, cell)| likely_enough(cell));
            }
        }
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
        rated.truncate(EXACT_COUNTS);
        let mut candidates: Vec<(f64, Candidate)> = Vec::new();
        for (_, disputed_drop, cell) in rated {
            let fits = view.open_below(&cell) as f64;
            let likely = open_region.chance(hypotheses.votes(&cell));
            let chance = self.doubt_nearby(&cell) * likely;
            let gain = chance * fits + disputed_drop;
            if gain >= MIN_GAIN_UNLIKELY * all || likely >= 0.2 {
                candidates.push((gain, self.candidate(cell, [chance, fits, disputed_drop])));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cell.cmp(&b.1.cell)));
        if candidates.first().is_none_or(|(gain, _)| *gain < MIN_GAIN * all) {
            return Ok(Vec::new());
        }
        Ok(candidates.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// Candidates at the corners of a plan, at several probabilities of fitting. Each comes with the volume that it
    /// would prove.
    fn planned(&self, hypotheses: &VersionSpace, view: &View, plan: &Plan) -> Vec<(f64, Cell)> {
        let excess = hypotheses.excess(view.excluded.iter());
        let mut cells = Vec::new();
        for (from, to) in &plan.lines {
            for reach in hypotheses.reaches(from, to, &excess, PLANNED_CHANCES) {
                let cell = cell_along(from, to, reach);
                cells.push((view.open_below(&cell) as f64, cell));
            }
        }
        cells
    }

    /// The factor by which nearby failures lower the worth of a cell.
    fn doubt_nearby(&self, cell: &Cell) -> f64 {
        if self.last_failures() < FAILURES_NEARBY {
            return 1.0;
        }
        let last = self.lattice.last();
        let near = |other: &&Cell| {
            let mut sides = other.iter().zip(cell).zip(&last);
            sides.all(|((other, at), last)| (other - at).abs() <= last / NEARBY)
        };
        let failures = self.tested.iter().filter(near).filter(|other| self.is_excluded(other));
        0.5f64.powf(failures.count().saturating_sub(1) as f64)
    }

    /// Candidates in the largest open boxes: the middle, and the cells where the votes change along the diagonal and
    /// the faces. Each comes with a lower bound of the volume that it would prove.
    fn box_candidates(&self, hypotheses: &VersionSpace, view: &View) -> Vec<(f64, Cell)> {
        let mut cells = Vec::new();
        let lows: Vec<Cell> = evenly_spaced(&view.lowest, MOST_LOWS).cloned().collect();
        let highs: Vec<Cell> = evenly_spaced(&view.highest, MOST_HIGHS).cloned().collect();
        let boxes = LargestBoxes::new(&lows, &highs);
        for (low, high) in boxes.take(EXPLORED_BOXES / self.lattice.free().len().max(1)) {
            let middle = self.lattice.middle(low, high);
            cells.push((box_volume(low, &middle), middle));
            for (from, to) in diagonal_and_faces(low, high) {
                for reach in hypotheses.reaches(&from, &to, &[], CHANCES) {
                    let last = cell_along(&from, &to, reach);
                    let beyond: Cell = last.iter().zip(&to).map(|(at, to)| (at + 1).min(*to)).collect();
                    cells.extend([last, beyond].map(|cell| (box_volume(low, &cell), cell)));
                }
            }
        }
        cells
    }
}

/// Candidates in the boxes with the most expected volume: from the lowest open cell in several directions, at several
/// probabilities of fitting. Each comes with a lower bound of the volume that it would prove.
fn promising(hypotheses: &VersionSpace, view: &View, boxes: &[OpenBox], free: &[usize]) -> Vec<(f64, Cell)> {
    let mut sorted: Vec<(f64, &OpenBox)> = boxes
        .iter()
        .map(|open_box| (box_volume(&open_box.low, &open_box.likely), open_box))
        .collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut cells = Vec::new();
    for (_, OpenBox { low, likely, .. }) in sorted.into_iter().take(DETAILED_BOXES / free.len().max(1)) {
        let excess = hypotheses.excess(view.excluded.iter().filter(|limit| below(low, limit)));
        for direction in box_directions(low.len(), free) {
            let sides = low.iter().zip(likely).zip(&direction);
            let to: Cell = sides
                .map(|((low, high), share)| low + ((high - low) as f64 * share).round() as i64)
                .collect();
            let reaches = hypotheses.reaches(low, &to, &excess, LIKELY_CHANCES);
            for (chance, reach) in LIKELY_CHANCES.into_iter().zip(reaches) {
                let cell = cell_along(low, &to, reach);
                cells.push((chance, box_volume(low, &cell), cell));
            }
        }
    }
    cells.sort_by(|a, b| (b.0 * b.1).total_cmp(&(a.0 * a.1)).then_with(|| a.2.cmp(&b.2)));
    cells.truncate(MOST_PROMISING);
    cells.into_iter().map(|(_, least, cell)| (least, cell)).collect()
}

/// Directions from a corner of a box, as shares of its side on each axis.
fn box_directions(axes: usize, free: &[usize]) -> Vec<Vec<f64>> {
    let mut box_directions = vec![vec![1.0; axes]];
    for axis in free {
        for share in [0.75, 0.5, 0.25, 0.0] {
            let mut direction = vec![1.0; axes];
            direction[*axis] = share;
            box_directions.push(direction);
        }
    }
    box_directions
}
