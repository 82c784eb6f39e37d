use proptest::prelude::*;

use super::*;

const LEVELS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

fn over(levels: &[f64], figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    levels.iter().map(|x| (*x, figure(*x))).collect()
}

fn flattens(points: &[(f64, f64)]) -> Option<Knee> {
    knee(points, Bend::Flattens, NOISE)
}

#[test]
fn throughput_that_saturates_has_its_knee_where_it_does() {
    let knee = flattens(&over(&LEVELS, |x| 20.0 * x.min(32.0))).unwrap();
    assert_eq!((knee.x, knee.y, knee.low, knee.high), (32.0, 640.0, 32.0, 32.0));
}

#[test]
fn a_curve_that_falls_after_its_knee_has_it_where_it_turned() {
    // Preemption beyond 64 at once.
    let knee = flattens(&over(&LEVELS, |x| {
        if x <= 64.0 { 20.0 * x } else { 1280.0 - 2.0 * (x - 64.0) }
    }))
    .unwrap();
    assert_eq!(knee.x, 64.0);
}

#[test]
fn latency_bends_the_other_way() {
    let points = over(&LEVELS, |x| if x <= 64.0 { 10.0 } else { 10.0 + (x - 64.0) });
    assert_eq!(flattens(&points), None);
    assert_eq!(knee(&points, Bend::Steepens, NOISE).unwrap().x, 64.0);
}

#[test]
fn a_gentle_bend_is_a_bracket() {
    let knee = flattens(&over(&LEVELS, |x| 1500.0 * x / (x + 40.0))).unwrap();
    assert!(
        knee.low <= knee.x && knee.x <= knee.high && (32.0..=128.0).contains(&knee.x),
        "{knee:?}"
    );
    assert!(knee.low < knee.high, "no single level stands out: {knee:?}");
}

#[test]
fn too_few_points_have_no_knee() {
    assert_eq!(flattens(&[]), None);
    assert_eq!(flattens(&over(&[1.0, 2.0], |x| x)), None);
    assert_eq!(flattens(&[(1.0, 5.0), (1.0, 9.0), (1.0, 2.0)]), None);
    assert_eq!(flattens(&over(&[1.0, 2.0, 4.0], |_| f64::NAN)), None);
    assert_eq!(flattens(&over(&[1.0, 2.0, 4.0], |_| 0.0)), None);
}

#[test]
fn repeats_of_a_level_count_by_their_mean() {
    let mut points = over(&LEVELS, |x| 20.0 * x.min(32.0) * 0.99);
    points.extend(over(&LEVELS, |x| 20.0 * x.min(32.0) * 1.01));
    points.reverse();
    let knee = flattens(&points).unwrap();
    assert!((knee.x, (knee.y - 640.0).abs() < 1e-9) == (32.0, true), "{knee:?}");
}

/// Ascending levels, and for each an error from -1 to 1.
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
    /// Noise of the size that was admitted never makes a knee of a straight line, flat or steep.
    #[test]
    fn a_straight_line_has_no_knee_however_noisy(levels in noisy(), start in 10.0_f64..1000.0, slope in 0.0_f64..50.0) {
        let exact = |x: f64| start + slope * x;
        let least = levels.iter().map(|(x, _)| exact(*x)).fold(f64::INFINITY, f64::min);
        // The highest figure is at least the lowest exact one less its error; errors are admitted as a share of the highest.
        let size = NOISE * least / (1.0 + NOISE);
        let points: Vec<_> = levels.iter().map(|(x, error)| (*x, exact(*x) + error * size)).collect();
        prop_assert_eq!(flattens(&points), None);
        prop_assert_eq!(knee(&points, Bend::Steepens, NOISE), None);
    }

    /// A clear corner is found, and whatever noise was admitted, it lies in the bracket.
    #[test]
    fn a_corner_lies_in_the_bracket(errors in prop::collection::vec(-1.0_f64..=1.0, 9), corner in 2_usize..6) {
        let at = LEVELS[corner];
        let exact = over(&LEVELS, |x| x.min(at));
        let size = NOISE * at / (1.0 + NOISE);
        let points: Vec<_> = exact.iter().zip(errors).map(|((x, y), error)| (*x, y + error * size)).collect();
        let knee = flattens(&points).unwrap();
        prop_assert!(knee.low <= at && at <= knee.high, "{} not in {:?}", at, knee);
        prop_assert!(knee.low <= knee.x && knee.x <= knee.high);
    }

    /// The units of the axes do not matter, nor the order of the points.
    #[test]
    fn units_and_order_do_not_matter(levels in noisy(), scale in 0.01_f64..100.0, turn in 0_usize..20) {
        let points: Vec<_> = levels.iter().map(|(x, error)| (*x, 100.0 + 90.0 * error)).collect();
        let mut other: Vec<_> = points.iter().map(|(x, y)| (x * scale, y * scale)).collect();
        let turn = turn % other.len();
        other.rotate_left(turn);
        let (one, two) = (flattens(&points), flattens(&other));
        prop_assert_eq!(one.is_some(), two.is_some());
        if let (Some(one), Some(two)) = (one, two) {
            prop_assert!((one.x * scale - two.x).abs() < 1e-9 * two.x && (one.distance - two.distance).abs() < 1e-9);
        }
    }
}
