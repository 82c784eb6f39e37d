//! Estimates how much of the open region fits, from random cells and the votes of the hypotheses.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::choose::cell_along;
use super::lattice::{Cell, below};
use super::version_space::{HypothesisSet, VersionSpace};
use super::view::View;
use crate::fault::Result;

/// Random open cells.
const SAMPLES: usize = 512;
/// Lowest open cells to consider.
const MAX_BOXES: usize = 128;

/// The box above a lowest open cell that may fit, up to the farthest cell that any hypothesis reaches on each axis.
#[derive(Clone, Debug)]
pub(super) struct OpenBox {
    pub(super) low: Cell,
    /// As far as half of the hypotheses reach, and as far as any does.
    pub(super) likely: Cell,
    pub(super) farthest: Cell,
}

/// What the hypotheses say about the open region.
#[derive(Clone, Debug)]
pub(super) struct OpenRegionEstimate {
    pub(super) boxes: Vec<OpenBox>,
    /// The votes at random cells, each with the volume that the cell represents.
    votes: Vec<(f64, HypothesisSet)>,
    count: f64,
}

impl OpenRegionEstimate {
    /// The probability that a cell with these votes fits.
    pub(super) fn chance(&self, votes: HypothesisSet) -> f64 {
        f64::from(votes.count_ones()) / self.count
    }

    /// The volume expected to fit.
    pub(super) fn fitting(&self) -> f64 {
        self.votes
            .iter()
            .map(|(volume, votes)| volume * self.chance(*votes))
            .sum()
    }

    /// The volume on which the hypotheses disagree: the sum of p (1 - p).
    pub(super) fn disputed(&self) -> f64 {
        let variance = |chance: f64| chance * (1.0 - chance);
        self.votes
            .iter()
            .map(|(volume, votes)| volume * variance(self.chance(*votes)))
            .sum()
    }

    /// The expected disputed volume after testing a cell with these votes, which leaves either the hypotheses that
    /// admit it or the others.
    pub(super) fn disputed_after(&self, tested: HypothesisSet) -> f64 {
        let yes = f64::from(tested.count_ones());
        let no = self.count - yes;
        let left = |both: u32, of: f64| {
            let both = f64::from(both);
            if of > 0.0 { both - both * both / of } else { 0.0 }
        };
        let sum: f64 = self
            .votes
            .iter()
            .map(|(volume, votes)| {
                volume * (left((votes & tested).count_ones(), yes) + left((votes & !tested).count_ones(), no))
            })
            .sum();
        sum / self.count
    }
}

impl Boundary {
    /// The estimate for the current state; `None` without hypotheses.
    pub(super) fn open_region(&self) -> Result<Option<&OpenRegionEstimate>> {
        let view = self.view()?;
        let hypotheses = self.hypotheses()?;
        let open_region = || hypotheses.map(|hypotheses| self.estimate_open_region(hypotheses, view));
        Ok(view.open_region.get_or_init(open_region).as_ref())
    }

    /// Draws random cells from the open boxes. The seed is fixed, so the result is deterministic.
    fn estimate_open_region(&self, hypotheses: &VersionSpace, view: &View) -> OpenRegionEstimate {
        let (last, free) = (self.lattice.last(), self.lattice.free());
        let boxes: Vec<OpenBox> = evenly_spaced(&view.lowest, MAX_BOXES)
            .map(|low| OpenBox::new(low, &last, hypotheses))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut all = 0.0;
        let ends: Vec<f64> = boxes
            .iter()
            .map(|open_box| {
                all += box_volume(&open_box.low, &open_box.farthest);
                all
            })
            .collect();
        // The boxes considered represent all boxes.
        all *= view.lowest.len() as f64 / boxes.len() as f64;
        let mut votes = Vec::new();
        for _ in 0..SAMPLES {
            let at = random.random::<f64>() * ends.last().copied().unwrap_or(0.0);
            let Some(open_box) = boxes.get(ends.partition_point(|end| *end < at)) else {
                continue;
            };
            let cell = random_cell(&open_box.low, &open_box.farthest, &free, &mut random);
            if self.is_excluded(&cell) {
                continue;
            }
            let admitting = hypotheses.votes(&cell);
            if admitting == 0 {
                continue;
            }
            // A cell in several boxes is drawn more often: if any hypothesis admits it, it lies in the box of each
            // lowest open cell below it.
            let holding = view.lowest.iter().filter(|low| below(low, &cell)).count();
            votes.push((all / SAMPLES as f64 / holding as f64, admitting));
        }
        OpenRegionEstimate {
            boxes,
            count: f64::from(hypotheses.count()),
            votes,
        }
    }
}

impl OpenBox {
    fn new(low: &Cell, last: &Cell, hypotheses: &VersionSpace) -> Self {
        let (mut likely, mut farthest) = (low.clone(), low.clone());
        for (axis, end) in last.iter().enumerate() {
            let mut to = low.clone();
            to[axis] = *end;
            let (most, half) = hypotheses.extent(low, &to);
            likely[axis] = cell_along(low, &to, half)[axis];
            farthest[axis] = cell_along(low, &to, most)[axis];
        }
        Self {
            low: low.clone(),
            likely,
            farthest,
        }
    }
}

/// All cells, or `most` of them, evenly spaced.
pub(super) fn evenly_spaced(cells: &[Cell], most: usize) -> impl Iterator<Item = &Cell> {
    cells.iter().step_by(cells.len().div_ceil(most).max(1))
}

/// A random cell from `low` to `high`, which differ only on free axes.
pub(super) fn random_cell(low: &Cell, high: &Cell, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
    let mut cell = low.clone();
    for axis in free {
        cell[*axis] = random.random_range(low[*axis]..=high[*axis]);
    }
    cell
}

/// The number of cells from `low` to `high`.
pub(super) fn box_volume(low: &Cell, high: &Cell) -> f64 {
    let sides = low.iter().zip(high).map(|(low, high)| (high - low + 1).max(0) as f64);
    sides.product()
}
