//! Fits every family to the proven cells, and draws hypotheses from those that violate them least, by their
//! probability.

use rand_chacha::ChaCha8Rng;

use super::constraints::{Constraints, LimitSample};
use super::family::{Family, families, product_and_one_axis};
use super::frame::{Frame, terms};
use super::shape::{Limit, Shape};
use super::{Hypothesis, blocks, corners, hit_and_run};
use crate::boundary::lattice::Cell;

/// Hypotheses to draw, before rounding and without unions.
const TOTAL: f64 = 100.0;
/// The fewest of each family that agrees.
const FEWEST: f64 = 2.0;
/// Limits that are also tried in union with a corner, in case the boundary has one elsewhere.
const UNIONS: usize = 4;
/// A limit agrees if it violates proven points by no more than this share of it, ...
const EXACT: f64 = 0.0005;
/// ... or if it has the least violation, up to this.
const MAX_VIOLATION: f64 = 0.02;
/// Prior weight of limits that are two corners, relative to the families.
const CORNERS_PRIOR: f64 = 12.0;
/// Proven points per factor of `doubt` by which each further coefficient lowers a family's weight.
const POINTS_PER_COEFFICIENT: f64 = 4.0;

/// The most block sizes to draw from, largest first.
const MAX_BLOCK_SIZES: usize = 8;

/// A family fitted to the proven points.
struct FamilyFit {
    family: Family,
    /// The index of its frame.
    frame: usize,
    constraints: Constraints,
    /// Starting points of the random walk, each with its violation.
    initial: Vec<(f64, LimitSample)>,
}

/// The terms of the proven cells in one frame.
struct ProvenTerms {
    fits: Vec<Vec<f64>>,
    fails: Vec<Vec<f64>>,
}

impl FamilyFit {
    /// Fits the best limit, unless its violation exceeds `give_up_above`.
    fn new(family: Family, frame: usize, axes: usize, proven: &ProvenTerms, give_up_above: f64) -> Self {
        let constraints = Constraints::new(&family, axes, &proven.fits, &proven.fails);
        let initial = constraints.best_limit(0, give_up_above).into_iter().collect();
        Self {
            family,
            frame,
            constraints,
            initial,
        }
    }

    fn violation(&self) -> f64 {
        self.initial
            .iter()
            .map(|(violation, _)| *violation)
            .fold(f64::INFINITY, f64::min)
    }

    /// Adds starting points with a cutoff on each axis, and on all of them.
    fn add_cutoffs(&mut self, axes: usize, give_up_above: f64) {
        // Cutoffs on all axes explain every failure that a single one does. If they violate too much, each single one
        // does.
        let Some(on_all) = self.constraints.best_limit((1 << axes) - 1, give_up_above) else {
            return;
        };
        let single = (0..axes).filter_map(|axis| self.constraints.best_limit(1 << axis, give_up_above));
        let more: Vec<(f64, LimitSample)> = single.chain([on_all]).collect();
        self.initial.extend(more);
    }
}

/// Draws limits that agree with fitting and failing cells. Returns their frames (the first is `frame`), the limits,
/// and whether they agree exactly.
pub(super) fn sample_hypotheses(
    frame: &Frame,
    fits: &[Cell],
    fails: &[Cell],
    in_blocks: bool,
    random: &mut ChaCha8Rng,
) -> (Vec<Frame>, Vec<Hypothesis>, bool) {
    let axes = frame.axes();
    let terms_in = |frame: &Frame| ProvenTerms {
        fits: fits.iter().map(|cell| terms(&frame.coordinates(cell))).collect(),
        fails: fails.iter().map(|cell| terms(&frame.coordinates(cell))).collect(),
    };
    let smooth = terms_in(frame);
    let mut candidates = fit_families(frame, &smooth);
    let mut frames = vec![frame.clone()];
    let coefficients = |candidate: &FamilyFit| {
        if candidate.violation() > EXACT {
            usize::MAX
        } else {
            candidate.family.basis.len()
        }
    };
    // If a simple limit without blocks agrees, block sizes are not tried.
    let plain = candidates
        .iter()
        .map(coefficients)
        .min()
        .is_some_and(|fewest| fewest <= axes);
    if in_blocks && !plain {
        let simple: Vec<Family> = families(frame)
            .into_iter()
            .filter(|family| family.basis.len() <= axes)
            .collect();
        for rounded in blocks::roundings(frame, fits, fails) {
            let proven = terms_in(&rounded);
            let more: Vec<FamilyFit> = simple
                .iter()
                .map(|family| FamilyFit::new(family.clone(), frames.len(), axes, &proven, EXACT))
                .filter(|candidate| candidate.violation() <= EXACT)
                .collect();
            if !more.is_empty() {
                frames.push(rounded);
                candidates.extend(more);
            }
            if frames.len() > MAX_BLOCK_SIZES {
                break;
            }
        }
    }
    let least = candidates
        .iter()
        .map(FamilyFit::violation)
        .fold(f64::INFINITY, f64::min);
    let fails: Vec<&[f64]> = smooth.fails.iter().map(|terms| &terms[..axes]).collect();
    let fitting: Vec<&[f64]> = smooth.fits.iter().map(|terms| &terms[..axes]).collect();
    let corner_pairs = corners::corner_pairs(&fitting, &fails);
    if least > if corner_pairs.is_empty() { MAX_VIOLATION } else { 0.0 } {
        candidates.clear();
    }
    candidates.retain(|candidate| candidate.violation() <= least.max(0.0) + EXACT);
    let slack = slack(least);

    // Each coefficient had to come out right by chance, which is less likely the more points are proven.
    let doubt = ((fits.len() + fails.len()) as f64 / POINTS_PER_COEFFICIENT).max(1.0);
    let blocks = frames.len().max(2) - 1;
    let mut weights: Vec<(usize, f64)> = candidates
        .iter()
        .map(|FamilyFit { family, frame, .. }| match frame {
            0 => (family.basis.len(), family.prior),
            // The block size is a coefficient of its own.
            _ => (family.basis.len() + 1, family.prior / blocks as f64),
        })
        .collect();
    if !corner_pairs.is_empty() {
        weights.push((2 * axes - 1, CORNERS_PRIOR));
    }
    let draws = shares(&weights, doubt);

    let mut drawn: Vec<Hypothesis> = Vec::new();
    if !corner_pairs.is_empty() {
        let (share, count) = draws[candidates.len()];
        let corners = corners::random_pairs(&corner_pairs, &fails, count, random);
        drawn.extend(corners.into_iter().map(|corners| Hypothesis {
            shape: Shape::Corners(corners),
            frame: 0,
            weight: share / count as f64,
        }));
    }
    let mut limits: Vec<(Limit, usize, f64)> = Vec::new();
    for (candidate, (share, count)) in candidates.into_iter().zip(draws) {
        let FamilyFit {
            family,
            frame,
            constraints,
            initial,
        } = candidate;
        let agreeing = initial
            .into_iter()
            .filter(|(violation, _)| *violation <= slack.max(EXACT));
        let initial: Vec<LimitSample> = agreeing.map(|(_, draw)| draw).collect();
        let draws = hit_and_run::samples(&constraints, &initial, slack, count, random);
        let each = share / draws.len() as f64;
        limits.extend(draws.into_iter().map(|draw| (draw.limit(&family), frame, each)));
    }
    let easiest = frame.coordinates(&vec![0; axes]);
    let every = limits.len().div_ceil(UNIONS).max(1);
    for (limit, frame, weight) in limits.iter().step_by(every) {
        let mut corner = easiest.clone();
        corners::draw_corner(&mut corner, &easiest, &fails, random);
        drawn.push(Hypothesis {
            shape: Shape::Union(limit.clone(), corner),
            frame: *frame,
            weight: *weight,
        });
    }
    drawn.extend(limits.into_iter().map(|(limit, frame, weight)| Hypothesis {
        shape: Shape::Limit(limit),
        frame,
        weight,
    }));
    (frames, drawn, slack <= 0.0)
}

/// The violation to allow, given the least violation of all families.
fn slack(least: f64) -> f64 {
    if least < -1e-6 {
        0.0
    } else {
        (1.5 * least).max(least + EXACT).max(2.0 * EXACT)
    }
}

/// Fits all families. Cutoffs are tried where needed: on simple families, and on all if nothing else agrees.
fn fit_families(frame: &Frame, proven: &ProvenTerms) -> Vec<FamilyFit> {
    let axes = frame.axes();
    let mut candidates: Vec<FamilyFit> = Vec::new();
    // General families come first: what violates much more than they do is not needed.
    let give_up_above = |candidates: &[FamilyFit]| {
        let least = candidates
            .iter()
            .map(FamilyFit::violation)
            .fold(f64::INFINITY, f64::min);
        slack(least).clamp(EXACT, MAX_VIOLATION + EXACT)
    };
    for family in families(frame).into_iter().rev() {
        let mut one = FamilyFit::new(family, 0, axes, proven, give_up_above(&candidates));
        if one.violation() > EXACT && one.family.basis.len() <= axes {
            one.add_cutoffs(axes, give_up_above(&candidates));
        }
        candidates.push(one);
    }
    candidates.reverse();
    let simple = candidates.iter().filter(|one| one.family.basis.len() <= axes);
    if simple.map(FamilyFit::violation).fold(f64::INFINITY, f64::min) > EXACT {
        for family in product_and_one_axis(frame) {
            candidates.push(FamilyFit::new(family, 0, axes, proven, give_up_above(&candidates)));
        }
    }
    if candidates.iter().all(|candidate| candidate.violation() > EXACT) {
        for one in candidates.iter_mut().filter(|one| one.family.basis.len() > axes) {
            one.add_cutoffs(axes, MAX_VIOLATION + EXACT);
        }
    }
    candidates
}

/// For each family, given its number of coefficients and its prior: its probability, and how many limits to draw.
fn shares(weights: &[(usize, f64)], doubt: f64) -> Vec<(f64, usize)> {
    let fewest = weights.iter().map(|(coefficients, _)| *coefficients).min().unwrap_or(0);
    let likely: Vec<f64> = weights
        .iter()
        .map(|(coefficients, prior)| prior * doubt.powf(fewest as f64 - *coefficients as f64))
        .collect();
    let all: f64 = likely.iter().sum();
    let count = |weight: &f64| (weight * TOTAL / all).max(FEWEST) as usize;
    likely.iter().map(|weight| (weight / all, count(weight))).collect()
}
