//! The sampling schedule: when samples are due, and which were late or missed.
//!
//! Pure: times are nanoseconds since the sampler's start. Sample k is due at k times the period, so the rate does not
//! drift. A sample that starts later than the tolerance is late; a sample whose time has passed before it could start
//! is lost and not made up for.

use std::time::Duration;

use crate::fault::{Fault, Result};

/// Minimum rate in Hz.
pub const MIN_HZ: f64 = 1.0;
/// Maximum rate in Hz.
pub const MAX_HZ: f64 = 1000.0;
/// Allowed delay of a sample; at low rates, a twentieth of the period.
const TOLERANCE_NS: u64 = 500_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    period: u64,
    next: u64,
}

/// The timing of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleTiming {
    /// It started later than the tolerance.
    pub(super) late: bool,
    /// Number of following samples whose time had passed when it ended.
    pub(super) lost: u64,
}

impl Schedule {
    /// A schedule of `hz` samples a second, the first immediately.
    pub(super) fn new(hz: f64) -> Result<Self> {
        if !(MIN_HZ..=MAX_HZ).contains(&hz) {
            return Err(Fault::usage(format!(
                "a sampling rate of {hz} a second is outside {MIN_HZ} to {MAX_HZ}"
            )));
        }
        let period = Duration::from_secs_f64(1.0 / hz).as_nanos();
        Ok(Self {
            period: u64::try_from(period).unwrap_or(u64::MAX),
            next: 0,
        })
    }

    /// When the next sample is due.
    pub(super) fn due(&self) -> u64 {
        self.next * self.period
    }

    /// Call when the due sample was taken.
    pub(super) fn complete(&mut self, began: u64, ended: u64) -> SampleTiming {
        let tolerance = TOLERANCE_NS.max(self.period / 20);
        let late = began > self.due() + tolerance;
        let next = (self.next + 1).max(ended.div_ceil(self.period));
        let lost = next - self.next - 1;
        self.next = next;
        SampleTiming { late, lost }
    }
}

#[cfg(test)]
mod tests;
