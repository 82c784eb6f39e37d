//! When to look, and what was missed.
//!
//! Pure: times are nanoseconds since the sampler's start. Look k is due at k times the period, whatever happened to the looks
//! before it, so the rate does not drift. A look that begins later than the tolerance is late; a look whose time has passed
//! before it could begin is lost and never made up for.

use std::time::Duration;

use crate::fault::{Fault, Result};

/// The slowest rate, in looks a second.
pub const SLOWEST: f64 = 1.0;
/// The fastest rate, in looks a second.
pub const FASTEST: f64 = 1000.0;
/// A look may begin this much after its time; at slow rates, a twentieth of the period.
const TOLERANCE_NS: u64 = 500_000;

/// The looks of one sampler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    period: u64,
    next: u64,
}

/// What became of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// It began later than the tolerance.
    pub(super) late: bool,
    /// Looks after it whose time had passed when it ended.
    pub(super) lost: u64,
}

impl Schedule {
    /// `hz` looks a second, the first at once.
    pub(super) fn new(hz: f64) -> Result<Self> {
        if !(SLOWEST..=FASTEST).contains(&hz) {
            return Err(Fault::usage(format!(
                "a sampling rate of {hz} a second is outside {SLOWEST} to {FASTEST}"
            )));
        }
        let period = Duration::from_secs_f64(1.0 / hz).as_nanos();
        Ok(Self {
            period: u64::try_from(period).unwrap_or(u64::MAX),
            next: 0,
        })
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> u64 {
        self.next * self.period
    }

    /// The look that was due has been made.
    pub(super) fn looked(&mut self, began: u64, ended: u64) -> Look {
        let tolerance = TOLERANCE_NS.max(self.period / 20);
        let late = began > self.due() + tolerance;
        let following = (self.next + 1).max(ended.div_ceil(self.period));
        let lost = following - self.next - 1;
        self.next = following;
        Look { late, lost }
    }
}

#[cfg(test)]
mod tests {
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
}
