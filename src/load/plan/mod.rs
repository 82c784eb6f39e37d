//! What a load is to do, before anything is sent: when requests are due, how long they are, when it has said enough. Pure.
//!
//! [`Arrivals`] says when, [`Length`] how long, [`Warmup`] what is not counted, [`Stop`] when it is over. [`Schedule`] puts the first two
//! together into [`Request`]s, one after the other; [`Course`] follows a load as it goes and says what comes next. The same seed gives
//! the same requests on every machine. Nothing here knows of sockets, clocks or engines.

mod arrivals;
mod batches;
mod corpus;
mod course;
mod length;
mod pattern;
mod precision;
mod profile;
mod schedule;
mod stop;
mod stream;
mod trace;
mod warmup;

pub use arrivals::Arrivals;
pub use corpus::{Corpus, Written};
pub use course::{Course, End};
pub use length::{Length, LognormalLength, NormalLength, Spread};
pub use pattern::Pattern;
pub use precision::{Metric, Precision, Statistic};
pub use profile::Profile;
pub use schedule::{Request, Schedule, Sizes};
pub use stop::Stop;
pub use trace::{Arrival, Trace};
pub use warmup::Warmup;

/// A load as it is meant to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// When requests come.
    pub arrivals: Arrivals,
    /// How long they are.
    pub sizes: Sizes,
    /// What of it is in no figure.
    pub warmup: Warmup,
    /// When it is over.
    pub stop: Stop,
}
