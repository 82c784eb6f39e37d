//! Limits on one quantity, such as tokens in flight, whose maximum falls once or twice along an axis: where an engine
//! begins to use larger buffers, or another kernel.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::candidates::{COEFFICIENT_RANGE, FURTHER_COEFFICIENT, ProvenTerms};
use super::fitting::NO_CUTOFF;
use super::limits::{Family, Limit, dot};

/// The largest factor by which the maximum falls at a step.
const MAX_FALL: f64 = 1.5;
/// The prior weight, relative to the family without steps.
const PRIOR: f64 = 0.2;

/// A proven point: its place on the axis, the quantity, and whether it fits.
type Row = (f64, f64, bool);

/// A part of the axis: how much of the quantity fits there, and where the part may end.
#[derive(Clone, Copy)]
struct Part {
    most: (f64, f64),
    end: (f64, f64),
}

/// The steps that agree with everything proven.
pub(super) struct Steps {
    axes: usize,
    axis: usize,
    /// The quantity.
    weights: Vec<f64>,
    /// Divisions of the axis, each with its weight.
    divisions: Vec<(f64, Vec<Part>)>,
}

impl Steps {
    /// Steps of a family of one coefficient along an axis, as few as agree. `None` if that takes more than two.
    pub(super) fn new(family: &Family, axis: usize, axes: usize, proven: &ProvenTerms) -> Option<Self> {
        let weights = family.weights(&[1.0]);
        let sides = [(&proven.fits, true), (&proven.fails, false)];
        let rows = sides.into_iter().flat_map(|(side, fits)| {
            let row = |terms: &Vec<f64>| (terms[axis], dot(&weights, terms), fits);
            side.iter().map(row).collect::<Vec<Row>>()
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let highest: f64 = weights.iter().sum();
        let any = (highest * (-COEFFICIENT_RANGE).exp(), highest);
        let agreeing = |falls: usize| {
            let mut found = Vec::new();
            divide(&rows, any, falls, &[], &mut found);
            let weighted = |parts: Vec<Part>| (family.prior * PRIOR * evidence(&parts), parts);
            found.into_iter().map(weighted).collect::<Vec<_>>()
        };
        let divisions = (1..=2).map(agreeing).find(|divisions| !divisions.is_empty())?;
        Some(Self {
            axes,
            axis,
            weights,
            divisions,
        })
    }

    /// The prior probability times the evidence, as for families.
    pub(super) fn weight(&self) -> f64 {
        self.divisions.iter().map(|(weight, _)| weight).sum()
    }

    /// Draws `count` random divisions, each with a limit for every part.
    pub(super) fn draw(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<Vec<Limit>> {
        let draw = |index: usize| {
            let mut place = (index as f64 + 0.5) / count as f64 * self.weight();
            let reached = |(weight, _): &&(f64, Vec<Part>)| {
                place -= weight;
                place <= 0.0
            };
            let division = self.divisions.iter().find(reached).or(self.divisions.last());
            division.map_or_else(Vec::new, |(_, parts)| self.limits(parts, random))
        };
        (0..count).map(draw).collect()
    }

    fn limits(&self, parts: &[Part], random: &mut ChaCha8Rng) -> Vec<Limit> {
        let (mut least, mut highest) = (0.0, f64::INFINITY);
        let limit = |Part { most, end }: &Part| {
            let (low, high) = (most.0.max(least), most.1.min(highest));
            let most = low * (high / low).powf(random.random::<f64>() * (1.0 - 1e-9));
            (least, highest) = (most, most * MAX_FALL);
            let mut cutoffs = vec![NO_CUTOFF; self.axes];
            cutoffs[self.axis] = end.0 + (end.1 - end.0) * random.random::<f64>() * (1.0 - 1e-9);
            Limit {
                weights: self.weights.iter().map(|weight| weight / most).collect(),
                cutoffs,
            }
        };
        parts.iter().rev().map(limit).collect()
    }
}

/// Finds the ways to divide the rows into parts with one maximum each, with this number of falls.
fn divide(rows: &[Row], any: (f64, f64), falls: usize, before: &[Part], found: &mut Vec<Vec<Part>>) {
    let mut most = any;
    for (index, (at, quantity, fits)) in rows.iter().enumerate() {
        if *fits {
            most.0 = most.0.max(*quantity);
        } else {
            most.1 = most.1.min(*quantity);
        }
        if most.0 >= most.1 {
            return;
        }
        let with = |end| [before, &[Part { most, end }]].concat();
        match rows.get(index + 1) {
            None if falls == 0 => found.extend(falling(with((NO_CUTOFF, NO_CUTOFF)))),
            Some((next, ..)) if falls > 0 && next > at => {
                divide(&rows[index + 1..], any, falls - 1, &with((*at, *next)), found);
            }
            _ => {}
        }
    }
}

/// Narrows the maximum of each part to the range that the other parts allow. `None` if nothing is left.
fn falling(mut parts: Vec<Part>) -> Option<Vec<Part>> {
    for index in 1..parts.len() {
        let (low, high) = parts[index - 1].most;
        let most = &mut parts[index].most;
        *most = (most.0.max(low / MAX_FALL), most.1.min(high));
    }
    for index in (1..parts.len()).rev() {
        let (low, high) = parts[index].most;
        let most = &mut parts[index - 1].most;
        *most = (most.0.max(low), most.1.min(high * MAX_FALL));
    }
    parts.iter().all(|part| part.most.0 < part.most.1).then_some(parts)
}

/// The share of all such steps that agrees with the proven points.
fn evidence(parts: &[Part]) -> f64 {
    let ranges = parts
        .iter()
        .map(|part| ((part.most.1 / part.most.0).ln() / COEFFICIENT_RANGE).min(1.0));
    let exponents = std::iter::once(1.0).chain(std::iter::repeat(FURTHER_COEFFICIENT));
    let places = parts[..parts.len() - 1].iter().map(|part| part.end.1 - part.end.0);
    ranges
        .zip(exponents)
        .map(|(range, exponent)| range.powf(exponent))
        .chain(places)
        .product()
}
