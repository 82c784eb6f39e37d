use proptest::prelude::*;

use super::*;

fn curve(looks: &[(f64, Option<f64>)]) -> Curve {
    Curve::from_samples(looks.iter().copied())
}

#[test]
fn mean_is_time_weighted_and_gaps_are_not_zero() {
    let curve = curve(&[
        (0.0, Some(2.0)),
        (1.0, Some(2.0)),
        (2.0, None),
        (9.0, Some(8.0)),
        (12.0, Some(8.0)),
    ]);
    assert_eq!(curve.mean(), Some(6.5), "1 s at 2 and 3 s at 8");
    assert_eq!(curve.within(0.5, 1.5).mean(), Some(2.0));
    assert_eq!(curve.within(2.0, 8.0).mean(), None);
    assert_eq!(curve.max(), Some(8.0));
}

#[test]
fn window_ends_are_interpolated() {
    let rising = curve(&[(0.0, Some(0.0)), (10.0, Some(10.0))]);
    let part = rising.within(2.0, 4.0);
    assert_eq!(
        (part.mean(), part.max(), part.area()),
        (Some(3.0), Some(4.0), (6.0, 2.0))
    );
    assert_eq!(rising.within(4.0, 2.0), Curve::default());
    assert_eq!(
        curve(&[(1.0, Some(5.0))]).within(0.0, 2.0).mean(),
        Some(5.0),
        "one sample"
    );
}

proptest! {
    /// For any split of a window, the areas and known times of the parts add up to the whole.
    #[test]
    fn areas_of_parts_add_up(
        steps in prop::collection::vec((0.01_f64..2.0, prop::option::weighted(0.8, 0.0_f64..100.0)), 1..40),
        cuts in (0.0_f64..40.0, 0.0_f64..40.0, 0.0_f64..40.0),
    ) {
        let mut at = 0.0;
        let looks = steps.into_iter().map(|(step, value)| { at += step; (at, value) });
        let curve = Curve::from_samples(looks);
        let mut cuts = [cuts.0, cuts.1, cuts.2];
        cuts.sort_by(f64::total_cmp);
        let [from, cut, to] = cuts;
        let (area, time) = curve.within(from, to).area();
        let (first, second) = (curve.within(from, cut).area(), curve.within(cut, to).area());
        prop_assert!((first.0 + second.0 - area).abs() < 1e-6 && (first.1 + second.1 - time).abs() < 1e-9);
        if let (Some(mean), Some(max)) = (curve.within(from, to).mean(), curve.max()) {
            prop_assert!(mean <= max + 1e-9 && mean >= -1e-9);
        }
    }
}
