//! Requests in time: streaming, SSE, time stamps as bytes arrive, per-token timing, percentiles.
//!
//! What a protocol's events mean is decoded by `engine::protocol` behind the [`Decode`] trait; nothing of an engine is here.

mod closed;
mod decode;
mod lines;
mod ndjson;
mod sse;
mod stats;
mod stream;
mod timing;

pub use closed::{Loop, Make, Tally, closed};
pub use decode::{Counts, Decode, Framing, Piece};
pub use ndjson::Ndjson;
pub use sse::{Sse, SseEvent};
pub use stats::Summary;
pub use stream::{Answer, Ask, End, ask};
pub use timing::Timing;
