//! What is known along one line through the search range: along an axis, or a ray from the smallest corner.

use super::lattice::Cell;
use super::{Boundary, Point, Scalar};
use crate::fault::{Fault, Result};

/// The open interval of a line and what is proven at its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The hardest value proven to fit.
    pub fits: Option<Scalar>,
    /// The easiest value proven to fail, or beyond a length limit.
    pub fails: Option<Scalar>,
    /// The unrecorded value nearest to the middle of the open interval; `None` if nothing is left to probe.
    pub middle: Option<Scalar>,
    /// The width of the open interval, in the axis' own unit.
    pub width: Scalar,
}

impl Boundary {
    /// What is known along the axis `name` through `point`, inside the search range.
    pub fn bracket(&self, point: &Point, name: &str) -> Result<Bracket> {
        let axes = self.lattice.axes();
        let index = axes
            .iter()
            .position(|axis| axis.name() == name)
            .ok_or_else(|| Fault::usage(format!("`{name}` is not an axis of this boundary")))?;
        let axis = &axes[index];
        // The coordinate along the line does not matter, and may be absent.
        let mut through = point.clone();
        through.0.entry(name.to_owned()).or_insert(axis.value(0));
        let (easier, harder) = self.lattice.cells(&self.lattice.coordinates(&through)?)?;
        let on_line = |cell: &Cell, hardness: i64| {
            let mut cell = cell.clone();
            cell[index] = hardness;
            cell
        };
        let (fits, fails) = self.line_bounds(
            axis.last(),
            |hardness| on_line(&harder, hardness),
            |hardness| on_line(&easier, hardness),
        );
        let (from, to) = (fits + 1, fails - 1);
        let middle = (from <= to)
            .then(|| axis.middle(from, to))
            .and_then(|middle| self.nearest_unrecorded(from, to, middle, |hardness| on_line(&harder, hardness)));
        Ok(Bracket {
            fits: (fits >= 0).then(|| axis.value(fits)),
            fails: (fails <= axis.last()).then(|| axis.value(fails)),
            middle: middle.map(|hardness| axis.value(hardness)),
            width: axis.scalar(if from > to {
                0.0
            } else {
                axis.distance(fits.max(0), fails.min(axis.last()))
            }),
        })
    }

    /// On a line of `steps` of rising hardness: the last step known to fit (or -1), and the first known not to fit
    /// (or one past the end).
    pub(super) fn line_bounds(
        &self,
        steps: i64,
        harder: impl Fn(i64) -> Cell,
        easier: impl Fn(i64) -> Cell,
    ) -> (i64, i64) {
        let fits = first_holding(steps, |step| !self.fits.covers(&harder(step))) - 1;
        let fails = first_holding(steps, |step| self.is_excluded(&easier(step)));
        (fits, fails)
    }

    /// The step nearest to `middle` whose cell was not recorded.
    pub(super) fn nearest_unrecorded(
        &self,
        from: i64,
        to: i64,
        middle: i64,
        cell: impl Fn(i64) -> Cell,
    ) -> Option<i64> {
        let widest = (middle - from).max(to - middle);
        // Each recorded cell skips at most one step, so the walk is short.
        (0..=widest)
            .flat_map(|away| [middle + away, middle - away])
            .filter(|step| (from..=to).contains(step))
            .find(|step| !self.tested.contains(&cell(*step)))
    }

    /// The ray from the smallest corner with these weights by axis (the largest is 1): the number of its steps, and
    /// the cell of each step.
    pub(super) fn ray(&self, weights: &[f64]) -> (i64, impl Fn(i64) -> Cell + use<>) {
        let ends: Vec<f64> = self
            .lattice
            .last()
            .iter()
            .zip(weights)
            .map(|(last, weight)| *last as f64 * weight)
            .collect();
        let steps = ends.iter().copied().fold(0.0, f64::max).round();
        let cell = move |step: i64| {
            let share = if steps > 0.0 { step as f64 / steps } else { 0.0 };
            ends.iter().map(|end| (end * share + 1e-9).floor() as i64).collect()
        };
        (steps as i64, cell)
    }
}

/// The first of `0..=last` for which `holds`, by bisection; `last + 1` if there is none.
fn first_holding(last: i64, holds: impl Fn(i64) -> bool) -> i64 {
    let (mut low, mut high) = (0, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
