use proptest::prelude::*;

use super::*;

const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

#[test]
fn an_interval_exists_from_so_many_values_on() {
    for (share, expected) in SHARES.into_iter().zip([6, 29, 59, 299, 2995]) {
        assert_eq!(least(share), expected);
        assert!(ranks(expected - 1, share).is_none() && ranks(expected, share).is_some());
    }
}

#[test]
fn ranks_are_those_of_the_binomial_distribution() {
    // Of 100 values: from 41 to 60 of them lie below the median with the probability 0.9540, from 41 to 59 with 0.9431.
    assert_eq!(ranks(100, 0.5), Some((41, 61)));
    // 6 values: all but the two ends, 1 - 2 / 64.
    assert_eq!(ranks(6, 0.5), Some((1, 6)));
    // A million values: np ± 1.96 sqrt(np(1 - p)) within a few ranks.
    let (low, high) = ranks(1_000_000, 0.99).unwrap();
    assert!(
        low.abs_diff(989_805) < 5 && high.abs_diff(990_196) < 5,
        "{low} to {high}"
    );
}

proptest! {
    #[test]
    fn an_interval_covers_what_it_says(n in 2_usize..2000, which in 0_usize..5) {
        let share = SHARES[which];
        if let Some((low, high)) = ranks(n, share) {
            let covered: f64 = (low..high).map(|k| binomial(n, k, share)).sum();
            prop_assert!(covered >= COVERAGE - 1e-9, "{covered}");
            // The figure itself lies within.
            let rank = share * (n - 1) as f64 + 1.0;
            let within = low as f64 <= rank && rank <= high as f64;
            prop_assert!(within, "{low} <= {rank} <= {high}");
        } else {
            prop_assert!(n < least(share));
        }
    }

    #[test]
    fn the_nearest_rank_is_the_smallest_that_covers(n in 1_usize..3000, which in 0_usize..5) {
        let rank = nearest(n, SHARES[which]).unwrap() + 1;
        let share = |rank: usize| rank as f64 / n as f64;
        prop_assert!(share(rank) >= SHARES[which] - 1e-9);
        prop_assert!(rank == 1 || share(rank - 1) < SHARES[which]);
    }
}

#[test]
fn nothing_has_no_percentile() {
    assert_eq!((linear(&[], 0.5), nearest(0, 0.5), ranks(0, 0.5)), (None, None, None));
}
