//! An upper bound of the open volume that fits, which decides when a search may stop.
//!
//! A search that stops when a rough estimate first passes a threshold stops too early: it checks repeatedly, and the
//! threshold is passed by chance. This estimate therefore uses more samples than the one for choosing points, and
//! errs on the safe side.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::lattice::{Cell, below};
use super::open_region::{OpenBox, box_volume, random_cell};
use super::version_space::{HypothesisSet, VersionSpace};
use super::view::View;
use crate::fault::Result;

/// Random open cells.
const SAMPLES: usize = 1024;
/// The weight of the hypotheses under which no more fits.
const CONFIDENCE: f64 = 0.95;
/// Standard deviations of the sampling error that are added: one-sided, at 95 % confidence.
const DEVIATIONS: f64 = 1.645;

impl Boundary {
    /// The most open volume that fits at 95 % confidence; `None` without hypotheses.
    pub(super) fn fitting_upper_bound(&self) -> Result<Option<f64>> {
        let (Some(hypotheses), Some(open_region)) = (self.hypotheses()?, self.open_region()?) else {
            return Ok(None);
        };
        let view = self.view()?;
        let most = || at_most(hypotheses, &self.sample_votes(hypotheses, view, &open_region.boxes));
        Ok(Some(*view.fitting_upper_bound.get_or_init(most)))
    }

    /// The votes at random cells of the boxes, each with the volume that the cell represents. The seed is fixed, so
    /// the result is deterministic.
    ///
    /// Half of the cells are drawn from what is likely to fit and half from all that may fit, so that neither a long
    /// thin corner nor the bulk is missed.
    fn sample_votes(&self, hypotheses: &VersionSpace, view: &View, boxes: &[OpenBox]) -> Vec<(f64, HypothesisSet)> {
        if boxes.is_empty() {
            return Vec::new();
        }
        let likely = BoxSampler::new(boxes.iter().map(|open_box| (&open_box.low, &open_box.likely)));
        let all = BoxSampler::new(boxes.iter().map(|open_box| (&open_box.low, &open_box.farthest)));
        let free = self.lattice.free();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut votes = Vec::new();
        for index in 0..SAMPLES {
            let place = ((index / 2) as f64 + 0.5) / (SAMPLES / 2) as f64;
            let from = if index % 2 == 0 { &likely } else { &all };
            let cell = from.draw(place, &free, &mut random);
            if self.is_excluded(&cell) {
                continue;
            }
            let admitting = hypotheses.votes(&cell);
            if admitting == 0 {
                continue;
            }
            // If any hypothesis admits the cell, it lies in the box of each lowest open cell below it, and may be
            // drawn from each.
            let (mut density, mut sampled_boxes) = (0.0, 0.0);
            for open_box in boxes.iter().filter(|open_box| below(&open_box.low, &cell)) {
                sampled_boxes += 1.0;
                let more = if below(&cell, &open_box.likely) {
                    likely.density()
                } else {
                    0.0
                };
                density += (more + all.density()) / 2.0;
            }
            // The boxes considered represent all boxes.
            let held = view.lowest.iter().filter(|low| below(low, &cell)).count() as f64;
            let stands = sampled_boxes / held * view.lowest.len() as f64 / boxes.len() as f64;
            votes.push((stands / density / SAMPLES as f64, admitting));
        }
        votes
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

    /// The probability of drawing a given cell from one box that contains it.
    fn density(&self) -> f64 {
        1.0 / self.ends.last().copied().unwrap_or(1.0)
    }

    /// A random cell of the box at this share of the total volume.
    fn draw(&self, place: f64, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
        let at = place * self.ends.last().copied().unwrap_or(0.0);
        let index = self.ends.partition_point(|end| *end < at).min(self.boxes.len() - 1);
        let (low, high) = self.boxes[index];
        random_cell(low, high, free, random)
    }
}
