//! Everything derived from the recorded points: maximal and minimal cells, corners of the open region, volumes.
//!
//! It is updated with each answer or derived anew. Both give the same result, so the order of recording does not
//! matter.

use super::dominance::{DominatedSet, lowest_open, maximal, replace_covered};
use super::lattice::{Cell, Lattice, below};
use super::volume::{between, covered};
use crate::error::{Error, Result};

/// With three axes, more cells per side make corners and volumes too slow. Each further axis divides this number by
/// ten.
const MOST_CELLS: usize = 20_000;

/// The division of the search range, in lattice points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Proven to fit.
    pub fits: u128,
    /// Proven to fail.
    pub fails: u128,
    /// Ruled out by the engine's own report, and not sent.
    pub not_sent: u128,
    /// Beyond a length limit, and not in the classes above.
    pub clipped: u128,
    /// In none of the classes above.
    pub open: u128,
    /// The sum of all.
    pub total: u128,
}

/// The effect of one more answer on the view.
#[derive(Debug)]
pub(super) enum Change {
    None,
    /// This cell fits, and nothing contradicts it.
    Fits(Cell),
    /// This cell fails, and nothing at or above it fits.
    Fails(Cell),
    /// A larger change: derive the view anew.
    Rebuild,
}

/// Everything derived from the recorded points. All cells are sorted.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The maximal fitting cells of the search range.
    pub(super) fits: Vec<Cell>,
    /// The minimal failing cells.
    pub(super) fails: Vec<Cell>,
    /// The minimal cells that fail or that the engine's report rules out.
    pub(super) bounding: Vec<Cell>,
    /// The minimal cells that bound the search or lie beyond a length limit.
    pub(super) excluded: Vec<Cell>,
    /// The minimal open cells.
    pub(super) lowest: Vec<Cell>,
    /// The maximal open cells.
    pub(super) highest: Vec<Cell>,
    pub(super) volume: Volume,
}

impl View {
    /// `fails`, `ruled_out` and `clips` are mirrored. No fitting cell contradicts a cell of the last two.
    pub(super) fn new(
        lattice: &Lattice,
        fits: &DominatedSet,
        fails: &DominatedSet,
        ruled_out: &DominatedSet,
        clips: &DominatedSet,
    ) -> Result<Self> {
        let inside =
            |shadow: &DominatedSet| -> Vec<Cell> { shadow.cells().filter_map(|cell| lattice.clamp(cell)).collect() };
        let (fits, fails) = (maximal(inside(fits)), maximal(inside(fails)));
        let with = |cells: &[Cell], more: Vec<Cell>| {
            if more.is_empty() {
                cells.to_vec()
            } else {
                maximal([cells.to_vec(), more].concat())
            }
        };
        let bounding = with(&fails, inside(ruled_out));
        let blocked = with(&bounding, inside(clips));
        affordable(lattice, fits.len().max(blocked.len()))?;
        let last = lattice.last();
        let mirrored = |cells: &[Cell]| sorted(cells.iter().map(|cell| lattice.mirror(cell)).collect());
        let (fitting, failing) = (covered(&fits), covered(&fails));
        let more = |cells: &[Cell], than: &[Cell]| {
            if cells == than {
                0
            } else {
                covered(cells) - covered(than)
            }
        };
        let (not_sent, clipped) = (more(&bounding, &fails), more(&blocked, &bounding));
        let excluded = mirrored(&blocked);
        let mut lowest = lowest_open(&fits, &last);
        let blocked_set = dominated_by(&blocked);
        lowest.retain(|cell| !blocked_set.covers(&lattice.mirror(cell)));
        let mut highest: Vec<Cell> = lowest_open(&blocked, &last)
            .iter()
            .map(|cell| lattice.mirror(cell))
            .collect();
        let fitted = dominated_by(&fits);
        highest.retain(|cell| !fitted.covers(cell));
        let (lowest, highest) = (sorted(lowest), sorted(highest));
        let volume = Volume {
            fits: fitting,
            fails: failing,
            not_sent,
            clipped,
            open: lattice.total() - fitting - failing - not_sent - clipped,
            total: lattice.total(),
        };
        Ok(Self {
            fits,
            fails: mirrored(&fails),
            bounding: mirrored(&bounding),
            excluded,
            lowest,
            highest,
            volume,
        })
    }

    /// Applies one more answer, in time linear in the number of cells. Returns false if that is not possible and the
    /// view must be derived anew.
    pub(super) fn update(&mut self, lattice: &Lattice, change: Change) -> bool {
        let updated = match change {
            Change::None => return true,
            Change::Fits(cell) => lattice.clamp(&cell).is_none_or(|cell| self.fit(lattice, cell)),
            Change::Fails(cell) => {
                let inside = lattice.clamp(&lattice.mirror(&cell)).map(|cell| lattice.mirror(&cell));
                // Excluded points may fail from now on.
                let excluded = self.volume.not_sent + self.volume.clipped;
                excluded == 0 && inside.is_none_or(|cell| self.fail(lattice, cell))
            }
            Change::Rebuild => false,
        };
        updated && affordable(lattice, self.fits.len().max(self.excluded.len())).is_ok()
    }

    fn fit(&mut self, lattice: &Lattice, cell: Cell) -> bool {
        let gained = self.open_below(&cell);
        if gained == 0 {
            return true;
        }
        self.volume.fits += gained;
        self.volume.open -= gained;
        self.highest.retain(|high| !below(high, &cell));
        let corners = replace_covered(&mut self.lowest, &cell, &lattice.last());
        for corner in outside(corners, &self.excluded) {
            insert(&mut self.lowest, corner);
        }
        self.fits.retain(|kept| !below(kept, &cell));
        insert(&mut self.fits, cell);
        true
    }

    fn fail(&mut self, lattice: &Lattice, cell: Cell) -> bool {
        let gained = self.open_above(&cell);
        if gained == 0 {
            return true;
        }
        self.volume.fails += gained;
        self.volume.open -= gained;
        self.lowest.retain(|low| !below(&cell, low));
        let mut mirrored: Vec<Cell> = self.highest.iter().map(|cell| lattice.mirror(cell)).collect();
        let corners = replace_covered(&mut mirrored, &lattice.mirror(&cell), &lattice.last());
        self.highest.retain(|high| !below(&cell, high));
        for corner in corners.iter().map(|corner| lattice.mirror(corner)) {
            if !self.fits.iter().any(|fit| below(&corner, fit)) {
                insert(&mut self.highest, corner);
            }
        }
        for cells in [&mut self.fails, &mut self.bounding, &mut self.excluded] {
            cells.retain(|kept| !below(&cell, kept));
            insert(cells, cell.clone());
        }
        true
    }

    /// The number of open lattice points at or below a cell that is open or fits.
    pub(super) fn open_below(&self, cell: &Cell) -> u128 {
        between(self.lowest.iter().filter(|low| below(low, cell)), cell)
    }

    /// The number of open lattice points at or above a cell that is open or fails.
    pub(super) fn open_above(&self, cell: &Cell) -> u128 {
        between(self.highest.iter().filter(|high| below(cell, high)), cell)
    }

    /// An estimate without hypotheses of the share of the fitting volume that is proven.
    ///
    /// How much of the open volume fits is unknown. If the boundary is equally likely anywhere in each open pocket,
    /// half of it fits, with a standard deviation of 1/√12 of a pocket. The upper end at 95 % confidence is used: ½ +
    /// 1.645/√12/√pockets. With one pocket that is nearly all of it; with twenty, 61 %.
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

fn dominated_by(cells: &[Cell]) -> DominatedSet {
    let mut shadow = DominatedSet::default();
    for cell in cells {
        shadow.add(cell.clone());
    }
    shadow
}

fn sorted(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_unstable();
    cells
}

/// Inserts a cell into a sorted list.
fn insert(cells: &mut Vec<Cell>, cell: Cell) {
    let at = cells.partition_point(|other| *other < cell);
    cells.insert(at, cell);
}

/// The cells that no cell of `excluded` lies at or below.
fn outside(cells: Vec<Cell>, excluded: &[Cell]) -> Vec<Cell> {
    cells
        .into_iter()
        .filter(|cell| !excluded.iter().any(|limit| below(limit, cell)))
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
    Err(Error::limit(format!(
        "a frontier of {cells} points over {axes} axes has too many corners to refine or measure"
    ))
    .hint(format!(
        "the limit is {most} points; `record` and `classify` still work"
    )))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Answer, Boundary, Options, Point};

    proptest! {
        #[test]
        fn updating_gives_the_same_view_as_deriving_anew(
            axes in 1usize..=4,
            answers in prop::collection::vec((prop::collection::vec(0i64..8, 4), 0usize..10), 1..40),
            most in 2i64..20,
            viewed in 0usize..4,
        ) {
            let names = ["a", "b", "c", "d"];
            let ranges = names.iter().take(axes).map(|name| ((*name).to_owned(), json!([1, 6])));
            let empty = || Boundary::new(&ranges.clone().collect(), Options::default()).unwrap();
            let (mut updated, mut anew) = (empty(), empty());
            for (index, (at, kind)) in answers.iter().enumerate() {
                let point = names.iter().zip(at).take(axes).fold(Point::default(), |point, (name, at)| point.with(name, *at));
                let fits = at[..axes].iter().sum::<i64>() <= most;
                // Some answers are wrong, and some points lie beyond a length limit or outside the search range, or are
                // not sent.
                let answer = match (kind, fits) {
                    (0, _) => json!({ "verdict": "refused", "cause": "length_limit" }),
                    (2 | 3, false) => json!({ "verdict": "not_sent", "cause": "memory", "evidence": { "reported": most } }),
                    (1, true) | (2.., false) => json!("oom"),
                    _ => json!("ok"),
                };
                for map in [&mut updated, &mut anew] {
                    map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
                }
                if index % 4 >= viewed {
                    updated.view().unwrap();
                }
            }
            let (one, other) = (updated.view().unwrap(), anew.view().unwrap());
            prop_assert_eq!(one.volume, other.volume);
            prop_assert_eq!([&one.fits, &one.fails, &one.bounding, &one.excluded], [&other.fits, &other.fails, &other.bounding, &other.excluded]);
            prop_assert_eq!([&one.lowest, &one.highest], [&other.lowest, &other.highest]);
        }
    }
}
