//! Limits that are one or two corners: a longest prompt, or one limit for long inputs and another for long outputs.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::proven::NO_CUTOFF;

/// Fitting places beyond which there are too many ways to divide them.
const MOST: usize = 40;
/// How often every side of every corner is drawn anew.
const SWEEPS: usize = 6;

/// Up to `count` pairs of corners that hold all of `fits` and none of `fails`; none where there are no such.
pub(super) fn draws(
    divisions: &[Vec<Vec<f64>>],
    fails: &[&[f64]],
    count: usize,
    random: &mut ChaCha8Rng,
) -> Vec<Vec<Vec<f64>>> {
    (0..count)
        .map(|index| {
            let least = &divisions[index % divisions.len()];
            let mut corners = least.clone();
            for _ in 0..SWEEPS {
                for (corner, least) in corners.iter_mut().zip(least) {
                    grow(corner, least, fails, random);
                }
            }
            corners
        })
        .collect()
}

/// A corner drawn at random from those that are nowhere below `least` and hold none of `fails`, one side after the other.
pub(super) fn grow(corner: &mut [f64], least: &[f64], fails: &[&[f64]], random: &mut ChaCha8Rng) {
    let turn = random.random_range(0..corner.len());
    for axis in (turn..corner.len()).chain(0..turn) {
        let held = |fail: &&&[f64]| (0..corner.len()).all(|other| other == axis || fail[other] <= corner[other]);
        let most = fails
            .iter()
            .filter(held)
            .map(|fail| fail[axis])
            .fold(NO_CUTOFF, f64::min);
        corner[axis] = least[axis] + (most - least[axis]) * random.random::<f64>() * (1.0 - 1e-9);
    }
}

/// The least corners, two and two, that hold all of `fits` and none of `fails`.
pub(super) fn divisions(fits: &[&[f64]], fails: &[&[f64]]) -> Vec<Vec<Vec<f64>>> {
    let mut found: Vec<Vec<Vec<f64>>> = Vec::new();
    if fits.is_empty() || fits.len() > MOST {
        return found;
    }
    for axis in 0..fits[0].len() {
        let mut sorted = fits.to_vec();
        sorted.sort_by(|a, b| a[axis].total_cmp(&b[axis]));
        for at in 1..=sorted.len() {
            let (one, other) = sorted.split_at(at);
            let corners = vec![join(one), join(if other.is_empty() { &sorted[..1] } else { other })];
            let holds = |fail: &&[f64]| {
                corners
                    .iter()
                    .any(|corner| fail.iter().zip(corner).all(|(fail, corner)| fail <= corner))
            };
            if !fails.iter().any(holds) && !found.contains(&corners) {
                found.push(corners);
            }
        }
    }
    found
}

/// The least corner that holds all places.
fn join(places: &[&[f64]]) -> Vec<f64> {
    (0..places[0].len())
        .map(|axis| places.iter().map(|at| at[axis]).fold(0.0, f64::max))
        .collect()
}
