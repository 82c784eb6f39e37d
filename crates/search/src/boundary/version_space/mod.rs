//! A version space: memory limits (hypotheses) of assumed families that agree with every answer. The weight of the
//! hypotheses that admit a cell estimates the probability that it fits.
//!
//! The hypotheses only choose the next point to probe; they never prove anything. The next probe is the one that splits
//! them best (Mitchell 1982, "Generalization as search"; Seung, Opper and Sompolinsky 1992, "Query by committee"). The
//! families describe memory: tokens in flight, prefill activations, concurrency × length, a longest prompt, a step
//! beyond which less fits. A family's share of the votes depends on how well it predicted the answers, which favours
//! simple ones.

mod blocks;
mod candidates;
mod classifier;
mod corners;
mod fitting;
mod limits;
mod linear_program;
mod mechanisms;
mod reach;
mod sampling;
mod steps;

use std::borrow::Cow;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use self::classifier::classifiers;
use self::limits::{Counting, Frame, WeightMatrix};
use self::mechanisms::Loads;
use self::sampling::{Hypothesis, sample_hypotheses};
use super::lattice::{Cell, Lattice};

/// Proven cells of each side that are used.
const MAX_PROVEN_CELLS: usize = 160;
const MAX_HYPOTHESES: usize = HypothesisSet::BITS as usize;

/// A set of hypotheses, one bit each.
pub(super) type HypothesisSet = u128;

/// The weight from which on a form is named.
const MOSTLY: f64 = 0.5;

/// How well the hypotheses agree with everything proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Some family agrees with every cell.
    Exact,
    /// Some family violates cells by so little that it is kept: a smooth limit is nearly right where the true one counts
    /// blocks of a size not yet known.
    Nearly,
    /// No family agrees.
    None,
    /// No family agrees, and the hypotheses are classifiers.
    Classified,
}

/// Limits that agree with everything proven.
#[derive(Clone, Debug)]
pub(super) struct VersionSpace {
    /// The axes with more than one value. Others only add a constant.
    free: Vec<usize>,
    /// The number of all axes.
    axes: usize,
    /// By free axis.
    last: Cell,
    /// The first frame takes values as they are; the others round them up to blocks.
    frames: Vec<Frame>,
    hypotheses: Vec<Hypothesis>,
    weight_matrix: WeightMatrix,
    pub(super) agreement: Agreement,
}

impl VersionSpace {
    /// Limits that admit the cells of `fits` and reject those of `fails`. `None` if there are none, if a side is empty,
    /// or with a single free axis, where limits cannot do better than bisection. Deterministic. Set `whole` to
    /// false for a subset of the proven cells, which is too small to detect block sizes. `block` is the size that the engine
    /// reports.
    pub(super) fn new(
        lattice: &Lattice,
        fits: &[Cell],
        fails: &[Cell],
        whole: bool,
        block: Option<u64>,
    ) -> Option<Self> {
        let free = lattice.free();
        if fits.is_empty() || fails.is_empty() || free.len() < 2 {
            return None;
        }
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let (fits, fails) = (sampled(fits, &free), sampled(fails, &free));
        let frame = Frame::new(lattice.axes());
        let loads = Loads::new(lattice.axes(), block).filter(|_| whole);
        let (mut frames, mut hypotheses, mut agreement) =
            sample_hypotheses(&frame, loads, &fits, &fails, whole, &mut random);
        if loads.is_some() && agreement == Agreement::None {
            let logarithms = frame.by(Counting::Logarithms);
            let drawn = classifiers(&logarithms, frames.len(), &fits, &fails, &mut random);
            if !drawn.is_empty() {
                (hypotheses, agreement) = (drawn, Agreement::Classified);
                frames.push(logarithms);
            }
        }
        Self::of(lattice, frames, hypotheses, agreement)
    }

    /// Classifiers of these cells, whether or not a family agrees. `None` if there are too few of them.
    pub(super) fn of_classifiers(lattice: &Lattice, fits: &[Cell], fails: &[Cell]) -> Option<Self> {
        if fits.is_empty() || fails.is_empty() {
            return None;
        }
        let free = lattice.free();
        let frames = vec![Frame::new(lattice.axes())];
        let logarithms = frames[0].by(Counting::Logarithms);
        let (fits, fails) = (sampled(fits, &free), sampled(fails, &free));
        let drawn = classifiers(&logarithms, 1, &fits, &fails, &mut ChaCha8Rng::seed_from_u64(0));
        let frames = frames.into_iter().chain([logarithms]).collect();
        Self::of(lattice, frames, drawn, Agreement::Classified)
    }

    /// The most important of these hypotheses; `None` if there are none.
    fn of(
        lattice: &Lattice,
        frames: Vec<Frame>,
        mut hypotheses: Vec<Hypothesis>,
        agreement: Agreement,
    ) -> Option<Self> {
        let (free, axes) = (lattice.free(), lattice.axes().len());
        hypotheses.truncate(MAX_HYPOTHESES);
        let all: f64 = hypotheses.iter().map(|hypothesis| hypothesis.weight).sum();
        hypotheses.iter_mut().for_each(|hypothesis| hypothesis.weight /= all);
        (!hypotheses.is_empty()).then(|| Self {
            last: select_axes(&lattice.last(), &free).into_owned(),
            free,
            axes,
            weight_matrix: WeightMatrix::new(hypotheses.iter().map(|hypothesis| &hypothesis.shape), &frames[0]),
            frames,
            hypotheses,
            agreement,
        })
    }

    /// The limit as people write it, if most hypotheses are of one form that counts blocks.
    pub(super) fn formula(&self) -> Option<String> {
        let weight = |frame: usize| -> f64 {
            let of_frame = self.hypotheses.iter().filter(|hypothesis| hypothesis.frame == frame);
            of_frame.map(|hypothesis| hypothesis.weight).sum()
        };
        let best = (1..self.frames.len()).max_by(|a, b| weight(*a).total_cmp(&weight(*b)))?;
        let Counting::Mechanism(form) = &self.frames[best].counting else {
            return None;
        };
        let limits = self.hypotheses.iter().filter(|hypothesis| hypothesis.frame == best);
        let sums: Vec<f64> = limits.map(|hypothesis| hypothesis.shape.0[0].weights[1]).collect();
        (weight(best) > MOSTLY).then(|| form.formula(&sums)).flatten()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.hypotheses.len()).unwrap_or(HypothesisSet::BITS)
    }

    /// Whether one axis counts requests, and the others are lengths.
    pub(super) fn counts_requests(&self) -> bool {
        self.frames[0].requests.is_some()
    }

    pub(super) fn weight(&self, limit: u32) -> f64 {
        self.hypotheses
            .get(limit as usize)
            .map_or(0.0, |hypothesis| hypothesis.weight)
    }

    /// The hypotheses that admit a cell.
    pub(super) fn votes(&self, cell: &Cell) -> HypothesisSet {
        let cell = self.free_part(cell);
        let first = self.frames[0].terms(&cell);
        let sums = self.weight_matrix.sums(&first);
        let mut terms = TermsAt::new(&self.frames, &cell);
        let fitting = self.hypotheses.iter().zip(sums).enumerate();
        let fitting = fitting.filter(|(_, (hypothesis, sum))| match hypothesis.frame {
            0 => hypothesis.shape.admits_with(&first, *sum, 1.0),
            frame => hypothesis.shape.admits_up_to(terms.of(frame), 1.0),
        });
        fitting.fold(0, |votes, (index, _)| votes | 1 << index)
    }

    /// The share of the hypotheses in this set.
    pub(super) fn share(&self, votes: HypothesisSet) -> f64 {
        f64::from(votes.count_ones()) / f64::from(self.count())
    }

    /// The cell, and, if limits count in blocks, the largest cells of its blocks, because such limits cannot tell them
    /// apart. Only the cell itself if no limit agrees exactly: approximate limits would propose the same block again
    /// and again, cell by cell.
    pub(super) fn block_ends(&self, cell: Cell) -> Vec<Cell> {
        if self.agreement != Agreement::Exact {
            return vec![cell];
        }
        let free_part = self.free_part(&cell);
        let rounded = self.frames[1..].iter().filter(|frame| frame.has_coordinates());
        let block_ends = rounded.map(|frame| frame.block_ends(&free_part, &self.last));
        let mut cells: Vec<Cell> = block_ends
            .map(|block_ends| self.with_free_part(&cell, block_ends))
            .collect();
        cells.push(cell);
        cells
    }

    /// The share by which to tighten each limit near these failing cells: twice the excess that it admits there, so
    /// that a slightly wrong limit retreats further with every failure.
    pub(super) fn excess<'a>(&self, fails: impl Iterator<Item = &'a Cell>) -> Vec<f64> {
        let mut excess = vec![0.0; self.hypotheses.len()];
        for fail in fails {
            let fail = self.free_part(fail);
            let mut terms = TermsAt::new(&self.frames, &fail);
            for (most, hypothesis) in excess.iter_mut().zip(&self.hypotheses) {
                *most = f64::max(*most, 2.0 * hypothesis.shape.excess(terms.of(hypothesis.frame)));
            }
        }
        excess
    }

    fn free_part<'a>(&self, cell: &'a Cell) -> Cow<'a, Cell> {
        select_axes(cell, &self.free)
    }

    /// The cell with other values on its free axes.
    fn with_free_part(&self, cell: &Cell, free: Cell) -> Cell {
        if self.free.len() == self.axes {
            return free;
        }
        let mut whole = cell.clone();
        for (axis, at) in self.free.iter().zip(free) {
            whole[*axis] = at;
        }
        whole
    }
}

/// The terms of one cell in one frame after the other, cached, as hypotheses of one frame mostly follow each other.
struct TermsAt<'a> {
    frames: &'a [Frame],
    cell: &'a Cell,
    /// The frame of `terms`.
    frame: Option<usize>,
    terms: Vec<f64>,
}

impl<'a> TermsAt<'a> {
    fn new(frames: &'a [Frame], cell: &'a Cell) -> Self {
        Self {
            frames,
            cell,
            frame: None,
            terms: Vec::new(),
        }
    }

    fn of(&mut self, frame: usize) -> &[f64] {
        if self.frame != Some(frame) {
            self.frame = Some(frame);
            self.frames[frame].write_terms(self.cell, &mut self.terms);
        }
        &self.terms
    }
}

/// At most `MAX_PROVEN_CELLS` of these cells, evenly, on the free axes.
fn sampled(cells: &[Cell], free: &[usize]) -> Vec<Cell> {
    let sampled = cells.iter().step_by(cells.len().div_ceil(MAX_PROVEN_CELLS));
    sampled.map(|cell| select_axes(cell, free).into_owned()).collect()
}

fn select_axes<'a>(cell: &'a Cell, axes: &[usize]) -> Cow<'a, Cell> {
    if axes.len() == cell.len() {
        return Cow::Borrowed(cell);
    }
    Cow::Owned(axes.iter().map(|axis| cell[*axis]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Scalar;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn lattice() -> Lattice {
        Lattice::parse(&json!({ "input": [1, 1000], "output": [1, 500] })).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_limit_agrees_with_what_is_proven_but_for_a_thousandth(
            cells in prop::collection::vec((0i64..1000, 0i64..500), 2..20),
            slope in 1i64..4,
            most in 300i64..2000,
        ) {
            let cells = cells.into_iter().map(|(input, output)| vec![input, output]);
            let (fits, fails): (Vec<Cell>, Vec<Cell>) = cells.partition(|cell| slope * cell[0] + cell[1] <= most);
            prop_assume!(!fits.is_empty() && !fails.is_empty());
            let space = VersionSpace::new(&lattice(), &fits, &fails, true, None).unwrap();
            let admits = |cell: &Cell, most: f64| {
                let mut terms = TermsAt::new(&space.frames, cell);
                let admitting = space.hypotheses.iter().filter(|one| one.shape.admits_up_to(terms.of(one.frame), most));
                admitting.count()
            };
            for cell in &fits {
                prop_assert_eq!(admits(cell, 1.001), space.hypotheses.len());
            }
            for cell in &fails {
                prop_assert_eq!(admits(cell, 0.999), 0);
            }
        }
    }

    #[test]
    fn the_simplest_limit_that_agrees_gets_most_votes() {
        let fits: Vec<Cell> = (0..8).map(|step| vec![step * 100, 790 - step * 100]).collect();
        let fails: Vec<Cell> = (0..8).map(|step| vec![step * 100, 810 - step * 100]).collect();
        let space = VersionSpace::new(&lattice(), &fits[3..], &fails[3..], true, None).unwrap();
        assert!(space.share(space.votes(&vec![350, 440])) > 0.7);
        assert!(space.share(space.votes(&vec![350, 460])) < 0.3);
    }

    #[test]
    fn a_step_that_the_answers_show_is_expected_elsewhere() {
        // The sum fits up to 700, and up to 500 above 300 on the first axis.
        let fits = [[100, 499], [250, 440], [290, 405], [350, 148], [450, 45]];
        let fails = [[240, 480], [280, 425], [310, 200], [400, 105], [480, 30]];
        let cells = |points: [[i64; 2]; 5]| points.map(|point| point.to_vec());
        let space = VersionSpace::new(&lattice(), &cells(fits), &cells(fails), true, None).unwrap();
        let open = (220..480).step_by(10).filter(|at| !(290..310).contains(at));
        let wrong = open.flat_map(|at| {
            let most = if at > 300 { 500 } else { 700 } - at;
            [(most - 15, true), (most + 15, false)].map(|(other, fits)| {
                let share = space.share(space.votes(&vec![at, other]));
                if fits { 1.0 - share } else { share }
            })
        });
        let wrong: Vec<f64> = wrong.collect();
        assert!(wrong.iter().sum::<f64>() < 0.02 * wrong.len() as f64, "{wrong:?}");
    }

    #[test]
    fn tokens_of_a_length_that_is_not_searched_count() {
        let axes = json!({ "concurrency": [1, 256], "input": [128, 65536], "output": [2048, 2048] });
        let lattice = Lattice::parse(&axes).unwrap();
        let cell = |requests: i64, part: f64| {
            let input = 100_000.0 * part / requests as f64 - 2048.0;
            let (_, cell) = lattice
                .cells_at(&[requests, input as i64, 2048].map(Scalar::Int))
                .unwrap();
            cell
        };
        let cells = |part: f64| [12, 30].map(|requests| cell(requests, part));
        let space = VersionSpace::new(&lattice, &cells(0.98), &cells(1.02), true, None).unwrap();
        for requests in [3, 6, 18, 40] {
            let [fits, fails] = [0.95, 1.05].map(|part| space.share(space.votes(&cell(requests, part))));
            assert!(fits > 0.8 && fails < 0.1, "{requests}: {fits} {fails}");
        }
    }

    #[test]
    fn blocks_of_an_unusual_size_and_one_for_the_state_are_found() {
        let axes = json!({ "concurrency": [1, 256], "input": [128, 65536], "output": [128, 128] });
        let lattice = Lattice::parse(&axes).unwrap();
        let cell = |requests: i64, input: i64| {
            let (_, cell) = lattice.cells_at(&[requests, input, 128].map(Scalar::Int)).unwrap();
            cell
        };
        // Of `requests`, each takes this many whole blocks of 1,568 tokens besides its state.
        let last = |requests: i64| (204 / requests - 1) * 1568 - 128;
        let counts = [5, 6, 8, 11, 15, 21, 30, 45, 66];
        let fits: Vec<Cell> = counts.iter().map(|count| cell(*count, last(*count))).collect();
        let fails: Vec<Cell> = counts.iter().map(|count| cell(*count, last(*count) + 20)).collect();
        let space = VersionSpace::new(&lattice, &fits, &fails, true, None).unwrap();
        assert_eq!(space.agreement, Agreement::Exact);
        for count in [7, 13, 25, 50] {
            let [fits, fails] = [-40, 60].map(|more| space.share(space.votes(&cell(count, last(count) + more))));
            assert!(fits > 0.7 && fails < 0.3, "{count}: {fits} {fails}");
        }
    }

    #[test]
    fn one_side_alone_gives_no_hypotheses() {
        assert!(VersionSpace::new(&lattice(), &[vec![5, 5]], &[], true, None).is_none());
    }
}
