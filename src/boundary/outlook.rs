//! What the limits of a guess say of the open region as a whole, from cells drawn in it.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::choose::along;
use super::guess::{Guess, Votes};
use super::lattice::{Cell, below};
use super::view::View;
use crate::fault::Result;

/// Open cells drawn to estimate volumes by.
const SAMPLES: usize = 512;
/// Lowest open cells that are looked at.
const POCKETS: usize = 128;

/// What may fit from a lowest open cell on: up to the cell that some limit reaches on each axis.
#[derive(Clone, Debug)]
pub(super) struct Pocket {
    pub(super) low: Cell,
    /// As far as half of the limits reach, and as far as any does.
    pub(super) likely: Cell,
    pub(super) farthest: Cell,
}

/// What the guess says of the open region as a whole.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    /// The pockets that are looked at.
    pub(super) pockets: Vec<Pocket>,
    /// Cells drawn, as what the limits say of them, each with the volume that it stands for.
    votes: Vec<(f64, Votes)>,
    /// Limits that vote.
    count: f64,
}

impl Outlook {
    /// How likely a cell with these votes fits.
    pub(super) fn chance(&self, votes: Votes) -> f64 {
        f64::from(votes.count_ones()) / self.count
    }

    /// The volume expected to fit.
    pub(super) fn fitting(&self) -> f64 {
        self.votes
            .iter()
            .map(|(volume, votes)| volume * self.chance(*votes))
            .sum()
    }

    /// The volume, on average, of which limits think otherwise than most.
    pub(super) fn disputed(&self) -> f64 {
        let apart = |chance: f64| chance * (1.0 - chance);
        self.votes
            .iter()
            .map(|(volume, votes)| volume * apart(self.chance(*votes)))
            .sum()
    }

    /// How much of that is left, on average, when the limits are known under which a cell with these votes fits, or those
    /// under which it does not.
    pub(super) fn disputed_after(&self, asked: Votes) -> f64 {
        let yes = f64::from(asked.count_ones());
        let no = self.count - yes;
        let left = |both: u32, of: f64| {
            let both = f64::from(both);
            if of > 0.0 { both - both * both / of } else { 0.0 }
        };
        let sum: f64 = self
            .votes
            .iter()
            .map(|(volume, votes)| {
                volume * (left((votes & asked).count_ones(), yes) + left((votes & !asked).count_ones(), no))
            })
            .sum();
        sum / self.count
    }
}

impl Boundary {
    /// What the guess says of the open region; none without a guess.
    pub(super) fn outlook(&self) -> Result<Option<&Outlook>> {
        let view = self.view()?;
        let guess = self.guess()?;
        let outlook = || guess.map(|guess| self.look(guess, view));
        Ok(view.outlook.get_or_init(outlook).as_ref())
    }

    /// The pockets that are looked at, and cells drawn from them, the same ones each time.
    fn look(&self, guess: &Guess, view: &View) -> Outlook {
        let (last, free) = (self.lattice.last(), self.lattice.free());
        let pockets: Vec<Pocket> = spread(&view.lowest, POCKETS)
            .map(|low| Pocket::new(low, &last, guess))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut all = 0.0;
        let ends: Vec<f64> = pockets
            .iter()
            .map(|pocket| {
                all += span(&pocket.low, &pocket.farthest);
                all
            })
            .collect();
        // Those that are looked at stand for all.
        all *= view.lowest.len() as f64 / pockets.len() as f64;
        let mut votes = Vec::new();
        for _ in 0..SAMPLES {
            let at = random.random::<f64>() * ends.last().copied().unwrap_or(0.0);
            let Some(pocket) = pockets.get(ends.partition_point(|end| *end < at)) else {
                continue;
            };
            let cell = drawn(&pocket.low, &pocket.farthest, &free, &mut random);
            if self.shut(&cell) {
                continue;
            }
            let admitting = guess.votes(&cell);
            if admitting == 0 {
                continue;
            }
            // A cell of several pockets is drawn as often: what some limit admits lies in the pocket of each lowest cell below it.
            let holding = view.lowest.iter().filter(|low| below(low, &cell)).count();
            votes.push((all / SAMPLES as f64 / holding as f64, admitting));
        }
        Outlook {
            pockets,
            count: f64::from(guess.count()),
            votes,
        }
    }
}

impl Pocket {
    fn new(low: &Cell, last: &Cell, guess: &Guess) -> Self {
        let (mut likely, mut farthest) = (low.clone(), low.clone());
        for (axis, end) in last.iter().enumerate() {
            let mut to = low.clone();
            to[axis] = *end;
            let (most, half) = guess.extent(low, &to);
            likely[axis] = along(low, &to, half)[axis];
            farthest[axis] = along(low, &to, most)[axis];
        }
        Self {
            low: low.clone(),
            likely,
            farthest,
        }
    }
}

/// All of the cells, or this many, evenly taken.
pub(super) fn spread(cells: &[Cell], most: usize) -> impl Iterator<Item = &Cell> {
    cells.iter().step_by(cells.len().div_ceil(most).max(1))
}

/// A cell from `low` to `high`, which differ on free axes at most.
pub(super) fn drawn(low: &Cell, high: &Cell, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
    let mut cell = low.clone();
    for axis in free {
        cell[*axis] = random.random_range(low[*axis]..=high[*axis]);
    }
    cell
}

/// Cells from `low` to `high`.
pub(super) fn span(low: &Cell, high: &Cell) -> f64 {
    let sides = low.iter().zip(high).map(|(low, high)| (high - low + 1).max(0) as f64);
    sides.product()
}
