//! The interface between the client and its caller: requests to send, and what to do when one has ended.

use std::time::Duration;

use bytes::Bytes;

use crate::fault::Result;
use crate::load::{Decode, Record};

/// One request to send.
pub struct Job {
    /// When it is due, since the start of the load (open loop). `None`: as soon as a slot is free (closed loop).
    pub at: Option<Duration>,
    /// JSON body.
    pub body: Bytes,
    /// Decodes the events of the response.
    pub decoder: Box<dyn Decode>,
    /// Maximum time from sending to the complete response.
    pub timeout: Duration,
    /// Prompt tokens.
    pub input: u64,
    /// Requested output tokens.
    pub output: u64,
    /// Part of the warm-up.
    pub warmup: bool,
}

/// What the client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Continue.
    Continue,
    /// Issue no more requests; wait for those in flight.
    Drain,
    /// Cut off the requests in flight now.
    Abort,
}

/// Supplies requests and receives their results. `next` and `ended` are not called on the thread that reads responses:
/// both may be slow as long as requests are supplied faster than they are sent. Jobs are fetched ahead of time; unsent
/// ones are dropped.
pub trait RequestSource: Send + Sync {
    /// The next request, or `None` if there are no more. Jobs with a time must be in order of time. Called by one
    /// thread at a time.
    ///
    /// # Errors
    ///
    /// If a request cannot be made. This ends the load.
    fn next(&self) -> Result<Option<Job>>;

    /// A request is being issued, `at` after the start of the load. `index` is the order of issue from 0, as in its
    /// record. Called on the thread that reads responses, so it must be fast.
    fn issued(&self, _index: u64, _at: Duration) -> Control {
        Control::Continue
    }

    /// A request has ended. Called once for each issued request, in the order of their ends, by one thread at a time.
    fn ended(&self, record: &Record) -> Control;
}
