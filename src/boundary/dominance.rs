//! A set of cells that answers fast whether any of them lies at or above a given cell.
//!
//! A forest of k-d trees whose nodes store the largest coordinate on every axis. Trees double in size (Bentley and
//! Saxe 1980), so adding is cheap.

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
    // Whatever covers a cell is lexicographically larger, so it comes first.
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
}
