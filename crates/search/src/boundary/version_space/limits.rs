//! Limits on resources: the coordinates they are expressed in, the families they belong to, and how far along a
//! segment they reach.
//!
//! Coordinates are values relative to the largest one, so that a sum of tokens is a linear sum. A limit bounds a
//! weighted sum of coordinates and their products (the terms).

use super::mechanisms::Mechanism;
use crate::boundary::lattice::Cell;
use crate::boundary::{Axis, Easier, Scalar, Scale};

/// The affine map from cells to coordinates.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    first: Vec<f64>,
    step: Vec<f64>,
    /// The largest value by axis; `None` unless all axes are lengths or counts. Coordinates multiplied by it can be
    /// added.
    pub(super) largest: Option<Vec<f64>>,
    /// The block size by axis to which values are rounded up; 1 for none.
    pub(super) blocks: Vec<f64>,
    /// Tokens of a length that are never stored and so fill no block.
    unstored: f64,
    /// The axis that counts requests, if the others are lengths.
    pub(super) requests: Option<usize>,
    /// Tokens of each request in addition to the lengths that are searched.
    fixed: f64,
    pub(super) counting: Counting,
}

/// The terms of a cell.
#[derive(Clone, Debug)]
pub(super) enum Counting {
    /// Its coordinates and their products.
    Coordinates,
    /// The pieces of a mechanism.
    Mechanism(Mechanism),
    /// The logarithms of its coordinates and their products, from -1 at the smallest point to 1 at the largest, after a
    /// constant.
    Logarithms,
}

/// Axes that count requests. `LENGTHS`: lengths of each request.
const REQUESTS: [&str; 2] = ["concurrency", "batch"];
const LENGTHS: [&str; 2] = ["input", "output"];

impl Frame {
    /// Axes of one value have no coordinate; a length among them counts as fixed.
    pub(super) fn new(axes: &[Axis]) -> Self {
        let (mut first, mut step, mut largest) = (Vec::new(), Vec::new(), Some(Vec::new()));
        let (mut requests, mut lengths, mut fixed) = (None, 0, 0.0);
        for axis in axes {
            let (low, high) = (axis.range().0.as_f64(), axis.range().1.as_f64());
            if axis.last() == 0 {
                fixed += if LENGTHS.contains(&axis.name()) { low } else { 0.0 };
                continue;
            }
            let steps = axis.last() as f64;
            if REQUESTS.contains(&axis.name()) {
                requests = Some(first.len());
            }
            lengths += usize::from(LENGTHS.contains(&axis.name()));
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
        let axes = first.len();
        let requests = requests.filter(|_| lengths + 1 == axes);
        Self {
            first,
            step,
            largest,
            blocks: vec![1.0; axes],
            unstored: 0.0,
            fixed: if requests.is_some() { fixed } else { 0.0 },
            requests,
            counting: Counting::Coordinates,
        }
    }

    /// The frames to round in. If one length is searched besides the number of requests, there is a second frame
    /// without the last token of each request, which is never stored.
    pub(super) fn countings(&self) -> Vec<Self> {
        let stored = self.clone();
        if self.requests.is_none() || self.axes() != 2 {
            return vec![stored];
        }
        let but_the_last = Self {
            unstored: 1.0,
            ..self.clone()
        };
        vec![stored, but_the_last]
    }

    /// A copy of the frame that rounds values up to full blocks.
    pub(super) fn rounded(&self, blocks: Vec<f64>) -> Self {
        Self { blocks, ..self.clone() }
    }

    /// A copy of the frame with other terms.
    pub(super) fn by(&self, counting: Counting) -> Self {
        Self {
            counting,
            ..self.clone()
        }
    }

    /// Whether the terms are those of the coordinates.
    pub(super) fn has_coordinates(&self) -> bool {
        matches!(self.counting, Counting::Coordinates)
    }

    /// The terms of a cell.
    pub(super) fn terms(&self, cell: &Cell) -> Vec<f64> {
        let mut terms = Vec::new();
        self.write_terms(cell, &mut terms);
        terms
    }

    /// As [`Frame::terms`], in place of what `terms` holds.
    pub(super) fn write_terms(&self, cell: &Cell, terms: &mut Vec<f64>) {
        terms.clear();
        match &self.counting {
            Counting::Coordinates => {
                terms.extend(self.coordinates(cell));
                add_products(terms, self.axes());
            }
            Counting::Mechanism(mechanism) => terms.extend(mechanism.terms(cell)),
            Counting::Logarithms => {
                let log = |(at, first): (f64, &f64)| {
                    if self.largest.is_some() && *first > 0.0 {
                        1.0 - 2.0 * at.ln() / first.ln()
                    } else {
                        2.0 * at - 1.0
                    }
                };
                terms.extend(self.coordinates(cell).zip(&self.first).map(log));
                add_products(terms, self.axes());
                terms.insert(0, 1.0);
            }
        }
    }

    pub(super) fn axes(&self) -> usize {
        self.first.len()
    }

    pub(super) fn coordinates(&self, cell: &Cell) -> impl Iterator<Item = f64> {
        let sides = cell.iter().zip(&self.blocks).enumerate();
        sides.map(|(axis, (at, block))| self.coordinate(axis, *at, *block))
    }

    /// The coordinate on one axis, rounded up to full blocks of this size.
    pub(super) fn coordinate(&self, axis: usize, at: i64, block: f64) -> f64 {
        let exact = self.first[axis] + self.step[axis] * at as f64;
        match &self.largest {
            Some(largest) if block > 1.0 => {
                let stored = exact * largest[axis] + self.fixed - self.unstored;
                (round_up(stored, block) - self.fixed) / largest[axis]
            }
            _ => exact,
        }
    }

    /// The largest cell up to `last` with the same coordinates.
    pub(super) fn block_ends(&self, cell: &Cell, last: &Cell) -> Cell {
        let place = self.coordinates(cell);
        let sides = cell.iter().zip(last).zip(place).enumerate();
        let to = |(axis, ((at, last), place)): (usize, ((&i64, &i64), f64))| {
            let further = match &self.largest {
                Some(largest) if self.blocks[axis] > 1.0 => {
                    let exact = self.first[axis] + self.step[axis] * *at as f64;
                    ((place - exact) * largest[axis] + self.unstored).round() as i64
                }
                _ => 0,
            };
            (at + further).min(*last)
        };
        sides.map(to).collect()
    }
}

fn round_up(value: f64, block: f64) -> f64 {
    (value / block - 1e-9).ceil() * block
}

/// True if the values are not negative and equally spaced, and larger ones are harder.
fn is_amount(axis: &Axis) -> bool {
    let (low, high) = (axis.range().0, axis.range().1);
    let even = axis.scale() == Scale::Linear || matches!(high, Scalar::Int(_));
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
    terms.reserve(axes * (axes + 1) / 2);
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

/// Limits whose weights are non-negative combinations of basis vectors.
#[derive(Clone)]
pub(super) struct Family {
    /// By coefficient, then by term.
    pub(super) basis: Vec<Vec<f64>>,
    /// The relative prior probability.
    pub(super) prior: f64,
}

impl Family {
    /// The factor of each coefficient at a point with these terms.
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

/// The families:
///
/// * tokens in flight: the sum of the axes;
/// * concurrency × length: one axis times the sum of the others and of lengths that are not searched. Alone, with a
///   constant cost per request, or with activations (any linear sum);
/// * attention that grows with the square of one axis, plus any linear sum;
/// * any linear sum;
/// * any sum of coordinates and their products.
///
/// If the axis that counts requests is known, families that make no sense for it are left out.
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
        if frame.requests.is_none() {
            let mut sum = vec![0.0; count];
            for (weight, most) in sum.iter_mut().zip(most) {
                *weight = most / top;
            }
            add(vec![sum], 20.0);
        }
        let times = |axis: usize, fixed: f64| {
            let mut times = vec![0.0; count];
            times[axis] = fixed / top;
            for other in (0..axes).filter(|other| *other != axis) {
                times[product(axes, axis, other)] = most[other] / top;
            }
            times
        };
        // With two axes the product is the same for either.
        let any = 0..if axes == 2 { 1 } else { axes };
        for axis in frame.requests.map_or(any, |requests| requests..requests + 1) {
            if axes > 2 {
                add([vec![times(axis, 0.0)], linear.clone()].concat(), 16.0);
            } else if frame.requests.is_some() {
                add(vec![times(axis, 0.0), unit(axis)], 16.0);
            }
            add(vec![times(axis, frame.fixed)], 20.0);
        }
    }
    for axis in 0..axes {
        add([linear.clone(), vec![unit(product(axes, axis, axis))]].concat(), 12.0);
    }
    add(linear, 16.0);
    add((0..count).map(unit).collect(), 12.0);
    all
}

/// For two axes: their product plus one of them. This covers a constant cost per request (which `families` has already
/// if the axis of requests is known), or a cost per token whatever the concurrency. Used only if nothing simpler
/// agrees; otherwise these families would cost extra probes.
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
    let others = (0..2).filter(|axis| Some(*axis) != frame.requests);
    others.map(with_axis).collect()
}

/// A set of coordinates that contains, with each point, every easier one: the union of these limits.
#[derive(Clone, Debug)]
pub(super) struct Shape(pub(super) Vec<Limit>);

/// Σ wᵢuᵢ + Σ wᵢⱼuᵢuⱼ ≤ 1 with non-negative weights, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// By term.
    pub(super) weights: Vec<f64>,
    /// The largest coordinate by axis.
    pub(super) cutoffs: Vec<f64>,
}

impl Limit {
    /// Everything at or below a corner.
    pub(super) fn corner(cutoffs: Vec<f64>) -> Self {
        let axes = cutoffs.len();
        Self {
            weights: vec![0.0; product(axes, axes - 1, axes - 1) + 1],
            cutoffs,
        }
    }
}

impl Shape {
    /// Whether it admits a point with these terms if the weighted sum may be at most `most`.
    pub(super) fn admits_up_to(&self, terms: &[f64], most: f64) -> bool {
        self.admits_with(terms, dot(&self.0[0].weights, terms), most)
    }

    /// As [`Self::admits_up_to`], with the weighted sum of the first limit given.
    pub(super) fn admits_with(&self, terms: &[f64], sum: f64, most: f64) -> bool {
        let (first, others) = (&self.0[0], &self.0[1..]);
        let admits = |limit: &Limit, sum: f64| sum <= most && within(terms, &limit.cutoffs);
        admits(first, sum) || others.iter().any(|limit| admits(limit, dot(&limit.weights, terms)))
    }

    /// How far it reaches along a segment, as a share of it; negative if not even its start is admitted. `sums` are
    /// the weighted sums of the segment's terms under the first limit, and `most` is the largest allowed sum.
    pub(super) fn reach(&self, segment: &Segment, sums: [f64; 3], most: f64) -> f64 {
        let reach = |limit: &Limit, sums: [f64; 3]| reach(sums, most).min(segment.until(&limit.cutoffs));
        let sums_under = |limit: &Limit| segment.terms().map(|terms| dot(&limit.weights, terms));
        let others = self.0[1..].iter().map(|limit| reach(limit, sums_under(limit)));
        others.fold(reach(&self.0[0], sums), f64::max)
    }

    /// How far the weighted sum of a point that failed lies below the limit, as a share of it; 0 if the shape rejects
    /// the point.
    pub(super) fn excess(&self, terms: &[f64]) -> f64 {
        let limits = self.0.iter().filter(|limit| within(terms, &limit.cutoffs));
        limits.map(|limit| 1.0 - dot(&limit.weights, terms)).fold(0.0, f64::max)
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
    /// Uses the first limit of each shape.
    pub(super) fn new<'a>(shapes: impl ExactSizeIterator<Item = &'a Shape> + Clone, frame: &Frame) -> Self {
        let axes = frame.axes();
        // Mechanisms have fewer terms, and are evaluated alone.
        let weight = |shape: &Shape, term: usize| shape.0[0].weights.get(term).copied().unwrap_or(0.0);
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

    #[test]
    fn every_product_is_where_it_is_said_to_be() {
        let at = [2.0, 3.0, 5.0, 7.0];
        for one in 0..4 {
            for other in 0..4 {
                assert!((terms(&at)[product(4, one, other)] - at[one] * at[other]).abs() < 1e-12);
            }
        }
    }

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
            let corner = Limit::corner(corner);
            for shape in [vec![limit.clone()], vec![corner.clone()], vec![limit, corner]].map(Shape) {
                let sums = segment.terms().map(|terms| dot(&shape.0[0].weights, terms));
                let reach = shape.reach(&segment, sums, 1.0);
                prop_assume!((reach - share).abs() > 1e-9);
                prop_assert_eq!(shape.admits_up_to(&terms(&at), 1.0), share < reach, "{:?} reaches {}", shape, reach);
            }
        }
    }
}
