//! One limit that might be the true one.

use super::frame::{dot, terms};

/// A set of coordinates that holds with each of its points every easier one.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// What a limit on resources admits.
    Limit(Limit),
    /// Everything at or below one of these corners.
    Steps(Vec<Vec<f64>>),
    /// What a limit admits, and everything at or below a corner besides.
    Besides(Limit, Vec<f64>),
}

/// Σ wᵢuᵢ + Σ wᵢⱼuᵢuⱼ ≤ 1 with weights that are not negative, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// By term.
    pub(super) weights: Vec<f64>,
    /// The largest coordinate by axis.
    pub(super) cutoffs: Vec<f64>,
}

impl Shape {
    /// Whether it holds a place, of which the terms are given.
    pub(super) fn admits(&self, terms: &[f64]) -> bool {
        match self {
            Shape::Limit(limit) => limit.admits(terms),
            Shape::Steps(corners) => corners.iter().any(|corner| within(terms, corner)),
            Shape::Besides(limit, corner) => limit.admits(terms) || within(terms, corner),
        }
    }

    /// How far it reaches from `from` towards `to`, in shares of that way; negative when not even to its beginning. `limit` is
    /// what the weighted sum may be at most.
    pub(super) fn reach(&self, way: &Way, most: f64) -> f64 {
        match self {
            Shape::Limit(limit) => limit.reach(way, most),
            Shape::Steps(corners) => corners.iter().map(|corner| way.until(corner)).fold(-1.0, f64::max),
            Shape::Besides(limit, corner) => limit.reach(way, most).max(way.until(corner)),
        }
    }

    /// By how much of itself it admits too much where this place fails; 0 where it does not admit it.
    pub(super) fn excess(&self, terms: &[f64]) -> f64 {
        match self {
            Shape::Limit(limit) if limit.admits(terms) => 1.0 - dot(&limit.weights, terms),
            _ => 0.0,
        }
    }
}

impl Limit {
    pub(super) fn admits(&self, terms: &[f64]) -> bool {
        within(terms, &self.cutoffs) && dot(&self.weights, terms) <= 1.0
    }

    fn reach(&self, way: &Way, most: f64) -> f64 {
        let (constant, linear, square) = (
            dot(&self.weights, &way.constant),
            dot(&self.weights, &way.linear),
            dot(&self.weights, &way.square),
        );
        let room = most - constant;
        let sum = if room < 0.0 {
            -1.0
        } else {
            // The larger root, in the form that loses no digits where the square is small.
            let root = (linear * linear + 4.0 * square * room).sqrt() + linear;
            if root > 0.0 { 2.0 * room / root } else { f64::INFINITY }
        };
        sum.min(way.until(&self.cutoffs))
    }
}

fn within(at: &[f64], corner: &[f64]) -> bool {
    at.iter().zip(corner).all(|(at, corner)| at <= corner)
}

/// A straight way on which places grow harder, prepared for asking many shapes how far along it they reach.
pub(super) struct Way {
    from: Vec<f64>,
    side: Vec<f64>,
    /// The terms on the way are `constant + linear × share + square × share²`.
    constant: Vec<f64>,
    linear: Vec<f64>,
    square: Vec<f64>,
}

impl Way {
    pub(super) fn new(from: Vec<f64>, to: &[f64]) -> Self {
        let side: Vec<f64> = from.iter().zip(to).map(|(from, to)| to - from).collect();
        let (mut linear, mut square) = (side.clone(), vec![0.0; side.len()]);
        for one in 0..side.len() {
            for other in one..side.len() {
                linear.push(from[one] * side[other] + from[other] * side[one]);
                square.push(side[one] * side[other]);
            }
        }
        Self {
            constant: terms(&from),
            from,
            side,
            linear,
            square,
        }
    }

    /// The share of the way that lies at or below a corner.
    fn until(&self, corner: &[f64]) -> f64 {
        let sides = self.from.iter().zip(&self.side).zip(corner);
        let shares = sides.map(|((from, side), corner)| match corner - from {
            room if room < 0.0 => -1.0,
            room if *side > 0.0 => room / side,
            _ => f64::INFINITY,
        });
        shares.fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_shape_reaches_as_far_as_it_admits(
            weights in prop::collection::vec(0.0..2.0f64, 9),
            cutoffs in prop::collection::vec(0.0..2.0f64, 3),
            corner in prop::collection::vec(0.0..1.5f64, 3),
            from in prop::collection::vec(0.0..0.5f64, 3),
            side in prop::collection::vec(0.0..1.0f64, 3),
            share in 0.0..1.0f64,
        ) {
            let to: Vec<f64> = from.iter().zip(&side).map(|(from, side)| from + side).collect();
            let at: Vec<f64> = from.iter().zip(&side).map(|(from, side)| from + side * share).collect();
            let way = Way::new(from, &to);
            let limit = Limit { weights, cutoffs };
            for shape in [Shape::Limit(limit.clone()), Shape::Steps(vec![corner.clone()]), Shape::Besides(limit, corner)] {
                let reach = shape.reach(&way, 1.0);
                prop_assume!((reach - share).abs() > 1e-9);
                prop_assert_eq!(shape.admits(&terms(&at)), share < reach, "{:?} reaches {}", shape, reach);
            }
        }
    }
}
