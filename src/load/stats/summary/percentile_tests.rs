use proptest::prelude::*;

use super::*;

const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

#[test]
fn minimum_sample_sizes() {
    for (share, expected) in SHARES.into_iter().zip([6, 29, 59, 299, 2995]) {
        assert_eq!(min_sample_size(share), expected);
        assert!(rank_interval(expected - 1, share).is_none() && rank_interval(expected, share).is_some());
    }
}

#[test]
fn ranks_match_the_binomial_distribution() {
    // Of 100 values, 41 to 60 are below the median with probability 0.9540, 41 to 59 with 0.9431.
    assert_eq!(rank_interval(100, 0.5), Some((41, 61)));
    // 6 values: all but the two ends, 1 - 2 / 64.
    assert_eq!(rank_interval(6, 0.5), Some((1, 6)));
    // A million values: np ± 1.96 sqrt(np(1 - p)) within a few ranks.
    let (low, high) = rank_interval(1_000_000, 0.99).unwrap();
    assert!(
        low.abs_diff(989_805) < 5 && high.abs_diff(990_196) < 5,
        "{low} to {high}"
    );
}

proptest! {
    #[test]
    fn interval_has_its_coverage(n in 2_usize..2000, which in 0_usize..5) {
        let share = SHARES[which];
        if let Some((low, high)) = rank_interval(n, share) {
            let covered: f64 = (low..high).map(|k| binomial(n, k, share)).sum();
            prop_assert!(covered >= COVERAGE - 1e-9, "{covered}");
            // The interval contains the value itself.
            let rank = nearest_rank(n, share).unwrap() + 1;
            prop_assert!(low <= rank && rank <= high, "{low} <= {rank} <= {high}");
        } else {
            prop_assert!(n < min_sample_size(share));
        }
    }

    #[test]
    fn nearest_rank_definition(n in 1_usize..3000, which in 0_usize..5) {
        let rank = nearest_rank(n, SHARES[which]).unwrap() + 1;
        let share = |rank: usize| rank as f64 / n as f64;
        prop_assert!(share(rank) >= SHARES[which] - 1e-9);
        prop_assert!(rank == 1 || share(rank - 1) < SHARES[which]);
    }
}

#[test]
fn empty_sample_has_no_percentile() {
    assert_eq!(
        (interpolated(&[], 0.5), nearest_rank(0, 0.5), rank_interval(0, 0.5)),
        (None, None, None)
    );
}
