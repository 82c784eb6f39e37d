//! Fits every family to the proven cells, and draws hypotheses from those that violate them least, by their
//! probability.
//!
//! Besides the families, hypotheses are limits over blocks, in which an engine may count lengths so that its limit
//! moves in steps, and limits that consist of one or two corners: a longest prompt, or one limit for long inputs and
//! another for long outputs.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::fitting::{Constraints, LimitSample, NO_CUTOFF, samples};
use super::limits::{Family, Frame, Limit, Shape, families, product_and_one_axis, terms};
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

/// One limit.
#[derive(Clone, Debug)]
pub(super) struct Hypothesis {
    pub(super) shape: Shape,
    /// The index of its frame.
    pub(super) frame: usize,
    /// Its probability; they sum to 1.
    pub(super) weight: f64,
}

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
        for rounded in roundings(frame, fits, fails) {
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
    let pairs = corner_pairs(&fitting, &fails);
    if least > if pairs.is_empty() { MAX_VIOLATION } else { 0.0 } {
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
    if !pairs.is_empty() {
        weights.push((2 * axes - 1, CORNERS_PRIOR));
    }
    let draws = shares(&weights, doubt);

    let mut drawn: Vec<Hypothesis> = Vec::new();
    if !pairs.is_empty() {
        let (share, count) = draws[candidates.len()];
        let corners = random_pairs(&pairs, &fails, count, random);
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
        let draws = samples(&constraints, &initial, slack, count, random);
        let each = share / draws.len() as f64;
        limits.extend(draws.into_iter().map(|draw| (draw.limit(&family), frame, each)));
    }
    let easiest = frame.coordinates(&vec![0; axes]);
    let every = limits.len().div_ceil(UNIONS).max(1);
    for (limit, frame, weight) in limits.iter().step_by(every) {
        let mut corner = easiest.clone();
        draw_corner(&mut corner, &easiest, &fails, random);
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

/// Common block sizes: powers of two, and round numbers.
const BLOCK_SIZES: [i64; 22] = [
    8, 10, 16, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000, 1024, 2000, 2048, 2500, 4096, 5000, 8192, 10_000,
];
/// The fewest blocks that an axis must have.
const MIN_BLOCKS: f64 = 3.0;

/// Frames that round lengths up to blocks, on each axis alone and on all, largest blocks first. Only those under
/// which no failing cell lies in or below the blocks of a fitting cell.
pub(super) fn roundings(frame: &Frame, fits: &[Cell], fails: &[Cell]) -> Vec<Frame> {
    let Some(largest) = &frame.largest else {
        return Vec::new();
    };
    let axes = largest.len();
    let sides: Vec<AxisOrder> = (0..axes).map(|axis| AxisOrder::new(axis, fits, fails)).collect();
    let alone: Vec<Vec<usize>> = sides.iter().map(|side| side.reached(frame, 1.0)).collect();
    let mut found = Vec::new();
    for size in BLOCK_SIZES.into_iter().rev() {
        let size = size as f64;
        let wide = |axis: &usize| size * MIN_BLOCKS <= largest[*axis];
        let rounded: Vec<Option<Vec<usize>>> = (0..axes)
            .map(|axis| wide(&axis).then(|| sides[axis].reached(frame, size)))
            .collect();
        for which in (0..axes).map(|axis| 1usize << axis).chain([(1 << axes) - 1]) {
            let is_rounded = |axis: &usize| which >> axis & 1 == 1;
            let reached: Option<Vec<&Vec<usize>>> = (0..axes)
                .map(|axis| {
                    if is_rounded(&axis) {
                        rounded[axis].as_ref()
                    } else {
                        Some(&alone[axis])
                    }
                })
                .collect();
            if reached.is_some_and(|reached| agrees(&sides, &reached, fits.len())) {
                let block = |axis: usize| if is_rounded(&axis) { size } else { 1.0 };
                found.push(frame.rounded((0..axes).map(block).collect()));
            }
        }
    }
    found
}

/// Whether no failing cell lies in or below the blocks of a fitting one. `reached` holds, by axis and then by fitting
/// cell, how many failing cells (in their order on that axis) lie no further.
fn agrees(sides: &[AxisOrder], reached: &[&Vec<usize>], fits: usize) -> bool {
    let words = sides[0].first[0].len();
    (0..fits).all(|fit| {
        (0..words).all(|word| {
            let sets = sides
                .iter()
                .zip(reached)
                .map(|(side, reached)| side.first[reached[fit]][word]);
            sets.fold(u64::MAX, |both, set| both & set) == 0
        })
    })
}

/// One axis of fitting and failing cells.
struct AxisOrder {
    axis: usize,
    fits: Vec<i64>,
    /// In rising order.
    fails: Vec<i64>,
    /// The set of the first n failing cells, one bit each, by n.
    first: Vec<Vec<u64>>,
}

impl AxisOrder {
    fn new(axis: usize, fits: &[Cell], fails: &[Cell]) -> Self {
        let mut sorted: Vec<(i64, usize)> = fails.iter().map(|cell| cell[axis]).zip(0..).collect();
        sorted.sort_unstable();
        let mut set = vec![0; fails.len().div_ceil(64)];
        let mut first = vec![set.clone()];
        for (_, index) in &sorted {
            set[index / 64] |= 1 << (index % 64);
            first.push(set.clone());
        }
        Self {
            axis,
            fits: fits.iter().map(|cell| cell[axis]).collect(),
            fails: sorted.into_iter().map(|(at, _)| at).collect(),
            first,
        }
    }

    /// For each fitting cell, how many failing cells lie in or below its block.
    fn reached(&self, frame: &Frame, block: f64) -> Vec<usize> {
        let place = |at: &i64| (frame.coordinate(self.axis, *at, block) * 1e12).round() as i64;
        let fails: Vec<i64> = self.fails.iter().map(place).collect();
        let count = |fit: &i64| {
            let fit = place(fit);
            fails.partition_point(|fail| *fail <= fit)
        };
        self.fits.iter().map(count).collect()
    }
}

/// With more fitting points there are too many ways to divide them.
const MAX_FITTING: usize = 40;
/// How often every side of every corner is redrawn.
const CORNER_SWEEPS: usize = 6;

/// `count` random pairs of corners, grown from the minimal pairs in turn without covering any of `fails`.
fn random_pairs(
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

/// Draws a corner that is nowhere below `least` and covers none of `fails`, one side after the other.
fn draw_corner(corner: &mut [f64], least: &[f64], fails: &[&[f64]], random: &mut ChaCha8Rng) {
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
fn corner_pairs(fits: &[&[f64]], fails: &[&[f64]]) -> Vec<Vec<Vec<f64>>> {
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
