//! Counts the lattice points covered by boxes that share one corner: exact, for any number of axes.
//!
//! Two axes are a staircase. Three are swept along the last axis while a staircase grows (n log n). Each further axis
//! is cut into slabs, which costs another factor of n. This is the hypervolume of multi-objective optimization
//! (Fonseca, Paquete and López-Ibáñez 2006).

use std::collections::BTreeMap;

use super::dominance::maximal;

/// Lattice points at or below any of `corners`. Coordinates are not negative.
pub(super) fn covered(corners: &[Vec<i64>]) -> u128 {
    match corners.first().map_or(0, Vec::len) {
        0 => 0,
        1 => corners.iter().map(|corner| extent(corner[0])).max().unwrap_or(0),
        2 => {
            let mut sorted: Vec<(i64, i64)> = corners.iter().map(|corner| (corner[0], corner[1])).collect();
            sorted.sort_unstable();
            staircase(&sorted)
        }
        axes => slabs(corners, axes - 1),
    }
}

/// Lattice points at or below `cell` that none of `corners` covers.
pub(super) fn left_below<'a>(cell: &[i64], corners: impl Iterator<Item = &'a Vec<i64>>) -> u128 {
    let whole: u128 = cell.iter().map(|side| extent(*side)).product();
    if let [width, height] = *cell {
        let mut stairs: Vec<(i64, i64)> = corners
            .map(|corner| (corner[0].min(width), corner[1].min(height)))
            .collect();
        stairs.sort_unstable();
        return whole - staircase(&stairs);
    }
    let cut: Vec<Vec<i64>> = corners
        .map(|corner| corner.iter().zip(cell).map(|(a, b)| *a.min(b)).collect())
        .collect();
    whole - covered(&cut)
}

/// The number of lattice points between `cell` and any of `others`. All others lie at or below it, or all at or above
/// it.
pub(super) fn between<'a>(others: impl Iterator<Item = &'a Vec<i64>>, cell: &[i64]) -> u128 {
    let sides = |other: &Vec<i64>| cell.iter().zip(other).map(|(a, b)| (a - b).abs()).collect();
    covered(&others.map(sides).collect::<Vec<_>>())
}

/// The area below corners sorted by width. From the right, each corner adds the strip above all wider ones.
fn staircase(corners: &[(i64, i64)]) -> u128 {
    let (mut area, mut top) = (0, 0);
    for (width, height) in corners.iter().rev() {
        let height = extent(*height);
        if height > top {
            area += extent(*width) * (height - top);
            top = height;
        }
    }
    area
}

fn slabs(corners: &[Vec<i64>], last: usize) -> u128 {
    let mut sorted: Vec<&Vec<i64>> = corners.iter().collect();
    sorted.sort_unstable_by_key(|corner| std::cmp::Reverse(corner[last]));
    let (mut total, mut stairs, mut inside) = (0, Staircase::default(), Vec::new());
    for (index, corner) in sorted.iter().enumerate() {
        if last == 2 {
            stairs.add(extent(corner[0]), extent(corner[1]));
        } else {
            inside.push(corner[..last].to_vec());
        }
        let next = sorted.get(index + 1).map_or(0, |corner| extent(corner[last]));
        let thickness = extent(corner[last]) - next;
        if thickness > 0 {
            if last > 2 {
                inside = maximal(inside);
            }
            let base = if last == 2 { stairs.area } else { covered(&inside) };
            total += base * thickness;
        }
    }
    total
}

fn extent(hardness: i64) -> u128 {
    u128::from(hardness.unsigned_abs()) + 1
}

/// A growing staircase: heights by width, falling.
#[derive(Default)]
struct Staircase {
    steps: BTreeMap<u128, u128>,
    area: u128,
}

impl Staircase {
    fn add(&mut self, width: u128, height: u128) {
        let beyond = self.steps.range(width..).next().map_or(0, |(_, height)| *height);
        if beyond >= height {
            return;
        }
        // From right to left: steps that the new one hides are removed, and the strip above them is added.
        let (mut right, mut under) = (width, beyond);
        while let Some((&at, &tall)) = self.steps.range(..=width).next_back() {
            if at < right {
                self.area += (right - at) * (height - under);
                right = at;
            }
            if tall >= height {
                self.steps.insert(width, height);
                return;
            }
            under = under.max(tall);
            self.steps.remove(&at);
        }
        self.area += right * (height - under);
        self.steps.insert(width, height);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lattice::below;
    use super::*;
    use proptest::prelude::*;

    fn by_hand(corners: &[Vec<i64>], axes: usize, side: i64) -> u128 {
        let mut cells = vec![Vec::new()];
        for _ in 0..axes {
            cells = cells
                .iter()
                .flat_map(|cell: &Vec<i64>| (0..side).map(|value| [cell.as_slice(), &[value]].concat()))
                .collect();
        }
        let inside = cells
            .iter()
            .filter(|cell| corners.iter().any(|corner| below(cell, corner)));
        inside.count() as u128
    }

    proptest! {
        #[test]
        fn counts_as_by_hand(axes in 1usize..=4, seeds in prop::collection::vec(prop::collection::vec(0i64..6, 4), 0..14)) {
            let corners: Vec<Vec<i64>> = seeds.iter().map(|seed| seed[..axes].to_vec()).collect();
            prop_assert_eq!(covered(&corners), by_hand(&corners, axes, 6));
        }
    }

    #[test]
    fn what_is_left_below_a_cell() {
        assert_eq!(left_below(&[9, 9], [vec![4, 20], vec![20, 4]].iter()), 25);
        assert_eq!(left_below(&[9], [].iter()), 10);
    }
}
