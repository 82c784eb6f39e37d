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
mod tests;
