//! The plan of a load: when requests are due, how long they are, and when to stop. Pure.
//!
//! [`Arrivals`] determines the due times, [`Length`] the lengths, [`Warmup`] what is not measured, [`Stop`] the end.
//! [`Schedule`] combines the first two into a sequence of [`Request`]s; [`LoadProgress`] tracks a running load and
//! decides what comes next. The same seed gives the same requests on every machine. Nothing here depends on sockets,
//! clocks or engines.

mod arrivals;
mod files;
mod length;
mod precision;
mod progress;
mod schedule;

use std::time::Duration;

pub use arrivals::{Arrivals, Pattern, Profile};
pub use files::{Arrival, Corpus, FilePrompt, Trace};
pub use length::{Distribution, Length, LognormalLength, NormalLength};
pub use precision::{Metric, Precision, Statistic};
pub use progress::{EndReason, LoadProgress};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
pub use schedule::{Request, Schedule, Sizes};

/// The plan of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// Lengths of prompts and answers.
    pub sizes: Sizes,
    /// Which requests are not measured.
    pub warmup: Warmup,
    /// When the load ends.
    pub stop: Stop,
}

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
    pub fn covers(&self, before: u64, at: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Requests(requests) => before < *requests,
            Self::Time(time) => at < *time,
        }
    }
}

/// Purpose of a generator. Each has its own stream, so that changes to one do not affect the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Inter-arrival times.
    Arrivals,
    /// Prompt lengths.
    Inputs,
    /// Answer lengths.
    Outputs,
}

/// The generator for a purpose. `ChaCha8` is the same on every machine.
fn rng(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(purpose as u64);
    generator
}
