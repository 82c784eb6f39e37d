//! A guess at where the boundary runs: many limits that all agree with what is proven. The share of them under which a cell
//! fits is its chance.
//!
//! A guess only chooses what to ask: nothing is ever called proven because of it. Questions that halve the limits still
//! possible are those of a version space (Mitchell 1982, "Generalization as search"; Seung, Opper and Sompolinsky 1992,
//! "Query by committee"). The limits are those of memory: tokens in flight, prefill activations, concurrency × length, a
//! longest prompt. Simple ones get more votes (Occam's razor), and the more so the more is proven.

mod agree;
mod family;
mod frame;
mod proven;
mod shape;
mod steps;
mod walk;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use self::frame::{Frame, terms};
use self::shape::{Shape, Way};
use super::Lattice;
use super::lattice::Cell;

/// Proven places of each side that are looked at.
const PLACES: usize = 160;
/// Limits that can vote.
const MOST: usize = Votes::BITS as usize;

/// Under which limits something holds, one bit each.
pub(super) type Votes = u128;

/// Limits that agree with what is proven.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    frame: Frame,
    shapes: Vec<Shape>,
}

impl Guess {
    /// Limits under which the cells of `fits` fit and those of `fails` fail; none where there is no such limit, when a side is
    /// empty, or on a single axis, of which no limit knows more than its halves. The same cells give the same guess.
    pub(super) fn new(lattice: &Lattice, fits: &[Cell], fails: &[Cell]) -> Option<Self> {
        if fits.is_empty() || fails.is_empty() || lattice.axes().len() < 2 {
            return None;
        }
        let frame = Frame::new(lattice);
        let places = |cells: &[Cell]| -> Vec<Vec<f64>> {
            let step = cells.len().div_ceil(PLACES);
            cells
                .iter()
                .step_by(step)
                .map(|cell| terms(&frame.place(cell)))
                .collect()
        };
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut shapes = agree::agreeing(&frame, &places(fits), &places(fails), &mut random);
        shapes.truncate(MOST);
        (!shapes.is_empty()).then_some(Self { frame, shapes })
    }

    /// How many limits there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.shapes.len()).unwrap_or(Votes::BITS)
    }

    /// Under which limits a cell fits.
    pub(super) fn votes(&self, cell: &Cell) -> Votes {
        let terms = terms(&self.frame.place(cell));
        let fitting = self.shapes.iter().enumerate().filter(|(_, shape)| shape.admits(&terms));
        fitting.fold(0, |votes, (index, _)| votes | 1 << index)
    }

    /// The share of the limits that these votes are.
    pub(super) fn share(&self, votes: Votes) -> f64 {
        f64::from(votes.count_ones()) / f64::from(self.count())
    }

    /// How far each limit reaches from one cell towards a harder one, in shares of that way, falling. `excess` has by how much
    /// less of itself each limit is taken to admit (see [`Guess::excess`]); empty for none.
    pub(super) fn reaches(&self, from: &Cell, to: &Cell, excess: &[f64]) -> Vec<f64> {
        let way = Way::new(self.frame.place(from), &self.frame.place(to));
        let reach = |(index, shape): (usize, &Shape)| shape.reach(&way, 1.0 - excess.get(index).unwrap_or(&0.0));
        let mut reaches: Vec<f64> = self.shapes.iter().enumerate().map(reach).collect();
        reaches.sort_by(|a, b| b.total_cmp(a));
        reaches
    }

    /// How far any limit reaches from one cell towards a harder one, and how far half of them do, in shares of that way.
    pub(super) fn extent(&self, from: &Cell, to: &Cell) -> (f64, f64) {
        let way = Way::new(self.frame.place(from), &self.frame.place(to));
        let mut reaches: Vec<f64> = self.shapes.iter().map(|shape| shape.reach(&way, 1.0)).collect();
        let most = reaches.iter().copied().fold(-1.0, f64::max);
        let middle = reaches.len() / 2;
        (most, *reaches.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// By how much each limit should admit less near these failing cells: twice of what it admits too much there, so that a
    /// limit that is not quite true steps back further with every failure.
    pub(super) fn excess<'a>(&self, fails: impl Iterator<Item = &'a Cell>) -> Vec<f64> {
        let mut excess = vec![0.0; self.shapes.len()];
        for fail in fails {
            let terms = terms(&self.frame.place(fail));
            for (most, shape) in excess.iter_mut().zip(&self.shapes) {
                *most = f64::max(*most, 2.0 * shape.excess(&terms));
            }
        }
        excess
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

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
