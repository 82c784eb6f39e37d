//! The nine rays from the smallest corner on which a tolerance holds.

use std::f64::consts::FRAC_PI_2;

use super::Boundary;
use super::lattice::Cell;
use crate::fault::Result;

/// Rays looked at.
const RAYS: usize = 9;

/// A ray whose open stretch is wider than the tolerance allows.
pub(super) struct Wide {
    /// How many tolerances wide.
    pub(super) excess: f64,
    /// Its unrecorded cell nearest to the middle of the stretch.
    pub(super) middle: Cell,
}

impl Boundary {
    /// The rays whose open stretch is wider than the tolerance of some axis, widest first. One on which nothing is left to
    /// ask, as every answer there said nothing, is not among them.
    pub(super) fn wide_rays(&self) -> Result<Vec<Wide>> {
        let axes = self.lattice.axes();
        let mut wide = Vec::new();
        if axes.iter().all(|axis| axis.tolerance().is_none()) {
            return Ok(wide);
        }
        for weights in self.directions() {
            let (steps, cell) = self.ray(&weights);
            let (fits, fails) = self.split(steps, &cell, &cell);
            if fails - fits <= 1 {
                continue;
            }
            let (low, high) = (cell(fits.max(0)), cell(fails.min(steps)));
            let excess = axes
                .iter()
                .enumerate()
                .filter_map(|(index, axis)| Some(axis.distance(low[index], high[index]) / axis.tolerance()?))
                .fold(0.0, f64::max);
            let (from, to) = (fits + 1, fails - 1);
            if excess > 1.0
                && let Some(step) = self.unseen(from, to, from + (to - from) / 2, &cell)
            {
                wide.push(Wide {
                    excess,
                    middle: cell(step),
                });
            }
        }
        wide.sort_by(|a, b| b.excess.total_cmp(&a.excess).then_with(|| a.middle.cmp(&b.middle)));
        Ok(wide)
    }

    /// Weights by axis of the rays: those of the axes that are free, and 0 for the others.
    pub(super) fn directions(&self) -> Vec<Vec<f64>> {
        let (free, axes) = (self.lattice.free(), self.lattice.axes().len());
        let whole = |weights: Vec<f64>| {
            let mut whole = vec![0.0; axes];
            for (axis, weight) in free.iter().zip(weights) {
                whole[*axis] = weight;
            }
            whole
        };
        directions(free.len()).into_iter().map(whole).collect()
    }
}

/// Weights by axis, the largest being 1. Two axes: nine equal angles. More: along each axis, the diagonal, then mixtures that
/// favour one axis or leave one out.
fn directions(axes: usize) -> Vec<Vec<f64>> {
    if axes <= 1 {
        return vec![vec![1.0; axes]];
    }
    if axes == 2 {
        let angle = |ray: usize| FRAC_PI_2 * ray as f64 / (RAYS - 1) as f64;
        return (0..RAYS)
            .map(|ray| {
                let (across, along) = angle(ray).sin_cos();
                let most = along.max(across);
                vec![along / most, across / most]
            })
            .collect();
    }
    let one = |axis: usize, its: f64, others: f64| {
        (0..axes)
            .map(|other| if other == axis { its } else { others })
            .collect()
    };
    let alone = (0..axes).map(|axis| one(axis, 1.0, 0.0));
    let diagonal = std::iter::once(vec![1.0; axes]);
    let without = (0..axes).map(|axis| one(axis, 0.0, 1.0));
    let favoured = (0..axes).map(|axis| one(axis, 1.0, 0.5));
    alone
        .chain(diagonal)
        .chain(without)
        .chain(favoured)
        .take(RAYS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_nine_that_differ() {
        for axes in 2..=8 {
            let mut rays = directions(axes);
            assert_eq!(rays.len(), RAYS);
            rays.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
            rays.dedup();
            assert_eq!(rays.len(), RAYS);
        }
    }
}
