use proptest::prelude::*;

use super::*;

const LEVELS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

fn over(levels: &[f64], figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    levels.iter().map(|x| (*x, figure(*x))).collect()
}

#[test]
fn knee_of_saturating_throughput() {
    let knee = knee(&over(&LEVELS, |x| 20.0 * x.min(32.0))).unwrap();
    assert_eq!((knee.x, knee.y, knee.low, knee.high), (32.0, 640.0, 32.0, 32.0));
}

#[test]
fn knee_of_a_curve_that_falls_afterwards() {
    // Preemption above a concurrency of 64.
    let knee = knee(&over(&LEVELS, |x| {
        if x <= 64.0 { 20.0 * x } else { 1280.0 - 2.0 * (x - 64.0) }
    }))
    .unwrap();
    assert_eq!(knee.x, 64.0);
}

#[test]
fn a_curve_that_steepens_has_no_knee() {
    let points = over(&LEVELS, |x| if x <= 64.0 { 10.0 } else { 10.0 + (x - 64.0) });
    assert_eq!(knee(&points), None);
}

#[test]
fn gentle_bend_gives_a_range() {
    let knee = knee(&over(&LEVELS, |x| 1500.0 * x / (x + 40.0))).unwrap();
    assert!(
        knee.low <= knee.x && knee.x <= knee.high && (32.0..=128.0).contains(&knee.x),
        "{knee:?}"
    );
    assert!(knee.low < knee.high, "no single level stands out: {knee:?}");
}

#[test]
fn too_few_points_have_no_knee() {
    assert_eq!(knee(&[]), None);
    assert_eq!(knee(&over(&[1.0, 2.0], |x| x)), None);
    assert_eq!(knee(&[(1.0, 5.0), (1.0, 9.0), (1.0, 2.0)]), None);
    assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| f64::NAN)), None);
    assert_eq!(knee(&over(&[1.0, 2.0, 4.0], |_| 0.0)), None);
}

#[test]
fn repeated_levels_are_averaged() {
    let mut points = over(&LEVELS, |x| 20.0 * x.min(32.0) * 0.99);
    points.extend(over(&LEVELS, |x| 20.0 * x.min(32.0) * 1.01));
    points.reverse();
    let knee = knee(&points).unwrap();
    assert!((knee.x, (knee.y - 640.0).abs() < 1e-9) == (32.0, true), "{knee:?}");
}

/// Ascending levels, each with an error from -1 to 1.
fn noisy() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((1.0_f64..50.0, -1.0_f64..=1.0), 3..20).prop_map(|steps| {
        let mut x = 0.0;
        steps
            .into_iter()
            .map(|(step, error)| {
                x += step;
                (x, error)
            })
            .collect()
    })
}

proptest! {
    /// Noise within the allowed size never creates a knee in a straight line.
    #[test]
    fn noisy_straight_line_has_no_knee(levels in noisy(), start in 10.0_f64..1000.0, slope in 0.0_f64..50.0) {
        let exact = |x: f64| start + slope * x;
        let least = levels.iter().map(|(x, _)| exact(*x)).fold(f64::INFINITY, f64::min);
        // Errors are allowed as a share of the highest value, which is at least the lowest exact one minus its error.
        let size = NOISE * least / (1.0 + NOISE);
        let points: Vec<_> = levels.iter().map(|(x, error)| (*x, exact(*x) + error * size)).collect();
        prop_assert_eq!(knee(&points), None);
    }

    /// A clear corner is found, and lies in the range for any allowed noise.
    #[test]
    fn corner_lies_in_the_range(errors in prop::collection::vec(-1.0_f64..=1.0, 9), corner in 2_usize..6) {
        let at = LEVELS[corner];
        let exact = over(&LEVELS, |x| x.min(at));
        let size = NOISE * at / (1.0 + NOISE);
        let points: Vec<_> = exact.iter().zip(errors).map(|((x, y), error)| (*x, y + error * size)).collect();
        let knee = knee(&points).unwrap();
        prop_assert!(knee.low <= at && at <= knee.high, "{} not in {:?}", at, knee);
        prop_assert!(knee.low <= knee.x && knee.x <= knee.high);
    }

    /// Neither the units of the axes nor the order of the points matter.
    #[test]
    fn units_and_order_do_not_matter(levels in noisy(), scale in 0.01_f64..100.0, turn in 0_usize..20) {
        let points: Vec<_> = levels.iter().map(|(x, error)| (*x, 100.0 + 90.0 * error)).collect();
        let mut other: Vec<_> = points.iter().map(|(x, y)| (x * scale, y * scale)).collect();
        let turn = turn % other.len();
        other.rotate_left(turn);
        let (one, two) = (knee(&points), knee(&other));
        prop_assert_eq!(one.is_some(), two.is_some());
        if let (Some(one), Some(two)) = (one, two) {
            prop_assert!((one.x * scale - two.x).abs() < 1e-9 * two.x && (one.distance - two.distance).abs() < 1e-9);
        }
    }
}
