//! Families of limits and forms of mechanisms, fitted to the proven cells.

use super::blocks::roundings;
use super::fitting::{Constraints, LimitSample};
use super::limits::{Counting, Family, Frame, families, product_and_one_axis};
use super::mechanisms::{self, Kind, Loads, Mechanism, ProvenLoads, TERMS};
use crate::boundary::lattice::Cell;

/// The largest violation of proven points by a limit that agrees, as a share of the limit.
pub(super) const EXACT: f64 = 0.0005;
/// The largest violation that is tolerated if no limit agrees.
pub(super) const MAX_VIOLATION: f64 = 0.02;
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

/// The families and forms that were fitted.
pub(super) struct Candidates {
    /// The first frame takes values as they are.
    pub(super) frames: Vec<Frame>,
    pub(super) fits: Vec<FamilyFit>,
}

impl Candidates {
    /// Fits every family of limits. Cutoffs (a largest value on an axis) are added only if no limit without them agrees
    /// exactly: to each family with at most one coefficient per axis by itself, to the others only if no family agrees.
    pub(super) fn new(frame: &Frame, proven: &ProvenTerms) -> Self {
        let axes = frame.axes();
        let mut fits: Vec<FamilyFit> = Vec::new();
        // General families come first. A family that violates much more than they do is not needed.
        let give_up_above = |fits: &[FamilyFit]| slack(least_violation(fits)).clamp(EXACT, MAX_VIOLATION + EXACT);
        for family in families(frame).into_iter().rev() {
            let mut fit = FamilyFit::new(family, 0, axes, proven, give_up_above(&fits));
            if fit.violation() > EXACT && fit.is_simple(axes) {
                fit.add_cutoffs(axes, give_up_above(&fits));
            }
            fits.push(fit);
        }
        fits.reverse();
        if least_violation(fits.iter().filter(|fit| fit.is_simple(axes))) > EXACT {
            for family in product_and_one_axis(frame) {
                fits.push(FamilyFit::new(family, 0, axes, proven, give_up_above(&fits)));
            }
        }
        if fits.iter().all(|fit| fit.violation() > EXACT) {
            for fit in fits.iter_mut().filter(|fit| !fit.is_simple(axes)) {
                fit.add_cutoffs(axes, MAX_VIOLATION + EXACT);
            }
        }
        Self {
            frames: vec![frame.clone()],
            fits,
        }
    }

    /// Adds the simple families in blocks of each size that agrees, largest first.
    pub(super) fn add_blocks(&mut self, fits: &[Cell], fails: &[Cell]) {
        let frame = &self.frames[0];
        let axes = frame.axes();
        let mut simple = families(frame);
        simple.retain(|family| family.basis.len() <= axes);
        for rounded in roundings(frame, fits, fails) {
            let proven = ProvenTerms::new(&rounded, fits, fails);
            let usual = rounded.blocks.contains(&USUAL_BLOCK);
            let share = if usual { USUAL_PRIOR } else { BLOCKS_PRIOR };
            let fit = |family: &Family| {
                let prior = family.prior * share;
                let basis = family.basis.clone();
                FamilyFit::new(Family { basis, prior }, self.frames.len(), axes, &proven, EXACT)
            };
            let agreeing = simple.iter().map(fit).filter(|fit| fit.violation() <= EXACT);
            let agreeing: Vec<FamilyFit> = agreeing.collect();
            if !agreeing.is_empty() {
                self.frames.push(rounded);
                self.fits.extend(agreeing);
            }
            if self.frames.len() > MAX_BLOCK_SIZES {
                break;
            }
        }
    }

    /// Adds the forms of mechanisms that agree with every answer.
    pub(super) fn add_mechanisms(&mut self, loads: Loads, fits: &[Cell], fails: &[Cell]) {
        let proven = ProvenLoads::new(&loads, fits, fails);
        for kind in mechanisms::kinds(loads) {
            for (index, (mut fit, form)) in fit_forms(&kind, &proven).into_iter().enumerate() {
                fit.frame = self.frames.len();
                fit.is_drawn = index == 0;
                self.frames.push(self.frames[0].by(Counting::Mechanism(form)));
                self.fits.push(fit);
            }
        }
    }

    /// Keeps those with the least violation; none if that is more than `tolerated`. Returns the least violation.
    pub(super) fn keep_best(&mut self, tolerated: f64) -> f64 {
        let least = least_violation(&self.fits);
        if least > tolerated {
            self.fits.clear();
        }
        self.fits.retain(|fit| fit.violation() <= least.max(0.0) + EXACT);
        least
    }
}

fn least_violation<'a>(fits: impl IntoIterator<Item = &'a FamilyFit>) -> f64 {
    fits.into_iter().map(FamilyFit::violation).fold(f64::INFINITY, f64::min)
}

/// A family fitted to the proven points.
pub(super) struct FamilyFit {
    pub(super) family: Family,
    /// The index of its frame.
    pub(super) frame: usize,
    /// Whether at least one hypothesis is drawn from it.
    pub(super) is_drawn: bool,
    pub(super) constraints: Constraints,
    /// Starting points of the random walk, each with its violation.
    pub(super) initial: Vec<(f64, LimitSample)>,
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

    /// Fits a form of a mechanism. Its frame is not known yet.
    fn of_form(form: &Mechanism, prior: f64, proven: &ProvenLoads) -> Self {
        let family = summed(form, prior);
        let [fits, fails] = [&proven.fits, &proven.fails].map(|loads| form.terms_at(loads).collect::<Vec<_>>());
        let constraints = Constraints::new(&family, 1, &fits, &fails);
        let cut = usize::from(form.is_capped());
        let initial = constraints.best_limit(cut, MAX_FORM_VIOLATION).into_iter().collect();
        Self {
            family,
            frame: 0,
            is_drawn: false,
            constraints,
            initial,
        }
    }

    /// Whether it has at most one coefficient per axis.
    fn is_simple(&self, axes: usize) -> bool {
        self.family.basis.len() <= axes
    }

    pub(super) fn violation(&self) -> f64 {
        let violations = self.initial.iter().map(|(violation, _)| *violation);
        violations.fold(f64::INFINITY, f64::min)
    }

    /// The prior probability times the evidence: the share of the family's limits that agree with all answers, which is
    /// the probability that the family predicted them. 0 if every limit violates them by more than `slack`.
    pub(super) fn weight(&self, slack: f64) -> f64 {
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

/// The terms of the proven cells in one frame.
pub(super) struct ProvenTerms {
    pub(super) fits: Vec<Vec<f64>>,
    pub(super) fails: Vec<Vec<f64>>,
}

impl ProvenTerms {
    pub(super) fn new(frame: &Frame, fits: &[Cell], fails: &[Cell]) -> Self {
        let terms = |cells: &[Cell]| cells.iter().map(|cell| frame.terms(cell)).collect();
        Self {
            fits: terms(fits),
            fails: terms(fails),
        }
    }
}

/// The forms of a kind that agree with every answer, those with the widest margins first.
fn fit_forms(kind: &Kind, proven: &ProvenLoads) -> Vec<(FamilyFit, Mechanism)> {
    let share = 1.0 / kind.forms.len() as f64;
    let fit = |form: &Mechanism| FamilyFit::of_form(form, kind.prior * share, proven);
    let tolerated = if kind.continuous { CLOSE } else { EXACT };
    let agreeing = kind.forms.iter().filter(|form| form.may_agree(proven, tolerated));
    let mut fitted: Vec<(FamilyFit, Mechanism)> = agreeing.map(|form| (fit(form), form.clone())).collect();
    if kind.continuous {
        for _ in 0..BETWEEN {
            let by_violation = |a: &usize, b: &usize| fitted[*a].0.violation().total_cmp(&fitted[*b].0.violation());
            let best = (0..fitted.len()).min_by(by_violation);
            let Some(best) = best.filter(|best| (-EXACT..CLOSE).contains(&fitted[*best].0.violation())) else {
                break;
            };
            let around = [best.checked_sub(1), Some(best + 1).filter(|next| *next < fitted.len())];
            let between = around.map(|other| fitted[best].1.between(&fitted[other?].1));
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
    fitted
}

/// The family of a form: its pieces add up.
fn summed(form: &Mechanism, prior: f64) -> Family {
    let unit = |piece: usize| (0..TERMS).map(|term| f64::from(u8::from(term == piece))).collect();
    Family {
        basis: (1..=form.pieces()).map(unit).collect(),
        prior,
    }
}

/// The violation to allow, given the least violation of all families.
pub(super) fn slack(least: f64) -> f64 {
    if least < -1e-6 {
        0.0
    } else {
        (1.5 * least).max(least + EXACT).max(2.0 * EXACT)
    }
}

/// The share of limits with this many coefficients that keep at least this margin from all answers. The margin is
/// relative to the limit.
pub(super) fn evidence(coefficients: usize, margin: f64) -> f64 {
    let margin = margin.clamp(EXACT, 0.9999);
    let share = (2.0 * margin.atanh() / COEFFICIENT_RANGE).min(1.0);
    share.powf(1.0 + FURTHER_COEFFICIENT * (coefficients as f64 - 1.0))
}
