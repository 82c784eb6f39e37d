//! The next points where there is a guess: those that prove most of the fitting volume soon.
//!
//! A question is worth the volume that it is expected to prove fitting, and what its answer is expected to take from the
//! disputed volume, which later questions then need not miss. Volume proven failing has no worth of its own.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::Boundary;
use super::guess::{Guess, Votes};
use super::lattice::{Cell, below};
use super::refine::apart;
use super::view::View;
use super::volume::left_below;
use crate::fault::Result;

/// Open cells drawn to estimate volumes by.
const SAMPLES: usize = 512;
/// Lowest and highest open cells that are looked at.
const CORNERS: usize = 128;
/// Pockets, and open boxes, looked at closely; fewer the more axes there are, by as much.
const CLOSELY: usize = 24;
const BOXES: usize = 8;
/// The most promising cells of pockets.
const PROMISING: usize = 128;
/// Candidates whose volume is counted exactly.
const EXACTLY: usize = 32;
/// Chances of fitting at which a pocket is asked, and at which a box is explored.
const LIKELY: [f64; 6] = [1.0, 0.97, 0.93, 0.85, 0.7, 0.5];
const CHANCES: [f64; 5] = [0.95, 0.8, 0.5, 0.2, 0.05];
/// The least expected gain, as a share of the fitting volume, for which a guess is followed.
const LEAST: f64 = 1e-4;
/// The same for a question that hardly any limit admits.
const HOPE: f64 = 2e-3;

/// An open box: from a lowest open cell to a highest one.
struct Open<'a> {
    volume: f64,
    low: &'a Cell,
    high: &'a Cell,
}

/// What may fit from a lowest open cell on: up to the cell that some limit reaches on each axis.
struct Pocket<'a> {
    low: &'a Cell,
    /// As far as half of the limits reach, and as far as any does.
    likely: Cell,
    farthest: Cell,
}

/// What the guess says of the open region as a whole.
struct Outlook {
    /// Cells drawn, as what the limits say of them, each with the volume that it stands for.
    votes: Vec<(f64, Votes)>,
    /// Limits that vote.
    count: f64,
}

impl Outlook {
    /// How likely a cell with these votes fits.
    fn chance(&self, votes: Votes) -> f64 {
        f64::from(votes.count_ones()) / self.count
    }

    /// The volume expected to fit.
    fn fitting(&self) -> f64 {
        self.votes
            .iter()
            .map(|(volume, votes)| volume * self.chance(*votes))
            .sum()
    }

    /// The most that fits under any limit.
    fn fitting_at_most(&self, limits: u32) -> f64 {
        let under = |limit: u32| -> f64 {
            let held = self.votes.iter().filter(|(_, votes)| votes >> limit & 1 == 1);
            held.map(|(volume, _)| volume).sum()
        };
        (0..limits).map(under).fold(0.0, f64::max)
    }

    /// The volume, on average, of which limits think otherwise than most.
    fn disputed(&self) -> f64 {
        let apart = |chance: f64| chance * (1.0 - chance);
        self.votes
            .iter()
            .map(|(volume, votes)| volume * apart(self.chance(*votes)))
            .sum()
    }

    /// How much of that is left, on average, when the limits are known under which a cell with these votes fits, or those
    /// under which it does not.
    fn disputed_after(&self, asked: Votes) -> f64 {
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
    /// Up to `count` cells to ask, best first; none without a guess, or where it sees little left to prove.
    pub(super) fn guided(&self, count: usize) -> Result<Vec<Cell>> {
        let view = self.view()?;
        let Some(guess) = self.guess()? else {
            return Ok(Vec::new());
        };
        let boxes = open_boxes(view);
        let pockets = self.pockets(guess, view);
        let outlook = self.outlook(guess, view, &pockets);
        let (disputed, all) = (outlook.disputed(), view.volume.fits as f64 + outlook.fitting());
        let mut candidates = self.explored(guess, &boxes);
        candidates.extend(promising(guess, view, &pockets));
        candidates.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.total_cmp(&a.0)));
        candidates.dedup_by(|a, b| a.1 == b.1);
        let mut rated: Vec<(f64, f64, Cell)> = Vec::new();
        for (least, cell) in candidates {
            if self.askable(&cell)? {
                let votes = guess.votes(&cell);
                let told = disputed - outlook.disputed_after(votes);
                rated.push((outlook.chance(votes) * least + told, told, cell));
            }
        }
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
        rated.truncate(EXACTLY.max(2 * count));
        for (worth, told, cell) in &mut rated {
            let down = left_below(cell, view.fits.iter()) as f64;
            *worth = outlook.chance(guess.votes(cell)) * down + *told;
        }
        rated.retain(|(worth, _, cell)| *worth >= HOPE * all || outlook.chance(guess.votes(cell)) >= 0.2);
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
        if rated.first().is_none_or(|(worth, ..)| *worth < LEAST * all) {
            return Ok(Vec::new());
        }
        let mut chosen: Vec<Cell> = Vec::new();
        for (_, _, cell) in rated {
            if chosen.len() < count && chosen.iter().all(|other| apart(other, &cell)) {
                chosen.push(cell);
            }
        }
        Ok(chosen)
    }

    /// The open volume that fits under the limit that admits most of it; none without a guess.
    pub(super) fn most_fitting(&self) -> Result<Option<f64>> {
        let view = self.view()?;
        if let Some(known) = view.most_fitting.get() {
            return Ok(*known);
        }
        let most = self.guess()?.map(|guess| {
            let outlook = self.outlook(guess, view, &self.pockets(guess, view));
            outlook.fitting_at_most(guess.count())
        });
        Ok(*view.most_fitting.get_or_init(|| most))
    }

    /// Cells in the largest open boxes: the middle, and where chances change on ways through the box and along its faces. With each
    /// cell, a volume that it would prove at least.
    fn explored(&self, guess: &Guess, boxes: &[Open]) -> Vec<(f64, Cell)> {
        let mut cells = Vec::new();
        for open in boxes.iter().take(BOXES / self.lattice.axes().len()) {
            let axes = self.lattice.axes().iter().enumerate();
            let middle: Cell = axes
                .map(|(index, axis)| axis.middle(open.low[index], open.high[index]))
                .collect();
            cells.push((span(open.low, &middle), middle));
            for (from, to) in faces(open.low, open.high) {
                let reaches = guess.reaches(&from, &to, &[]);
                for chance in CHANCES {
                    let last = along(&from, &to, at_chance(&reaches, chance));
                    let beyond: Cell = last.iter().zip(&to).map(|(at, to)| (at + 1).min(*to)).collect();
                    cells.extend([(span(open.low, &last), last), (span(open.low, &beyond), beyond)]);
                }
            }
        }
        cells
    }

    /// The pockets that are looked at.
    fn pockets<'a>(&self, guess: &Guess, view: &'a View) -> Vec<Pocket<'a>> {
        let last = self.lattice.last();
        let pocket = |low: &'a Cell| {
            let (mut likely, mut farthest) = (low.clone(), low.clone());
            for (axis, end) in last.iter().enumerate() {
                let mut to = low.clone();
                to[axis] = *end;
                let (most, half) = guess.extent(low, &to);
                likely[axis] = along(low, &to, half)[axis];
                farthest[axis] = along(low, &to, most)[axis];
            }
            Pocket { low, likely, farthest }
        };
        spread(&view.lowest).map(pocket).collect()
    }

    /// Cells drawn from the pockets, the same ones each time, and what the limits say of them.
    fn outlook(&self, guess: &Guess, view: &View, pockets: &[Pocket]) -> Outlook {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut all = 0.0;
        let ends: Vec<f64> = pockets
            .iter()
            .map(|pocket| {
                all += span(pocket.low, &pocket.farthest);
                all
            })
            .collect();
        let mut votes = Vec::new();
        for _ in 0..SAMPLES {
            let at = random.random::<f64>() * all;
            let Some(pocket) = pockets.get(ends.partition_point(|end| *end < at)) else {
                continue;
            };
            let sides = pocket.low.iter().zip(&pocket.farthest);
            let cell: Cell = sides.map(|(low, high)| random.random_range(*low..=*high)).collect();
            if view.walls.iter().any(|wall| below(wall, &cell)) {
                continue;
            }
            // A cell of several pockets is drawn as often.
            let holding = pockets
                .iter()
                .filter(|pocket| below(pocket.low, &cell) && below(&cell, &pocket.farthest));
            votes.push((all / SAMPLES as f64 / holding.count() as f64, guess.votes(&cell)));
        }
        Outlook {
            count: f64::from(guess.count()),
            votes,
        }
    }
}

/// Cells in the pockets where most is expected to fit: from the lowest open cell in several directions, as far as is likely.
fn promising(guess: &Guess, view: &View, pockets: &[Pocket]) -> Vec<(f64, Cell)> {
    let axes = pockets.first().map_or(1, |pocket| pocket.low.len());
    let mut sorted: Vec<(f64, &Pocket)> = pockets
        .iter()
        .map(|pocket| (span(pocket.low, &pocket.likely), pocket))
        .collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut cells = Vec::new();
    for (_, Pocket { low, likely, .. }) in sorted.into_iter().take(CLOSELY / axes) {
        let excess = guess.excess(view.walls.iter().filter(|wall| below(low, wall)));
        for way in ways(low.len()) {
            let sides = low.iter().zip(likely).zip(&way);
            #[expect(clippy::cast_possible_truncation, reason = "within the box")]
            let to: Cell = sides
                .map(|((low, high), share)| low + ((high - low) as f64 * share).round() as i64)
                .collect();
            let reaches = guess.reaches(low, &to, &excess);
            for chance in LIKELY {
                let cell = along(low, &to, at_chance(&reaches, chance));
                cells.push((chance, span(low, &cell), cell));
            }
        }
    }
    cells.sort_by(|a, b| (b.0 * b.1).total_cmp(&(a.0 * a.1)).then_with(|| a.2.cmp(&b.2)));
    cells.truncate(PROMISING);
    cells.into_iter().map(|(_, least, cell)| (least, cell)).collect()
}

/// The open boxes between the corners that are looked at, largest first.
fn open_boxes(view: &View) -> Vec<Open<'_>> {
    let mut boxes: Vec<Open> = Vec::new();
    for low in spread(&view.lowest) {
        for high in spread(&view.highest).filter(|high| below(low, high)) {
            let volume = span(low, high);
            boxes.push(Open { volume, low, high });
        }
    }
    boxes.sort_by(|a, b| b.volume.total_cmp(&a.volume));
    boxes
}

/// All of the cells, or as many evenly taken as are looked at.
fn spread(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    cells.iter().step_by(cells.len().div_ceil(CORNERS).max(1))
}

/// Cells from `low` to `high`.
fn span(low: &Cell, high: &Cell) -> f64 {
    let sides = low.iter().zip(high).map(|(low, high)| (high - low + 1).max(0) as f64);
    sides.product()
}

/// How far along a way the chance is still this high, of reaches that fall.
pub(super) fn at_chance(reaches: &[f64], chance: f64) -> f64 {
    let needed = (chance * reaches.len() as f64).ceil().max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    reaches.get(needed as usize - 1).copied().unwrap_or(0.0)
}

/// The last cell at this share of a way.
pub(super) fn along(from: &Cell, to: &Cell, share: f64) -> Cell {
    let share = share.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, reason = "within the box")]
    from.iter()
        .zip(to)
        .map(|(from, to)| from + ((to - from) as f64 * share + 1e-7).floor() as i64)
        .collect()
}

/// Ways through the middle of a box and along each of its faces.
pub(super) fn faces(low: &Cell, high: &Cell) -> Vec<(Cell, Cell)> {
    let pinned = |axis: usize, at: i64| {
        let (mut from, mut to) = (low.clone(), high.clone());
        (from[axis], to[axis]) = (at, at);
        (from, to)
    };
    let faces = (0..low.len()).flat_map(|axis| [pinned(axis, low[axis]), pinned(axis, high[axis])]);
    std::iter::once((low.clone(), high.clone())).chain(faces).collect()
}

/// Directions from a corner, in shares of the extent on each axis.
fn ways(axes: usize) -> Vec<Vec<f64>> {
    let mut ways = vec![vec![1.0; axes]];
    for axis in 0..axes {
        for share in [0.75, 0.5, 0.25, 0.0] {
            let mut way = vec![1.0; axes];
            way[axis] = share;
            ways.push(way);
        }
    }
    ways
}
