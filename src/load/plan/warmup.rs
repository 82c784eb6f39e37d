//! The warm-up of a load.

use std::time::Duration;

/// The warm-up before the measured part. Nothing is drained between the two: requests run across the boundary, and
/// those issued before it are not measured, whenever they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warmup {
    /// None.
    #[default]
    None,
    /// The first requests, by number.
    Requests(u64),
    /// Requests issued within this time.
    Time(Duration),
}

impl Warmup {
    /// Whether the request after `before` others belongs to the warm-up. `at` is when it is due, or when it was issued
    /// if it was due as soon as a slot was free.
    #[must_use]
    pub fn covers(&self, before: u64, at: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Requests(requests) => before < *requests,
            Self::Time(time) => at < *time,
        }
    }
}
