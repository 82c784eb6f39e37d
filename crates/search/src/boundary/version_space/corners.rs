//! Limits that consist of one or two corners: a longest prompt, or one limit for long inputs and another for long
//! outputs.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::fitting::NO_CUTOFF;

/// With more fitting points there are too many ways to divide them between two corners.
const MAX_FITTING: usize = 40;
/// How often every side of every corner is redrawn.
const CORNER_SWEEPS: usize = 6;

/// `count` random pairs of corners, grown from the minimal pairs in turn without covering any of `fails`.
pub(super) fn random_pairs(
    corner_pairs: &[Vec<Vec<f64>>],
    fails: &[&[f64]],
    count: usize,
    random: &mut ChaCha8Rng,
) -> Vec<Vec<Vec<f64>>> {
    (0..count)
        .map(|index| {
            let least = &corner_pairs[index % corner_pairs.len()];
            let mut corners = least.clone();
            for _ in 0..CORNER_SWEEPS {
                for (corner, least) in corners.iter_mut().zip(least) {
                    draw_corner(corner, least, fails, random);
                }
            }
            corners
        })
        .collect()
}

/// Draws a corner that is at least `least` on every axis and covers none of `fails`, one side after the other.
pub(super) fn draw_corner(corner: &mut [f64], least: &[f64], fails: &[&[f64]], random: &mut ChaCha8Rng) {
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

/// The minimal pairs of corners that cover all of `fits` and none of `fails`.
pub(super) fn corner_pairs(fits: &[&[f64]], fails: &[&[f64]]) -> Vec<Vec<Vec<f64>>> {
    let mut found: Vec<Vec<Vec<f64>>> = Vec::new();
    if fits.is_empty() || fits.len() > MAX_FITTING {
        return found;
    }
    for axis in 0..fits[0].len() {
        let mut sorted = fits.to_vec();
        sorted.sort_by(|a, b| a[axis].total_cmp(&b[axis]));
        for at in 1..=sorted.len() {
            let (one, other) = sorted.split_at(at);
            let corners = vec![
                enclosing_corner(one),
                enclosing_corner(if other.is_empty() { &sorted[..1] } else { other }),
            ];
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

fn enclosing_corner(places: &[&[f64]]) -> Vec<f64> {
    (0..places[0].len())
        .map(|axis| places.iter().map(|at| at[axis]).fold(0.0, f64::max))
        .collect()
}
