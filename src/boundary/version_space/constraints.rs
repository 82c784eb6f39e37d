//! The constraints that the proven points put on limits of one family, and the limit that violates them least.

use super::family::Family;
use super::frame::dot;
use super::linear_program::LinearProgram;
use super::shape::Limit;

/// A cutoff beyond every coordinate, which means none.
pub(super) const NO_CUTOFF: f64 = 2.0;
/// The margin that a limit keeps from proven points if it can, as a share of it.
const MARGIN: f64 = 0.05;
/// Rows of each side added to the linear program per round.
const ROWS_PER_ROUND: usize = 4;
const ROUNDS: usize = 24;

/// The proven points in the features of one family.
pub(super) struct Constraints {
    pub(super) fits: ProvenPoints,
    pub(super) fails: ProvenPoints,
    /// The largest coordinate that fits, by axis.
    pub(super) reach: Vec<f64>,
}

/// The points of one side, stored contiguously.
pub(super) struct ProvenPoints {
    axes: usize,
    coefficients: usize,
    at: Vec<f64>,
    features: Vec<f64>,
}

/// A proven point.
#[derive(Clone, Copy)]
pub(super) struct ProvenPoint<'a> {
    pub(super) at: &'a [f64],
    /// What each coefficient of the family is multiplied with at this point.
    pub(super) features: &'a [f64],
}

impl ProvenPoints {
    /// `places` are terms.
    fn new(family: &Family, axes: usize, places: &[Vec<f64>]) -> Self {
        let mut rows = Self {
            axes,
            coefficients: family.basis.len(),
            at: Vec::with_capacity(places.len() * axes),
            features: Vec::with_capacity(places.len() * family.basis.len()),
        };
        for terms in places {
            rows.at.extend_from_slice(&terms[..axes]);
            rows.features.extend(family.features(terms));
        }
        rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ProvenPoint<'_>> {
        let rows = self
            .at
            .chunks_exact(self.axes)
            .zip(self.features.chunks_exact(self.coefficients));
        rows.map(|(at, features)| ProvenPoint { at, features })
    }
}

/// One limit of a family: coefficients of its basis vectors, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct LimitSample {
    pub(super) coefficients: Vec<f64>,
    pub(super) cutoffs: Vec<f64>,
}

impl LimitSample {
    pub(super) fn limit(self, family: &Family) -> Limit {
        Limit {
            weights: family.weights(&self.coefficients),
            cutoffs: self.cutoffs,
        }
    }

    /// How far the sum at a fitting point is above 1, or at a failing point below 1 if no cutoff explains it.
    fn violation(&self, row: ProvenPoint, fits: bool) -> f64 {
        let sum = dot(&self.coefficients, row.features);
        match fits {
            true => sum - 1.0,
            false if self.cuts(row) => -MARGIN,
            false => 1.0 - sum,
        }
    }

    pub(super) fn cuts(&self, row: ProvenPoint) -> bool {
        row.at.iter().zip(&self.cutoffs).any(|(at, cutoff)| at > cutoff)
    }
}

impl Constraints {
    /// `fits` and `fails` are terms of proven points.
    pub(super) fn new(family: &Family, axes: usize, fits: &[Vec<f64>], fails: &[Vec<f64>]) -> Self {
        let reach = |axis: usize| fits.iter().map(|terms| terms[axis]).fold(0.0, f64::max);
        Self {
            fits: ProvenPoints::new(family, axes, fits),
            fails: ProvenPoints::new(family, axes, fails),
            reach: (0..axes).map(reach).collect(),
        }
    }

    /// The limit with the least violation, and that violation, which is negative if the limit agrees with everything.
    /// It has cutoffs just beyond what fits on the axes whose bit is set in `cut_axes`.
    ///
    /// Solves a linear program over few rows, adds the rows violated most, and repeats until there are none. `None`
    /// if that takes too many rounds, or if the violation exceeds `give_up_above`.
    pub(super) fn best_limit(&self, cut_axes: usize, give_up_above: f64) -> Option<(f64, LimitSample)> {
        let cutoff = |axis: usize| match cut_axes >> axis & 1 {
            1 => self.reach[axis] * (1.0 + 1e-9),
            _ => NO_CUTOFF,
        };
        let mut sample = LimitSample {
            coefficients: Vec::new(),
            cutoffs: (0..self.reach.len()).map(cutoff).collect(),
        };
        let fails = || self.fails.iter().filter(|row| !sample.cuts(*row));
        if self.fits.coefficients == 1 {
            let most = self.fits.iter().map(|row| row.features[0]).fold(0.0, f64::max);
            let least = fails().map(|row| row.features[0]).fold(f64::INFINITY, f64::min);
            let (violation, coefficient) = single(most, least);
            sample.coefficients = vec![coefficient];
            return Some((violation, sample));
        }
        let sides = [(self.fits.iter().collect::<Vec<_>>(), true), (fails().collect(), false)];
        // Variables: the worst violation, then the coefficients. A tiny cost on the coefficients picks the smallest
        // of equally good limits.
        let count = self.fits.coefficients;
        let mut program = LinearProgram::new([1.0].into_iter().chain((0..count).map(|_| 1e-6)).collect());
        for (rows, fits) in &sides {
            let step = rows.len().div_ceil(2 * ROWS_PER_ROUND).max(1);
            rows.iter()
                .step_by(step)
                .for_each(|row| constrain(&mut program, *row, *fits));
        }
        for _ in 0..ROUNDS {
            if !program.solve() {
                return None;
            }
            let violation = program.value(0) - MARGIN;
            if violation > give_up_above {
                return None;
            }
            sample.coefficients = (1..=count).map(|coefficient| program.value(coefficient)).collect();
            let mut agrees = true;
            for (rows, fits) in &sides {
                let mut missed: Vec<(f64, ProvenPoint)> =
                    rows.iter().map(|row| (sample.violation(*row, *fits), *row)).collect();
                missed.retain(|(by, _)| *by > violation + 1e-7);
                missed.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, row) in missed.into_iter().take(ROWS_PER_ROUND) {
                    agrees = false;
                    constrain(&mut program, row, *fits);
                }
            }
            if agrees {
                return Some((violation, sample));
            }
        }
        None
    }
}

/// Adds the row: the sum at a fitting point is at most 1 plus the violation, at a failing point at least 1 minus it.
fn constrain(program: &mut LinearProgram, row: ProvenPoint, fits: bool) {
    let (sign, most) = if fits {
        (1.0, 1.0 - MARGIN)
    } else {
        (-1.0, -1.0 - MARGIN)
    };
    program.add_upper_bound(
        [-1.0]
            .into_iter()
            .chain(row.features.iter().map(|feature| sign * feature)),
        most,
    );
}

/// With a single coefficient: the least violation and the coefficient that has it, from the largest fitting and the
/// smallest failing feature.
fn single(most: f64, least: f64) -> (f64, f64) {
    if least.is_infinite() {
        return (-MARGIN, (1.0 - MARGIN) / most.max(1e-9));
    }
    let coefficient = 2.0 / (most + least).max(1e-9);
    ((most - least) / (most + least).max(1e-9), coefficient)
}
