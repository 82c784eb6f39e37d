//! Load generation: the plan of a load, the client that sends requests and reads streamed responses, and statistics.
//!
//! Independent of engines: `engine::protocol` decodes the events of each protocol through the [`Decode`] trait.

mod answer;
mod client;
pub mod engine_side;
mod framing;
pub mod plan;
mod record;
pub mod stats;

pub use answer::{EngineDeath, LoadAnswer, LoadRepeats, PrecisionReached, WarmupCounts};
pub use client::{
    BuildJob, ClientHealth, Clock, Control, Job, LoadConfig, LoadRun, RequestSource, Slots, Step, read_response,
    run_load,
};
pub use framing::{Counts, Decode, Framing, StreamEvent};
pub use record::{Failure, FailureForm, Outcome, Record};
pub use stats::Summary;
