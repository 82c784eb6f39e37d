use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

#[test]
fn the_rate_has_bounds() {
    for hz in [0.0, 0.99, 1000.1, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Schedule::new(hz).is_err(), "{hz}");
    }
    assert_eq!(Schedule::new(50.0).unwrap().period, 20 * MS);
}

#[test]
fn a_late_look_does_not_move_those_after_it() {
    let mut schedule = Schedule::new(100.0).unwrap();
    assert_eq!(schedule.looked(0, MS), Look { late: false, lost: 0 });
    assert_eq!(schedule.due(), 10 * MS);
    assert_eq!(schedule.looked(13 * MS, 14 * MS), Look { late: true, lost: 0 });
    assert_eq!(schedule.due(), 20 * MS);
    assert_eq!(
        schedule.looked(20 * MS + 400_000, 61 * MS),
        Look { late: false, lost: 4 }
    );
    assert_eq!(schedule.due(), 70 * MS);
}

#[test]
fn a_look_that_ends_on_the_next_ones_time_loses_none() {
    let mut schedule = Schedule::new(100.0).unwrap();
    assert_eq!(schedule.looked(0, 10 * MS), Look { late: false, lost: 0 });
    assert_eq!(schedule.due(), 10 * MS);
}

proptest! {
    /// Every due time up to the last is either looked at or lost: none is forgotten, none is counted twice.
    #[test]
    fn every_look_is_accounted_for(hz in 1.0_f64..=1000.0, steps in prop::collection::vec((0_u64..5 * MS, 0_u64..50 * MS), 1..200)) {
        let mut schedule = Schedule::new(hz).unwrap();
        let (mut now, mut taken, mut lost) = (0_u64, 0, 0);
        for (delay, duration) in steps {
            let began = now.max(schedule.due()) + delay;
            let look = schedule.looked(began, began + duration);
            prop_assert_eq!(look.late, began > (taken + lost) * schedule.period + TOLERANCE_NS.max(schedule.period / 20));
            taken += 1;
            lost += look.lost;
            now = began + duration;
            prop_assert_eq!(schedule.due(), (taken + lost) * schedule.period);
            prop_assert!(schedule.due() >= now || look.lost == 0);
        }
    }
}
