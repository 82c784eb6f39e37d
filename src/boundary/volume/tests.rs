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
