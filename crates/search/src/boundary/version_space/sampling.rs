//! Draws hypotheses from the limits with the least violation of the proven cells, in proportion to their probability.
//!
//! Beside families and mechanisms, these are limits that fall once or twice along an axis (`steps`), and limits of one
//! or two corners.

use rand_chacha::ChaCha8Rng;

use super::Agreement;
use super::candidates::{Candidates, EXACT, FamilyFit, MAX_VIOLATION, ProvenTerms, evidence, slack};
use super::corners::{corner_pairs, draw_corner, random_pairs};
use super::fitting::{LimitSample, samples};
use super::limits::{Frame, Limit, Shape};
use super::mechanisms::Loads;
use super::steps::Steps;
use crate::boundary::lattice::Cell;

/// Hypotheses to draw, before rounding and without unions.
const TOTAL: f64 = 100.0;
/// The fewest hypotheses of each family that agrees and has no blocks.
const FEWEST: usize = 1;
/// Limits that are also tried in union with a corner, in case the boundary has a corner elsewhere.
const UNIONS: usize = 4;
/// A family that violates proven points by no more than this share predicts better than a classifier.
const NEARLY: f64 = 0.004;
/// A family with less than this share of the probability is no rival.
const RIVAL: f64 = 0.01;
/// Prior weight of limits that are two corners, relative to the families.
const CORNERS_PRIOR: f64 = 12.0;

/// One limit.
#[derive(Clone, Debug)]
pub(super) struct Hypothesis {
    pub(super) shape: Shape,
    /// The index of its frame.
    pub(super) frame: usize,
    /// Its probability; they sum to 1.
    pub(super) weight: f64,
    /// Whether it stands for a whole family, which rivals the others until an answer tells them apart.
    pub(super) is_rival: bool,
}

impl Hypothesis {
    fn new(limits: Vec<Limit>, frame: usize, weight: f64) -> Self {
        Self {
            shape: Shape(limits),
            frame,
            weight,
            is_rival: false,
        }
    }
}

/// Draws limits that agree with fitting and failing cells. Returns their frames (the first is `frame`), the limits,
/// and whether they agree exactly. With `whole`, the cells are enough to detect blocks and steps.
pub(super) fn sample_hypotheses(
    frame: &Frame,
    loads: Option<Loads>,
    fits: &[Cell],
    fails: &[Cell],
    whole: bool,
    random: &mut ChaCha8Rng,
) -> (Vec<Frame>, Vec<Hypothesis>, Agreement) {
    let axes = frame.axes();
    let proven = ProvenTerms::new(frame, fits, fails);
    let mut candidates = Candidates::new(frame, &proven);
    if whole {
        candidates.add_blocks(fits, fails);
    }
    if let Some(loads) = loads {
        candidates.add_mechanisms(loads, fits, fails);
    }
    let fitting: Vec<&[f64]> = proven.fits.iter().map(|terms| &terms[..axes]).collect();
    let failing: Vec<&[f64]> = proven.fails.iter().map(|terms| &terms[..axes]).collect();
    let pairs = corner_pairs(&fitting, &failing);
    let steps = if whole && axes == 2 {
        all_steps(&candidates.fits, &proven)
    } else {
        Vec::new()
    };
    let tolerated = match (pairs.is_empty(), steps.is_empty()) {
        (false, _) => 0.0,
        (true, false) => EXACT,
        (true, true) => MAX_VIOLATION,
    };
    let least = candidates.keep_best(tolerated);
    let slack = slack(least);
    let Candidates {
        frames,
        fits: candidates,
    } = candidates;
    let agreement = if slack <= 0.0 || candidates.is_empty() && !steps.is_empty() {
        Agreement::Exact
    } else if !pairs.is_empty() || !candidates.is_empty() && least <= NEARLY {
        Agreement::Nearly
    } else {
        Agreement::None
    };

    let shares = Shares::new(&candidates, !pairs.is_empty(), &steps, 2 * axes - 1, slack.max(EXACT));
    let mut drawn: Vec<Hypothesis> = Vec::new();
    if let Some(share) = shares.corners {
        let corners = random_pairs(&pairs, &failing, share.draws, random);
        let limits = corners
            .into_iter()
            .map(|pair| pair.into_iter().map(Limit::corner).collect());
        drawn.extend(limits.map(|limits| Hypothesis::new(limits, 0, share.each())));
    }
    for (steps, share) in steps.iter().zip(shares.steps) {
        let limits = steps.draw(share.draws, random).into_iter();
        drawn.extend(limits.map(|limits| Hypothesis::new(limits, 0, share.each())));
    }
    let mut limits: Vec<Hypothesis> = Vec::new();
    for (candidate, share) in candidates.into_iter().zip(shares.candidates) {
        if share.draws > 0 {
            limits.extend(draw_limits(candidate, share, slack, random));
        }
    }
    let easiest: Vec<f64> = frame.coordinates(&vec![0; axes]).collect();
    let every = limits.len().div_ceil(UNIONS).max(1);
    for other in limits
        .iter()
        .step_by(every)
        .filter(|other| frames[other.frame].has_coordinates())
    {
        let mut corner = easiest.clone();
        draw_corner(&mut corner, &easiest, &failing, random);
        let union = other.shape.0.iter().cloned().chain([Limit::corner(corner)]);
        drawn.push(Hypothesis::new(union.collect(), other.frame, other.weight));
    }
    drawn.extend(limits);
    (frames, drawn, agreement)
}

/// Limits that fall along an axis, for families of one coefficient.
fn all_steps(candidates: &[FamilyFit], proven: &ProvenTerms) -> Vec<Steps> {
    let single = candidates
        .iter()
        .filter(|fit| fit.frame == 0 && fit.family.basis.len() == 1);
    let steps = single.flat_map(|fit| [0, 1].map(|axis| Steps::new(&fit.family, axis, 2, proven)));
    steps.flatten().collect()
}

/// Draws limits of one candidate that agree; the first stands for the whole candidate if that is a rival.
fn draw_limits(candidate: FamilyFit, share: Share, slack: f64, random: &mut ChaCha8Rng) -> Vec<Hypothesis> {
    let FamilyFit {
        family,
        frame,
        constraints,
        initial,
        ..
    } = candidate;
    let agreeing = initial
        .into_iter()
        .filter(|(violation, _)| *violation <= slack.max(EXACT));
    let initial: Vec<LimitSample> = agreeing.map(|(_, sample)| sample).collect();
    let draws = samples(&constraints, &initial, slack, share.draws, random);
    let each = share.probability / draws.len() as f64;
    let draws = draws.into_iter().enumerate().map(|(index, draw)| Hypothesis {
        is_rival: index == 0 && share.probability >= RIVAL,
        ..Hypothesis::new(vec![draw.limit(&family)], frame, each)
    });
    draws.collect()
}

/// The probability of one source of limits, and how many to draw from it.
#[derive(Clone, Copy, Debug)]
struct Share {
    probability: f64,
    draws: usize,
}

impl Share {
    fn each(self) -> f64 {
        self.probability / self.draws as f64
    }
}

/// The shares of all sources.
struct Shares {
    candidates: Vec<Share>,
    corners: Option<Share>,
    steps: Vec<Share>,
}

impl Shares {
    /// `coefficients` is the number of coefficients of two corners.
    fn new(candidates: &[FamilyFit], corners: bool, steps: &[Steps], coefficients: usize, slack: f64) -> Self {
        // At least one limit is drawn from families without blocks.
        let mut weights: Vec<(f64, bool)> = candidates
            .iter()
            .map(|candidate| (candidate.weight(slack), candidate.is_drawn))
            .collect();
        if corners {
            let narrowest = candidates.iter().map(|candidate| -candidate.violation());
            let weight = CORNERS_PRIOR * evidence(coefficients, narrowest.fold(1.0, f64::min));
            weights.push((weight, true));
        }
        weights.extend(steps.iter().map(|steps| (steps.weight(), false)));

        let all: f64 = weights.iter().map(|(weight, _)| weight).sum();
        let (mut sum, mut before) = (0.0, 0);
        let mut shares = weights.into_iter().map(|(weight, is_drawn)| {
            sum += TOTAL * weight / all;
            let draws = sum.round() as usize - before;
            before += draws;
            let fewest = if is_drawn && weight > 0.0 { FEWEST } else { 0 };
            Share {
                probability: weight / all,
                draws: draws.max(fewest),
            }
        });
        Self {
            candidates: shares.by_ref().take(candidates.len()).collect(),
            corners: corners.then(|| shares.next()).flatten(),
            steps: shares.collect(),
        }
    }
}
