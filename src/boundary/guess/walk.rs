//! Limits drawn at random from those of a family that agree with what is proven.
//!
//! Hit-and-run: from a limit that agrees, a step of random length along a direction, as far as agreement goes (Smith 1984,
//! "Efficient Monte Carlo procedures for generating points uniformly distributed over bounded regions"). The directions are
//! single amounts, the limit itself, and the difference of two others (ter Braak 2006, "A Markov chain Monte Carlo version of
//! the genetic algorithm differential evolution"), which follows the region where it is narrow. Amounts are as likely on a
//! logarithmic scale, so that most limits depend on few terms.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::frame::dot;
use super::proven::{Draw, NO_CUTOFF, Proven, Row};

/// How often each limit is moved.
const SWEEPS: usize = 16;
/// Amounts well below this are as likely as one another.
const SMALL: f64 = 0.01;
/// Rows of each side that the walk looks at: those nearest to the first limit.
const NEAREST: usize = 20;

/// `count` draws that miss nothing by more than `slack`, begun from `firsts`; fewer where rows that the walk did not look at
/// are missed.
pub(super) fn draws(proven: &Proven, firsts: &[Draw], slack: f64, count: usize, random: &mut ChaCha8Rng) -> Vec<Draw> {
    // Where answers are wrong, no first limit of a family may be near enough.
    let Some(first) = firsts.first() else {
        return Vec::new();
    };
    let rows = nearest(proven, first);
    let features: Vec<Vec<f64>> = (0..first.amounts.len())
        .map(|index| rows.iter().map(|(row, _)| row.features[index]).collect())
        .collect();
    let mut walkers: Vec<Walker> = (0..count)
        .map(|index| Walker::new(firsts[index % firsts.len()].clone(), &rows, slack))
        .collect();
    for _ in 0..SWEEPS {
        for index in 0..count {
            let (one, other) = (random.random_range(0..count), random.random_range(0..count));
            let pair = walkers[one].draw.amounts.iter().zip(&walkers[other].draw.amounts);
            let direction = Direction::new(pair.map(|(one, other)| one - other).collect(), &rows);
            walkers[index].wander(&features, &direction, &proven.reach, random);
        }
    }
    let over = |draw: &Draw, row: Row| dot(&draw.amounts, row.features) > 1.0 + 2.0 * slack + 1e-9;
    let under = |draw: &Draw, row: Row| !draw.cuts(row) && dot(&draw.amounts, row.features) < 1.0 - 2.0 * slack - 1e-9;
    let mut draws: Vec<Draw> = walkers.into_iter().map(|walker| walker.draw).collect();
    draws.retain(|draw| {
        !proven.fits.iter().any(|row| over(draw, row)) && !proven.fails.iter().any(|row| under(draw, row))
    });
    if draws.is_empty() {
        draws.extend(firsts.iter().cloned());
    }
    draws
}

/// The rows of each side that lie nearest to a limit; true marks the fitting ones.
fn nearest<'a>(proven: &'a Proven, first: &Draw) -> Vec<(Row<'a>, bool)> {
    let mut rows = Vec::new();
    for (side, fits) in [(&proven.fits, true), (&proven.fails, false)] {
        let mut near: Vec<(f64, Row)> = side
            .iter()
            .map(|row| ((dot(&first.amounts, row.features) - 1.0).abs(), row))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.extend(near.into_iter().take(NEAREST).map(|(_, row)| (row, fits)));
    }
    rows
}

/// A way to go: by how much each amount changes, and with it the sum at every row.
struct Direction {
    amounts: Vec<f64>,
    slopes: Vec<f64>,
}

impl Direction {
    fn new(amounts: Vec<f64>, rows: &[(Row, bool)]) -> Self {
        let slopes = rows.iter().map(|(row, _)| dot(&amounts, row.features)).collect();
        Self { amounts, slopes }
    }
}

/// A draw on its way.
struct Walker<'a> {
    draw: Draw,
    rows: &'a [(Row<'a>, bool)],
    /// The weighted sum at every row.
    sums: Vec<f64>,
    /// Of every row whether the sum is bound by it: that of a failing one beyond a cutoff is not.
    binding: Vec<bool>,
    slack: f64,
}

impl<'a> Walker<'a> {
    fn new(draw: Draw, rows: &'a [(Row<'a>, bool)], slack: f64) -> Self {
        let sums = rows.iter().map(|(row, _)| dot(&draw.amounts, row.features)).collect();
        Self {
            draw,
            rows,
            sums,
            binding: vec![true; rows.len()],
            slack,
        }
    }

    /// Moves at random within what agrees; `features` are by amount, then by row.
    fn wander(&mut self, features: &[Vec<f64>], direction: &Direction, reach: &[f64], random: &mut ChaCha8Rng) {
        self.cut(reach, random);
        for (index, slopes) in features.iter().enumerate() {
            let amount = self.draw.amounts[index];
            let (from, to) = self.room(slopes, -amount, 1e3);
            let (low, high) = (amount + from + SMALL, amount + to + SMALL);
            let drawn = (low * (high / low).powf(random.random::<f64>()) - SMALL).max(0.0);
            self.draw.amounts[index] = drawn;
            self.shift(slopes, drawn - amount);
        }
        let mut here = rarity(&self.draw.amounts);
        let itself = Direction {
            amounts: self.draw.amounts.clone(),
            slopes: self.sums.clone(),
        };
        for Direction {
            amounts: direction,
            slopes,
        } in [direction, &itself]
        {
            if direction.iter().all(|side| side.abs() < 1e-12) {
                continue;
            }
            let (mut from, mut to) = (-1e3, 1e3);
            for (amount, side) in self.draw.amounts.iter().zip(direction) {
                bound(&mut from, &mut to, -amount, -side);
            }
            let (from, to) = self.room(slopes, from, to);
            let step = from + (to - from) * random.random::<f64>();
            let sides = self.draw.amounts.iter().zip(direction);
            let moved: Vec<f64> = sides.map(|(amount, side)| (amount + step * side).max(0.0)).collect();
            let there = rarity(&moved);
            if random.random::<f64>() * there < here {
                (self.draw.amounts, here) = (moved, there);
                self.shift(slopes, step);
            }
        }
    }

    /// Draws the cutoffs anew: from what fits to the first failing place that nothing else explains.
    fn cut(&mut self, reach: &[f64], random: &mut ChaCha8Rng) {
        for axis in 0..reach.len() {
            let mut most = NO_CUTOFF;
            for ((row, fits), sum) in self.rows.iter().zip(&self.sums) {
                let beyond = |other: usize| other != axis && row.at[other] > self.draw.cutoffs[other];
                if !fits && *sum < 1.0 - self.slack && !(0..reach.len()).any(beyond) {
                    most = most.min(row.at[axis]);
                }
            }
            let share = random.random::<f64>() * (1.0 - 1e-9);
            self.draw.cutoffs[axis] = reach[axis] + (most - reach[axis]) * share;
        }
        for (binding, (row, fits)) in self.binding.iter_mut().zip(self.rows) {
            *binding = *fits || !self.draw.cuts(*row);
        }
    }

    /// How far it can go, backward and forward, when a step changes the sums by these slopes.
    fn room(&self, slopes: &[f64], mut from: f64, mut to: f64) -> (f64, f64) {
        let rows = self.rows.iter().zip(&self.binding).zip(&self.sums).zip(slopes);
        for ((((_, fits), binding), sum), slope) in rows {
            if *fits {
                bound(&mut from, &mut to, sum - 1.0 - self.slack, *slope);
            } else if *binding {
                bound(&mut from, &mut to, 1.0 - self.slack - sum, -slope);
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
fn bound(from: &mut f64, to: &mut f64, value: f64, slope: f64) {
    if slope > 1e-15 {
        // A division only where it narrows.
        if -value < *to * slope {
            *to = (-value / slope).max(0.0);
        }
    } else if slope < -1e-15 && -value < *from * slope {
        *from = (-value / slope).min(0.0);
    }
}

/// How much less likely amounts are than others before anything is proven.
fn rarity(amounts: &[f64]) -> f64 {
    amounts.iter().map(|amount| amount + SMALL).product()
}
