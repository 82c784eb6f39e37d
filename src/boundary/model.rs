//! A guess at where the boundary runs near one place: limits of the form Σ wᵢxᵢ + Σ wᵢⱼxᵢxⱼ ≤ t with weights that are not
//! negative, as far as they agree with the proven points around.
//!
//! That is the family of memory limits (tokens in flight, prefill activations, concurrency × length). It only chooses what to
//! ask: nothing is ever called proven because of it. Where no such limit agrees, there is no guess.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::lattice::Cell;
use super::{Easier, Lattice};

/// Limits tried in each round, and rounds.
const TRIED: usize = 48;
const ROUNDS: usize = 6;
/// Limits that each next round starts from, and that make the guess.
const KEPT: usize = 12;

/// Limits that agree with the proven points around one place.
#[derive(Clone, Debug)]
pub(super) struct Model {
    limits: Vec<Limit>,
}

/// One limit; where it lies between the hardest fitting and the easiest failing point is not known.
#[derive(Clone, Debug)]
struct Limit {
    weights: Vec<f64>,
    fits: f64,
    fails: f64,
}

impl Model {
    /// Limits that let every cell of `fits` fit and every cell of `fails` fail; none when the family has no such limit, or
    /// when a side is empty.
    pub(super) fn agreeing(lattice: &Lattice, fits: &[Cell], fails: &[Cell]) -> Option<Self> {
        let terms = |cells: &[Cell]| cells.iter().map(|cell| terms(lattice, cell)).collect::<Vec<_>>();
        let (fits, fails) = (terms(fits), terms(fails));
        let count = fits.first()?.len();
        fails.first()?;
        // The same knowledge gives the same guess.
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let limit = |mut weights: Vec<f64>| {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
            let value =
                |terms: &Vec<f64>| -> f64 { terms.iter().zip(&weights).map(|(term, weight)| term * weight).sum() };
            let most = fits.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
            let least = fails.iter().map(value).fold(f64::INFINITY, f64::min);
            Limit {
                weights,
                fits: most,
                fails: least,
            }
        };
        let mut limits: Vec<Limit> = (0..TRIED)
            .map(|_| {
                limit(
                    (0..count)
                        .map(|_| (-random.random::<f64>().max(1e-12).ln()).powi(2))
                        .collect(),
                )
            })
            .collect();
        let mut spread = 1.0;
        for _ in 0..ROUNDS {
            limits.sort_by(|a, b| b.margin().total_cmp(&a.margin()));
            limits.truncate(KEPT);
            for _ in 0..TRIED {
                let one = &limits[random.random_range(0..KEPT)];
                let other = &limits[random.random_range(0..KEPT)];
                let mix: f64 = random.random();
                let weights = one.weights.iter().zip(&other.weights).map(|(one, other)| {
                    let step = spread * (random.random::<f64>() * 2.0 - 1.0);
                    ((one * mix + other * (1.0 - mix)) * step.exp()).max(1e-9)
                });
                let weights = weights.collect();
                limits.push(limit(weights));
            }
            spread *= 0.6;
        }
        limits.retain(|limit| limit.margin() > 0.0);
        limits.sort_by(|a, b| b.margin().total_cmp(&a.margin()));
        limits.truncate(KEPT);
        (!limits.is_empty()).then_some(Self { limits })
    }

    /// How likely a cell fits, 0 to 1: each limit counts as much as it leaves open, and lies anywhere in that with equal chance.
    pub(super) fn fits(&self, lattice: &Lattice, cell: &[i64]) -> f64 {
        let terms = terms(lattice, cell);
        let (mut share, mut all) = (0.0, 0.0);
        for limit in &self.limits {
            let value: f64 = terms
                .iter()
                .zip(&limit.weights)
                .map(|(term, weight)| term * weight)
                .sum();
            share += limit.margin() * ((limit.fails - value) / limit.margin()).clamp(0.0, 1.0);
            all += limit.margin();
        }
        share / all
    }
}

impl Limit {
    fn margin(&self) -> f64 {
        self.fails - self.fits
    }
}

/// The coordinates as shares of the largest, and the products of two.
fn terms(lattice: &Lattice, cell: &[i64]) -> Vec<f64> {
    let axes = lattice.axes().iter().zip(cell);
    let single: Vec<f64> = axes
        .map(|(axis, at)| {
            let most = axis.range().1.as_f64();
            match axis.easier() {
                Easier::Down if most > 0.0 => axis.value(*at).as_f64() / most,
                _ => *at as f64 / (axis.last() as f64).max(1.0),
            }
        })
        .collect();
    let mut terms = single.clone();
    for (index, one) in single.iter().enumerate() {
        terms.extend(single[index + 1..].iter().map(|other| one * other));
    }
    terms
}
