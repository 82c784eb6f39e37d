//! The lowest cells that a set of cells leaves uncovered: the corners where the open region begins.
//!
//! Each added cell replaces the corners that it covers by at most one per axis (the local bounds of Klamroth, Lacour and
//! Vanderpooten 2015).

use super::lattice::{Cell, below};

/// The minimal cells of the box up to `last` that lie below none of `covering`, which is an antichain.
pub(super) fn lowest_open(covering: &[Cell], last: &[i64]) -> Vec<Cell> {
    let start = vec![0; last.len()];
    match last.len() {
        2 => staircase(covering, last),
        _ => covering
            .iter()
            .fold(vec![start], |corners, cell| push_back(corners, cell, last)),
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

fn push_back(corners: Vec<Cell>, cell: &[i64], last: &[i64]) -> Vec<Cell> {
    let (covered, mut kept): (Vec<Cell>, Vec<Cell>) = corners.into_iter().partition(|corner| below(corner, cell));
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
    moved.sort_unstable();
    moved.dedup();
    for corner in &moved {
        let smaller = |other: &Cell| other != corner && below(other, corner);
        if !kept.iter().any(smaller) && !moved.iter().any(smaller) {
            kept.push(corner.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::shadow::largest;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn corners_are_just_the_minimal_open_cells(cells in prop::collection::vec((0i64..7, 0i64..7, 0i64..7), 0..12), axes in 1usize..=3) {
            let covering = largest(cells.iter().map(|(a, b, c)| [*a, *b, *c][..axes].to_vec()).collect());
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
