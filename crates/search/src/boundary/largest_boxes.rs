//! The open boxes between lowest and highest open cells, largest first, without enumerating every pair.
//!
//! Both sides are k-d trees. The box from the easiest corner of one node to the hardest corner of another is at least
//! as large as any box between their cells. A pair of nodes is therefore opened only while it may contain the next
//! largest box (branch and bound).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::lattice::{Cell, below, box_volume};

const LEAF: usize = 8;

/// Yields pairs of a lowest and a highest cell above it, largest box first. Ties are broken by the order of the
/// cells.
pub(super) struct LargestBoxes<'a> {
    lows: Side<'a>,
    highs: Side<'a>,
    /// By volume. A pair of nodes (`true`) precedes the pairs of cells that it may contain.
    heap: BinaryHeap<(u128, bool, Reverse<usize>, Reverse<usize>)>,
}

impl<'a> LargestBoxes<'a> {
    pub(super) fn new(lows: &'a [Cell], highs: &'a [Cell]) -> Self {
        let (lows, highs) = (Side::new(lows, i64::min), Side::new(highs, i64::max));
        let mut boxes = Self {
            lows,
            highs,
            heap: BinaryHeap::new(),
        };
        // The root is the last one.
        if let (Some(low), Some(high)) = (
            boxes.lows.nodes.len().checked_sub(1),
            boxes.highs.nodes.len().checked_sub(1),
        ) {
            boxes.push(low, high);
        }
        boxes
    }

    /// Queues a pair of nodes, unless no cell of one lies below any cell of the other.
    fn push(&mut self, low: usize, high: usize) {
        let (from, to) = (&self.lows.nodes[low].corner, &self.highs.nodes[high].corner);
        if below(from, to) {
            self.heap
                .push((box_volume(from, to) as u128, true, Reverse(low), Reverse(high)));
        }
    }

    fn open(&mut self, low: usize, high: usize) {
        match (self.lows.nodes[low].part.clone(), self.highs.nodes[high].part.clone()) {
            (Part::Cells(lows), Part::Cells(highs)) => {
                for at in &self.lows.order[lows] {
                    for to in &self.highs.order[highs.clone()] {
                        let (from, until) = (&self.lows.cells[*at], &self.highs.cells[*to]);
                        if below(from, until) {
                            self.heap
                                .push((box_volume(from, until) as u128, false, Reverse(*at), Reverse(*to)));
                        }
                    }
                }
            }
            // Split the larger one.
            (Part::Halves(halves, many), other) if many >= other.count() => {
                halves.into_iter().for_each(|half| self.push(half, high));
            }
            (_, Part::Halves(halves, _)) => halves.into_iter().for_each(|half| self.push(low, half)),
            (Part::Halves(halves, _), _) => halves.into_iter().for_each(|half| self.push(half, high)),
        }
    }
}

impl<'a> Iterator for LargestBoxes<'a> {
    type Item = (&'a Cell, &'a Cell);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.heap.pop()? {
                (_, true, Reverse(low), Reverse(high)) => self.open(low, high),
                (_, false, Reverse(at), Reverse(to)) => return Some((&self.lows.cells[at], &self.highs.cells[to])),
            }
        }
    }
}

/// The cells of one side as a k-d tree.
struct Side<'a> {
    cells: &'a [Cell],
    order: Vec<usize>,
    nodes: Vec<Node>,
}

struct Node {
    /// The easiest value on every axis (lowest cells), or the hardest (highest cells).
    corner: Cell,
    part: Part,
}

#[derive(Clone)]
enum Part {
    Cells(Range<usize>),
    /// Two nodes, and the number of cells in them.
    Halves([usize; 2], usize),
}

impl Part {
    fn count(&self) -> usize {
        match self {
            Part::Cells(range) => range.len(),
            Part::Halves(_, many) => *many,
        }
    }
}

impl<'a> Side<'a> {
    fn new(cells: &'a [Cell], outer: fn(i64, i64) -> i64) -> Self {
        let mut side = Self {
            cells,
            order: (0..cells.len()).collect(),
            nodes: Vec::new(),
        };
        if !cells.is_empty() {
            side.grow(0..cells.len(), 0, outer);
        }
        side
    }

    /// Adds a node and those below it, and returns its index.
    fn grow(&mut self, range: Range<usize>, axis: usize, outer: fn(i64, i64) -> i64) -> usize {
        let cells = self.cells;
        let around = |mut corner: Cell, other: &Cell| {
            for (side, value) in corner.iter_mut().zip(other) {
                *side = outer(*side, *value);
            }
            corner
        };
        let node = if range.len() > LEAF {
            let middle = range.start + range.len() / 2;
            self.order[range.clone()].select_nth_unstable_by_key(range.len() / 2, |at| cells[*at][axis]);
            let next = (axis + 1) % cells[0].len();
            let halves = [range.start..middle, middle..range.end].map(|half| self.grow(half, next, outer));
            let [one, other] = halves.map(|half| &self.nodes[half].corner);
            Node {
                corner: around(one.clone(), other),
                part: Part::Halves(halves, range.len()),
            }
        } else {
            let order = &self.order[range.clone()];
            Node {
                corner: order[1..]
                    .iter()
                    .fold(cells[order[0]].clone(), |corner, at| around(corner, &cells[*at])),
                part: Part::Cells(range),
            }
        };
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn boxes_come_as_from_all_pairs(
            lows in prop::collection::vec(prop::collection::vec(0i64..12, 3), 0..60),
            highs in prop::collection::vec(prop::collection::vec(0i64..12, 3), 0..60),
        ) {
            let mut all: Vec<(Reverse<u128>, usize, usize)> = Vec::new();
            for (at, low) in lows.iter().enumerate() {
                for (to, high) in highs.iter().enumerate().filter(|(_, high)| below(low, high)) {
                    all.push((Reverse(box_volume(low, high) as u128), at, to));
                }
            }
            all.sort_unstable();
            let wanted: Vec<_> = all.iter().map(|(_, at, to)| (&lows[*at], &highs[*to])).collect();
            prop_assert_eq!(LargestBoxes::new(&lows, &highs).collect::<Vec<_>>(), wanted);
        }
    }
}
