//! What limits of one family must agree with, and a first limit that does.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use super::family::Family;
use super::frame::dot;
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
    pub(super) fits: Vec<Row>,
    pub(super) fails: Vec<Row>,
    /// The largest coordinate that fits, by axis.
    pub(super) reach: Vec<f64>,
}

/// A proven place.
#[derive(Clone)]
pub(super) struct Row {
    /// Its coordinates.
    pub(super) at: Vec<f64>,
    /// What each amount of the family counts for here.
    pub(super) features: Vec<f64>,
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
    fn misses(&self, row: &Row, fits: bool) -> f64 {
        let sum = dot(&self.amounts, &row.features);
        match fits {
            true => sum - 1.0,
            false if self.cuts(row) => -MARGIN,
            false => 1.0 - sum,
        }
    }

    pub(super) fn cuts(&self, row: &Row) -> bool {
        row.at.iter().zip(&self.cutoffs).any(|(at, cutoff)| at > cutoff)
    }
}

impl Proven {
    /// `fits` and `fails` are terms of places.
    pub(super) fn new(family: &Family, axes: usize, fits: &[Vec<f64>], fails: &[Vec<f64>]) -> Self {
        let row = |terms: &Vec<f64>| Row {
            at: terms[..axes].to_vec(),
            features: family.basis.iter().map(|vector| dot(vector, terms)).collect(),
        };
        let reach = |axis: usize| fits.iter().map(|terms| terms[axis]).fold(0.0, f64::max);
        Self {
            fits: fits.iter().map(row).collect(),
            fails: fails.iter().map(row).collect(),
            reach: (0..axes).map(reach).collect(),
        }
    }

    /// The limit with the least miss that has cutoffs, just beyond what fits, on the axes whose bit is set in `cut`; and that
    /// miss, which is negative when it agrees with everything.
    ///
    /// A linear program, solved over few rows and again with those that it misses most, until there are none.
    pub(super) fn first(&self, cut: usize) -> Option<(f64, Draw)> {
        let cutoff = |axis: usize| match cut >> axis & 1 {
            1 => self.reach[axis] * (1.0 + 1e-9),
            _ => NO_CUTOFF,
        };
        let mut draw = Draw {
            amounts: Vec::new(),
            cutoffs: (0..self.reach.len()).map(cutoff).collect(),
        };
        let fails: Vec<&Row> = self.fails.iter().filter(|row| !draw.cuts(row)).collect();
        if self.fits[0].features.len() == 1 {
            let most = self.fits.iter().map(|row| row.features[0]).fold(0.0, f64::max);
            let least = fails.iter().map(|row| row.features[0]).fold(f64::INFINITY, f64::min);
            let (miss, amount) = single(most, least);
            draw.amounts = vec![amount];
            return Some((miss, draw));
        }
        let sides = [(self.fits.iter().collect::<Vec<_>>(), true), (fails, false)];
        let mut taken: Vec<(&Row, bool)> = Vec::new();
        for (rows, fits) in &sides {
            let step = rows.len().div_ceil(2 * MORE).max(1);
            taken.extend(rows.iter().step_by(step).map(|row| (*row, *fits)));
        }
        for _ in 0..ROUNDS {
            let (miss, amounts) = solve(&taken, self.fits[0].features.len())?;
            draw.amounts = amounts;
            let before = taken.len();
            let mut worst = miss;
            for (rows, fits) in &sides {
                let mut missed: Vec<(f64, &Row)> = rows.iter().map(|row| (draw.misses(row, *fits), *row)).collect();
                missed.retain(|(by, _)| *by > miss + 1e-7);
                missed.sort_by(|a, b| b.0.total_cmp(&a.0));
                worst = missed.first().map_or(worst, |(by, _)| worst.max(*by));
                taken.extend(missed.iter().take(MORE).map(|(_, row)| (*row, *fits)));
            }
            if taken.len() == before {
                return Some((miss, draw));
            }
        }
        None
    }
}

/// The least miss, and the amount that has it, where the largest feature that fits and the least that fails are known.
fn single(most: f64, least: f64) -> (f64, f64) {
    if least.is_infinite() {
        return (-MARGIN, (1.0 - MARGIN) / most.max(1e-9));
    }
    let amount = 2.0 / (most + least).max(1e-9);
    ((most - least) / (most + least).max(1e-9), amount)
}

/// The amounts with the least miss, and that.
fn solve(rows: &[(&Row, bool)], count: usize) -> Option<(f64, Vec<f64>)> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let miss = problem.add_var(1.0, (-MARGIN, f64::INFINITY));
    // Of limits that miss as little, one of small amounts.
    let amounts: Vec<_> = (0..count).map(|_| problem.add_var(1e-6, (0.0, 1e4))).collect();
    for (row, fits) in rows {
        let (sign, side) = if *fits {
            (-1.0, ComparisonOp::Le)
        } else {
            (1.0, ComparisonOp::Ge)
        };
        let features = amounts.iter().copied().zip(row.features.iter().copied());
        problem.add_constraint(features.chain([(miss, sign)]).collect::<Vec<_>>(), side, 1.0);
    }
    let solved = problem.solve().ok()?.into_solution().ok()?;
    let amounts = amounts
        .iter()
        .map(|amount| solved.var_value(*amount).max(0.0))
        .collect();
    Some((solved.var_value(miss), amounts))
}
