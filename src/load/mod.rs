//! Requests in time: streaming, SSE, time stamps as bytes arrive, per-token timing, and what came of it in figures.
//!
//! What a protocol's events mean is decoded by `engine::protocol` behind the [`Decode`] trait; nothing of an engine is here.

mod decode;
mod drive;
pub mod figures;
pub mod joined;
mod jsonl;
mod lines;
mod ndjson;
pub mod plan;
mod record;
mod sse;
mod stream;
mod timing;

pub use decode::{Counts, Decode, Framing, Piece};
pub use drive::{Clock, Drive, Driven, Go, Job, Slots, Source, Step, Watch, drive};
pub use figures::Summary;
pub use ndjson::Ndjson;
pub use record::{Failure, FailureForm, Outcome, Record};
pub use sse::{Sse, SseEvent};
pub use stream::{Answer, Ask, End, ask};
pub use timing::Timing;
