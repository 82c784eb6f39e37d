//! The record of one request of a load: token counts, timestamps and outcome. Pure.

use std::fmt;
use std::time::Duration;

use super::decode::Counts;

/// How a request of a load ended. Every issued request ends in exactly one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The stream ended as its protocol says, without an error event. The token counts are not checked here.
    Completed,
    /// The request failed.
    Failed(Failure),
    /// The request was still in flight when the load ended.
    CutOff,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure; failures are counted by it.
    pub form: FailureForm,
    /// The engine's message, if it gave one.
    pub message: String,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureForm {
    /// A non-2xx status, including 429.
    Status(u16),
    /// An error event inside a stream with status 200.
    InStream,
    /// The connection was reset, or closed before the response was complete.
    Broken,
    /// No connection could be made.
    Unreachable,
    /// Unfinished at its deadline.
    Deadline,
    /// The stream ended without the protocol's end marker, or empty.
    EndedEarly,
    /// The response is not an event stream.
    Malformed,
}

/// The name by which failures are counted: `status_429`, `in_stream`, …
impl fmt::Display for FailureForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureForm::Status(status) => write!(f, "status_{status}"),
            FailureForm::InStream => f.write_str("in_stream"),
            FailureForm::Broken => f.write_str("broken"),
            FailureForm::Unreachable => f.write_str("unreachable"),
            FailureForm::Deadline => f.write_str("deadline"),
            FailureForm::EndedEarly => f.write_str("ended_early"),
            FailureForm::Malformed => f.write_str("malformed"),
        }
    }
}

/// One request of a load. All times are durations since the start of the load, by one monotonic clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Order of issue, from 0.
    pub index: u64,
    /// Sent during the warm-up; not included in statistics.
    pub warmup: bool,
    /// Requested prompt tokens.
    pub input: u64,
    /// Requested output tokens.
    pub output: u64,
    /// When the request was due: by the arrival pattern (open loop), or when its slot became free (closed loop).
    pub scheduled: Duration,
    /// When its first byte was written to the connection.
    pub sent: Duration,
    /// First byte of the response body.
    pub first_byte: Option<Duration>,
    /// First event with text or tokens.
    pub first_token: Option<Duration>,
    /// Last event with text or tokens.
    pub last_token: Option<Duration>,
    /// When the request ended, for whatever reason.
    pub ended: Duration,
    /// ITL: times between events with text or tokens, in milliseconds.
    pub itl_ms: Vec<f32>,
    /// Number of events with text or tokens.
    pub events: u64,
    /// Tokens carried by events, if every event stated its number.
    pub tokens_seen: Option<u64>,
    /// Token counts reported by the engine.
    pub counts: Counts,
    /// The full text, if it was kept.
    pub text: Option<String>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
}
