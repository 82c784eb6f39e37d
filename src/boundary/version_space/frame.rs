//! Coordinates of lattice cells in which limits are expressed: values relative to the largest one, so that a sum of
//! tokens is a linear sum.

use crate::boundary::lattice::Cell;
use crate::boundary::{Axis, Easier, Scale};

/// The affine map from cells to coordinates.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    first: Vec<f64>,
    step: Vec<f64>,
    /// The largest value by axis; `None` unless all axes are lengths or counts, whose coordinates times this can be
    /// added.
    pub(super) largest: Option<Vec<f64>>,
    /// The block size by axis to which values are rounded up; 1 for none.
    pub(super) blocks: Vec<f64>,
}

impl Frame {
    pub(super) fn new<'a>(axes: impl IntoIterator<Item = &'a Axis>) -> Self {
        let (mut first, mut step, mut largest) = (Vec::new(), Vec::new(), Some(Vec::new()));
        for axis in axes {
            let (low, high) = (axis.range().0.as_f64(), axis.range().1.as_f64());
            let steps = (axis.last() as f64).max(1.0);
            if is_amount(axis) {
                first.push(low / high);
                step.push((high - low) / high / steps);
                largest.iter_mut().for_each(|largest| largest.push(high));
            } else {
                first.push(0.0);
                step.push(1.0 / steps);
                largest = None;
            }
        }
        let blocks = vec![1.0; first.len()];
        Self {
            first,
            step,
            largest,
            blocks,
        }
    }

    /// The same frame with values rounded up to full blocks.
    pub(super) fn rounded(&self, blocks: Vec<f64>) -> Self {
        Self { blocks, ..self.clone() }
    }

    pub(super) fn axes(&self) -> usize {
        self.first.len()
    }

    pub(super) fn coordinates(&self, cell: &Cell) -> Vec<f64> {
        let sides = cell.iter().zip(&self.blocks).enumerate();
        sides
            .map(|(axis, (at, block))| self.coordinate(axis, *at, *block))
            .collect()
    }

    /// The coordinate on one axis, rounded up to full blocks of this size.
    pub(super) fn coordinate(&self, axis: usize, at: i64, block: f64) -> f64 {
        let exact = self.first[axis] + self.step[axis] * at as f64;
        match &self.largest {
            Some(largest) => round_up(exact * largest[axis], block) / largest[axis],
            None => exact,
        }
    }

    /// The largest cell up to `last` with the same coordinates.
    pub(super) fn block_ends(&self, cell: &Cell, last: &Cell) -> Cell {
        let place = self.coordinates(cell);
        let sides = cell.iter().zip(last).zip(place).enumerate();
        let to = |(axis, ((at, last), place)): (usize, ((&i64, &i64), f64))| {
            let largest = self.largest.as_ref().map_or(1.0, |largest| largest[axis]);
            let exact = (self.first[axis] + self.step[axis] * *at as f64) * largest;
            let further = (place * largest - exact).round() as i64;
            (at + further.max(0)).min(*last)
        };
        sides.map(to).collect()
    }
}

fn round_up(value: f64, block: f64) -> f64 {
    if block > 1.0 {
        (value / block - 1e-9).ceil() * block
    } else {
        value
    }
}

/// Whether values of this axis are amounts in equal steps of which harder points have more.
fn is_amount(axis: &Axis) -> bool {
    let (low, high) = (axis.range().0, axis.range().1);
    let even = axis.scale() == Scale::Linear || matches!(high, crate::boundary::Scalar::Int(_));
    axis.easier() == Easier::Down && low.as_f64() >= 0.0 && high.as_f64() > 0.0 && even
}

/// The coordinates, followed by the products of each pair (and each square).
pub(super) fn terms(at: &[f64]) -> Vec<f64> {
    let axes = at.len();
    let mut terms = Vec::with_capacity(product(axes, axes - 1, axes - 1) + 1);
    terms.extend_from_slice(at);
    add_products(&mut terms, axes);
    terms
}

/// Appends the products to the coordinates.
pub(super) fn add_products(terms: &mut Vec<f64>, axes: usize) {
    for one in 0..axes {
        for other in one..axes {
            terms.push(terms[one] * terms[other]);
        }
    }
}

/// The index of the product of two coordinates among the terms.
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
