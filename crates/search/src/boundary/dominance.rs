//! Sets of cells: everything at or below any of them, and the minimal cells that they leave open.
//!
//! [`DominatedSet`] answers fast whether any cell of a set lies at or above a given cell. It is a forest of k-d trees
//! whose nodes store the largest coordinate on every axis. Trees double in size (Bentley and Saxe 1980), so adding is
//! cheap.
//!
//! [`lowest_open`] finds the minimal cells that a set leaves uncovered: the corners at which the open region begins.
//! With two axes they lie between the steps of a staircase. With three axes a plane sweeps from the hardest end to the
//! easiest while the staircase grows, and each corner is emitted where the plane leaves it (n log n for n cells). With
//! more axes, each added cell replaces the corners that it covers by at most one per axis (the local bounds of
//! Klamroth, Lacour and Vanderpooten 2015). The same step updates known corners when one cell is added.

use super::lattice::{Cell, below};

/// Cells scanned linearly.
const LEAF: usize = 32;

/// Everything at or below any cell of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct DominatedSet {
    fresh: Vec<Cell>,
    trees: Vec<Tree>,
}

impl DominatedSet {
    /// Whether `cell` lies at or below a cell of the set.
    pub(super) fn covers(&self, cell: &[i64]) -> bool {
        self.fresh.iter().any(|kept| below(cell, kept)) || self.trees.iter().any(|tree| tree.covers(cell))
    }

    /// Adds a cell. One that is already covered changes nothing.
    pub(super) fn add(&mut self, cell: Cell) {
        if self.covers(&cell) {
            return;
        }
        self.fresh.retain(|kept| !below(kept, &cell));
        self.fresh.push(cell);
        if self.fresh.len() <= LEAF {
            return;
        }
        let mut cells = std::mem::take(&mut self.fresh);
        while self.trees.last().is_some_and(|tree| tree.len() <= cells.len()) {
            cells.extend(self.trees.pop().into_iter().flat_map(Tree::into_cells));
        }
        self.trees.push(Tree::grow(cells, 0));
    }

    /// The stored cells. Some may lie below others.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.fresh.iter().chain(self.trees.iter().flat_map(Tree::cells))
    }
}

/// A k-d tree; `most` is the largest coordinate on every axis.
#[derive(Clone, Debug)]
struct Tree {
    most: Cell,
    part: Part,
}

#[derive(Clone, Debug)]
enum Part {
    Leaf(Vec<Cell>),
    Split(Box<[Tree; 2]>, usize),
}

impl Tree {
    fn grow(mut cells: Vec<Cell>, axis: usize) -> Self {
        let mut most = cells[0].clone();
        for cell in &cells {
            for (most, value) in most.iter_mut().zip(cell) {
                *most = (*most).max(*value);
            }
        }
        let part = if cells.len() <= LEAF {
            Part::Leaf(cells)
        } else {
            let (half, count) = (cells.len() / 2, cells.len());
            cells.select_nth_unstable_by(half, |a, b| a[axis].cmp(&b[axis]));
            let upper = cells.split_off(half);
            let next = (axis + 1) % most.len();
            Part::Split(Box::new([Self::grow(upper, next), Self::grow(cells, next)]), count)
        };
        Self { most, part }
    }

    fn len(&self) -> usize {
        match &self.part {
            Part::Leaf(cells) => cells.len(),
            Part::Split(_, count) => *count,
        }
    }

    fn covers(&self, cell: &[i64]) -> bool {
        below(cell, &self.most)
            && match &self.part {
                Part::Leaf(cells) => cells.iter().any(|kept| below(cell, kept)),
                Part::Split(halves, _) => halves.iter().any(|half| half.covers(cell)),
            }
    }

    fn cells(&self) -> Box<dyn Iterator<Item = &Cell> + '_> {
        match &self.part {
            Part::Leaf(cells) => Box::new(cells.iter()),
            Part::Split(halves, _) => Box::new(halves.iter().flat_map(Tree::cells)),
        }
    }

    fn into_cells(self) -> Vec<Cell> {
        match self.part {
            Part::Leaf(cells) => cells,
            Part::Split(halves, _) => halves.into_iter().flat_map(Tree::into_cells).collect(),
        }
    }
}

/// The cells that lie below no other, sorted, without duplicates.
pub(super) fn maximal(mut cells: Vec<Cell>) -> Vec<Cell> {
    // A cell that covers another is lexicographically larger, so it comes first.
    cells.sort_unstable_by(|a, b| b.cmp(a));
    let mut kept = DominatedSet::default();
    cells.retain(|cell| {
        let new = !kept.covers(cell);
        if new {
            kept.add(cell.clone());
        }
        new
    });
    cells.reverse();
    cells
}

/// The minimal cells of the range up to `last` that lie below none of `covering`, which is an antichain.
pub(super) fn lowest_open(covering: &[Cell], last: &[i64]) -> Vec<Cell> {
    let start = vec![0; last.len()];
    match last.len() {
        2 => staircase(covering, last),
        3 => sweep(covering, last),
        _ => covering.iter().fold(vec![start], |mut corners, cell| {
            let more = replace_covered(&mut corners, cell, last);
            corners.extend(more);
            corners
        }),
    }
}

/// With two axes the corners lie between neighbours of the sorted antichain.
fn staircase(covering: &[Cell], last: &[i64]) -> Vec<Cell> {
    let mut sorted: Vec<&Cell> = covering.iter().collect();
    sorted.sort_unstable();
    let lefts = std::iter::once(0).chain(sorted.iter().map(|cell| cell[0] + 1));
    let floors = sorted.iter().map(|cell| cell[1] + 1).chain([0]);
    lefts
        .zip(floors)
        .filter(|(left, floor)| *left <= last[0] && *floor <= last[1])
        .map(|(left, floor)| vec![left, floor])
        .collect()
}

/// A corner of the staircase during the sweep.
struct Corner {
    left: i64,
    floor: i64,
    /// The plane at which it appeared.
    since: i64,
}

/// Three axes: sweeps a plane through the staircase of all cells that reach it, and emits each corner where it
/// disappears.
fn sweep(covering: &[Cell], last: &[i64]) -> Vec<Cell> {
    let mut sorted: Vec<&Cell> = covering.iter().collect();
    sorted.sort_unstable_by(|a, b| b[2].cmp(&a[2]));
    // From left to right; their floors fall.
    let mut corners = vec![Corner {
        left: 0,
        floor: 0,
        since: last[2] + 1,
    }];
    let mut found = Vec::new();
    for cell in sorted {
        let (right, top, plane) = (cell[0], cell[1], cell[2]);
        let from = corners.partition_point(|corner| corner.floor > top);
        let to = corners.partition_point(|corner| corner.left <= right);
        if from >= to {
            continue;
        }
        let covered = &corners[from..to];
        let left = covered.iter().filter(|corner| corner.since > plane && plane < last[2]);
        found.extend(left.map(|corner| vec![corner.left, corner.floor, plane + 1]));
        let corner_at = |left: i64, floor: i64| Corner {
            left,
            floor,
            since: plane,
        };
        // A neighbouring corner may already cover one of the new corners.
        let higher = if from > 0 { corners[from - 1].floor } else { last[1] + 1 };
        let further = corners.get(to).map_or(last[0] + 1, |corner| corner.left);
        let above = (top + 1 < higher).then(|| corner_at(covered[0].left, top + 1));
        let right = (right + 1 < further).then(|| corner_at(right + 1, covered[covered.len() - 1].floor));
        corners.splice(from..to, above.into_iter().chain(right));
    }
    found.extend(corners.iter().map(|corner| vec![corner.left, corner.floor, 0]));
    found
}

/// Removes the corners that `cell` covers, and returns the new corners that replace them.
pub(super) fn replace_covered(corners: &mut Vec<Cell>, cell: &[i64], last: &[i64]) -> Vec<Cell> {
    let covered: Vec<Cell> = corners.extract_if(.., |corner| below(corner, cell)).collect();
    let mut moved: Vec<Cell> = Vec::new();
    for corner in &covered {
        for axis in 0..last.len() {
            if cell[axis] < last[axis] {
                let mut next = corner.clone();
                next[axis] = cell[axis] + 1;
                moved.push(next);
            }
        }
    }
    let mut moved = minimal(moved);
    moved.retain(|corner| !corners.iter().any(|other| below(other, corner)));
    moved
}

/// The cells that lie above no other, sorted, without duplicates.
fn minimal(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_unstable();
    cells.dedup();
    // A cell below another is lexicographically smaller.
    let mut kept: Vec<Cell> = Vec::new();
    for cell in cells {
        if !kept.iter().any(|other| below(other, &cell)) {
            kept.push(cell);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn covers_what_a_plain_search_covers(
            cells in prop::collection::vec(prop::collection::vec(0i64..40, 3), 1..200),
            queries in prop::collection::vec(prop::collection::vec(0i64..40, 3), 20),
        ) {
            let mut shadow = DominatedSet::default();
            for cell in &cells {
                shadow.add(cell.clone());
            }
            for cell in &queries {
                prop_assert_eq!(shadow.covers(cell), cells.iter().any(|kept| below(cell, kept)));
            }
            let most = maximal(cells.clone());
            for cell in &cells {
                let covered = cells.iter().any(|other| other != cell && below(cell, other));
                prop_assert_eq!(most.contains(cell), !covered);
            }
        }
    }

    proptest! {
        #[test]
        fn corners_are_just_the_minimal_open_cells(cells in prop::collection::vec((0i64..7, 0i64..7, 0i64..7), 0..12), axes in 1usize..=3) {
            let covering = maximal(cells.iter().map(|(a, b, c)| [*a, *b, *c][..axes].to_vec()).collect());
            let last = vec![6; axes];
            let corners = lowest_open(&covering, &last);
            let open = |cell: &Cell| !covering.iter().any(|kept| below(cell, kept));
            let mut cells: Vec<Cell> = vec![Vec::new()];
            for _ in 0..axes {
                cells = cells.iter().flat_map(|cell| (0..7).map(|value| [cell.as_slice(), &[value]].concat())).collect();
            }
            for cell in cells {
                prop_assert_eq!(open(&cell), corners.iter().any(|corner| below(corner, &cell)), "{:?}", cell);
            }
            for corner in &corners {
                prop_assert_eq!(corners.iter().filter(|other| below(other, corner)).count(), 1);
            }
        }
    }
}
