//! One request of a load as it went: what was asked, the moments of its answer by one clock, and how it ended. Pure.

use std::fmt;
use std::time::Duration;

use super::decode::Counts;

/// How a request of a load ended. Every one that was issued ends in exactly one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The stream ended as its protocol has it, without an error inside. Whether the counts are those asked for is another question.
    Completed,
    /// It did not.
    Failed(Failure),
    /// It was still under way when the load was over.
    CutOff,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The form of the failure, by which failures are counted.
    pub form: FailureForm,
    /// In the engine's words where it has any.
    pub message: String,
}

/// The forms in which a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureForm {
    /// A status that is not success; 429 is one of them.
    Status(u16),
    /// An error inside a stream of status 200.
    InStream,
    /// The connection was reset, or ended within the answer.
    Broken,
    /// No connection could be made.
    Unreachable,
    /// Unfinished at its deadline.
    Deadline,
    /// The stream ended without the protocol's end, or with nothing in it.
    EndedEarly,
    /// What arrived is no stream of events.
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

/// One request of a load. All moments are times since the load's clock began, by one monotonic clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The order in which requests were issued, from 0.
    pub index: u64,
    /// Part of the warm-up: never in a figure.
    pub warmup: bool,
    /// Tokens of the prompt that was asked for.
    pub input: u64,
    /// Tokens asked for.
    pub output: u64,
    /// When it was due: by the arrival pattern, or, in a closed loop, when its slot became free.
    pub scheduled: Duration,
    /// When its first byte was handed to the connection.
    pub sent: Duration,
    /// The first byte of the body of the answer.
    pub first_byte: Option<Duration>,
    /// The first event that carries text or tokens.
    pub first_token: Option<Duration>,
    /// The last event that carries text or tokens.
    pub last_token: Option<Duration>,
    /// It ended, in whatever way.
    pub ended: Duration,
    /// Between events that carry text or tokens, in milliseconds.
    pub gaps_ms: Vec<f32>,
    /// Events that carried text or tokens.
    pub events: u64,
    /// Tokens that events carried, where each told how many.
    pub tokens_seen: Option<u64>,
    /// The engine's own counts.
    pub counts: Counts,
    /// The whole text, where it was to be kept.
    pub text: Option<String>,
    /// Why the generation ended, in the engine's words.
    pub finish: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
}
