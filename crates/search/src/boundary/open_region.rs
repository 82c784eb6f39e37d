//! Estimates how much of the open region fits, from random cells and the votes of the hypotheses: the expectation for
//! choosing points, and the upper bound that decides when a search may stop.
//!
//! A search that stops when a rough estimate first passes a threshold stops too early: it checks repeatedly, and the
//! threshold is passed by chance. The upper bound therefore uses more samples than the expectation, and errs on the
//! safe side.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::lattice::{Cell, below, box_volume, cell_along, evenly_spaced, random_cell};
use super::version_space::{HypothesisSet, VersionSpace};
use super::view::View;

/// Random open cells for the expectation.
const EXPECTATION_SAMPLES: usize = 512;
/// Random open cells for the upper bound.
const BOUND_SAMPLES: usize = 1024;
/// Lowest open cells to consider.
const MAX_BOXES: usize = 128;
/// The weight of the hypotheses that must admit no more than the bound.
const CONFIDENCE: f64 = 0.95;
/// The margin for the sampling error, in standard deviations: one-sided, at 95 % confidence.
const DEVIATIONS: f64 = 1.645;

/// The box above a lowest open cell that may fit, up to the farthest cell that any hypothesis reaches on each axis.
#[derive(Clone, Debug)]
pub(super) struct OpenBox {
    pub(super) low: Cell,
    /// As far as half of the hypotheses reach.
    pub(super) likely: Cell,
    /// As far as any hypothesis reaches.
    pub(super) farthest: Cell,
}

/// The hypotheses' estimate for the open region.
#[derive(Clone, Debug)]
pub(super) struct OpenRegionEstimate {
    pub(super) boxes: Vec<OpenBox>,
    /// The votes at random cells, each with the volume that the cell represents.
    votes: Vec<(f64, HypothesisSet)>,
    count: f64,
}

impl OpenRegionEstimate {
    /// For a view with open cells. The seed is fixed, so the result is deterministic.
    pub(super) fn new(boundary: &Boundary, hypotheses: &VersionSpace, view: &View) -> Self {
        let (last, free) = (boundary.lattice.last(), boundary.lattice.free());
        let boxes: Vec<OpenBox> = evenly_spaced(&view.lowest, MAX_BOXES)
            .map(|low| OpenBox::new(low, &last, hypotheses))
            .collect();
        let sampler = BoxSampler::new(boxes.iter().map(|open_box| (&open_box.low, &open_box.farthest)));
        // The boxes considered represent all boxes.
        let all = sampler.volume() * (view.lowest.len() as f64 / boxes.len() as f64);
        let draw = |_, random: &mut ChaCha8Rng| {
            let place = random.random();
            sampler.draw(place, &free, random)
        };
        // A cell in several boxes is drawn more often: if any hypothesis admits it, it lies in the box of each lowest
        // open cell below it.
        let volume = |cell: &Cell| all / EXPECTATION_SAMPLES as f64 / holding(view, cell);
        Self {
            votes: sample_votes(boundary, hypotheses, EXPECTATION_SAMPLES, draw, volume),
            boxes,
            count: f64::from(hypotheses.count()),
        }
    }

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

    /// The most open volume that fits at 95 % confidence.
    ///
    /// Half of the cells are drawn from the part that is likely to fit and half from all that may fit, so that neither
    /// a long thin corner nor the bulk is missed.
    pub(super) fn fitting_upper_bound(&self, boundary: &Boundary, hypotheses: &VersionSpace, view: &View) -> f64 {
        let boxes = &self.boxes;
        let likely = BoxSampler::new(boxes.iter().map(|open_box| (&open_box.low, &open_box.likely)));
        let all = BoxSampler::new(boxes.iter().map(|open_box| (&open_box.low, &open_box.farthest)));
        let free = boundary.lattice.free();
        let draw = |index: usize, random: &mut ChaCha8Rng| {
            let place = ((index / 2) as f64 + 0.5) / (BOUND_SAMPLES / 2) as f64;
            let from = if index.is_multiple_of(2) { &likely } else { &all };
            from.draw(place, &free, random)
        };
        let volume = |cell: &Cell| {
            // If any hypothesis admits the cell, it lies in the box of each lowest open cell below it, and may be drawn
            // from each.
            let (mut density, mut sampled_boxes) = (0.0, 0.0);
            for open_box in boxes.iter().filter(|open_box| below(&open_box.low, cell)) {
                let is_likely = below(cell, &open_box.likely);
                let density_of_likely = if is_likely { 1.0 / likely.volume() } else { 0.0 };
                sampled_boxes += 1.0;
                density += (density_of_likely + 1.0 / all.volume()) / 2.0;
            }
            // The boxes considered represent all boxes.
            let stands = sampled_boxes / holding(view, cell) * view.lowest.len() as f64 / boxes.len() as f64;
            stands / density / BOUND_SAMPLES as f64
        };
        at_most(
            hypotheses,
            &sample_votes(boundary, hypotheses, BOUND_SAMPLES, draw, volume),
        )
    }
}

/// The votes at random cells that no answer excludes and some hypothesis admits, each with the volume that it represents.
fn sample_votes(
    boundary: &Boundary,
    hypotheses: &VersionSpace,
    samples: usize,
    draw: impl Fn(usize, &mut ChaCha8Rng) -> Cell,
    volume: impl Fn(&Cell) -> f64,
) -> Vec<(f64, HypothesisSet)> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let cells = (0..samples).map(|index| draw(index, &mut random));
    let open = cells.filter(|cell| !boundary.is_excluded(cell));
    let voted = open.map(|cell| (hypotheses.votes(&cell), cell));
    let admitted = voted.filter(|(votes, _)| *votes != 0);
    admitted.map(|(votes, cell)| (volume(&cell), votes)).collect()
}

/// How many lowest open cells lie at or below a cell.
fn holding(view: &View, cell: &Cell) -> f64 {
    view.lowest.iter().filter(|low| below(low, cell)).count() as f64
}

impl OpenBox {
    fn new(low: &Cell, last: &Cell, hypotheses: &VersionSpace) -> Self {
        let (mut likely, mut farthest) = (low.clone(), low.clone());
        for (axis, end) in last.iter().enumerate() {
            let mut to = low.clone();
            to[axis] = *end;
            let [most, half] = hypotheses.reaches(low, &to, &[], [0.0, 0.5]);
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

/// The volume that hypotheses of enough weight do not exceed, plus a margin for the sampling error.
fn at_most(hypotheses: &VersionSpace, votes: &[(f64, HypothesisSet)]) -> f64 {
    let under = |limit: u32| -> f64 {
        let held = votes.iter().filter(|(_, votes)| votes >> limit & 1 == 1);
        held.map(|(volume, _)| volume).sum()
    };
    let mut fitting: Vec<(f64, f64)> = (0..hypotheses.count())
        .map(|limit| (under(limit), hypotheses.weight(limit)))
        .collect();
    fitting.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut weight = 0.0;
    let enough = |(_, more): &&(f64, f64)| {
        weight += more;
        weight >= CONFIDENCE
    };
    let found = fitting.iter().find(enough).or(fitting.last());
    let most = found.map_or(0.0, |(volume, _)| *volume);
    let (sum, squares) = votes.iter().fold((0.0, 0.0), |(sum, squares), (volume, _)| {
        (sum + volume, squares + volume * volume)
    });
    let deviation = if sum > 0.0 { squares.sqrt() / sum } else { 0.0 };
    most * (1.0 + DEVIATIONS * deviation)
}

/// Draws cells from boxes, each cell of each box with the same probability.
struct BoxSampler<'a> {
    boxes: Vec<(&'a Cell, &'a Cell)>,
    /// The cumulative volume up to each box.
    ends: Vec<f64>,
}

impl<'a> BoxSampler<'a> {
    fn new(boxes: impl Iterator<Item = (&'a Cell, &'a Cell)>) -> Self {
        let boxes: Vec<_> = boxes.collect();
        let mut all = 0.0;
        let mut end = |(low, high): &(&Cell, &Cell)| {
            all += box_volume(low, high);
            all
        };
        let ends = boxes.iter().map(&mut end).collect();
        Self { boxes, ends }
    }

    /// The volume of all boxes.
    fn volume(&self) -> f64 {
        self.ends.last().copied().unwrap_or(0.0)
    }

    /// A random cell of the box at this share of the total volume.
    fn draw(&self, place: f64, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
        let at = place * self.volume();
        let index = self.ends.partition_point(|end| *end < at).min(self.boxes.len() - 1);
        let (low, high) = self.boxes[index];
        random_cell(low, high, free, random)
    }
}
