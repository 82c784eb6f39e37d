//! The minimal open cells: the corners at which the region not covered by a set of cells begins.
//!
//! With two axes they lie between the steps of a staircase. With three axes a plane sweeps from the hardest end to
//! the easiest while the staircase grows, and each corner is emitted where the plane leaves it (n log n for n cells).
//! With more axes, each added cell replaces the corners that it covers by at most one per axis (the local bounds of
//! Klamroth, Lacour and Vanderpooten 2015). The same step updates known corners when one cell is added.

use super::lattice::{Cell, below};

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
    // Whatever lies below a cell is lexicographically smaller.
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
    use super::super::dominance::maximal;
    use super::*;
    use proptest::prelude::*;

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
