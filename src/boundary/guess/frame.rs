//! Lattice cells as coordinates that limits are made of: shares of the largest value, so that a sum of tokens is a sum here too.

use crate::boundary::lattice::Cell;
use crate::boundary::{Axis, Easier, Lattice, Scale};

/// The way from cells to coordinates, which is affine on every axis.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    first: Vec<f64>,
    step: Vec<f64>,
    /// The largest value by axis, where it is a length or a count: coordinates times these can be added up.
    pub(super) most: Option<Vec<f64>>,
}

impl Frame {
    pub(super) fn new(lattice: &Lattice) -> Self {
        let (mut first, mut step, mut most) = (Vec::new(), Vec::new(), Some(Vec::new()));
        for axis in lattice.axes() {
            let (low, high) = (axis.range().0.as_f64(), axis.range().1.as_f64());
            let steps = (axis.last() as f64).max(1.0);
            if counts(axis) {
                first.push(low / high);
                step.push((high - low) / high / steps);
                most.iter_mut().for_each(|most| most.push(high));
            } else {
                first.push(0.0);
                step.push(1.0 / steps);
                most = None;
            }
        }
        Self { first, step, most }
    }

    pub(super) fn axes(&self) -> usize {
        self.first.len()
    }

    /// The coordinates of a cell.
    pub(super) fn place(&self, cell: &Cell) -> Vec<f64> {
        let sides = self.first.iter().zip(&self.step).zip(cell);
        sides.map(|((first, step), at)| first + step * *at as f64).collect()
    }
}

/// Whether values of this axis are amounts that harder points have more of, in steps of equal size.
fn counts(axis: &Axis) -> bool {
    let (low, high) = (axis.range().0, axis.range().1);
    let even = axis.scale() == Scale::Linear || matches!(high, crate::boundary::Scalar::Int(_));
    axis.easier() == Easier::Down && low.as_f64() >= 0.0 && high.as_f64() > 0.0 && even
}

/// The coordinates, and then the products of two, each pair once.
pub(super) fn terms(at: &[f64]) -> Vec<f64> {
    let mut terms = at.to_vec();
    for (index, one) in at.iter().enumerate() {
        terms.extend(at[index..].iter().map(|other| one * other));
    }
    terms
}

/// Where the product of two coordinates is among the terms.
pub(super) fn product(axes: usize, one: usize, other: usize) -> usize {
    let (low, high) = (one.min(other), one.max(other));
    axes + low * axes - low * (low + 1) / 2 + high
}

pub(super) fn dot(weights: &[f64], terms: &[f64]) -> f64 {
    weights.iter().zip(terms).map(|(weight, term)| weight * term).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_where_it_is_said_to_be() {
        let at = [2.0, 3.0, 5.0, 7.0];
        for one in 0..4 {
            for other in 0..4 {
                assert!((terms(&at)[product(4, one, other)] - at[one] * at[other]).abs() < 1e-12);
            }
        }
    }
}
