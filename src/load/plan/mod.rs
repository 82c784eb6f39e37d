//! The plan of a load: when requests are due, how long they are, and when to stop. Pure.
//!
//! [`Arrivals`] determines the due times, [`Length`] the lengths, [`Warmup`] what is not measured, [`Stop`] the end.
//! [`Schedule`] combines the first two into a sequence of [`Request`]s; [`LoadProgress`] tracks a running load and
//! decides what comes next. The same seed gives the same requests on every machine. Nothing here depends on sockets,
//! clocks or engines.

mod arrivals;
mod batches;
mod corpus;
mod length;
mod pattern;
mod precision;
mod profile;
mod progress;
mod rng;
mod schedule;
mod stop;
mod trace;
mod warmup;

pub use arrivals::Arrivals;
pub use corpus::{Corpus, FilePrompt};
pub use length::{Distribution, Length, LognormalLength, NormalLength};
pub use pattern::Pattern;
pub use precision::{Metric, Precision, Statistic};
pub use profile::Profile;
pub use progress::{EndReason, LoadProgress};
pub use schedule::{Request, Schedule, Sizes};
pub use stop::Stop;
pub use trace::{Arrival, Trace};
pub use warmup::Warmup;

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
