//! What limits of one family must agree with, and a first limit that does.

use super::family::Family;
use super::frame::dot;
use super::program::Program;
use super::shape::Limit;

/// A cutoff beyond every coordinate: none.
pub(super) const NO_CUTOFF: f64 = 2.0;
/// How far a limit stays away from proven places where it can, as a share of it.
const MARGIN: f64 = 0.05;
/// Rows taken into the program of a first limit at a time, of each side.
const MORE: usize = 4;
/// Times that rows are taken in.
const ROUNDS: usize = 24;

/// Proven places as a family sees them.
pub(super) struct Proven {
    pub(super) fits: Rows,
    pub(super) fails: Rows,
    /// The largest coordinate that fits, by axis.
    pub(super) reach: Vec<f64>,
}

/// Places of one side, one after the other.
pub(super) struct Rows {
    axes: usize,
    amounts: usize,
    at: Vec<f64>,
    features: Vec<f64>,
}

/// A proven place.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// Its coordinates.
    pub(super) at: &'a [f64],
    /// What each amount of the family counts for here.
    pub(super) features: &'a [f64],
}

impl Rows {
    /// `places` are terms.
    fn new(family: &Family, axes: usize, places: &[Vec<f64>]) -> Self {
        let mut rows = Self {
            axes,
            amounts: family.basis.len(),
            at: Vec::with_capacity(places.len() * axes),
            features: Vec::with_capacity(places.len() * family.basis.len()),
        };
        for terms in places {
            rows.at.extend_from_slice(&terms[..axes]);
            rows.features.extend(family.features(terms));
        }
        rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        let rows = self
            .at
            .chunks_exact(self.axes)
            .zip(self.features.chunks_exact(self.amounts));
        rows.map(|(at, features)| Row { at, features })
    }
}

/// Amounts of a family's vectors, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) amounts: Vec<f64>,
    pub(super) cutoffs: Vec<f64>,
}

impl Draw {
    pub(super) fn limit(self, family: &Family) -> Limit {
        Limit {
            weights: family.weights(&self.amounts),
            cutoffs: self.cutoffs,
        }
    }

    /// How far the sum at a fitting place is above 1, or that at a failing one below, where no cutoff explains it.
    fn misses(&self, row: Row, fits: bool) -> f64 {
        let sum = dot(&self.amounts, row.features);
        match fits {
            true => sum - 1.0,
            false if self.cuts(row) => -MARGIN,
            false => 1.0 - sum,
        }
    }

    pub(super) fn cuts(&self, row: Row) -> bool {
        row.at.iter().zip(&self.cutoffs).any(|(at, cutoff)| at > cutoff)
    }
}

impl Proven {
    /// `fits` and `fails` are terms of places.
    pub(super) fn new(family: &Family, axes: usize, fits: &[Vec<f64>], fails: &[Vec<f64>]) -> Self {
        let reach = |axis: usize| fits.iter().map(|terms| terms[axis]).fold(0.0, f64::max);
        Self {
            fits: Rows::new(family, axes, fits),
            fails: Rows::new(family, axes, fails),
            reach: (0..axes).map(reach).collect(),
        }
    }

    /// The limit with the least miss that has cutoffs, just beyond what fits, on the axes whose bit is set in `cut`; and that
    /// miss, which is negative when it agrees with everything.
    ///
    /// A linear program, solved over few rows and then on with those that it misses most, until there are none. None where that takes
    /// too long, or all miss more than is `hopeless`.
    pub(super) fn first(&self, cut: usize, hopeless: f64) -> Option<(f64, Draw)> {
        let cutoff = |axis: usize| match cut >> axis & 1 {
            1 => self.reach[axis] * (1.0 + 1e-9),
            _ => NO_CUTOFF,
        };
        let mut draw = Draw {
            amounts: Vec::new(),
            cutoffs: (0..self.reach.len()).map(cutoff).collect(),
        };
        let fails = || self.fails.iter().filter(|row| !draw.cuts(*row));
        if self.fits.amounts == 1 {
            let most = self.fits.iter().map(|row| row.features[0]).fold(0.0, f64::max);
            let least = fails().map(|row| row.features[0]).fold(f64::INFINITY, f64::min);
            let (miss, amount) = single(most, least);
            draw.amounts = vec![amount];
            return Some((miss, draw));
        }
        let sides = [(self.fits.iter().collect::<Vec<_>>(), true), (fails().collect(), false)];
        // What is missed beyond the least, and then the amounts: of limits that miss as little, one of small amounts.
        let count = self.fits.amounts;
        let mut program = Program::new([1.0].into_iter().chain((0..count).map(|_| 1e-6)).collect());
        for (rows, fits) in &sides {
            let step = rows.len().div_ceil(2 * MORE).max(1);
            rows.iter()
                .step_by(step)
                .for_each(|row| demand(&mut program, *row, *fits));
        }
        for _ in 0..ROUNDS {
            if !program.solve() {
                return None;
            }
            let miss = program.value(0) - MARGIN;
            if miss > hopeless {
                return None;
            }
            draw.amounts = (1..=count).map(|amount| program.value(amount)).collect();
            let mut agrees = true;
            for (rows, fits) in &sides {
                let mut missed: Vec<(f64, Row)> = rows.iter().map(|row| (draw.misses(*row, *fits), *row)).collect();
                missed.retain(|(by, _)| *by > miss + 1e-7);
                missed.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, row) in missed.into_iter().take(MORE) {
                    agrees = false;
                    demand(&mut program, row, *fits);
                }
            }
            if agrees {
                return Some((miss, draw));
            }
        }
        None
    }
}

/// Demands that the sum at a fitting place is at most 1 and what is missed, or that at a failing one at least 1 less that.
fn demand(program: &mut Program, row: Row, fits: bool) {
    let (sign, most) = if fits {
        (1.0, 1.0 - MARGIN)
    } else {
        (-1.0, -1.0 - MARGIN)
    };
    program.bound(
        [-1.0]
            .into_iter()
            .chain(row.features.iter().map(|feature| sign * feature)),
        most,
    );
}

/// The least miss, and the amount that has it, where the largest feature that fits and the least that fails are known.
fn single(most: f64, least: f64) -> (f64, f64) {
    if least.is_infinite() {
        return (-MARGIN, (1.0 - MARGIN) / most.max(1e-9));
    }
    let amount = 2.0 / (most + least).max(1e-9);
    ((most - least) / (most + least).max(1e-9), amount)
}
