//! The next points where there is a guess: those that prove most of the fitting volume soon.
//!
//! A question is worth the volume that it is expected to prove fitting, and what its answer is expected to take from the
//! disputed volume, which later questions then need not miss. Volume proven failing has no worth of its own.

use super::Boundary;
use super::guess::Guess;
use super::lattice::{Cell, below};
use super::outlook::{Pocket, span, spread};
use super::refine::apart;
use super::view::View;
use crate::fault::Result;

/// Pairs of a lowest and a highest open cell that are looked at.
const PAIRS: usize = 1 << 17;
/// Of these, lowest ones.
const MOST_LOWS: usize = 128;
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

/// Failures in a row after which limits have promised too much: from then on a question is only asked that so many of them admit.
const FAILURES: usize = 4;
const CAREFUL: f64 = 0.35;

/// An open box: from a lowest open cell to a highest one.
struct Open<'a> {
    volume: f64,
    low: &'a Cell,
    high: &'a Cell,
}

impl Boundary {
    /// Up to `count` cells to ask, best first; none without a guess, or where it sees little left to prove.
    pub(super) fn guided(&self, count: usize) -> Result<Vec<Cell>> {
        let view = self.view()?;
        let (Some(guess), Some(outlook)) = (self.guess()?, self.outlook()?) else {
            return Ok(Vec::new());
        };
        let boxes = open_boxes(view);
        let (disputed, all) = (outlook.disputed(), view.volume.fits as f64 + outlook.fitting());
        let mut candidates = self.explored(guess, &boxes);
        candidates.extend(promising(guess, view, &outlook.pockets, &self.lattice.free()));
        let stretched = |(least, cell): (f64, Cell)| guess.stretched(cell).into_iter().map(move |cell| (least, cell));
        let mut candidates: Vec<(f64, Cell)> = candidates.into_iter().flat_map(stretched).collect();
        candidates.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.total_cmp(&a.0)));
        candidates.dedup_by(|a, b| a.1 == b.1);
        let mut rated: Vec<(f64, f64, Cell)> = Vec::new();
        for (least, cell) in candidates {
            if self.askable(&cell) {
                let votes = guess.votes(&cell);
                let told = disputed - outlook.disputed_after(votes);
                rated.push((outlook.chance(votes) * least + told, told, cell));
            }
        }
        if self.last_failures() >= FAILURES {
            let careful = |cell: &Cell| outlook.chance(guess.votes(cell)) >= CAREFUL;
            if rated.iter().any(|(_, _, cell)| careful(cell)) {
                rated.retain(|(_, _, cell)| careful(cell));
            }
        }
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
        rated.truncate(EXACTLY.max(2 * count));
        for (worth, told, cell) in &mut rated {
            let down = view.open_below(&self.lattice, cell, &[]) as f64;
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

    /// Cells in the largest open boxes: the middle, and where chances change on ways through the box and along its faces. With each
    /// cell, a volume that it would prove at least.
    fn explored(&self, guess: &Guess, boxes: &[Open]) -> Vec<(f64, Cell)> {
        let mut cells = Vec::new();
        for open in boxes.iter().take(BOXES / self.lattice.free().len().max(1)) {
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
}

/// Cells in the pockets where most is expected to fit: from the lowest open cell in several directions, as far as is likely.
fn promising(guess: &Guess, view: &View, pockets: &[Pocket], free: &[usize]) -> Vec<(f64, Cell)> {
    let mut sorted: Vec<(f64, &Pocket)> = pockets
        .iter()
        .map(|pocket| (span(&pocket.low, &pocket.likely), pocket))
        .collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut cells = Vec::new();
    for (_, Pocket { low, likely, .. }) in sorted.into_iter().take(CLOSELY / free.len().max(1)) {
        let excess = guess.excess(view.walls.iter().filter(|wall| below(low, wall)));
        for way in ways(low.len(), free) {
            let sides = low.iter().zip(likely).zip(&way);
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
    let lows = (PAIRS / view.highest.len().max(1)).clamp(1, MOST_LOWS);
    let mut boxes: Vec<Open> = Vec::new();
    for low in spread(&view.lowest, lows) {
        for high in view.highest.iter().filter(|high| below(low, high)) {
            let volume = span(low, high);
            boxes.push(Open { volume, low, high });
        }
    }
    boxes.sort_by(|a, b| b.volume.total_cmp(&a.volume));
    boxes
}

/// How far along a way the chance is still this high, of reaches that fall.
pub(super) fn at_chance(reaches: &[f64], chance: f64) -> f64 {
    let needed = (chance * reaches.len() as f64).ceil().max(1.0);
    reaches.get(needed as usize - 1).copied().unwrap_or(0.0)
}

/// The last cell at this share of a way.
pub(super) fn along(from: &Cell, to: &Cell, share: f64) -> Cell {
    from.iter()
        .zip(to)
        .map(|(from, to)| between(*from, *to, share))
        .collect()
}

/// The last step at this share of the way from one to another.
pub(super) fn between(from: i64, to: i64, share: f64) -> i64 {
    let steps = ((to - from) as f64 * share.clamp(0.0, 1.0) + 1e-7).floor() as i64;
    from + steps
}

/// Ways through the middle of a box and along each of its faces.
pub(super) fn faces(low: &Cell, high: &Cell) -> Vec<(Cell, Cell)> {
    let pinned = |axis: usize, at: i64| {
        let (mut from, mut to) = (low.clone(), high.clone());
        (from[axis], to[axis]) = (at, at);
        (from, to)
    };
    let wide = (0..low.len()).filter(|axis| low[*axis] < high[*axis]);
    let faces = wide.flat_map(|axis| [pinned(axis, low[axis]), pinned(axis, high[axis])]);
    std::iter::once((low.clone(), high.clone())).chain(faces).collect()
}

/// Directions from a corner, in shares of the extent on each axis, of which some are free.
fn ways(axes: usize, free: &[usize]) -> Vec<Vec<f64>> {
    let mut ways = vec![vec![1.0; axes]];
    for axis in free {
        for share in [0.75, 0.5, 0.25, 0.0] {
            let mut way = vec![1.0; axes];
            way[*axis] = share;
            ways.push(way);
        }
    }
    ways
}
