//! One possible limit, and how far along a segment it reaches.

use super::frame::{Frame, dot, product, terms};

/// A set of coordinates that contains, with each point, every easier one.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// What a resource limit admits.
    Limit(Limit),
    /// Everything at or below one of these corners.
    Corners(Vec<Vec<f64>>),
    /// What a limit admits, and everything at or below a corner.
    Union(Limit, Vec<f64>),
}

/// Σ wᵢuᵢ + Σ wᵢⱼuᵢuⱼ ≤ 1 with non-negative weights, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// By term.
    pub(super) weights: Vec<f64>,
    /// The largest coordinate by axis.
    pub(super) cutoffs: Vec<f64>,
}

impl Shape {
    /// Whether it admits a point with these terms if the weighted sum may be at most `most`.
    pub(super) fn admits_up_to(&self, terms: &[f64], most: f64) -> bool {
        let sum = self.limit().map_or(0.0, |limit| dot(&limit.weights, terms));
        self.admits_with(terms, sum, most)
    }

    /// The same with the weighted sum known.
    pub(super) fn admits_with(&self, terms: &[f64], sum: f64, most: f64) -> bool {
        let limit = |limit: &Limit| sum <= most && within(terms, &limit.cutoffs);
        match self {
            Shape::Limit(one) => limit(one),
            Shape::Corners(corners) => corners.iter().any(|corner| within(terms, corner)),
            Shape::Union(one, corner) => limit(one) || within(terms, corner),
        }
    }

    /// How far it reaches along a segment, as a share of it; negative if not even its start is admitted. `sums` are
    /// the weighted sums of the segment's terms, and `most` is the largest allowed sum.
    pub(super) fn reach(&self, segment: &Segment, sums: [f64; 3], most: f64) -> f64 {
        let limit = |limit: &Limit| reach(sums, most).min(segment.until(&limit.cutoffs));
        match self {
            Shape::Limit(one) => limit(one),
            Shape::Corners(corners) => corners.iter().map(|corner| segment.until(corner)).fold(-1.0, f64::max),
            Shape::Union(one, corner) => limit(one).max(segment.until(corner)),
        }
    }

    fn limit(&self) -> Option<&Limit> {
        match self {
            Shape::Limit(limit) | Shape::Union(limit, _) => Some(limit),
            Shape::Corners(_) => None,
        }
    }

    /// The share by which it admits too much if this point fails; 0 if it does not admit it.
    pub(super) fn excess(&self, terms: &[f64]) -> f64 {
        match self {
            Shape::Limit(limit) if self.admits_up_to(terms, 1.0) => 1.0 - dot(&limit.weights, terms),
            _ => 0.0,
        }
    }
}

/// How far a sum of `constant + linear × share + square × share²` stays at most `most`.
fn reach([constant, linear, square]: [f64; 3], most: f64) -> f64 {
    let margin = most - constant;
    if margin < 0.0 {
        return -1.0;
    }
    if square == 0.0 {
        return if linear > 0.0 { margin / linear } else { f64::INFINITY };
    }
    // The larger root, in a form that is stable for small squares.
    let root = (linear * linear + 4.0 * square * margin).sqrt() + linear;
    if root > 0.0 { 2.0 * margin / root } else { f64::INFINITY }
}

/// The weights of many limits, by term and then by limit, to evaluate all limits at one point together.
#[derive(Clone, Debug)]
pub(super) struct WeightMatrix {
    count: usize,
    weights: Vec<f64>,
}

impl WeightMatrix {
    /// Shapes without a resource limit have zero weights.
    pub(super) fn new<'a>(shapes: impl ExactSizeIterator<Item = &'a Shape> + Clone, frame: &Frame) -> Self {
        let axes = frame.axes();
        let weight = |shape: &Shape, term: usize| shape.limit().map_or(0.0, |limit| limit.weights[term]);
        let terms = 0..=product(axes, axes - 1, axes - 1);
        Self {
            count: shapes.len(),
            weights: terms
                .flat_map(|term| shapes.clone().map(move |shape| weight(shape, term)))
                .collect(),
        }
    }

    /// The weighted sum of these terms under each limit.
    pub(super) fn sums(&self, terms: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        let rows = self.weights.chunks_exact(self.count).zip(terms);
        for (weights, term) in rows.filter(|(_, term)| **term != 0.0) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += weight * term;
            }
        }
        sums
    }
}

fn within(at: &[f64], corner: &[f64]) -> bool {
    at.iter().zip(corner).all(|(at, corner)| at <= corner)
}

/// A segment of rising hardness, prepared to evaluate how far many shapes reach along it.
pub(super) struct Segment {
    from: Vec<f64>,
    side: Vec<f64>,
    /// The terms along the segment are `constant + linear × share + square × share²`.
    constant: Vec<f64>,
    linear: Vec<f64>,
    square: Vec<f64>,
}

impl Segment {
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

    /// The constant, linear and square parts of the terms along the segment.
    pub(super) fn terms(&self) -> [&[f64]; 3] {
        [&self.constant, &self.linear, &self.square]
    }

    /// The share of the segment at or below a corner.
    fn until(&self, corner: &[f64]) -> f64 {
        let sides = self.from.iter().zip(&self.side).zip(corner);
        let shares = sides.map(|((from, side), corner)| match corner - from {
            margin if margin < 0.0 => -1.0,
            margin if *side > 0.0 => margin / side,
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
            let segment = Segment::new(from, &to);
            let limit = Limit { weights, cutoffs };
            for shape in [Shape::Limit(limit.clone()), Shape::Corners(vec![corner.clone()]), Shape::Union(limit, corner)] {
                let sums = segment.terms().map(|terms| shape.limit().map_or(0.0, |limit| dot(&limit.weights, terms)));
                let reach = shape.reach(&segment, sums, 1.0);
                prop_assume!((reach - share).abs() > 1e-9);
                prop_assert_eq!(shape.admits_up_to(&terms(&at), 1.0), share < reach, "{:?} reaches {}", shape, reach);
            }
        }
    }
}
