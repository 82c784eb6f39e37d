//! A guess at where the boundary runs: many limits that all agree with what is proven. The share of them under which a cell
//! fits is its chance.
//!
//! A guess only chooses what to ask: nothing is ever called proven because of it. Questions that halve the limits still
//! possible are those of a version space (Mitchell 1982, "Generalization as search"; Seung, Opper and Sompolinsky 1992,
//! "Query by committee"). The limits are those of memory: tokens in flight, prefill activations, concurrency × length, a
//! longest prompt. Simple ones get more votes (Occam's razor), and the more so the more is proven.

mod agree;
mod blocks;
mod family;
mod frame;
mod program;
mod proven;
mod shape;
mod steps;
mod walk;

use std::borrow::Cow;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use self::frame::{Frame, add_products, terms};
use self::shape::{Shape, Sheet, Way};
use super::Lattice;
use super::choose::between;
use super::lattice::Cell;

/// Proven places of each side that are looked at.
const PLACES: usize = 160;
/// Limits that can vote.
const MOST: usize = Votes::BITS as usize;

/// Under which limits something holds, one bit each.
pub(super) type Votes = u128;

/// Halvings by which the reach of a limit over blocks is found, to less than a cell of any axis.
const HALVINGS: usize = 24;

/// Limits that agree with what is proven.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    /// The axes of the box that limits are made of: an axis with a single value only adds to what is constant.
    free: Vec<usize>,
    /// How many axes the box has.
    axes: usize,
    /// By free axis.
    last: Cell,
    /// The first takes values as they are, the others round them up to blocks.
    frames: Vec<Frame>,
    drawn: Vec<Drawn>,
    /// The weights of them all.
    sheet: Sheet,
    /// Whether every limit agrees with every cell, and not only nearly.
    exact: bool,
}

/// A limit of a guess.
#[derive(Clone, Debug)]
struct Drawn {
    shape: Shape,
    /// Which frame it sees places in.
    frame: usize,
    /// How likely it is; all together 1.
    weight: f64,
}

impl Guess {
    /// Limits under which the cells of `fits` fit and those of `fails` fail; none where there is no such limit, when a side is
    /// empty, or where a single axis is free, of which no limit knows more than its halves. The same cells give the same guess.
    pub(super) fn new(lattice: &Lattice, fits: &[Cell], fails: &[Cell]) -> Option<Self> {
        Self::with(lattice, fits, fails, true)
    }

    /// The same of a part of what is proven, which is too little to tell blocks by.
    pub(super) fn of_part(lattice: &Lattice, fits: &[Cell], fails: &[Cell]) -> Option<Self> {
        Self::with(lattice, fits, fails, false)
    }

    fn with(lattice: &Lattice, fits: &[Cell], fails: &[Cell], in_blocks: bool) -> Option<Self> {
        let (free, axes) = (lattice.free(), lattice.axes().len());
        if fits.is_empty() || fails.is_empty() || free.len() < 2 {
            return None;
        }
        let some = |cells: &[Cell]| -> Vec<Cell> {
            let some = cells.iter().step_by(cells.len().div_ceil(PLACES));
            some.map(|cell| part(cell, &free).into_owned()).collect()
        };
        let of_axes = free.iter().map(|axis| &lattice.axes()[*axis]);
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let (frames, mut drawn, exact) =
            agree::agreeing(&Frame::new(of_axes), &some(fits), &some(fails), in_blocks, &mut random);
        drawn.truncate(MOST);
        let all: f64 = drawn.iter().map(|drawn| drawn.weight).sum();
        drawn.iter_mut().for_each(|drawn| drawn.weight /= all);
        (!drawn.is_empty()).then(|| Self {
            last: part(&lattice.last(), &free).into_owned(),
            free,
            axes,
            sheet: Sheet::new(drawn.iter().map(|drawn| &drawn.shape), &frames[0]),
            frames,
            drawn,
            exact,
        })
    }

    /// How many limits there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.drawn.len()).unwrap_or(Votes::BITS)
    }

    /// How likely a limit is, beside the others.
    pub(super) fn weight(&self, limit: u32) -> f64 {
        self.drawn.get(limit as usize).map_or(0.0, |drawn| drawn.weight)
    }

    /// Under which limits a cell fits.
    pub(super) fn votes(&self, cell: &Cell) -> Votes {
        let terms = self.terms(cell);
        let sums = self.sheet.sums(&terms[0]);
        let fitting = self.drawn.iter().zip(sums).enumerate();
        let fitting = fitting.filter(|(_, (drawn, sum))| match drawn.frame {
            0 => drawn.shape.admits_with(&terms[0], *sum, 1.0),
            frame => drawn.shape.admits_up_to(&terms[frame], 1.0),
        });
        fitting.fold(0, |votes, (index, _)| votes | 1 << index)
    }

    /// The share of the limits that these votes are.
    pub(super) fn share(&self, votes: Votes) -> f64 {
        f64::from(votes.count_ones()) / f64::from(self.count())
    }

    /// The cell, and the largest ones in its blocks where limits count in blocks: no such limit tells them apart. Limits that agree
    /// only nearly would propose the same block again and again, cell by cell.
    pub(super) fn stretched(&self, cell: Cell) -> Vec<Cell> {
        if !self.exact {
            return vec![cell];
        }
        let seen = self.seen(&cell);
        let stretched = self.frames[1..].iter().map(|frame| frame.stretched(&seen, &self.last));
        let mut cells: Vec<Cell> = stretched.map(|stretched| self.whole(&cell, stretched)).collect();
        cells.push(cell);
        cells
    }

    /// How far each limit reaches from one cell towards a harder one, in shares of that way, falling. `excess` has by how much
    /// less of itself each limit is taken to admit (see [`Guess::excess`]); empty for none.
    pub(super) fn reaches(&self, from: &Cell, to: &Cell, excess: &[f64]) -> Vec<f64> {
        let mut reaches = self.reach(from, to, excess);
        reaches.sort_by(|a, b| b.total_cmp(a));
        reaches
    }

    /// How far any limit reaches from one cell towards a harder one, and how far half of them do, in shares of that way.
    pub(super) fn extent(&self, from: &Cell, to: &Cell) -> (f64, f64) {
        let mut reaches = self.reach(from, to, &[]);
        let most = reaches.iter().copied().fold(-1.0, f64::max);
        let middle = reaches.len() / 2;
        (most, *reaches.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// By how much each limit should admit less near these failing cells: twice of what it admits too much there, so that a
    /// limit that is not quite true steps back further with every failure.
    pub(super) fn excess<'a>(&self, fails: impl Iterator<Item = &'a Cell>) -> Vec<f64> {
        let mut excess = vec![0.0; self.drawn.len()];
        for fail in fails {
            let terms = self.terms(fail);
            for (most, drawn) in excess.iter_mut().zip(&self.drawn) {
                *most = f64::max(*most, 2.0 * drawn.shape.excess(&terms[drawn.frame]));
            }
        }
        excess
    }

    /// The terms of a cell, as each frame has them.
    fn terms(&self, cell: &Cell) -> Vec<Vec<f64>> {
        let seen = self.seen(cell);
        self.frames.iter().map(|frame| terms(&frame.place(&seen))).collect()
    }

    /// The free axes of a cell.
    fn seen<'a>(&self, cell: &'a Cell) -> Cow<'a, Cell> {
        part(cell, &self.free)
    }

    /// A cell with other values on its free axes.
    fn whole(&self, cell: &Cell, free: Cell) -> Cell {
        if self.free.len() == self.axes {
            return free;
        }
        let mut whole = cell.clone();
        for (axis, at) in self.free.iter().zip(free) {
            whole[*axis] = at;
        }
        whole
    }

    fn reach(&self, from: &Cell, to: &Cell, excess: &[f64]) -> Vec<f64> {
        let (from, to) = (&*self.seen(from), &*self.seen(to));
        let way = Way::new(self.frames[0].place(from), &self.frames[0].place(to));
        let most = |index: usize| 1.0 - excess.get(index).unwrap_or(&0.0);
        let [constant, linear, square] = way.terms().map(|terms| self.sheet.sums(terms));
        let reach = |(index, drawn): (usize, &Drawn)| match drawn.frame {
            0 => drawn
                .shape
                .reach(&way, [constant[index], linear[index], square[index]], most(index)),
            frame => self.frames[frame].reach(from, to, |terms| drawn.shape.admits_up_to(terms, most(index))),
        };
        self.drawn.iter().enumerate().map(reach).collect()
    }
}

/// Some axes of a cell.
fn part<'a>(cell: &'a Cell, axes: &[usize]) -> Cow<'a, Cell> {
    if axes.len() == cell.len() {
        return Cow::Borrowed(cell);
    }
    Cow::Owned(axes.iter().map(|axis| cell[*axis]).collect())
}

impl Frame {
    /// How far something reaches that admits terms of this frame: by halving, as it goes in steps.
    fn reach(&self, from: &Cell, to: &Cell, admits: impl Fn(&[f64]) -> bool) -> f64 {
        let mut terms = Vec::new();
        let mut at = |share: f64| {
            let sides = from.iter().zip(to).enumerate();
            let places = sides.map(|(axis, (from, to))| self.side(axis, between(*from, *to, share), self.blocks[axis]));
            terms.clear();
            terms.extend(places);
            add_products(&mut terms, from.len());
            admits(&terms)
        };
        if !at(0.0) {
            return -1.0;
        }
        if at(1.0) {
            return 1.0;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            (low, high) = if at(middle) { (middle, high) } else { (low, middle) };
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn lattice() -> Lattice {
        Lattice::parse(&json!({ "input": [1, 1000], "output": [1, 500] })).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_limit_agrees_with_what_is_proven(
            cells in prop::collection::vec((0i64..1000, 0i64..500), 2..20),
            slope in 1i64..4,
            most in 300i64..2000,
        ) {
            let cells = cells.into_iter().map(|(input, output)| vec![input, output]);
            let (fits, fails): (Vec<Cell>, Vec<Cell>) = cells.partition(|cell| slope * cell[0] + cell[1] <= most);
            prop_assume!(!fits.is_empty() && !fails.is_empty());
            let guess = Guess::new(&lattice(), &fits, &fails).unwrap();
            for cell in &fits {
                prop_assert_eq!(guess.votes(cell).count_ones(), guess.count());
            }
            for cell in &fails {
                prop_assert_eq!(guess.votes(cell), 0);
            }
        }
    }

    #[test]
    fn the_simplest_limit_that_agrees_gets_most_votes() {
        let fits: Vec<Cell> = (0..8).map(|step| vec![step * 100, 790 - step * 100]).collect();
        let fails: Vec<Cell> = (0..8).map(|step| vec![step * 100, 810 - step * 100]).collect();
        let guess = Guess::new(&lattice(), &fits[3..], &fails[3..]).unwrap();
        assert!(guess.share(guess.votes(&vec![350, 440])) > 0.7);
        assert!(guess.share(guess.votes(&vec![350, 460])) < 0.3);
    }

    #[test]
    fn one_side_alone_gives_no_guess() {
        assert!(Guess::new(&lattice(), &[vec![5, 5]], &[]).is_none());
    }
}
