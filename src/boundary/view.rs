//! What the recorded points say together: antichains, corners of the open region, volumes. Brought up to date with each answer,
//! or derived anew; either way the same, so that the order of recording cannot matter.

use std::sync::OnceLock;

use super::corners::{lowest_open, push_back};
use super::guess::Guess;
use super::lattice::{Cell, Lattice, below};
use super::outlook::Outlook;
use super::shadow::{Shadow, largest};
use super::volume::{between, covered};
use crate::fault::{Fault, Kind, Result};

/// Cells on one side beyond which corners and volumes of three axes take too long; for each further axis a tenth.
const MOST_CELLS: usize = 20_000;

/// How the lattice points of the box divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Proven to fit.
    pub fits: u128,
    /// Proven to fail.
    pub fails: u128,
    /// Beyond a length limit, and not failing.
    pub clipped: u128,
    /// Neither.
    pub open: u128,
    /// The whole box.
    pub total: u128,
}

/// What one more answer changes.
#[derive(Debug)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// This cell fits, which nothing contradicts.
    Fits(Cell),
    /// This cell fails, and nothing at or above it fits.
    Fails(Cell),
    /// More than that.
    Other,
}

/// The state of knowledge. All cells are sorted.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The largest fitting cells of the box.
    pub(super) fits: Vec<Cell>,
    /// The smallest failing cells.
    pub(super) fails: Vec<Cell>,
    /// The smallest cells that fail or are beyond a length limit.
    pub(super) walls: Vec<Cell>,
    /// The smallest open cells.
    pub(super) lowest: Vec<Cell>,
    /// The largest open cells.
    pub(super) highest: Vec<Cell>,
    /// How the box divides.
    pub(super) volume: Volume,
    /// The guess that agrees with all this, once it was asked for.
    pub(super) guess: OnceLock<Option<Guess>>,
    /// What that guess says of the open region.
    pub(super) outlook: OnceLock<Option<Outlook>>,
    /// How much of the open volume fits at most, by that guess.
    pub(super) most: OnceLock<f64>,
}

impl View {
    /// `fails` and `clips` are mirrored; clips that a fit contradicts are gone already.
    pub(super) fn new(lattice: &Lattice, fits: &Shadow, fails: &Shadow, clips: &Shadow) -> Result<Self> {
        let inside = |shadow: &Shadow| -> Vec<Cell> { shadow.cells().filter_map(|cell| lattice.clamp(cell)).collect() };
        let (fits, fails, clips) = (largest(inside(fits)), largest(inside(fails)), inside(clips));
        let shut = if clips.is_empty() {
            fails.clone()
        } else {
            largest([fails.clone(), clips].concat())
        };
        affordable(lattice, fits.len().max(shut.len()))?;
        let last = lattice.last();
        let mirrored = |cells: &[Cell]| sorted(cells.iter().map(|cell| lattice.mirror(cell)).collect());
        let (fitting, failing) = (covered(&fits), covered(&fails));
        let clipped = if shut == fails { 0 } else { covered(&shut) - failing };
        let walls = mirrored(&shut);
        let mut lowest = lowest_open(&fits, &last);
        let shutting = shadow(&shut);
        lowest.retain(|cell| !shutting.covers(&lattice.mirror(cell)));
        let mut highest: Vec<Cell> = lowest_open(&shut, &last)
            .iter()
            .map(|cell| lattice.mirror(cell))
            .collect();
        let fitted = shadow(&fits);
        highest.retain(|cell| !fitted.covers(cell));
        let (lowest, highest) = (sorted(lowest), sorted(highest));
        let volume = Volume {
            fits: fitting,
            fails: failing,
            clipped,
            open: lattice.total() - fitting - failing - clipped,
            total: lattice.total(),
        };
        Ok(Self {
            fits,
            fails: mirrored(&fails),
            walls,
            lowest,
            highest,
            volume,
            guess: OnceLock::new(),
            outlook: OnceLock::new(),
            most: OnceLock::new(),
        })
    }

    /// Takes in what one more answer changes, in time that grows with the cells and not with their square. False where that
    /// cannot be, and it must be derived anew.
    pub(super) fn follow(&mut self, lattice: &Lattice, change: Change) -> bool {
        let followed = match change {
            Change::None => return true,
            Change::Fits(cell) => lattice.clamp(&cell).is_none_or(|cell| self.fit(lattice, cell)),
            Change::Fails(cell) => {
                let inside = lattice.clamp(&lattice.mirror(&cell)).map(|cell| lattice.mirror(&cell));
                // What is clipped may fail from now on.
                self.volume.clipped == 0 && inside.is_none_or(|cell| self.fail(lattice, cell))
            }
            Change::Other => false,
        };
        self.guess = OnceLock::new();
        self.outlook = OnceLock::new();
        self.most = OnceLock::new();
        followed && affordable(lattice, self.fits.len().max(self.walls.len())).is_ok()
    }

    fn fit(&mut self, lattice: &Lattice, cell: Cell) -> bool {
        let gained = self.open_below(lattice, &cell, &[]);
        if gained == 0 {
            return true;
        }
        self.volume.fits += gained;
        self.volume.open -= gained;
        self.highest.retain(|high| !below(high, &cell));
        let corners = push_back(&mut self.lowest, &cell, &lattice.last());
        for corner in outside(corners, &self.walls) {
            insert(&mut self.lowest, corner);
        }
        self.fits.retain(|kept| !below(kept, &cell));
        insert(&mut self.fits, cell);
        true
    }

    fn fail(&mut self, lattice: &Lattice, cell: Cell) -> bool {
        let gained = self.open_above(lattice, &cell, &[]);
        if gained == 0 {
            return true;
        }
        self.volume.fails += gained;
        self.volume.open -= gained;
        self.lowest.retain(|low| !below(&cell, low));
        let mut mirrored: Vec<Cell> = self.highest.iter().map(|cell| lattice.mirror(cell)).collect();
        let corners = push_back(&mut mirrored, &lattice.mirror(&cell), &lattice.last());
        self.highest.retain(|high| !below(&cell, high));
        for corner in corners.iter().map(|corner| lattice.mirror(corner)) {
            if !self.fits.iter().any(|fit| below(&corner, fit)) {
                insert(&mut self.highest, corner);
            }
        }
        for cells in [&mut self.fails, &mut self.walls] {
            cells.retain(|kept| !below(&cell, kept));
            insert(cells, cell.clone());
        }
        true
    }

    /// Open lattice points at or below a cell that is open or fits, and not below any of `chosen`.
    pub(super) fn open_below(&self, lattice: &Lattice, cell: &Cell, chosen: &[Cell]) -> u128 {
        let mut lows: Vec<Cell> = self.lowest.iter().filter(|low| below(low, cell)).cloned().collect();
        for other in chosen {
            let corners = push_back(&mut lows, other, &lattice.last());
            lows.extend(corners);
        }
        between(lows.iter().filter(|low| below(low, cell)), cell)
    }

    /// Open lattice points at or above a cell that is open or fails, and not above any of `chosen`.
    pub(super) fn open_above(&self, lattice: &Lattice, cell: &Cell, chosen: &[Cell]) -> u128 {
        let highs = self.highest.iter().filter(|high| below(cell, high));
        let mut lows: Vec<Cell> = highs.map(|high| lattice.mirror(high)).collect();
        for other in chosen {
            let corners = push_back(&mut lows, &lattice.mirror(other), &lattice.last());
            lows.extend(corners);
        }
        let cell = lattice.mirror(cell);
        between(lows.iter().filter(|low| below(low, &cell)), &cell)
    }

    /// The share of the fitting volume that is proven to fit.
    ///
    /// How much of the open volume fits is not known. With the boundary anywhere in each open pocket with equal chance, half
    /// of it does, with a standard deviation of 1/√12 of a pocket; the upper end of that at 95 % confidence is taken
    /// (½ + 1.645/√12/√pockets). With one pocket that is nearly all of it; with twenty, 61 %.
    pub(super) fn coverage(&self) -> f64 {
        if self.volume.open == 0 {
            return 1.0;
        }
        let fits = self.volume.fits as f64;
        fits / (fits + self.may_fit())
    }

    /// The open volume that counts as fitting: see [`View::coverage`].
    pub(super) fn may_fit(&self) -> f64 {
        let pockets = self.lowest.len().min(self.highest.len()).max(1) as f64;
        let share = (0.5 + 0.475 / pockets.sqrt()).min(1.0);
        share * self.volume.open as f64
    }
}

/// What antichain cells cover.
fn shadow(cells: &[Cell]) -> Shadow {
    let mut shadow = Shadow::default();
    for cell in cells {
        shadow.add(cell.clone());
    }
    shadow
}

fn sorted(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_unstable();
    cells
}

/// Puts a cell where it belongs among sorted ones.
fn insert(cells: &mut Vec<Cell>, cell: Cell) {
    let at = cells.partition_point(|other| *other < cell);
    cells.insert(at, cell);
}

/// The cells that none of `walls` lies at or below.
fn outside(cells: Vec<Cell>, walls: &[Cell]) -> Vec<Cell> {
    cells
        .into_iter()
        .filter(|cell| !walls.iter().any(|wall| below(wall, cell)))
        .collect()
}

fn affordable(lattice: &Lattice, cells: usize) -> Result<()> {
    let axes = lattice.axes().len();
    let most = match axes {
        1 | 2 => return Ok(()),
        _ => MOST_CELLS / 10usize.pow(u32::try_from(axes - 3).unwrap_or(u32::MAX).min(4)),
    };
    if cells <= most {
        return Ok(());
    }
    Err(Fault::new(
        Kind::Limit,
        format!("a frontier of {cells} points over {axes} axes has too many corners to refine or measure"),
    )
    .hint(format!(
        "up to {most} are handled; `record` and `classify` go on working"
    )))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Answer, Boundary, Options, Point};

    proptest! {
        #[test]
        fn following_answers_tells_the_same_as_deriving_anew(
            axes in 1usize..=4,
            answers in prop::collection::vec((prop::collection::vec(0i64..8, 4), 0usize..10), 1..40),
            most in 2i64..20,
            looked in 0usize..4,
        ) {
            let names = ["a", "b", "c", "d"];
            let ranges = names.iter().take(axes).map(|name| ((*name).to_owned(), json!([1, 6])));
            let empty = || Boundary::new(&ranges.clone().collect(), Options::default()).unwrap();
            let (mut followed, mut anew) = (empty(), empty());
            for (index, (at, kind)) in answers.iter().enumerate() {
                let point = names.iter().zip(at).take(axes).fold(Point::default(), |point, (name, at)| point.with(name, *at));
                let fits = at[..axes].iter().sum::<i64>() <= most;
                // Some answers are wrong, and some points lie beyond a length limit or outside of the box.
                let answer = match (kind, fits) {
                    (0, _) => json!({ "verdict": "refused", "cause": "length_limit" }),
                    (1, true) | (2.., false) => json!("oom"),
                    _ => json!("ok"),
                };
                for map in [&mut followed, &mut anew] {
                    map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
                }
                if index % 4 >= looked {
                    followed.view().unwrap();
                }
            }
            let (one, other) = (followed.view().unwrap(), anew.view().unwrap());
            prop_assert_eq!(one.volume, other.volume);
            prop_assert_eq!([&one.fits, &one.fails, &one.walls], [&other.fits, &other.fails, &other.walls]);
            prop_assert_eq!([&one.lowest, &one.highest], [&other.lowest, &other.highest]);
        }
    }
}
