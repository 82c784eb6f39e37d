//! The nine rays from the smallest corner on which the tolerance must hold.

use std::f64::consts::FRAC_PI_2;

use super::Boundary;
use super::lattice::Cell;
use crate::fault::Result;

const RAYS: usize = 9;

/// A ray whose open interval is wider than the tolerance.
pub(super) struct WideRay {
    /// The width in tolerances.
    pub(super) excess: f64,
    /// The unrecorded cell nearest to the middle of the interval.
    pub(super) middle: Cell,
}

impl Boundary {
    /// The rays whose open interval is wider than the tolerance of some axis, widest first. Omits rays on which
    /// nothing is left to probe because every answer was inconclusive.
    pub(super) fn wide_rays(&self) -> Result<Vec<WideRay>> {
        let axes = self.lattice.axes();
        let mut wide = Vec::new();
        if axes.iter().all(|axis| axis.tolerance().is_none()) {
            return Ok(wide);
        }
        for weights in self.directions() {
            let (steps, cell) = self.ray(&weights);
            let (fits, fails) = self.line_bounds(steps, &cell, &cell);
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
                && let Some(step) = self.nearest_unrecorded(from, to, from + (to - from) / 2, &cell)
            {
                wide.push(WideRay {
                    excess,
                    middle: cell(step),
                });
            }
        }
        wide.sort_by(|a, b| b.excess.total_cmp(&a.excess).then_with(|| a.middle.cmp(&b.middle)));
        Ok(wide)
    }

    /// The weights of the rays by axis; 0 on axes with a single value.
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

/// Weights by axis, the largest being 1. With two axes: nine equally spaced angles. With more: each axis, the
/// diagonal, then mixtures that omit or favour one axis.
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
