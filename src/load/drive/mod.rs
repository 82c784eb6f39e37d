//! The client of a load: sends requests when they are due, reads their answers as they arrive, and stamps every moment.
//!
//! What is sent, when, and when it is enough are the [`Source`]'s to say; figures are made elsewhere.

mod answers;
mod bell;
mod chunked;
mod client;
mod connect;
mod crowd;
mod ends;
mod exchange;
mod http1;
mod issue;
mod job;
mod larder;
mod orders;
mod pool;
mod slots;
mod socket;
mod target;
mod thread;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use job::{Go, Job, Source};
use tokio_util::sync::CancellationToken;
pub use watch::Watch;

use super::record::Record;
use crate::fault::Result;

/// How requests take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// So many at once, each followed by the next without a pause. The first of them begin evenly spread over `ramp`.
    Closed {
        /// Requests at once.
        concurrency: u64,
        /// From the first request to the moment when all slots are in use.
        ramp: Duration,
    },
    /// A closed loop whose concurrency changes: from each moment on, so many at once. Where it falls, requests under way end first.
    Steps(Vec<Step>),
    /// Each request when it is due.
    Open {
        /// No more than so many at once; one that is due waits for another to end, and its `sent` says so.
        at_most: Option<u64>,
        /// Requests at once that are expected: so many connections are opened before the clock begins.
        expected: u64,
    },
}

/// A change of concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, since the clock began. Ascending.
    pub begins: Duration,
    /// Requests at once from then on.
    pub concurrency: u64,
}

/// How a load is to be driven.
#[derive(Clone, Debug)]
pub struct Drive {
    /// How requests take turns.
    pub slots: Slots,
    /// No request is issued after this time.
    pub limit: Option<Duration>,
    /// What is under way at the limit may go on for so long, and is then cut off.
    pub grace: Duration,
    /// Keep the text of each answer.
    pub keep_text: bool,
    /// Cancelled, no more is issued, and what is under way is cut off at once: a time that is known only while the load goes on, or an
    /// interruption.
    pub cut: CancellationToken,
}

/// The load's clock: moments of records are times since then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// By the monotonic clock.
    pub began: Instant,
    /// The same moment by the calendar.
    pub unix: SystemTime,
}

impl Clock {
    /// A clock that begins now.
    fn now() -> Self {
        Self {
            began: Instant::now(),
            unix: SystemTime::now(),
        }
    }
}

/// What came of a load.
#[derive(Debug)]
pub struct Driven {
    /// Every request that was issued, in the order of issue.
    pub records: Vec<Record>,
    /// When the load's clock began.
    pub clock: Clock,
    /// From there to the last end, or to the cut.
    pub duration: Duration,
    /// How the client itself fared.
    pub watch: Watch,
}

/// Drives a load at `url`, the whole address of every request, until the source has no more and all have ended. Dropped, it ends at once.
///
/// # Errors
///
/// What the source fails with; `http` for an address that is none, or where nothing listens.
pub async fn drive(url: &str, plan: Drive, source: Arc<dyn Source>) -> Result<Driven> {
    thread::run(url, plan, source).await
}
