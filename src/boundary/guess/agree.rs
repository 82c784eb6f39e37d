//! Which limits agree with proven places: those of the families that miss least, drawn in proportion to how likely each is.

use rand_chacha::ChaCha8Rng;

use super::family::{Family, families};
use super::frame::Frame;
use super::proven::{Draw, Proven};
use super::shape::{Limit, Shape};
use super::{steps, walk};

/// Limits drawn, give or take rounding and those with a corner besides.
const TOTAL: f64 = 100.0;
/// The fewest of each family that agrees.
const FEWEST: f64 = 2.0;
/// Limits with a corner besides, in case that the boundary has one elsewhere.
const BESIDES: usize = 4;
/// A limit agrees that misses proven places by no more than this share of it, ...
const EXACT: f64 = 0.0005;
/// ... or the one that misses least, up to this.
const MOST_MISS: f64 = 0.02;
/// How likely limits of two corners are beside the families.
const STEPS_PRIOR: f64 = 12.0;
/// Proven places by which the weight of a further amount falls.
const PLACES: f64 = 4.0;

/// A family under way.
struct Begun {
    family: Family,
    proven: Proven,
    /// Limits to begin with, each with its miss.
    firsts: Vec<(f64, Draw)>,
}

impl Begun {
    fn miss(&self) -> f64 {
        self.firsts.iter().map(|(miss, _)| *miss).fold(f64::INFINITY, f64::min)
    }

    /// Adds first limits with a cutoff on each axis, and on all.
    fn cut(&mut self, axes: usize) {
        let cuts = (0..axes).map(|axis| 1 << axis).chain([(1 << axes) - 1]);
        let more: Vec<(f64, Draw)> = cuts.filter_map(|cut| self.proven.first(cut)).collect();
        self.firsts.extend(more);
    }
}

/// Limits that agree with the terms of fitting and of failing places.
pub(super) fn agreeing(frame: &Frame, fits: &[Vec<f64>], fails: &[Vec<f64>], random: &mut ChaCha8Rng) -> Vec<Shape> {
    let axes = frame.axes();
    let mut begun = begin(frame, fits, fails);
    let least = begun.iter().map(Begun::miss).fold(f64::INFINITY, f64::min);
    let fails: Vec<&[f64]> = fails.iter().map(|terms| &terms[..axes]).collect();
    let fitting: Vec<&[f64]> = fits.iter().map(|terms| &terms[..axes]).collect();
    let divisions = steps::divisions(&fitting, &fails);
    if least > if divisions.is_empty() { MOST_MISS } else { 0.0 } {
        begun.clear();
    }
    begun.retain(|begun| begun.miss() <= least.max(0.0) + EXACT);
    let slack = if least < -1e-6 {
        0.0
    } else {
        (1.5 * least).max(2.0 * EXACT)
    };

    // Each amount of a family had to come out right by chance: the more places are proven, the less likely that is.
    let doubt = ((fits.len() + fails.len()) as f64 / PLACES).max(1.0);
    let mut weights: Vec<(usize, f64)> = begun
        .iter()
        .map(|Begun { family, .. }| (family.basis.len(), family.prior))
        .collect();
    if !divisions.is_empty() {
        weights.push((2 * axes - 1, STEPS_PRIOR));
    }
    let draws = shares(&weights, doubt);

    let mut shapes: Vec<Shape> = Vec::new();
    if !divisions.is_empty() {
        let corners = steps::draws(&divisions, &fails, draws[begun.len()], random);
        shapes.extend(corners.into_iter().map(Shape::Steps));
    }
    let mut limits: Vec<Limit> = Vec::new();
    for (Begun { family, proven, firsts }, count) in begun.into_iter().zip(draws) {
        let agreeing = firsts.into_iter().filter(|(miss, _)| *miss <= slack.max(EXACT));
        let firsts: Vec<Draw> = agreeing.map(|(_, draw)| draw).collect();
        let draws = walk::draws(&proven, &firsts, slack, count, random);
        limits.extend(draws.into_iter().map(|draw| draw.limit(&family)));
    }
    let easiest = frame.place(&vec![0; axes]);
    let every = limits.len().div_ceil(BESIDES).max(1);
    for limit in limits.iter().step_by(every) {
        let mut corner = easiest.clone();
        steps::grow(&mut corner, &easiest, &fails, random);
        shapes.push(Shape::Besides(limit.clone(), corner));
    }
    shapes.extend(limits.into_iter().map(Shape::Limit));
    shapes
}

/// All families with their first limits. Cutoffs are tried where a family needs them: on simple ones, and on all when
/// nothing else agrees.
fn begin(frame: &Frame, fits: &[Vec<f64>], fails: &[Vec<f64>]) -> Vec<Begun> {
    let axes = frame.axes();
    let mut begun: Vec<Begun> = Vec::new();
    for family in families(frame) {
        let proven = Proven::new(&family, axes, fits, fails);
        let firsts = proven.first(0).into_iter().collect();
        let mut one = Begun { family, proven, firsts };
        if one.miss() > EXACT && one.family.basis.len() <= axes {
            one.cut(axes);
        }
        begun.push(one);
    }
    if begun.iter().all(|begun| begun.miss() > EXACT) {
        for one in begun.iter_mut().filter(|one| one.family.basis.len() > axes) {
            one.cut(axes);
        }
    }
    begun
}

/// How many limits to draw from each family, of which the count of amounts and the prior are given.
fn shares(weights: &[(usize, f64)], doubt: f64) -> Vec<usize> {
    let fewest = weights.iter().map(|(amounts, _)| *amounts).min().unwrap_or(0);
    let likely: Vec<f64> = weights
        .iter()
        .map(|(amounts, prior)| prior * doubt.powf(fewest as f64 - *amounts as f64))
        .collect();
    let all: f64 = likely.iter().sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most TOTAL")]
    likely
        .iter()
        .map(|weight| (weight * TOTAL / all).max(FEWEST) as usize)
        .collect()
}
