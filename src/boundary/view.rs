//! What the recorded points say together: antichains, corners of the open region, volumes. Derived anew after a change, so
//! that the order of recording cannot matter.

use std::sync::OnceLock;

use super::corners::lowest_open;
use super::guess::Guess;
use super::lattice::{Cell, Lattice, below};
use super::shadow::{Shadow, largest};
use super::volume::covered;
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

/// The state of knowledge.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The largest fitting cells of the box.
    pub(super) fits: Vec<Cell>,
    /// The smallest failing cells, mirrored.
    pub(super) fails: Vec<Cell>,
    /// The smallest cells that fail or are beyond a length limit, mirrored.
    pub(super) shut: Vec<Cell>,
    /// The smallest open cells.
    pub(super) lowest: Vec<Cell>,
    /// The largest open cells.
    pub(super) highest: Vec<Cell>,
    /// How the box divides.
    pub(super) volume: Volume,
    /// Those of `shut`, as they are.
    pub(super) walls: Vec<Cell>,
    /// The guess that agrees with all this, once it was asked for.
    pub(super) guess: OnceLock<Option<Guess>>,
    /// The open volume that fits at most, as that guess has it.
    pub(super) most_fitting: OnceLock<Option<f64>>,
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
        let mirrored = |cells: Vec<Cell>| cells.iter().map(|cell| lattice.mirror(cell)).collect::<Vec<_>>();
        let highest = mirrored(outside(lowest_open(&shut, &last), &mirrored(fits.clone())));
        let walls = mirrored(shut.clone());
        let lowest = outside(lowest_open(&fits, &last), &walls);
        let (fitting, failing) = (covered(&fits), covered(&fails));
        let clipped = if shut == fails { 0 } else { covered(&shut) - failing };
        let volume = Volume {
            fits: fitting,
            fails: failing,
            clipped,
            open: lattice.total() - fitting - failing - clipped,
            total: lattice.total(),
        };
        Ok(Self {
            fits,
            fails,
            shut,
            lowest,
            highest,
            volume,
            walls,
            guess: OnceLock::new(),
            most_fitting: OnceLock::new(),
        })
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
