//! The load client: sends requests when they are due, reads responses as they arrive, and records timestamps.
//!
//! The [`RequestSource`] decides what to send, when, and when to stop. `load::stats` computes statistics.

mod chunked;
mod connect;
mod connection_events;
mod control;
mod event_loop;
mod exchange;
mod health;
mod http1;
mod issue;
mod job;
mod pool;
mod request_ends;
mod run_queue;
mod send_buffer;
mod slots;
mod socket;
mod target;
mod thread;
mod waker;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use health::ClientHealth;
pub use job::{Control, Job, RequestSource};
use tokio_util::sync::CancellationToken;

use super::record::Record;
use crate::fault::Result;

/// When requests are issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Closed loop: a constant number of concurrent requests. The slots open evenly over `ramp`.
    Closed {
        /// Maximum concurrent requests.
        concurrency: u64,
        /// Time from the first request until all slots are in use.
        ramp: Duration,
    },
    /// Closed loop with changing concurrency. When it falls, requests in flight finish first.
    Steps(Vec<Step>),
    /// Open loop: each request when it is due.
    Open {
        /// Limit of concurrent requests. A request above it waits until another one ends; its `sent` time shows that.
        max_concurrency: Option<u64>,
        /// Expected number of concurrent requests: this many connections are opened before the clock starts.
        expected: u64,
    },
}

/// A change of concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start time since the start of the load, ascending.
    pub begins: Duration,
    /// Maximum concurrent requests from then on.
    pub concurrency: u64,
}

/// How to run a load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// When requests are issued.
    pub slots: Slots,
    /// No request is issued after this time.
    pub limit: Option<Duration>,
    /// Requests in flight at the limit may continue for this long before they are cut off.
    pub grace: Duration,
    /// Whether to keep the text of each response.
    pub keep_text: bool,
    /// When cancelled, no more requests are issued and those in flight are cut off immediately.
    pub cancel: CancellationToken,
}

/// The start of the load; times in records are relative to it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// By the monotonic clock.
    pub began: Instant,
    /// The same moment by the wall clock.
    pub unix: SystemTime,
}

impl Clock {
    fn now() -> Self {
        Self {
            began: Instant::now(),
            unix: SystemTime::now(),
        }
    }
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadRun {
    /// All issued requests in order of issue.
    pub records: Vec<Record>,
    /// Start of the load.
    pub clock: Clock,
    /// From the start to the last end, or to the cut-off.
    pub duration: Duration,
    /// The client's own performance.
    pub health: ClientHealth,
}

/// Runs a load against `url`, the full URL of every request, until the source is exhausted and all requests have ended.
/// Dropping the future aborts the load.
///
/// # Errors
///
/// Errors of the source; `http` if the URL is invalid or nothing listens there.
pub async fn run_load(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>) -> Result<LoadRun> {
    thread::run(url, config, source).await
}
