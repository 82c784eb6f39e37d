//! Stop conditions of a load.

use std::time::Duration;

use super::Precision;

/// Stop conditions, counted from the end of the warm-up. The first one met ends the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stop {
    /// Number of requests; those in flight may finish.
    pub requests: Option<u64>,
    /// Duration; unfinished requests are cut off.
    pub duration: Option<Duration>,
    /// Precision of a metric; requests in flight may finish.
    pub precision: Option<Precision>,
}
