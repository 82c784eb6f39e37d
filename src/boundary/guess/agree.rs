//! Which limits agree with proven places: those of the families that miss least, drawn in proportion to how likely each is.

use rand_chacha::ChaCha8Rng;

use super::family::{Family, besides_product, families};
use super::frame::{Frame, terms};
use super::proven::{Draw, Proven};
use super::shape::{Limit, Shape};
use super::{Drawn, blocks, steps, walk};
use crate::boundary::lattice::Cell;

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

/// Blocks of different sizes that are drawn from, the largest.
const MOST_BLOCKS: usize = 8;

/// A family under way.
struct Begun {
    family: Family,
    /// Which frame it sees places in.
    frame: usize,
    proven: Proven,
    /// Limits to begin with, each with its miss.
    firsts: Vec<(f64, Draw)>,
}

/// The terms of proven places, as one frame has them.
struct Seen {
    fits: Vec<Vec<f64>>,
    fails: Vec<Vec<f64>>,
}

impl Begun {
    /// With a first limit, unless each misses more than is `hopeless`.
    fn new(family: Family, frame: usize, axes: usize, seen: &Seen, hopeless: f64) -> Self {
        let proven = Proven::new(&family, axes, &seen.fits, &seen.fails);
        let firsts = proven.first(0, hopeless).into_iter().collect();
        Self {
            family,
            frame,
            proven,
            firsts,
        }
    }

    fn miss(&self) -> f64 {
        self.firsts.iter().map(|(miss, _)| *miss).fold(f64::INFINITY, f64::min)
    }

    /// Adds first limits with a cutoff on each axis, and on all.
    fn cut(&mut self, axes: usize, hopeless: f64) {
        // Those on all explain every failure that one of them does: where they miss too much, each does.
        let Some(on_all) = self.proven.first((1 << axes) - 1, hopeless) else {
            return;
        };
        let single = (0..axes).filter_map(|axis| self.proven.first(1 << axis, hopeless));
        let more: Vec<(f64, Draw)> = single.chain([on_all]).collect();
        self.firsts.extend(more);
    }
}

/// Limits that agree with fitting and failing cells, and the frames that they see places in, the first of which is `frame`;
/// and whether they agree exactly.
pub(super) fn agreeing(
    frame: &Frame,
    fits: &[Cell],
    fails: &[Cell],
    in_blocks: bool,
    random: &mut ChaCha8Rng,
) -> (Vec<Frame>, Vec<Drawn>, bool) {
    let axes = frame.axes();
    let seen = |frame: &Frame| Seen {
        fits: fits.iter().map(|cell| terms(&frame.place(cell))).collect(),
        fails: fails.iter().map(|cell| terms(&frame.place(cell))).collect(),
    };
    let smooth = seen(frame);
    let mut begun = begin(frame, &smooth);
    let mut frames = vec![frame.clone()];
    let amounts = |begun: &Begun| {
        if begun.miss() > EXACT {
            usize::MAX
        } else {
            begun.family.basis.len()
        }
    };
    // A simple limit without blocks needs no other explanation.
    let plain = begun.iter().map(amounts).min().is_some_and(|fewest| fewest <= axes);
    if in_blocks && !plain {
        let simple: Vec<Family> = families(frame)
            .into_iter()
            .filter(|family| family.basis.len() <= axes)
            .collect();
        for rounded in blocks::roundings(frame, fits, fails) {
            let seen = seen(&rounded);
            let more: Vec<Begun> = simple
                .iter()
                .map(|family| Begun::new(family.clone(), frames.len(), axes, &seen, EXACT))
                .filter(|begun| begun.miss() <= EXACT)
                .collect();
            if !more.is_empty() {
                frames.push(rounded);
                begun.extend(more);
            }
            if frames.len() > MOST_BLOCKS {
                break;
            }
        }
    }
    let least = begun.iter().map(Begun::miss).fold(f64::INFINITY, f64::min);
    let fails: Vec<&[f64]> = smooth.fails.iter().map(|terms| &terms[..axes]).collect();
    let fitting: Vec<&[f64]> = smooth.fits.iter().map(|terms| &terms[..axes]).collect();
    let divisions = steps::divisions(&fitting, &fails);
    if least > if divisions.is_empty() { MOST_MISS } else { 0.0 } {
        begun.clear();
    }
    begun.retain(|begun| begun.miss() <= least.max(0.0) + EXACT);
    let slack = slack(least);

    // Each amount of a family had to come out right by chance: the more places are proven, the less likely that is.
    let doubt = ((fits.len() + fails.len()) as f64 / PLACES).max(1.0);
    let blocks = frames.len().max(2) - 1;
    let mut weights: Vec<(usize, f64)> = begun
        .iter()
        .map(|Begun { family, frame, .. }| match frame {
            0 => (family.basis.len(), family.prior),
            // The block is an amount of its own.
            _ => (family.basis.len() + 1, family.prior / blocks as f64),
        })
        .collect();
    if !divisions.is_empty() {
        weights.push((2 * axes - 1, STEPS_PRIOR));
    }
    let draws = shares(&weights, doubt);

    let mut drawn: Vec<Drawn> = Vec::new();
    if !divisions.is_empty() {
        let (share, count) = draws[begun.len()];
        let corners = steps::draws(&divisions, &fails, count, random);
        drawn.extend(corners.into_iter().map(|corners| Drawn {
            shape: Shape::Steps(corners),
            frame: 0,
            weight: share / count as f64,
        }));
    }
    let mut limits: Vec<(Limit, usize, f64)> = Vec::new();
    for (begun, (share, count)) in begun.into_iter().zip(draws) {
        let Begun {
            family,
            frame,
            proven,
            firsts,
        } = begun;
        let agreeing = firsts.into_iter().filter(|(miss, _)| *miss <= slack.max(EXACT));
        let firsts: Vec<Draw> = agreeing.map(|(_, draw)| draw).collect();
        let draws = walk::draws(&proven, &firsts, slack, count, random);
        let each = share / draws.len() as f64;
        limits.extend(draws.into_iter().map(|draw| (draw.limit(&family), frame, each)));
    }
    let easiest = frame.place(&vec![0; axes]);
    let every = limits.len().div_ceil(BESIDES).max(1);
    for (limit, frame, weight) in limits.iter().step_by(every) {
        let mut corner = easiest.clone();
        steps::grow(&mut corner, &easiest, &fails, random);
        drawn.push(Drawn {
            shape: Shape::Besides(limit.clone(), corner),
            frame: *frame,
            weight: *weight,
        });
    }
    drawn.extend(limits.into_iter().map(|(limit, frame, weight)| Drawn {
        shape: Shape::Limit(limit),
        frame,
        weight,
    }));
    (frames, drawn, slack <= 0.0)
}

/// How much limits may miss where the best of them misses so much.
fn slack(least: f64) -> f64 {
    if least < -1e-6 {
        0.0
    } else {
        (1.5 * least).max(least + EXACT).max(2.0 * EXACT)
    }
}

/// All families with their first limits. Cutoffs are tried where a family needs them: on simple ones, and on all when
/// nothing else agrees.
fn begin(frame: &Frame, seen: &Seen) -> Vec<Begun> {
    let axes = frame.axes();
    let mut begun: Vec<Begun> = Vec::new();
    // The general ones come first: what misses much more than they do will not be needed.
    let hopeless = |begun: &[Begun]| {
        let least = begun.iter().map(Begun::miss).fold(f64::INFINITY, f64::min);
        slack(least).clamp(EXACT, MOST_MISS + EXACT)
    };
    for family in families(frame).into_iter().rev() {
        let mut one = Begun::new(family, 0, axes, seen, hopeless(&begun));
        if one.miss() > EXACT && one.family.basis.len() <= axes {
            one.cut(axes, hopeless(&begun));
        }
        begun.push(one);
    }
    begun.reverse();
    let simple = begun.iter().filter(|one| one.family.basis.len() <= axes);
    if simple.map(Begun::miss).fold(f64::INFINITY, f64::min) > EXACT {
        for family in besides_product(frame) {
            begun.push(Begun::new(family, 0, axes, seen, hopeless(&begun)));
        }
    }
    if begun.iter().all(|begun| begun.miss() > EXACT) {
        for one in begun.iter_mut().filter(|one| one.family.basis.len() > axes) {
            one.cut(axes, MOST_MISS + EXACT);
        }
    }
    begun
}

/// For each family, of which the count of amounts and the prior are given: its share of all limits, and how many to draw.
fn shares(weights: &[(usize, f64)], doubt: f64) -> Vec<(f64, usize)> {
    let fewest = weights.iter().map(|(amounts, _)| *amounts).min().unwrap_or(0);
    let likely: Vec<f64> = weights
        .iter()
        .map(|(amounts, prior)| prior * doubt.powf(fewest as f64 - *amounts as f64))
        .collect();
    let all: f64 = likely.iter().sum();
    let count = |weight: &f64| (weight * TOTAL / all).max(FEWEST) as usize;
    likely.iter().map(|weight| (weight / all, count(weight))).collect()
}
