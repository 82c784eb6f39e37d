//! Exact regions of a plane as staircases: sets that contain, with each cell, every easier cell.
//!
//! Every region of a plane (fitting, open, failing, contradictory) is the difference of two staircases. A cell `n` of
//! an axis extends from edge `n` to edge `n + 1`, so every lattice point has one square, and the area of an outline
//! is its number of lattice points.

/// A closed line along edges of cells.
pub(super) type Outline = Vec<(i64, i64)>;

/// A set of cells that contains, with each cell, every cell that is no harder on both axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Staircase {
    /// The height of the columns up to each edge. Edges rise, heights fall, and the last edge is the width.
    steps: Vec<(i64, i64)>,
}

impl Staircase {
    /// Every cell of a plane.
    pub(super) fn all(width: i64, height: i64) -> Self {
        Self::new([(width, height)])
    }

    /// The cells at or below any of these.
    pub(super) fn below(cells: &[(i64, i64)], width: i64) -> Self {
        let mut sorted = cells.to_vec();
        sorted.sort_unstable();
        let mut steps = vec![(width, 0)];
        let mut top = 0;
        for (column, row) in sorted.into_iter().rev() {
            if row + 1 > top {
                top = row + 1;
                steps.push((column + 1, top));
            }
        }
        Self::new(steps.into_iter().rev())
    }

    /// The cells of the plane at or above none of these.
    pub(super) fn not_above(cells: &[(i64, i64)], width: i64, height: i64) -> Self {
        let mut sorted = cells.to_vec();
        sorted.sort_unstable();
        let (mut steps, mut top) = (Vec::new(), height);
        for (column, row) in sorted {
            if row < top {
                steps.push((column, top));
                top = row;
            }
        }
        steps.push((width, top));
        Self::new(steps)
    }

    /// From the height of the columns up to each edge; heights fall.
    pub(super) fn new(steps: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut kept: Vec<(i64, i64)> = Vec::new();
        for (until, height) in steps {
            if until <= kept.last().map_or(0, |last| last.0) {
                continue;
            }
            match kept.last_mut() {
                Some(last) if last.1 == height => last.0 = until,
                _ => kept.push((until, height)),
            }
        }
        Self { steps: kept }
    }

    /// The staircase whose column heights `of` computes from both: the higher for the union, the lower for the
    /// intersection.
    pub(super) fn merge(&self, other: &Self, of: fn(i64, i64) -> i64) -> Self {
        let columns = self.columns_with(other);
        Self::new(columns.map(|(_, until, one, two)| (until, of(one, two))))
    }

    /// The outlines of the cells in this staircase and not in the other.
    pub(super) fn difference(&self, other: &Self) -> Vec<Outline> {
        let mut outlines = Vec::new();
        let mut run: Vec<(i64, i64, i64, i64)> = Vec::new();
        for stretch in self.columns_with(other).filter(|(_, _, one, two)| one > two) {
            let (from, _, top, _) = stretch;
            // Ranges that touch only in a corner are separate.
            if run
                .last()
                .is_some_and(|(_, until, _, floor)| *until != from || top <= *floor)
            {
                outlines.push(outline(&std::mem::take(&mut run)));
            }
            run.push(stretch);
        }
        if !run.is_empty() {
            outlines.push(outline(&run));
        }
        outlines
    }

    /// The column ranges with constant heights in both: from, until, this height, the other's.
    fn columns_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (i64, i64, i64, i64)> + 'a {
        let (mut one, mut two) = (self.steps.iter().peekable(), other.steps.iter().peekable());
        let mut from = 0;
        std::iter::from_fn(move || {
            let (&&(one_until, one_height), &&(two_until, two_height)) = (one.peek()?, two.peek()?);
            let until = one_until.min(two_until);
            if one_until == until {
                one.next();
            }
            if two_until == until {
                two.next();
            }
            let stretch = (from, until, one_height, two_height);
            from = until;
            Some(stretch)
        })
    }
}

/// The line around adjoining ranges: along their tops, and back along their bottoms.
fn outline(run: &[(i64, i64, i64, i64)]) -> Outline {
    let tops = run
        .iter()
        .flat_map(|(from, until, top, _)| [(*from, *top), (*until, *top)]);
    let floors = run
        .iter()
        .rev()
        .flat_map(|(from, until, _, floor)| [(*until, *floor), (*from, *floor)]);
    let mut line: Outline = Vec::with_capacity(4 * run.len());
    for corner in tops.chain(floors) {
        if line.last() == Some(&corner) {
            continue;
        }
        // A point on a straight line between its neighbours is not a corner.
        if let [.., before, last] = line[..]
            && ((before.0 == last.0 && last.0 == corner.0) || (before.1 == last.1 && last.1 == corner.1))
        {
            line.pop();
        }
        line.push(corner);
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIDE: i64 = 7;

    /// Twice the signed area within a closed line (Gauss's area formula).
    fn twice_area(line: &Outline) -> i64 {
        let next = line.iter().cycle().skip(1);
        line.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum()
    }

    /// Whether the middle of a cell lies within any of the lines: an upright ray from it crosses one an odd number of times.
    fn within(lines: &[Outline], cell: (i64, i64)) -> bool {
        let crossings = lines
            .iter()
            .flat_map(|line| line.iter().zip(line.iter().cycle().skip(1)));
        let crossed =
            crossings.filter(|(a, b)| a.1 == b.1 && a.1 > cell.1 && a.0.min(b.0) <= cell.0 && cell.0 < a.0.max(b.0));
        crossed.count() % 2 == 1
    }

    fn cells() -> impl Iterator<Item = (i64, i64)> {
        (0..SIDE).flat_map(|column| (0..SIDE).map(move |row| (column, row)))
    }

    proptest! {
        #[test]
        fn outlines_hold_just_the_cells_of_one_staircase_and_not_the_other(
            fits in prop::collection::vec((0..SIDE, 0..SIDE), 0..8),
            fails in prop::collection::vec((0..SIDE, 0..SIDE), 0..8),
        ) {
            let below = |cell: (i64, i64), other: &(i64, i64)| cell.0 <= other.0 && cell.1 <= other.1;
            let (one, two) = (Staircase::not_above(&fails, SIDE, SIDE), Staircase::below(&fits, SIDE));
            let in_one = |cell: (i64, i64)| !fails.iter().any(|fail| fail.0 <= cell.0 && fail.1 <= cell.1);
            let in_two = |cell: (i64, i64)| fits.iter().any(|fit| below(cell, fit));
            for (stairs, holds) in [
                (one.clone(), &in_one as &dyn Fn((i64, i64)) -> bool),
                (two.clone(), &in_two),
                (one.merge(&two, i64::max), &|cell| in_one(cell) || in_two(cell)),
                (one.merge(&two, i64::min), &|cell| in_one(cell) && in_two(cell)),
            ] {
                let lines = stairs.difference(&Staircase::all(SIDE, 0));
                for cell in cells() {
                    prop_assert_eq!(within(&lines, cell), holds(cell), "{:?} {:?}", cell, stairs);
                }
            }
            let lines = one.difference(&two);
            for cell in cells() {
                prop_assert_eq!(within(&lines, cell), in_one(cell) && !in_two(cell), "{:?} {:?}", cell, lines);
            }
            let count = cells().filter(|cell| in_one(*cell) && !in_two(*cell)).count();
            // All lines are clockwise, so there are no holes.
            prop_assert!(lines.iter().all(|line| twice_area(line) < 0));
            prop_assert_eq!(lines.iter().map(twice_area).sum::<i64>(), -2 * i64::try_from(count).unwrap_or(0));
        }
    }

    #[test]
    fn regions_that_touch_in_a_corner_are_apart() {
        let open = Staircase::new([(2, 4), (4, 2)]).difference(&Staircase::new([(2, 2), (4, 0)]));
        assert_eq!(
            open,
            [
                vec![(0, 4), (2, 4), (2, 2), (0, 2)],
                vec![(2, 2), (4, 2), (4, 0), (2, 0)]
            ]
        );
    }
}
