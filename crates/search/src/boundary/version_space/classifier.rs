//! Where no family agrees with the answers: a classifier of points, by a quadratic form of the logarithms of their
//! values. It draws the prediction and chooses points, and nothing is ever called verified by it.
//!
//! A logistic regression with a small penalty, fitted by Newton's method (Bishop 2006, "Pattern Recognition and Machine
//! Learning", 4.3); its uncertainty is that of the normal distribution around the best fit.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::limits::{Frame, Limit, Shape, dot};
use super::sampling::Hypothesis;
use crate::boundary::lattice::Cell;

/// Classifiers that are drawn.
const DRAWS: usize = 64;
/// The penalty on the linear and on the quadratic weights. It is small, because answers close to the limit need steep
/// classifiers.
const PENALTY: [f64; 2] = [3e-4, 3e-3];
const MAX_STEPS: usize = 40;
/// The longest step of a weight: a full step from far away may overshoot.
const LONGEST_STEP: f64 = 20.0;
/// A step shorter than this ends the fit.
const STILL: f64 = 1e-6;

/// Classifiers of the proven cells, in a frame whose terms are logarithms. Empty if there are fewer cells than terms.
pub(super) fn classifiers(
    frame: &Frame,
    index: usize,
    fits: &[Cell],
    fails: &[Cell],
    random: &mut ChaCha8Rng,
) -> Vec<Hypothesis> {
    let side = |cells: &[Cell], fits: f64| cells.iter().map(|cell| (frame.terms(cell), fits)).collect::<Vec<_>>();
    let rows = [side(fits, 1.0), side(fails, 0.0)].concat();
    let count = rows.first().map_or(0, |(terms, _)| terms.len());
    if rows.len() < count {
        return Vec::new();
    }
    let penalty: Vec<f64> = (0..count)
        .map(|term| PENALTY[usize::from(term > frame.axes())])
        .collect();
    let mut weights = vec![0.0; count];
    let mut root = None;
    for _ in 0..MAX_STEPS {
        let (slope, curvature) = derivatives(&rows, &weights, &penalty);
        let Some(found) = cholesky(curvature) else { break };
        let step = solve(&found, slope);
        root = Some(found);
        let longest = step.iter().fold(0.0, |most: f64, side| most.max(side.abs()));
        let share = (LONGEST_STEP / longest).min(1.0);
        for (weight, side) in weights.iter_mut().zip(&step) {
            *weight -= share * side;
        }
        if longest < STILL {
            break;
        }
    }
    let Some(root) = root else { return Vec::new() };
    let draw = |number: usize| {
        let away = (0..count)
            .map(|_| if number == 0 { 0.0 } else { normal(random) })
            .collect();
        let away = solve_transposed(&root, away);
        // A point fits where the form is positive: where 1 less the form is at most 1.
        let mut turned: Vec<f64> = weights.iter().zip(away).map(|(weight, away)| -weight - away).collect();
        turned[0] += 1.0;
        Hypothesis {
            shape: Shape(vec![Limit {
                weights: turned,
                cutoffs: Vec::new(),
            }]),
            frame: index,
            weight: 1.0 / DRAWS as f64,
            is_rival: false,
        }
    };
    (0..DRAWS).map(draw).collect()
}

/// The gradient and the Hessian matrix of the penalized error.
fn derivatives(rows: &[(Vec<f64>, f64)], weights: &[f64], penalty: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut slope: Vec<f64> = weights
        .iter()
        .zip(penalty)
        .map(|(weight, penalty)| weight * penalty)
        .collect();
    let mut curvature = vec![vec![0.0; weights.len()]; weights.len()];
    for (index, penalty) in penalty.iter().enumerate() {
        curvature[index][index] = *penalty;
    }
    for (terms, fits) in rows {
        let chance = 1.0 / (1.0 + (-dot(weights, terms)).exp());
        let spread = chance * (1.0 - chance);
        for (index, term) in terms.iter().enumerate() {
            slope[index] += (chance - fits) * term;
            for (other, factor) in terms.iter().enumerate().take(index + 1) {
                curvature[index][other] += spread * term * factor;
            }
        }
    }
    (slope, curvature)
}

/// The lower triangle whose product with its transpose is this symmetric matrix; `None` if there is none.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for row in 0..matrix.len() {
        for column in 0..=row {
            let sum: f64 = (0..column)
                .map(|inner| matrix[row][inner] * matrix[column][inner])
                .sum();
            let rest = matrix[row][column] - sum;
            matrix[row][column] = if row > column {
                rest / matrix[column][column]
            } else if rest > 0.0 {
                rest.sqrt()
            } else {
                return None;
            };
        }
    }
    Some(matrix)
}

/// Solves the system whose matrix has this Cholesky root.
fn solve(root: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for row in 0..right.len() {
        right[row] = (right[row] - dot(&root[row][..row], &right[..row])) / root[row][row];
    }
    solve_transposed(root, right)
}

fn solve_transposed(root: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for row in (0..right.len()).rev() {
        let sum: f64 = (row + 1..right.len())
            .map(|below| root[below][row] * right[below])
            .sum();
        right[row] = (right[row] - sum) / root[row][row];
    }
    right
}

/// A number from the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (one, other): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use serde_json::json;

    use super::super::limits::Counting;
    use super::*;
    use crate::boundary::Lattice;

    #[test]
    fn a_limit_of_no_family_is_predicted_between_the_answers() {
        let lattice = Lattice::parse(&json!({ "input": [1, 12000], "output": [1, 9000] })).unwrap();
        let frame = Frame::new(lattice.axes()).by(Counting::Logarithms);
        let last = |input: i64| (7_000.0 * (1.0 - (input as f64 / 11_000.0).powi(5)).powf(1.6)) as i64;
        let away = |input: i64| last(input) * (1 + input % 3) / 40;
        let inputs = (0..24).map(|step| 400 + 400 * step);
        let fits: Vec<Cell> = inputs
            .clone()
            .map(|input| vec![input, last(input) - away(input)])
            .collect();
        let fails: Vec<Cell> = inputs.map(|input| vec![input, last(input) + away(input)]).collect();
        let drawn = classifiers(&frame, 0, &fits, &fails, &mut ChaCha8Rng::seed_from_u64(0));
        let chance = |cell: &Cell| {
            let terms = frame.terms(cell);
            let admitting = drawn
                .iter()
                .filter(|hypothesis| hypothesis.shape.admits_up_to(&terms, 1.0));
            admitting.count() as f64 / drawn.len() as f64
        };
        for input in [1_000, 3_000, 6_200, 8_600] {
            let [fits, fails] = [0.8, 1.2].map(|share| chance(&vec![input, (share * last(input) as f64) as i64]));
            assert!(fits > 0.6 && fails < 0.4, "{input}: {fits} {fails}");
        }
    }
}
