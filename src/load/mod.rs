//! Load generation: the plan of a load, the client that sends requests and reads streamed responses, and statistics.
//!
//! Independent of engines: `engine::protocol` decodes the events of each protocol through the [`Decode`] trait.

mod answer;
mod client;
mod decode;
pub mod engine_side;
mod jsonl;
mod lines;
mod ndjson;
pub mod plan;
mod record;
mod sse;
pub mod stats;
mod stream;
mod timing;

pub use answer::{EngineDeath, LoadAnswer, LoadRepeats, PrecisionReached, WarmupCounts};
pub use client::{ClientHealth, Clock, Control, Job, LoadConfig, LoadRun, RequestSource, Slots, Step, run_load};
pub use decode::{Counts, Decode, Framing, StreamEvent};
pub use ndjson::Ndjson;
pub use record::{Failure, FailureForm, Outcome, Record};
pub use sse::{Sse, SseEvent};
pub use stats::Summary;
pub use stream::{StreamEnd, StreamRequest, StreamResponse, send_streaming};
pub use timing::Timing;
