//! The families of limits that are tried, from simple to general.

use super::frame::{Frame, product};

/// Limits whose weights are non-negative combinations of basis vectors.
#[derive(Clone)]
pub(super) struct Family {
    /// By coefficient, then by term.
    pub(super) basis: Vec<Vec<f64>>,
    /// The relative prior probability.
    pub(super) prior: f64,
}

impl Family {
    /// What each coefficient is multiplied with at a point with these terms.
    pub(super) fn features<'a>(&'a self, terms: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let vectors = self.basis.iter();
        vectors.map(move |vector| {
            let parts = vector.iter().zip(terms).filter(|(part, _)| **part != 0.0);
            parts.map(|(part, term)| part * term).sum()
        })
    }

    /// The weights for these coefficients.
    pub(super) fn weights(&self, coefficients: &[f64]) -> Vec<f64> {
        let mut weights = vec![0.0; self.basis[0].len()];
        for (coefficient, vector) in coefficients.iter().zip(&self.basis) {
            for (weight, part) in weights.iter_mut().zip(vector) {
                *weight += coefficient * part;
            }
        }
        weights
    }
}

/// The families: tokens in flight (the sum of the axes); concurrency × length (one axis times the sum of the others),
/// alone and with activations (any linear sum); attention that grows with the square of one axis, plus any linear
/// sum; any linear sum; any sum of coordinates and their products.
pub(super) fn families(frame: &Frame) -> Vec<Family> {
    let axes = frame.axes();
    let count = product(axes, axes - 1, axes - 1) + 1;
    let unit = |term: usize| {
        let mut weights = vec![0.0; count];
        weights[term] = 1.0;
        weights
    };
    let linear: Vec<Vec<f64>> = (0..axes).map(unit).collect();
    let mut all = Vec::new();
    let mut add = |basis: Vec<Vec<f64>>, prior: f64| all.push(Family { basis, prior });
    if let Some(most) = &frame.largest {
        let top = most.iter().copied().fold(0.0, f64::max);
        let mut sum = vec![0.0; count];
        for (weight, most) in sum.iter_mut().zip(most) {
            *weight = most / top;
        }
        add(vec![sum], 20.0);
        // With two axes the product is the same for either.
        for axis in 0..if axes == 2 { 1 } else { axes } {
            let mut times = vec![0.0; count];
            for other in (0..axes).filter(|other| *other != axis) {
                times[product(axes, axis, other)] = most[other] / top;
            }
            if axes > 2 {
                add([vec![times.clone()], linear.clone()].concat(), 16.0);
            }
            add(vec![times], 20.0);
        }
    }
    for axis in 0..axes {
        add([linear.clone(), vec![unit(product(axes, axis, axis))]].concat(), 12.0);
    }
    add(linear, 16.0);
    add((0..count).map(unit).collect(), 12.0);
    all
}

/// For two axes: their product plus one of them, as when each request needs something whatever its length, or each
/// token whatever the concurrency. Used only if nothing simpler agrees; otherwise they would cost probes in vain.
pub(super) fn product_and_one_axis(frame: &Frame) -> Vec<Family> {
    if frame.axes() != 2 || frame.largest.is_none() {
        return Vec::new();
    }
    let unit = |term: usize| {
        let mut weights = vec![0.0; product(2, 1, 1) + 1];
        weights[term] = 1.0;
        weights
    };
    let with_axis = |axis: usize| Family {
        basis: vec![unit(product(2, 0, 1)), unit(axis)],
        prior: 16.0,
    };
    vec![with_axis(0), with_axis(1)]
}
