//! The part of a load before anything counts.

use std::time::Duration;

/// What is sent before the measured part begins. Nothing is drained between the two: requests go on over the hand-over, and those that
/// were issued before it are in no figure, whenever they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warmup {
    /// None.
    #[default]
    None,
    /// The first so many requests.
    Requests(u64),
    /// What is issued within the first so long.
    Time(Duration),
}

impl Warmup {
    /// Whether a request that is due (or issued, where it is due when a slot is free) at this time is part of the warm-up, after so many
    /// that were.
    #[must_use]
    pub fn covers(&self, before: u64, at: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Requests(requests) => before < *requests,
            Self::Time(time) => at < *time,
        }
    }
}
