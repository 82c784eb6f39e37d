use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

#[test]
fn rate_has_bounds() {
    for hz in [0.0, 0.99, 1000.1, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Schedule::new(hz).is_err(), "{hz}");
    }
    assert_eq!(Schedule::new(50.0).unwrap().period, 20 * MS);
}

#[test]
fn late_sample_does_not_shift_later_ones() {
    let mut schedule = Schedule::new(100.0).unwrap();
    assert_eq!(schedule.complete(0, MS), SampleTiming { late: false, lost: 0 });
    assert_eq!(schedule.due(), 10 * MS);
    assert_eq!(
        schedule.complete(13 * MS, 14 * MS),
        SampleTiming { late: true, lost: 0 }
    );
    assert_eq!(schedule.due(), 20 * MS);
    assert_eq!(
        schedule.complete(20 * MS + 400_000, 61 * MS),
        SampleTiming { late: false, lost: 4 }
    );
    assert_eq!(schedule.due(), 70 * MS);
}

#[test]
fn sample_that_ends_at_the_next_due_time_loses_none() {
    let mut schedule = Schedule::new(100.0).unwrap();
    assert_eq!(schedule.complete(0, 10 * MS), SampleTiming { late: false, lost: 0 });
    assert_eq!(schedule.due(), 10 * MS);
}

proptest! {
    /// Every due time up to the last is either sampled or lost, exactly once.
    #[test]
    fn every_sample_is_taken_or_lost(hz in 1.0_f64..=1000.0, steps in prop::collection::vec((0_u64..5 * MS, 0_u64..50 * MS), 1..200)) {
        let mut schedule = Schedule::new(hz).unwrap();
        let (mut now, mut taken, mut lost) = (0_u64, 0, 0);
        for (delay, duration) in steps {
            let began = now.max(schedule.due()) + delay;
            let look = schedule.complete(began, began + duration);
            prop_assert_eq!(look.late, began > (taken + lost) * schedule.period + TOLERANCE_NS.max(schedule.period / 20));
            taken += 1;
            lost += look.lost;
            now = began + duration;
            prop_assert_eq!(schedule.due(), (taken + lost) * schedule.period);
            prop_assert!(schedule.due() >= now || look.lost == 0);
        }
    }
}
