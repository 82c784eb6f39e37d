//! How far hypotheses reach along a segment: the reach of some ranks among them all.
//!
//! In the first frame a reach has a closed form. Elsewhere blocks make a limit a step function, and it is bisected: all
//! limits together, as they share most places of a bisection, and only in those halves that hold a wanted rank.

use super::limits::Segment;
use super::{TermsAt, VersionSpace};
use crate::boundary::lattice::{Cell, cell_along};

/// Bisection steps: finer than a cell of any axis.
const HALVINGS: usize = 24;

/// How far one hypothesis reaches, as a share of the segment; negative if not even its start is admitted.
#[derive(Clone, Copy)]
struct Reach {
    limit: u32,
    at: f64,
    /// Whether it is known; otherwise it is bisected.
    is_exact: bool,
}

impl VersionSpace {
    /// How far at least these shares of the limits (0 for any limit) reach from one cell towards a harder one, as
    /// shares of that segment. `excess` is the share by which each limit is tightened (see [`VersionSpace::excess`]);
    /// empty for none.
    pub(in crate::boundary) fn reaches<const N: usize>(
        &self,
        from: &Cell,
        to: &Cell,
        excess: &[f64],
        chances: [f64; N],
    ) -> [f64; N] {
        self.reaches_of(0..self.count(), [from, to], excess, chances)
    }

    /// How far the families that agree with all answers reach from one cell towards a harder one: the least and the
    /// most, as shares of that segment; `None` without such a family.
    pub(in crate::boundary) fn rivals(&self, from: &Cell, to: &Cell) -> Option<[f64; 2]> {
        let rivals = (0..self.count()).filter(|limit| self.hypotheses[*limit as usize].is_rival);
        let is_any = self.hypotheses.iter().any(|hypothesis| hypothesis.is_rival);
        is_any.then(|| self.reaches_of(rivals, [from, to], &[], [1.0, 0.0]))
    }

    fn reaches_of<const N: usize>(
        &self,
        limits: impl Iterator<Item = u32>,
        ends: [&Cell; 2],
        excess: &[f64],
        chances: [f64; N],
    ) -> [f64; N] {
        let [from, to] = ends.map(|end| self.free_part(end));
        let line = Line {
            space: self,
            from: &from,
            to: &to,
            excess,
        };
        let mut reaches = line.starts(limits);
        let count = reaches.len();
        let rank = |chance: f64| count - (chance * count as f64).ceil().max(1.0) as usize;
        let ranks = chances.map(rank);
        let [low, high] = [0.0, 1.0].map(|share| line.end(share));
        line.narrow(&mut reaches, 0, &ranks, [&low, &high], HALVINGS);
        ranks.map(|rank| reaches[rank].at)
    }
}

/// An end of a part of a segment.
struct End {
    share: f64,
    cell: Cell,
}

/// A segment along which limits reach.
struct Line<'a> {
    space: &'a VersionSpace,
    from: &'a Cell,
    to: &'a Cell,
    excess: &'a [f64],
}

impl Line<'_> {
    fn end(&self, share: f64) -> End {
        End {
            share,
            cell: cell_along(self.from, self.to, share),
        }
    }

    /// The largest sum that a limit allows.
    fn most(&self, limit: u32) -> f64 {
        1.0 - self.excess.get(limit as usize).unwrap_or(&0.0)
    }

    /// The reach of each limit, as far as the closed form and the ends of the segment tell it.
    fn starts(&self, limits: impl Iterator<Item = u32>) -> Vec<Reach> {
        let space = self.space;
        let [from, to] = [self.from, self.to].map(|end| space.frames[0].coordinates(end).collect::<Vec<_>>());
        let segment = Segment::new(from, &to);
        let sums = segment.terms().map(|terms| space.weight_matrix.sums(terms));
        let ends = [self.from, self.to];
        let [mut first, mut last] = ends.map(|end| TermsAt::new(&space.frames, end));
        let start = |limit: u32| {
            let (hypothesis, most) = (&space.hypotheses[limit as usize], self.most(limit));
            let admits = |end: &mut TermsAt| hypothesis.shape.admits_up_to(end.of(hypothesis.frame), most);
            let (at, is_exact) = if hypothesis.frame == 0 {
                let sums = [0, 1, 2].map(|power| sums[power][limit as usize]);
                (hypothesis.shape.reach(&segment, sums, most), true)
            } else if !admits(&mut first) {
                (-1.0, true)
            } else if admits(&mut last) {
                (1.0, true)
            } else {
                (0.0, false)
            };
            Reach { limit, at, is_exact }
        };
        limits.map(start).collect()
    }

    /// Bisects `part`, the reaches of ranks from `before` on, and puts the wanted `ranks` in their places. All limits
    /// of the part that are bisected hold at the first of two shares of the segment, and not at the other.
    fn narrow(&self, part: &mut [Reach], before: usize, ranks: &[usize], ends: [&End; 2], halvings: usize) {
        let wanted = |rank: &&usize| (before..before + part.len()).contains(rank);
        let Some(rank) = ranks.iter().find(wanted) else {
            return;
        };
        let [low, high] = ends;
        if halvings == 0 || part.iter().all(|reach| reach.is_exact) {
            let bisected = part.iter_mut().filter(|reach| !reach.is_exact);
            bisected.for_each(|reach| (reach.at, reach.is_exact) = (low.share, true));
            let (lower, _, upper) = part.select_nth_unstable_by(rank - before, |a, b| a.at.total_cmp(&b.at));
            self.narrow(lower, before, ranks, ends, halvings);
            self.narrow(upper, rank + 1, ranks, ends, halvings);
            return;
        }
        let middle = self.end((low.share + high.share) / 2.0);
        // At last the cell is one whose answer is known.
        let known = if middle.cell == low.cell {
            Some(true)
        } else {
            (middle.cell == high.cell).then_some(false)
        };
        let mut terms = TermsAt::new(&self.space.frames, &middle.cell);
        let mut reaches = |Reach { limit, at, is_exact }: Reach| match known {
            _ if is_exact => at >= middle.share,
            Some(known) => known,
            None => {
                let hypothesis = &self.space.hypotheses[limit as usize];
                let terms = terms.of(hypothesis.frame);
                hypothesis.shape.admits_up_to(terms, self.most(limit))
            }
        };
        let mut less = 0;
        for index in 0..part.len() {
            if !reaches(part[index]) {
                part.swap(less, index);
                less += 1;
            }
        }
        let (lower, upper) = part.split_at_mut(less);
        self.narrow(lower, before, ranks, [low, &middle], halvings - 1);
        self.narrow(upper, before + less, ranks, [&middle, high], halvings - 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::boundary::Lattice;

    /// The reach of one limit by a bisection of its own.
    fn alone(line: &Line, limit: u32) -> f64 {
        let start = line.starts(std::iter::once(limit))[0];
        if start.is_exact {
            return start.at;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let hypothesis = &line.space.hypotheses[limit as usize];
            let terms = line.space.frames[hypothesis.frame].terms(&line.end(middle).cell);
            let admits = hypothesis.shape.admits_up_to(&terms, line.most(limit));
            (low, high) = if admits { (middle, high) } else { (low, middle) };
        }
        low
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn limits_reach_together_as_far_as_each_alone(
            cells in prop::collection::vec((0i64..64, 0i64..4000, 0i64..2000), 12..40),
            block in 1i64..500,
            of_no_family in any::<bool>(),
            from in (0i64..8, 0i64..400, 0i64..200),
            excess in 0.0..0.2f64,
        ) {
            let axes = json!({ "concurrency": [1, 64], "input": [1, 4000], "output": [1, 2000] });
            let lattice = Lattice::parse(&axes).unwrap();
            let cells = cells.into_iter().map(|(count, input, output)| vec![count, input, output]);
            let (fits, fails): (Vec<Cell>, Vec<Cell>) = cells.partition(|cell| {
                let length = cell[1] + cell[2] + 2;
                if of_no_family {
                    (cell[0] + cell[1]) % 2 == 0
                } else {
                    (cell[0] + 1) * (length + block - 1) / block * block <= 40_000
                }
            });
            prop_assume!(!fits.is_empty() && !fails.is_empty());
            let Some(space) = VersionSpace::new(&lattice, &fits, &fails, true, None) else { return Ok(()) };
            let from = vec![from.0, from.1, from.2];
            let excess = vec![excess; space.hypotheses.len()];
            for to in [vec![63, 3999, 1999], vec![from[0], 3999, from[2]], from.clone()] {
                let line = Line { space: &space, from: &from, to: &to, excess: &excess };
                let mut reaches: Vec<f64> = (0..space.count()).map(|limit| alone(&line, limit)).collect();
                reaches.sort_by(|a, b| b.total_cmp(a));
                let chances = [0.0, 1.0, 0.5, 0.85];
                let needed = chances.map(|chance| (chance * reaches.len() as f64).ceil().max(1.0) as usize - 1);
                prop_assert_eq!(space.reaches(&from, &to, &excess, chances), needed.map(|index| reaches[index]));
            }
        }
    }
}
