//! How much of the open volume fits at most: what a search must be sure of before it ends.
//!
//! A search that stops when an estimate first passes a mark stops too early where the estimate is rough: it looks again and again, and the
//! mark is passed by chance. So this one is drawn more carefully than what questions are chosen by, and errs to the safe side.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::guess::{Guess, Votes};
use super::lattice::{Cell, below};
use super::outlook::{Pocket, drawn, span};
use super::view::View;
use crate::fault::Result;

/// Open cells drawn.
const SAMPLES: usize = 1024;
/// The weight of the limits under which no more fits.
const CONFIDENCE: f64 = 0.95;
/// Standard deviations of an estimate from draws that are added to it: one-sided, at 95 % confidence.
const DEVIATIONS: f64 = 1.645;

impl Boundary {
    /// The open volume that fits at most, as far as the guess can be sure of it; none without a guess.
    pub(super) fn most_fitting(&self) -> Result<Option<f64>> {
        let (Some(guess), Some(outlook)) = (self.guess()?, self.outlook()?) else {
            return Ok(None);
        };
        let view = self.view()?;
        let most = || at_most(guess, &self.drawn(guess, view, &outlook.pockets));
        Ok(Some(*view.most.get_or_init(most)))
    }

    /// Cells drawn from the pockets, as what the limits say of them, each with the volume that it stands for; the same ones each time.
    ///
    /// Half are drawn from what is likely to fit and half from all that may, so that neither a long thin corner nor the bulk is
    /// missed; and evenly over the pockets.
    fn drawn(&self, guess: &Guess, view: &View, pockets: &[Pocket]) -> Vec<(f64, Votes)> {
        if pockets.is_empty() {
            return Vec::new();
        }
        let likely = Boxes::new(pockets.iter().map(|pocket| (&pocket.low, &pocket.likely)));
        let all = Boxes::new(pockets.iter().map(|pocket| (&pocket.low, &pocket.farthest)));
        let free = self.lattice.free();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut votes = Vec::new();
        for index in 0..SAMPLES {
            let place = ((index / 2) as f64 + 0.5) / (SAMPLES / 2) as f64;
            let from = if index % 2 == 0 { &likely } else { &all };
            let cell = from.draw(place, &free, &mut random);
            if self.shut(&cell) {
                continue;
            }
            let admitting = guess.votes(&cell);
            if admitting == 0 {
                continue;
            }
            // What some limit admits lies in the pocket of each lowest cell below it: there it is drawn as often.
            let (mut density, mut looked) = (0.0, 0.0);
            for pocket in pockets.iter().filter(|pocket| below(&pocket.low, &cell)) {
                looked += 1.0;
                let more = if below(&cell, &pocket.likely) {
                    likely.density()
                } else {
                    0.0
                };
                density += (more + all.density()) / 2.0;
            }
            // Pockets that are looked at stand for all.
            let held = view.lowest.iter().filter(|low| below(low, &cell)).count() as f64;
            let stands = looked / held * view.lowest.len() as f64 / pockets.len() as f64;
            votes.push((stands / density / SAMPLES as f64, admitting));
        }
        votes
    }
}

/// The most that fits: under limits of so much weight no more does, and the draws may have missed some of it.
fn at_most(guess: &Guess, votes: &[(f64, Votes)]) -> f64 {
    let under = |limit: u32| -> f64 {
        let held = votes.iter().filter(|(_, votes)| votes >> limit & 1 == 1);
        held.map(|(volume, _)| volume).sum()
    };
    let mut fitting: Vec<(f64, f64)> = (0..guess.count())
        .map(|limit| (under(limit), guess.weight(limit)))
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

/// Boxes to draw cells from, each cell of each as likely.
struct Boxes<'a> {
    boxes: Vec<(&'a Cell, &'a Cell)>,
    /// The volume of each and those before it.
    ends: Vec<f64>,
}

impl<'a> Boxes<'a> {
    fn new(boxes: impl Iterator<Item = (&'a Cell, &'a Cell)>) -> Self {
        let boxes: Vec<_> = boxes.collect();
        let mut all = 0.0;
        let mut end = |(low, high): &(&Cell, &Cell)| {
            all += span(low, high);
            all
        };
        let ends = boxes.iter().map(&mut end).collect();
        Self { boxes, ends }
    }

    /// How likely a draw is this cell, for each box that holds it.
    fn density(&self) -> f64 {
        1.0 / self.ends.last().copied().unwrap_or(1.0)
    }

    /// A cell of the box at this share of them all.
    fn draw(&self, place: f64, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
        let at = place * self.ends.last().copied().unwrap_or(0.0);
        let index = self.ends.partition_point(|end| *end < at).min(self.boxes.len() - 1);
        let (low, high) = self.boxes[index];
        drawn(low, high, free, random)
    }
}
