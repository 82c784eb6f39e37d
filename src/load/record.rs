//! The record of one request of a load (token counts, timestamps, outcome), and its JSON line. Pure.
//!
//! All statistics can be recomputed from the lines. Times are seconds since the start of the load, exact to the
//! nanosecond; gaps are milliseconds. Missing values are `null`.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::framing::Counts;
use crate::fault::{Fault, Result};

/// How a request of a load ended. Every issued request ends in exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The stream ended as its protocol says, without an error event. The token counts are not checked here.
    #[default]
    Completed,
    /// The request failed.
    Failed(Failure),
    /// The request was still in flight when the load ended.
    CutOff,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

impl FailureForm {
    /// The HTTP status of a rejected request.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
}

impl Serialize for FailureForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name for counting failures: `status_429`, `in_stream`, …
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestRecord {
    /// Order of issue, from 0.
    pub index: u64,
    /// Sent during the warm-up; not included in statistics.
    pub warmup: bool,
    /// Requested prompt tokens.
    pub input: u64,
    /// Requested output tokens.
    pub output: u64,
    /// When the request was due: by the arrival pattern (open loop), or when its slot became free (closed loop).
    #[serde(serialize_with = "seconds")]
    pub scheduled: Duration,
    /// When its first byte was written to the connection.
    #[serde(serialize_with = "seconds")]
    pub sent: Duration,
    /// First byte of the response body.
    #[serde(serialize_with = "seconds_if_any")]
    pub first_byte: Option<Duration>,
    /// First event with text or tokens.
    #[serde(serialize_with = "seconds_if_any")]
    pub first_token: Option<Duration>,
    /// Last event with text or tokens.
    #[serde(serialize_with = "seconds_if_any")]
    pub last_token: Option<Duration>,
    /// When the request ended, for whatever reason.
    #[serde(serialize_with = "seconds")]
    pub ended: Duration,
    /// ITL: times between events with text or tokens, in milliseconds.
    #[serde(rename = "gaps_ms")]
    pub itl_ms: Vec<f32>,
    /// Number of events with text or tokens.
    pub events: u64,
    /// Tokens carried by events, if every event stated its number.
    pub tokens_seen: Option<u64>,
    /// Token counts reported by the engine.
    #[serde(rename = "counted")]
    pub counts: Counts,
    /// The full text, if it was kept.
    #[serde(skip)]
    pub text: Option<String>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// When a rejected request may be sent again, by the server's `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// How it ended.
    #[serde(skip)]
    pub outcome: RequestOutcome,
}

/// Latencies in milliseconds, as defined by vLLM's bench. `from` is when the request was sent (service time) or due
/// (response time).
impl RequestRecord {
    /// TTFT: from `from` to the first text or token.
    pub fn ttft_ms(&self, from: Duration) -> Option<f64> {
        milliseconds(from, self.first_token?)
    }

    /// E2E latency: from `from` to the last text or token; later usage events and `[DONE]` do not count.
    pub fn e2el_ms(&self, from: Duration) -> Option<f64> {
        milliseconds(from, self.last_token?)
    }

    /// TPOT: (E2EL − TTFT) / (tokens − 1). `None` for one token.
    pub fn tpot_ms(&self, output: u64) -> Option<f64> {
        let rest = output.checked_sub(1).filter(|rest| *rest > 0)?;
        Some(milliseconds(self.first_token?, self.last_token?)? / rest as f64)
    }

    /// When each event with text or tokens arrived.
    pub fn token_times(&self) -> impl Iterator<Item = Duration> {
        let mut after_ms = 0.0;
        self.first_token.into_iter().flat_map(move |first| {
            let later = self.itl_ms.iter().map(move |gap| {
                after_ms += f64::from(*gap);
                // An invalid sum of gaps counts as 0.
                first.saturating_add(Duration::try_from_secs_f64(after_ms / 1e3).unwrap_or_default())
            });
            std::iter::once(first).chain(later)
        })
    }

    /// Maps all times of the record to another clock.
    pub fn retimed(self, to: impl Fn(Duration) -> Duration) -> Self {
        Self {
            scheduled: to(self.scheduled),
            sent: to(self.sent),
            first_byte: self.first_byte.map(&to),
            first_token: self.first_token.map(&to),
            last_token: self.last_token.map(&to),
            ended: to(self.ended),
            ..self
        }
    }

    /// The reason for its failure, if it failed.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            RequestOutcome::Failed(failure) => Some(failure),
            RequestOutcome::Completed | RequestOutcome::CutOff => None,
        }
    }

    /// Whether the text ended because it reached the requested length, or the limit of the context.
    pub fn ended_at_length(&self) -> bool {
        matches!(self.finish.as_deref(), Some("length" | "limit" | "max_tokens"))
    }
}

/// Milliseconds between two times; `None` if `to` is before `from`.
fn milliseconds(from: Duration, to: Duration) -> Option<f64> {
    Some(to.checked_sub(from)?.as_secs_f64() * 1e3)
}

/// A record as a line of a load's file.
#[derive(Serialize)]
struct RecordLine<'a> {
    repeat: u64,
    #[serde(flatten)]
    record: &'a RequestRecord,
    outcome: &'static str,
    failure: Option<&'a Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl RequestRecord {
    /// The record as one line of JSON without a line end. `repeat` is the number of the repeated load, from 1.
    ///
    /// # Errors
    ///
    /// `internal` if the record cannot be serialized.
    pub fn to_line(&self, repeat: u64) -> Result<String> {
        let line = RecordLine {
            repeat,
            record: self,
            outcome: match self.outcome {
                RequestOutcome::Completed => "completed",
                RequestOutcome::Failed(_) => "failed",
                RequestOutcome::CutOff => "cut_off",
            },
            failure: self.failure(),
            text: self.text.as_deref(),
        };
        serde_json::to_string(&line).map_err(|error| Fault::internal(format!("cannot serialize a request: {error}")))
    }
}

fn seconds<S: Serializer>(moment: &Duration, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(moment.as_secs_f64())
}

fn seconds_if_any<S: Serializer>(moment: &Option<Duration>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    moment.map(|moment| moment.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn line_has_seconds_and_nulls() {
        let at = Duration::from_millis;
        let mut record = RequestRecord {
            index: 3,
            input: 8,
            output: 4,
            scheduled: at(5),
            sent: at(10),
            first_token: Some(at(30)),
            itl_ms: vec![12.5],
            ..RequestRecord::default()
        };
        let line = |record: &RequestRecord| serde_json::from_str::<Value>(&record.to_line(2).unwrap()).unwrap();
        let expected = json!({
            "repeat": 2, "index": 3, "warmup": false, "input": 8, "output": 4, "scheduled": 0.005, "sent": 0.01, "first_byte": null,
            "first_token": 0.03, "last_token": null, "ended": 0.0, "gaps_ms": [12.5], "events": 0, "tokens_seen": null,
            "counted": { "input": null, "output": null }, "finish": null, "outcome": "completed", "failure": null,
        });
        assert_eq!(line(&record), expected);
        record.text = Some("a\nb".to_owned());
        let (form, message) = (FailureForm::Status(429), "busy".to_owned());
        record.outcome = RequestOutcome::Failed(Failure { form, message });
        let failed = line(&record);
        assert_eq!(failed["failure"], json!({ "form": "status_429", "message": "busy" }));
        assert_eq!(
            (&failed["outcome"], &failed["text"]),
            (&json!("failed"), &json!("a\nb"))
        );
    }
}
