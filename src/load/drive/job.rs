//! What the client asks of whoever feeds it: the next request, and what to do after one has ended.

use std::time::Duration;

use bytes::Bytes;

use crate::fault::Result;
use crate::load::{Decode, Record};

/// One request that is to be sent.
pub struct Job {
    /// When it is due, since the load's clock began (open loop); `None`: as soon as a slot is free (closed loop).
    pub at: Option<Duration>,
    /// The JSON body.
    pub body: Bytes,
    /// Reads the events of its answer.
    pub decoder: Box<dyn Decode>,
    /// It must be complete within this time of being sent.
    pub timeout: Duration,
    /// Tokens of its prompt.
    pub input: u64,
    /// Tokens that it asks for.
    pub output: u64,
    /// Part of the warm-up.
    pub warmup: bool,
}

/// What the client is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Go {
    /// Go on.
    On,
    /// Issue no more, and finish what is under way.
    Finish,
    /// Cut off what is under way, now.
    CutOff,
}

/// Gives requests, and hears of their ends. Neither `next` nor `ended` is called by the thread that reads answers: both may take their time, as
/// long as requests are given faster than they are sent. Jobs are taken ahead of their time; those that are not sent in the end are dropped.
pub trait Source: Send + Sync {
    /// The next request; `None`: there are no more. Jobs with a time come in the order of their times. Called by one thread at a time.
    ///
    /// # Errors
    ///
    /// Whatever keeps a request from being made: it ends the load.
    fn next(&self) -> Result<Option<Job>>;

    /// A request is being issued, `at` since the load's clock began; `index` counts from 0 in the order of issue, as in its record. Called by the
    /// thread that reads answers, as jobs are given long before they are sent: it must not take time.
    fn issued(&self, _index: u64, _at: Duration) -> Go {
        Go::On
    }

    /// A request has ended. Called once for each that was issued, in the order of the ends, by one thread at a time.
    fn ended(&self, record: &Record) -> Go;
}
