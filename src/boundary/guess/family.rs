//! The kinds of limits that are tried, from simple to general.

use super::frame::{Frame, product};

/// Limits whose weights are sums, with amounts that are not negative, of these vectors of weights.
#[derive(Clone)]
pub(super) struct Family {
    /// By amount, then by term.
    pub(super) basis: Vec<Vec<f64>>,
    /// How likely it is, beside the others, before anything is proven.
    pub(super) prior: f64,
}

impl Family {
    /// What each amount counts for at a place of these terms.
    pub(super) fn features<'a>(&'a self, terms: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let vectors = self.basis.iter();
        vectors.map(move |vector| {
            let parts = vector.iter().zip(terms).filter(|(part, _)| **part != 0.0);
            parts.map(|(part, term)| part * term).sum()
        })
    }

    /// The weights of these amounts.
    pub(super) fn weights(&self, amounts: &[f64]) -> Vec<f64> {
        let mut weights = vec![0.0; self.basis[0].len()];
        for (amount, vector) in amounts.iter().zip(&self.basis) {
            for (weight, part) in weights.iter_mut().zip(vector) {
                *weight += amount * part;
            }
        }
        weights
    }
}

/// Tokens in flight (the sum of the axes); concurrency × length (one axis times the sum of the others), alone and beside
/// activations (any linear sum); attention that grows with the square of one axis, beside any linear sum; any linear sum; and
/// any sum of coordinates and their products.
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
    if let Some(most) = &frame.most {
        let top = most.iter().copied().fold(0.0, f64::max);
        let mut sum = vec![0.0; count];
        for (weight, most) in sum.iter_mut().zip(most) {
            *weight = most / top;
        }
        add(vec![sum], 20.0);
        // With two axes the product is the same from either.
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

/// For two axes: their product and one of them besides, as where each request takes something whatever its length, or each token
/// whatever the concurrency. For when nothing simpler agrees: as likely as simpler ones they would only be asked for in vain.
pub(super) fn besides_product(frame: &Frame) -> Vec<Family> {
    if frame.axes() != 2 || frame.most.is_none() {
        return Vec::new();
    }
    let unit = |term: usize| {
        let mut weights = vec![0.0; product(2, 1, 1) + 1];
        weights[term] = 1.0;
        weights
    };
    let beside = |axis: usize| Family {
        basis: vec![unit(product(2, 0, 1)), unit(axis)],
        prior: 16.0,
    };
    vec![beside(0), beside(1)]
}
