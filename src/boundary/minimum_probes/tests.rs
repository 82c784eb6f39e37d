use super::super::dominance::maximal;
use super::super::volume::covered;
use super::*;
use proptest::prelude::*;

/// The fewest of `cells` that cover `share` of what all of them cover.
fn by_hand(cells: &[Cell], share: f64) -> usize {
    let whole = covered(cells) as f64;
    let sets = (0u32..1 << cells.len()).filter(|set| {
        let chosen: Vec<Cell> = cells
            .iter()
            .enumerate()
            .filter(|(i, _)| set >> i & 1 == 1)
            .map(|(_, cell)| cell.clone())
            .collect();
        covered(&chosen) as f64 >= share * whole
    });
    sets.map(u32::count_ones).min().unwrap_or(0) as usize
}

proptest! {
    #[test]
    fn no_choice_of_corners_needs_fewer(seeds in prop::collection::vec((0i64..20, 0i64..20), 0..9)) {
        let cells = maximal(seeds.iter().map(|(x, y)| vec![*x, *y]).collect());
        let corners: Vec<(i64, i64)> = cells.iter().map(|cell| (cell[0] + 1, cell[1] + 1)).collect();
        let shares = [0.5, 0.9, 0.95, 1.0];
        let wanted: Vec<usize> = shares.iter().map(|share| by_hand(&cells, *share)).collect();
        prop_assert_eq!(staircase(&corners, &shares), wanted);
    }

    #[test]
    fn a_greedy_cover_is_enough_and_no_better_than_the_best(seeds in prop::collection::vec((0i64..9, 0i64..9, 0i64..9), 1..9)) {
        let cells = maximal(seeds.iter().map(|(x, y, z)| vec![*x, *y, *z]).collect());
        let shares = [0.5, 0.9, 1.0];
        for (share, probes) in shares.iter().zip(greedy(&cells, covered(&cells), &shares)) {
            let least = by_hand(&cells, *share);
            prop_assert!(least <= probes && probes <= cells.len(), "{} of {}", probes, least);
        }
    }
}

#[test]
fn a_budget_of_tokens_takes_as_many_corners_as_the_issue_counts() {
    let corners = |budget: i64| -> Vec<(i64, i64)> {
        let heights = (2048..=32768).map(|input| (budget - input).min(32768) - 511);
        let all: Vec<_> = heights
            .enumerate()
            .map(|(index, height)| (index as i64 + 1, height))
            .collect();
        let ends = |(index, _): &(usize, &(i64, i64))| all.get(index + 1).is_none_or(|next| next.1 < all[*index].1);
        all.iter()
            .enumerate()
            .filter(ends)
            .map(|(_, corner)| *corner)
            .filter(|(_, height)| *height > 0)
            .collect()
    };
    assert_eq!(staircase(&corners(45_000), &[0.95]), [7]);
    assert_eq!(staircase(&corners(20_000), &[0.95]), [19]);
    assert_eq!(
        (staircase(&[], &[0.95]), staircase(&[(3, 4)], &[0.95, 1.0])),
        (vec![0], vec![1, 1])
    );
}
