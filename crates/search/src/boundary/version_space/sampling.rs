//! Fits every family to the proven cells, and draws hypotheses from the families with the least violation, in
//! proportion to their probability.
//!
//! Hypotheses also include limits over blocks (an engine may count lengths in blocks, so that its limit moves in
//! steps), limits that fall once or twice along an axis (`steps`), and limits that consist of one or two corners: a
//! longest prompt, or one limit for long inputs and another for long outputs.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::Agreement;
use super::fitting::{Constraints, LimitSample, NO_CUTOFF, samples};
use super::limits::{Counting, Family, Frame, Limit, Shape, families, product_and_one_axis, terms};
use super::mechanisms::{self, Loads, Mechanism, TERMS};
use super::steps::Steps;
use crate::boundary::lattice::Cell;

/// Hypotheses to draw, before rounding and without unions.
const TOTAL: f64 = 100.0;
/// The fewest hypotheses of each family that agrees and has no blocks.
const FEWEST: usize = 1;
/// Limits that are also tried in union with a corner, in case the boundary has a corner elsewhere.
const UNIONS: usize = 4;
/// A limit agrees if it violates proven points by no more than this share of the limit, ...
const EXACT: f64 = 0.0005;
/// ... or if it has the least violation, up to this.
const MAX_VIOLATION: f64 = 0.02;
/// A family that violates proven points by no more than this share predicts better than a classifier.
const NEARLY: f64 = 0.004;
/// A family with less than this share of the probability is no rival.
const RIVAL: f64 = 0.01;
/// Prior weight of limits that are two corners, relative to the families.
const CORNERS_PRIOR: f64 = 12.0;
/// The range of a coefficient before anything is known, in natural logarithms.
pub(super) const COEFFICIENT_RANGE: f64 = 3.0;
/// The exponent for each further coefficient. It is below 1 because the coefficients are not independent: knowing some
/// narrows the others.
pub(super) const FURTHER_COEFFICIENT: f64 = 0.7;
/// The weight of a limit that agrees only approximately, relative to one that agrees.
const VIOLATING: f64 = 0.1;
/// The prior weight of a family in blocks of one size, relative to the family without blocks, ...
const BLOCKS_PRIOR: f64 = 1.0 / 1000.0;
/// ... and in blocks of the most usual size.
const USUAL_PRIOR: f64 = 1.0 / 100.0;
const USUAL_BLOCK: f64 = 16.0;

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
    /// Whether it stands for a whole family, which rivals the others until an answer tells them apart.
    pub(super) is_rival: bool,
}

/// A family fitted to the proven points.
struct FamilyFit {
    family: Family,
    /// The index of its frame.
    frame: usize,
    /// Whether at least one hypothesis is drawn from it.
    is_drawn: bool,
    constraints: Constraints,
    /// Starting points of the random walk, each with its violation.
    initial: Vec<(f64, LimitSample)>,
}

/// The terms of the proven cells in one frame.
pub(super) struct ProvenTerms {
    pub(super) fits: Vec<Vec<f64>>,
    pub(super) fails: Vec<Vec<f64>>,
}

impl FamilyFit {
    /// Fits the best limit, unless its violation exceeds `give_up_above`.
    fn new(family: Family, frame: usize, axes: usize, proven: &ProvenTerms, give_up_above: f64) -> Self {
        let constraints = Constraints::new(&family, axes, &proven.fits, &proven.fails);
        let initial = constraints.best_limit(0, give_up_above).into_iter().collect();
        Self {
            family,
            frame,
            is_drawn: frame == 0,
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

    /// The prior probability times the evidence: the share of the family's limits that agree with all answers, which is
    /// the probability that the family predicted them. 0 if every limit violates them by more than `slack`.
    fn weight(&self, slack: f64) -> f64 {
        let agreeing = self.initial.iter().filter(|(violation, _)| *violation <= slack);
        let evidence = agreeing.map(|(violation, sample)| {
            let agrees = if *violation > 0.0 { VIOLATING } else { 1.0 };
            agrees * evidence(self.family.basis.len(), -violation) * self.constraints.cutoff_evidence(sample)
        });
        self.family.prior * evidence.fold(0.0, f64::max)
    }

    /// Adds starting points with a cutoff on each axis, and on all of them.
    fn add_cutoffs(&mut self, axes: usize, give_up_above: f64) {
        // Cutoffs on all axes explain every failure that a single cutoff does. If even they violate too much, single
        // ones do, too.
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
    loads: Option<Loads>,
    fits: &[Cell],
    fails: &[Cell],
    in_blocks: bool,
    random: &mut ChaCha8Rng,
) -> (Vec<Frame>, Vec<Hypothesis>, Agreement) {
    let axes = frame.axes();
    let terms_in = |frame: &Frame| ProvenTerms {
        fits: fits.iter().map(|cell| terms(&frame.coordinates(cell))).collect(),
        fails: fails.iter().map(|cell| terms(&frame.coordinates(cell))).collect(),
    };
    let proven = terms_in(frame);
    let mut candidates = fit_families(frame, &proven);
    let mut frames = vec![frame.clone()];
    if in_blocks {
        let simple: Vec<Family> = families(frame)
            .into_iter()
            .filter(|family| family.basis.len() <= axes)
            .collect();
        for rounded in roundings(frame, fits, fails) {
            let rounded_terms = terms_in(&rounded);
            let usual = rounded.blocks.contains(&USUAL_BLOCK);
            let share = if usual { USUAL_PRIOR } else { BLOCKS_PRIOR };
            let in_blocks = |family: &Family| Family {
                prior: family.prior * share,
                ..family.clone()
            };
            let more: Vec<FamilyFit> = simple
                .iter()
                .map(|family| FamilyFit::new(in_blocks(family), frames.len(), axes, &rounded_terms, EXACT))
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
    if let Some(loads) = loads.filter(|_| in_blocks) {
        add_mechanisms(loads, frame, fits, fails, &mut frames, &mut candidates);
    }
    let least = candidates
        .iter()
        .map(FamilyFit::violation)
        .fold(f64::INFINITY, f64::min);
    let fails: Vec<&[f64]> = proven.fails.iter().map(|terms| &terms[..axes]).collect();
    let fitting: Vec<&[f64]> = proven.fits.iter().map(|terms| &terms[..axes]).collect();
    let pairs = corner_pairs(&fitting, &fails);
    let single = |one: &&FamilyFit| in_blocks && axes == 2 && one.frame == 0 && one.family.basis.len() == 1;
    let along = |one: &FamilyFit| {
        let steps = (0..axes).filter_map(|axis| Steps::new(&one.family, axis, axes, &proven));
        steps.collect::<Vec<_>>()
    };
    let steps: Vec<Steps> = candidates.iter().filter(single).flat_map(along).collect();
    let tolerated = match (pairs.is_empty(), steps.is_empty()) {
        (false, _) => 0.0,
        (true, false) => EXACT,
        (true, true) => MAX_VIOLATION,
    };
    if least > tolerated {
        candidates.clear();
    }
    candidates.retain(|candidate| candidate.violation() <= least.max(0.0) + EXACT);
    let slack = slack(least);

    let agrees = slack.max(EXACT);
    let mut weights: Vec<f64> = candidates.iter().map(|candidate| candidate.weight(agrees)).collect();
    let mut smooth: Vec<bool> = candidates.iter().map(|candidate| candidate.is_drawn).collect();
    if !pairs.is_empty() {
        let narrowest = candidates.iter().map(|candidate| -candidate.violation());
        weights.push(CORNERS_PRIOR * evidence(2 * axes - 1, narrowest.fold(1.0, f64::min)));
        smooth.push(true);
    }
    weights.extend(steps.iter().map(Steps::weight));
    smooth.extend(steps.iter().map(|_| false));
    let draws = shares(&weights, &smooth);
    let agreement = if slack <= 0.0 || candidates.is_empty() && !steps.is_empty() {
        Agreement::Exact
    } else if !pairs.is_empty() || !candidates.is_empty() && least <= NEARLY {
        Agreement::Nearly
    } else {
        Agreement::None
    };

    let mut drawn: Vec<Hypothesis> = Vec::new();
    if !pairs.is_empty() {
        let (share, count) = draws[candidates.len()];
        let corners = random_pairs(&pairs, &fails, count, random);
        drawn.extend(corners.into_iter().map(|corners| Hypothesis {
            shape: Shape(corners.into_iter().map(Limit::corner).collect()),
            frame: 0,
            weight: share / count as f64,
            is_rival: false,
        }));
    }
    for (steps, (share, count)) in steps.iter().zip(&draws[draws.len() - steps.len()..]) {
        drawn.extend(steps.draw(*count, random).into_iter().map(|limits| Hypothesis {
            shape: Shape(limits),
            frame: 0,
            weight: share / *count as f64,
            is_rival: false,
        }));
    }
    let mut limits: Vec<(Limit, usize, f64)> = Vec::new();
    let mut rivals = Vec::new();
    for (candidate, (share, count)) in candidates.into_iter().zip(draws).filter(|(_, (_, count))| *count > 0) {
        let FamilyFit {
            family,
            frame,
            constraints,
            initial,
            ..
        } = candidate;
        let agreeing = initial.into_iter().filter(|(violation, _)| *violation <= agrees);
        let initial: Vec<LimitSample> = agreeing.map(|(_, draw)| draw).collect();
        let draws = samples(&constraints, &initial, slack, count, random);
        let each = share / draws.len() as f64;
        if share >= RIVAL {
            rivals.push(limits.len());
        }
        limits.extend(draws.into_iter().map(|draw| (draw.limit(&family), frame, each)));
    }
    let easiest = frame.coordinates(&vec![0; axes]);
    let every = limits.len().div_ceil(UNIONS).max(1);
    let unions = limits.iter().step_by(every);
    for (limit, frame, weight) in unions.filter(|(_, frame, _)| frames[*frame].has_coordinates()) {
        let mut corner = easiest.clone();
        draw_corner(&mut corner, &easiest, &fails, random);
        drawn.push(Hypothesis {
            shape: Shape(vec![limit.clone(), Limit::corner(corner)]),
            frame: *frame,
            weight: *weight,
            is_rival: false,
        });
    }
    drawn.extend(
        limits
            .into_iter()
            .enumerate()
            .map(|(index, (limit, frame, weight))| Hypothesis {
                shape: Shape(vec![limit]),
                frame,
                weight,
                is_rival: rivals.contains(&index),
            }),
    );
    (frames, drawn, agreement)
}

/// Forms of one kind that are drawn from: those with the widest margins.
const FORMS_BY_KIND: usize = 3;
/// A form agrees if it keeps at least this margin.
const STRICT: f64 = 1e-6;
/// Rounds that look between two forms for one that agrees.
const BETWEEN: usize = 9;
/// Between forms of which none violates less than this, none agrees.
const CLOSE: f64 = 0.05;
/// A form that violates more than this is far from one that agrees.
const MAX_FORM_VIOLATION: f64 = 0.2;

/// Adds the forms of mechanisms that agree with every answer.
fn add_mechanisms(
    loads: Loads,
    frame: &Frame,
    fits: &[Cell],
    fails: &[Cell],
    frames: &mut Vec<Frame>,
    candidates: &mut Vec<FamilyFit>,
) {
    for kind in mechanisms::kinds(loads) {
        let share = 1.0 / kind.forms.len() as f64;
        let fit = |form: &Mechanism| -> FamilyFit {
            let family = summed(form, kind.prior * share);
            let proven = proven_terms(form, fits, fails);
            let constraints = Constraints::new(&family, 1, &proven.fits, &proven.fails);
            let cut = usize::from(form.is_capped());
            let initial = constraints.best_limit(cut, MAX_FORM_VIOLATION).into_iter().collect();
            FamilyFit {
                family,
                frame: 0,
                is_drawn: false,
                constraints,
                initial,
            }
        };
        let mut fitted: Vec<(FamilyFit, Mechanism)> = Vec::new();
        let tolerated = if kind.continuous { CLOSE } else { EXACT };
        let agrees = |form: &&Mechanism| {
            mechanisms::single_violation(form, fits, fails).is_none_or(|violation| violation <= tolerated)
        };
        for form in kind.forms.iter().filter(agrees) {
            fitted.push((fit(form), form.clone()));
        }
        if kind.continuous {
            for _ in 0..BETWEEN {
                let best =
                    (0..fitted.len()).min_by(|a, b| fitted[*a].0.violation().total_cmp(&fitted[*b].0.violation()));
                let Some(best) = best.filter(|best| (-EXACT..CLOSE).contains(&fitted[*best].0.violation())) else {
                    break;
                };
                let around = [best.checked_sub(1), Some(best + 1).filter(|next| *next < fitted.len())];
                let between: Vec<Option<Mechanism>> = around
                    .iter()
                    .map(|other| fitted[best].1.between(&fitted[(*other)?].1))
                    .collect();
                for (form, at) in between.into_iter().zip([best, best + 1]).rev() {
                    if let Some(form) = form {
                        fitted.insert(at, (fit(&form), form));
                    }
                }
            }
        }
        // A piece that is the same at every point would separate nothing, at a violation of 0.
        fitted.retain(|(fit, _)| fit.violation() < -STRICT);
        fitted.sort_by(|a, b| a.0.violation().total_cmp(&b.0.violation()));
        fitted.truncate(FORMS_BY_KIND);
        for (index, (mut fit, form)) in fitted.into_iter().enumerate() {
            fit.frame = frames.len();
            fit.is_drawn = index == 0;
            frames.push(frame.by(Counting::Mechanism(form)));
            candidates.push(fit);
        }
    }
}

/// The family of a form: its pieces add up.
fn summed(form: &Mechanism, prior: f64) -> Family {
    let unit = |piece: usize| (0..TERMS).map(|term| f64::from(u8::from(term == piece))).collect();
    Family {
        basis: (1..=form.pieces()).map(unit).collect(),
        prior,
    }
}

/// The terms of the proven cells under a form.
fn proven_terms(form: &Mechanism, fits: &[Cell], fails: &[Cell]) -> ProvenTerms {
    let terms = |cells: &[Cell]| cells.iter().map(|cell| form.terms(cell).to_vec()).collect();
    ProvenTerms {
        fits: terms(fits),
        fails: terms(fails),
    }
}

/// The violation to allow, given the least violation of all families.
fn slack(least: f64) -> f64 {
    if least < -1e-6 {
        0.0
    } else {
        (1.5 * least).max(least + EXACT).max(2.0 * EXACT)
    }
}

/// Fits every family of limits. Cutoffs (a largest value on an axis) are added only if no limit without them agrees
/// exactly: to each family with at most one coefficient per axis by itself, to the others only if no family agrees.
fn fit_families(frame: &Frame, proven: &ProvenTerms) -> Vec<FamilyFit> {
    let axes = frame.axes();
    let mut candidates: Vec<FamilyFit> = Vec::new();
    // General families come first. A family that violates much more than they do is not needed.
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

/// The share of limits with this many coefficients that keep at least this margin from all answers. The margin is
/// relative to the limit.
fn evidence(coefficients: usize, margin: f64) -> f64 {
    let margin = margin.clamp(EXACT, 0.9999);
    let share = (2.0 * margin.atanh() / COEFFICIENT_RANGE).min(1.0);
    share.powf(1.0 + FURTHER_COEFFICIENT * (coefficients as f64 - 1.0))
}

/// The probability of each family and the number of limits to draw from it. `smooth` marks families without blocks.
fn shares(weights: &[f64], smooth: &[bool]) -> Vec<(f64, usize)> {
    let all: f64 = weights.iter().sum();
    let (mut sum, mut before) = (0.0, 0);
    let share = |(weight, smooth): (&f64, &bool)| {
        sum += TOTAL * weight / all;
        let count = sum.round() as usize - before;
        before += count;
        let fewest = if *smooth && *weight > 0.0 { FEWEST } else { 0 };
        (weight / all, count.max(fewest))
    };
    weights.iter().zip(smooth).map(share).collect()
}

/// Common block sizes: powers of two, and round numbers.
const BLOCK_SIZES: [i64; 22] = [
    8, 10, 16, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000, 1024, 2000, 2048, 2500, 4096, 5000, 8192, 10_000,
];
/// The fewest blocks that an axis must have.
const MIN_BLOCKS: f64 = 3.0;

/// Frames that round lengths up to blocks, each length alone and all together, largest blocks first. Only frames in
/// which no failing cell lies in or below the blocks of a fitting cell.
pub(super) fn roundings(frame: &Frame, fits: &[Cell], fails: &[Cell]) -> Vec<Frame> {
    let Some(largest) = &frame.largest else {
        return Vec::new();
    };
    let axes = largest.len();
    let sides: Vec<AxisOrder> = (0..axes).map(|axis| AxisOrder::new(axis, fits, fails)).collect();
    let alone: Vec<Vec<usize>> = sides.iter().map(|side| side.reached(frame, 1.0)).collect();
    let each: Vec<usize> = (0..axes)
        .filter(|axis| Some(*axis) != frame.requests)
        .map(|axis| 1 << axis)
        .collect();
    let together = (each.len() > 1).then(|| each.iter().sum());
    let lengths: Vec<usize> = each.into_iter().chain(together).collect();
    let countings = frame.countings();
    let mut found = Vec::new();
    for (size, frame) in BLOCK_SIZES
        .iter()
        .rev()
        .flat_map(|size| countings.iter().map(move |frame| (*size as f64, frame)))
    {
        let wide = |axis: &usize| size * MIN_BLOCKS <= largest[*axis];
        let rounded: Vec<Option<Vec<usize>>> = (0..axes)
            .map(|axis| wide(&axis).then(|| sides[axis].reached(frame, size)))
            .collect();
        for which in &lengths {
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

/// With more fitting points there are too many ways to divide them between two corners.
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

/// Draws a corner that is at least `least` on every axis and covers none of `fails`, one side after the other.
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
