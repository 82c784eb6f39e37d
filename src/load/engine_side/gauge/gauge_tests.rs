use proptest::prelude::*;

use super::*;

/// Ten samples a second for ten seconds.
fn looks(value: impl Fn(f64) -> f64) -> Curve {
    Curve::from_samples(
        (0..=100)
            .map(|look| f64::from(look) / 10.0)
            .map(|at| (at, Some(value(at)))),
    )
}

#[test]
fn growing_queue_differs_from_fluctuating_queue() {
    let grows = |value: &dyn Fn(f64) -> f64| GaugeStats::new(&looks(value), 0.0, 10.0, 1.0).unwrap();
    let growing = grows(&|at| 5.0 * at + (3.0 * at).sin());
    assert_eq!(growing.grows, Some(true));
    assert!((growing.growth.unwrap() - 5.0).abs() < 0.2, "{growing:?}");
    assert_eq!(grows(&|at| 20.0 + 8.0 * (3.0 * at).sin()).grows, Some(false));
    assert_eq!(grows(&|_| 7.0).grows, Some(false));
    assert_eq!(grows(&|at| 0.05 * at).grows, Some(false), "half a request is none");
    assert_eq!(grows(&|at| 50.0 - 5.0 * at).grows, Some(false));
}

#[test]
fn too_few_samples_give_no_growth() {
    let short = GaugeStats::new(&looks(|at| at), 0.0, 100.0, 1.0).unwrap();
    assert_eq!((short.growth, short.grows), (None, None), "one block of ten");
    assert_eq!(GaugeStats::new(&Curve::default(), 0.0, 1.0, 1.0), None);
    assert_eq!(GaugeStats::new(&looks(|_| 3.0), 5.0, 5.0, 1.0).unwrap().growth, None);
}

proptest! {
    /// The growth of a straight line is its slope in any window.
    #[test]
    fn straight_line_has_its_slope(slope in -50.0_f64..50.0, from in 0.0_f64..4.0, length in 1.0_f64..5.0) {
        let level = GaugeStats::new(&looks(|at| 1000.0 + slope * at), from, from + length, 1.0).unwrap();
        prop_assert!((level.growth.unwrap() - slope).abs() < 1e-6);
        let middle = 1000.0 + slope * (from + length / 2.0);
        prop_assert!((level.mean - middle).abs() < 1e-6);
    }
}
