//! Fits limits of one family to the proven points: the limit with the least violation, and random limits around it.
//!
//! The random limits come from hit-and-run: starting at a limit that agrees, take a step of random length along a
//! direction, within the agreeing range (Smith 1984, "Efficient Monte Carlo procedures for generating points uniformly
//! distributed over bounded regions"). The directions are single coefficients, the limit itself, and the difference of
//! two others (ter Braak 2006, "A Markov chain Monte Carlo version of the genetic algorithm differential evolution"),
//! which follows the region where it is narrow. Coefficients are uniform on a logarithmic scale, so most limits depend
//! on few terms.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::limits::{Family, Limit, dot};
use super::linear_program::LinearProgram;

/// A cutoff beyond every coordinate: no cutoff.
pub(super) const NO_CUTOFF: f64 = 2.0;
/// Upper end of the drawn cutoffs. Most of them exceed every coordinate, too.
const LARGEST_CUTOFF: f64 = 4.0;
/// Rows of each side added to the linear program per round.
const ROWS_PER_ROUND: usize = 4;
const ROUNDS: usize = 24;

/// The proven points in the features of one family.
pub(super) struct Constraints {
    pub(super) fits: ProvenPoints,
    pub(super) fails: ProvenPoints,
    /// The largest coordinate that fits, by axis.
    pub(super) reach: Vec<f64>,
}

/// The points of one side, stored contiguously.
pub(super) struct ProvenPoints {
    axes: usize,
    coefficients: usize,
    at: Vec<f64>,
    features: Vec<f64>,
}

/// A proven point.
#[derive(Clone, Copy)]
pub(super) struct ProvenPoint<'a> {
    pub(super) at: &'a [f64],
    /// The factor of each coefficient of the family at this point.
    pub(super) features: &'a [f64],
}

impl ProvenPoints {
    /// `places` are terms.
    fn new(family: &Family, axes: usize, places: &[impl AsRef<[f64]>]) -> Self {
        let mut rows = Self {
            axes,
            coefficients: family.basis.len(),
            at: Vec::with_capacity(places.len() * axes),
            features: Vec::with_capacity(places.len() * family.basis.len()),
        };
        for terms in places.iter().map(AsRef::as_ref) {
            rows.at.extend_from_slice(&terms[..axes]);
            rows.features.extend(family.features(terms));
        }
        rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ProvenPoint<'_>> {
        let rows = self
            .at
            .chunks_exact(self.axes)
            .zip(self.features.chunks_exact(self.coefficients));
        rows.map(|(at, features)| ProvenPoint { at, features })
    }
}

/// One limit of a family: coefficients of its basis vectors, and a cutoff on each axis.
#[derive(Clone, Debug)]
pub(super) struct LimitSample {
    pub(super) coefficients: Vec<f64>,
    pub(super) cutoffs: Vec<f64>,
}

impl LimitSample {
    pub(super) fn limit(self, family: &Family) -> Limit {
        Limit {
            weights: family.weights(&self.coefficients),
            cutoffs: self.cutoffs,
        }
    }

    /// How far the sum at a fitting point is above 1, or at a failing point below 1 if no cutoff explains it.
    fn violation(&self, row: ProvenPoint, fits: bool) -> f64 {
        let sum = dot(&self.coefficients, row.features);
        match fits {
            true => sum - 1.0,
            false if self.cuts(row) => -1.0,
            false => 1.0 - sum,
        }
    }

    pub(super) fn cuts(&self, row: ProvenPoint) -> bool {
        row.at.iter().zip(&self.cutoffs).any(|(at, cutoff)| at > cutoff)
    }
}

impl Constraints {
    /// `fits` and `fails` are terms of proven points.
    pub(super) fn new<T: AsRef<[f64]>>(family: &Family, axes: usize, fits: &[T], fails: &[T]) -> Self {
        let reach = |axis: usize| fits.iter().map(|terms| terms.as_ref()[axis]).fold(0.0, f64::max);
        Self {
            fits: ProvenPoints::new(family, axes, fits),
            fails: ProvenPoints::new(family, axes, fails),
            reach: (0..axes).map(reach).collect(),
        }
    }

    /// The probability that cutoffs drawn at random agree with the answers, as evidence for the cutoffs.
    pub(super) fn cutoff_evidence(&self, sample: &LimitSample) -> f64 {
        let axes = 0..self.reach.len();
        let of = |axis: usize| {
            let explained = |row: &ProvenPoint| {
                let beyond = |other: usize| other != axis && row.at[other] > sample.cutoffs[other];
                dot(&sample.coefficients, row.features) > 1.0 + 1e-9 || axes.clone().any(beyond)
            };
            let failing = self.fails.iter().filter(|row| !explained(row));
            let most = failing.map(|row| row.at[axis]).fold(NO_CUTOFF, f64::min);
            (most - self.reach[axis]) / NO_CUTOFF
        };
        let cut = axes.clone().filter(|axis| sample.cutoffs[*axis] < NO_CUTOFF);
        cut.map(of).product()
    }

    /// The limit with the least violation, and that violation, which is negative if the limit agrees with everything.
    /// It has cutoffs just beyond what fits on the axes whose bit is set in `cut_axes`.
    ///
    /// Solves a linear program over few rows, adds the rows violated most, and repeats until there are none. `None`
    /// if that takes too many rounds, or if the violation exceeds `give_up_above`.
    pub(super) fn best_limit(&self, cut_axes: usize, give_up_above: f64) -> Option<(f64, LimitSample)> {
        let cutoff = |axis: usize| match cut_axes >> axis & 1 {
            1 => self.reach[axis] * (1.0 + 1e-9),
            _ => NO_CUTOFF,
        };
        let mut sample = LimitSample {
            coefficients: Vec::new(),
            cutoffs: (0..self.reach.len()).map(cutoff).collect(),
        };
        let fails = || self.fails.iter().filter(|row| !sample.cuts(*row));
        if self.fits.coefficients == 1 {
            let most = self.fits.iter().map(|row| row.features[0]).fold(0.0, f64::max);
            let least = fails().map(|row| row.features[0]).fold(f64::INFINITY, f64::min);
            let (violation, coefficient) = single(most, least);
            sample.coefficients = vec![coefficient];
            return Some((violation, sample));
        }
        let sides = [(self.fits.iter().collect::<Vec<_>>(), true), (fails().collect(), false)];
        // Variables: the worst violation, then the coefficients. A tiny cost on the coefficients picks the smallest
        // of equally good limits.
        let count = self.fits.coefficients;
        let mut program = LinearProgram::new([1.0].into_iter().chain((0..count).map(|_| 1e-6)).collect());
        for (rows, fits) in &sides {
            let step = rows.len().div_ceil(2 * ROWS_PER_ROUND).max(1);
            rows.iter()
                .step_by(step)
                .for_each(|row| constrain(&mut program, *row, *fits));
        }
        for _ in 0..ROUNDS {
            if !program.solve() {
                return None;
            }
            let violation = program.value(0) - 1.0;
            if violation > give_up_above {
                return None;
            }
            sample.coefficients = (1..=count).map(|coefficient| program.value(coefficient)).collect();
            let mut agrees = true;
            for (rows, fits) in &sides {
                let mut missed: Vec<(f64, ProvenPoint)> =
                    rows.iter().map(|row| (sample.violation(*row, *fits), *row)).collect();
                missed.retain(|(by, _)| *by > violation + 1e-7);
                missed.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, row) in missed.into_iter().take(ROWS_PER_ROUND) {
                    agrees = false;
                    constrain(&mut program, row, *fits);
                }
            }
            if agrees {
                return Some((violation, sample));
            }
        }
        None
    }
}

/// Adds the row: the sum at a fitting point is at most 1 plus the violation, at a failing point at least 1 minus it.
/// Variables are not negative, so the first one is the violation plus 1.
fn constrain(program: &mut LinearProgram, row: ProvenPoint, fits: bool) {
    let (sign, most) = if fits { (1.0, 0.0) } else { (-1.0, -2.0) };
    program.add_upper_bound(
        [-1.0]
            .into_iter()
            .chain(row.features.iter().map(|feature| sign * feature)),
        most,
    );
}

/// With a single coefficient: the least violation and the coefficient that has it, from the largest fitting and the
/// smallest failing feature.
fn single(most: f64, least: f64) -> (f64, f64) {
    if least.is_infinite() {
        return (-1.0, 0.0);
    }
    let coefficient = 2.0 / (most + least).max(1e-9);
    ((most - least) / (most + least).max(1e-9), coefficient)
}

/// The number of moves per limit.
const SWEEPS: usize = 16;
/// Coefficients well below this are equally likely.
const SMALL: f64 = 0.01;
/// Rows of each side that the walk checks: those nearest to the first limit.
const NEAREST: usize = 20;

/// `count` limits that violate nothing by more than `slack`, starting from `initial`. Fewer if rows that the walk did
/// not check are violated.
pub(super) fn samples(
    constraints: &Constraints,
    initial: &[LimitSample],
    slack: f64,
    count: usize,
    random: &mut ChaCha8Rng,
) -> Vec<LimitSample> {
    // If answers are wrong, no limit of the family may be close enough.
    let Some(first) = initial.first() else {
        return Vec::new();
    };
    let rows = nearest(constraints, first);
    let features: Vec<Vec<f64>> = (0..first.coefficients.len())
        .map(|index| rows.iter().map(|(row, _)| row.features[index]).collect())
        .collect();
    let mut walkers: Vec<Walker> = (0..count)
        .map(|index| Walker::new(initial[index % initial.len()].clone(), &rows, slack))
        .collect();
    for _ in 0..SWEEPS {
        for index in 0..count {
            let (one, other) = (random.random_range(0..count), random.random_range(0..count));
            let pair = walkers[one]
                .sample
                .coefficients
                .iter()
                .zip(&walkers[other].sample.coefficients);
            let direction: Vec<f64> = pair.map(|(one, other)| one - other).collect();
            walkers[index].step(&features, direction, &constraints.reach, random);
        }
    }
    let over =
        |sample: &LimitSample, row: ProvenPoint| dot(&sample.coefficients, row.features) > 1.0 + 2.0 * slack + 1e-9;
    let under = |sample: &LimitSample, row: ProvenPoint| {
        !sample.cuts(row) && dot(&sample.coefficients, row.features) < 1.0 - 2.0 * slack - 1e-9
    };
    let mut samples: Vec<LimitSample> = walkers.into_iter().map(|walker| walker.sample).collect();
    samples.retain(|sample| {
        !constraints.fits.iter().any(|row| over(sample, row)) && !constraints.fails.iter().any(|row| under(sample, row))
    });
    if samples.is_empty() {
        samples.extend(initial.iter().cloned());
    }
    samples
}

/// The rows of each side nearest to a limit; `true` marks fitting ones.
fn nearest<'a>(constraints: &'a Constraints, first: &LimitSample) -> Vec<(ProvenPoint<'a>, bool)> {
    let mut rows = Vec::new();
    for (side, fits) in [(&constraints.fits, true), (&constraints.fails, false)] {
        let mut near: Vec<(f64, ProvenPoint)> = side
            .iter()
            .map(|row| ((dot(&first.coefficients, row.features) - 1.0).abs(), row))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.extend(near.into_iter().take(NEAREST).map(|(_, row)| (row, fits)));
    }
    rows
}

/// A limit that moves.
struct Walker<'a> {
    sample: LimitSample,
    rows: &'a [(ProvenPoint<'a>, bool)],
    /// The weighted sum at every row.
    sums: Vec<f64>,
    /// Whether each row constrains the sum. A failing row beyond a cutoff does not.
    binding: Vec<bool>,
    slack: f64,
}

impl<'a> Walker<'a> {
    fn new(sample: LimitSample, rows: &'a [(ProvenPoint<'a>, bool)], slack: f64) -> Self {
        let sums = rows
            .iter()
            .map(|(row, _)| dot(&sample.coefficients, row.features))
            .collect();
        Self {
            sample,
            rows,
            sums,
            binding: vec![true; rows.len()],
            slack,
        }
    }

    /// Moves the limit by one random step that keeps it in agreement. `features` are by coefficient, then by row.
    fn step(&mut self, features: &[Vec<f64>], direction: Vec<f64>, reach: &[f64], random: &mut ChaCha8Rng) {
        self.draw_cutoffs(reach, random);
        for (index, slopes) in features.iter().enumerate() {
            let coefficient = self.sample.coefficients[index];
            let (from, to) = self.step_range(slopes, -coefficient, 1e3);
            let (low, high) = (coefficient + from + SMALL, coefficient + to + SMALL);
            let drawn = (low * (high / low).powf(random.random::<f64>()) - SMALL).max(0.0);
            self.sample.coefficients[index] = drawn;
            self.shift(slopes, drawn - coefficient);
        }
        let mut here = inverse_prior(&self.sample.coefficients);
        let slopes = self.rows.iter().map(|(row, _)| dot(&direction, row.features)).collect();
        let itself = (self.sample.coefficients.clone(), self.sums.clone());
        // The change of each coefficient, and of the sum at every row.
        for (direction, slopes) in [(direction, slopes), itself] {
            if direction.iter().all(|side| side.abs() < 1e-12) {
                continue;
            }
            let (mut from, mut to) = (-1e3, 1e3);
            for (coefficient, side) in self.sample.coefficients.iter().zip(&direction) {
                narrow(&mut from, &mut to, -coefficient, -side);
            }
            let (from, to) = self.step_range(&slopes, from, to);
            let step = from + (to - from) * random.random::<f64>();
            let sides = self.sample.coefficients.iter().zip(&direction);
            let moved: Vec<f64> = sides
                .map(|(coefficient, side)| (coefficient + step * side).max(0.0))
                .collect();
            let there = inverse_prior(&moved);
            if random.random::<f64>() * there < here {
                (self.sample.coefficients, here) = (moved, there);
                self.shift(&slopes, step);
            }
        }
    }

    /// Redraws the cutoffs: from the largest fitting value to the first failing one that nothing else explains.
    fn draw_cutoffs(&mut self, reach: &[f64], random: &mut ChaCha8Rng) {
        for axis in 0..reach.len() {
            let mut most = LARGEST_CUTOFF;
            for ((row, fits), sum) in self.rows.iter().zip(&self.sums) {
                let beyond = |other: usize| other != axis && row.at[other] > self.sample.cutoffs[other];
                if !fits && *sum < 1.0 - self.slack && !(0..reach.len()).any(beyond) {
                    most = most.min(row.at[axis]);
                }
            }
            let share = random.random::<f64>() * (1.0 - 1e-9);
            self.sample.cutoffs[axis] = reach[axis] + (most - reach[axis]) * share;
        }
        for (binding, (row, fits)) in self.binding.iter_mut().zip(self.rows) {
            *binding = *fits || !self.sample.cuts(*row);
        }
    }

    /// The range of steps, backward and forward, that keeps every row satisfied if a step changes the sums by these
    /// slopes.
    fn step_range(&self, slopes: &[f64], mut from: f64, mut to: f64) -> (f64, f64) {
        let rows = self.rows.iter().zip(&self.binding).zip(&self.sums).zip(slopes);
        for ((((_, fits), binding), sum), slope) in rows {
            if *fits {
                narrow(&mut from, &mut to, sum - 1.0 - self.slack, *slope);
            } else if *binding {
                narrow(&mut from, &mut to, 1.0 - self.slack - sum, -slope);
            }
        }
        (from, to)
    }

    fn shift(&mut self, slopes: &[f64], step: f64) {
        for (sum, slope) in self.sums.iter_mut().zip(slopes) {
            *sum += step * slope;
        }
    }
}

/// Narrows a range of steps to those at which `value + step × slope` is not positive.
fn narrow(from: &mut f64, to: &mut f64, value: f64, slope: f64) {
    if slope > 1e-15 {
        // Divide only if it narrows the range.
        if -value < *to * slope {
            *to = (-value / slope).max(0.0);
        }
    } else if slope < -1e-15 && -value < *from * slope {
        *from = (-value / slope).min(0.0);
    }
}

/// The inverse of the prior density of coefficients, up to a factor.
fn inverse_prior(coefficients: &[f64]) -> f64 {
    coefficients.iter().map(|coefficient| coefficient + SMALL).product()
}
