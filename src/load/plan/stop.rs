//! When a load is over.

use std::time::Duration;

use super::Precision;

/// When a load is over: whichever comes first. Counted from the hand-over of the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stop {
    /// No more are issued after so many, and those under way end.
    pub requests: Option<u64>,
    /// What is unfinished after this time is cut off.
    pub duration: Option<Duration>,
    /// No more are issued once the interval of a metric is narrow enough, and those under way end.
    pub precision: Option<Precision>,
}
