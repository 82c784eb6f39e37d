//! The record of one request of a load (token counts, timestamps, outcome), and its JSON line. Pure.
//!
//! All statistics can be recomputed from the lines. Times are seconds since the start of the load, exact to the
//! nanosecond; gaps are milliseconds. Missing values are `null`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::framing::Counts;
use crate::fault::{Fault, Result};

/// How a request of a load ended. Every issued request ends in exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The stream ended as its protocol says, without an error event. The token counts are not checked here.
    #[default]
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
#[derive(Clone, Debug, Default, PartialEq)]
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

/// Latencies in milliseconds, as defined by vLLM's bench. `from` is when the request was sent (service time) or due
/// (response time).
impl Record {
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

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Completed | Outcome::CutOff => None,
        }
    }

    /// Whether the text ended because it was as long as was asked for, or as the context allows.
    pub fn ended_at_length(&self) -> bool {
        matches!(self.finish.as_deref(), Some("length" | "limit" | "max_tokens"))
    }
}

/// Milliseconds between two times; `None` if `to` is before `from`.
fn milliseconds(from: Duration, to: Duration) -> Option<f64> {
    Some(to.checked_sub(from)?.as_secs_f64() * 1e3)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRecord {
    /// Number of the repeat, from 1.
    repeat: u64,
    index: u64,
    warmup: bool,
    /// Requested tokens.
    input: u64,
    output: u64,
    scheduled: f64,
    sent: f64,
    first_byte: Option<f64>,
    first_token: Option<f64>,
    last_token: Option<f64>,
    ended: f64,
    gaps_ms: Vec<f32>,
    events: u64,
    tokens_seen: Option<u64>,
    counted: Counts,
    finish: Option<String>,
    outcome: OutcomeName,
    failure: Option<Failed>,
    /// Only if texts were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeName {
    Completed,
    Failed,
    CutOff,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    /// `status_429`, `broken`, …
    form: String,
    message: String,
}

impl Record {
    /// Serializes the record to one line of JSON without a line end. `repeat` is the number of the repeated load, from
    /// 1.
    ///
    /// # Errors
    ///
    /// `internal` if the record cannot be serialized.
    pub fn to_line(&self, repeat: u64) -> Result<String> {
        let (outcome, failure) = match &self.outcome {
            Outcome::Completed => (OutcomeName::Completed, None),
            Outcome::CutOff => (OutcomeName::CutOff, None),
            Outcome::Failed(failure) => {
                let failed = Failed {
                    form: failure.form.to_string(),
                    message: failure.message.clone(),
                };
                (OutcomeName::Failed, Some(failed))
            }
        };
        let seconds = |moment: Option<Duration>| moment.map(|moment| moment.as_secs_f64());
        let line = JsonRecord {
            repeat,
            index: self.index,
            warmup: self.warmup,
            input: self.input,
            output: self.output,
            scheduled: self.scheduled.as_secs_f64(),
            sent: self.sent.as_secs_f64(),
            first_byte: seconds(self.first_byte),
            first_token: seconds(self.first_token),
            last_token: seconds(self.last_token),
            ended: self.ended.as_secs_f64(),
            gaps_ms: self.itl_ms.clone(),
            events: self.events,
            tokens_seen: self.tokens_seen,
            counted: self.counts,
            finish: self.finish.clone(),
            outcome,
            failure,
            text: self.text.clone(),
        };
        serde_json::to_string(&line).map_err(|error| Fault::internal(format!("cannot serialize a request: {error}")))
    }

    /// Parses a line written by [`Record::to_line`]; returns the number of the repeat and the record.
    ///
    /// # Errors
    ///
    /// `usage` if the line is invalid.
    pub fn from_line(line: &str) -> Result<(u64, Self)> {
        let line: JsonRecord = serde_json::from_str(line).map_err(|error| broken(&error.to_string()))?;
        let moment = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| broken(&format!("invalid time `{seconds}`")))
        };
        let outcome = match (line.outcome, line.failure) {
            (OutcomeName::Completed, None) => Outcome::Completed,
            (OutcomeName::CutOff, None) => Outcome::CutOff,
            (OutcomeName::Failed, Some(failed)) => Outcome::Failed(Failure {
                form: parse_form(&failed.form).ok_or_else(|| broken(&format!("unknown failure `{}`", failed.form)))?,
                message: failed.message,
            }),
            _ => return Err(broken("`outcome` and `failure` do not match")),
        };
        let record = Self {
            index: line.index,
            warmup: line.warmup,
            input: line.input,
            output: line.output,
            scheduled: moment(line.scheduled)?,
            sent: moment(line.sent)?,
            first_byte: line.first_byte.map(moment).transpose()?,
            first_token: line.first_token.map(moment).transpose()?,
            last_token: line.last_token.map(moment).transpose()?,
            ended: moment(line.ended)?,
            itl_ms: line.gaps_ms,
            events: line.events,
            tokens_seen: line.tokens_seen,
            counts: line.counted,
            text: line.text,
            finish: line.finish,
            outcome,
        };
        Ok((line.repeat, record))
    }
}

fn parse_form(name: &str) -> Option<FailureForm> {
    if let Some(status) = name.strip_prefix("status_") {
        return status.parse().ok().map(FailureForm::Status);
    }
    let forms = [
        FailureForm::InStream,
        FailureForm::Broken,
        FailureForm::Unreachable,
        FailureForm::Deadline,
        FailureForm::EndedEarly,
        FailureForm::Malformed,
    ];
    forms.into_iter().find(|form| form.to_string() == name)
}

fn broken(what: &str) -> Fault {
    Fault::usage(format!("invalid line: {what}")).hint("give `loads/<n>.jsonl` of a run's folder, as it was written")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment() -> impl Strategy<Value = Duration> {
        // Up to a day, to the nanosecond.
        (0_u64..86_400_000_000_000).prop_map(Duration::from_nanos)
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        let form = prop_oneof![
            (100_u16..600).prop_map(FailureForm::Status),
            Just(FailureForm::InStream),
            Just(FailureForm::Broken),
            Just(FailureForm::Unreachable),
            Just(FailureForm::Deadline),
            Just(FailureForm::EndedEarly),
            Just(FailureForm::Malformed),
        ];
        prop_oneof![
            Just(Outcome::Completed),
            Just(Outcome::CutOff),
            (form, ".*").prop_map(|(form, message)| Outcome::Failed(Failure { form, message })),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        let moments = (
            moment(),
            moment(),
            prop::option::of(moment()),
            prop::option::of(moment()),
            moment(),
        );
        let gaps = prop::collection::vec((0_u16..u16::MAX).prop_map(|sevenths| f32::from(sevenths) / 7.0), 0..5);
        let counts = (
            any::<u64>(),
            prop::option::of(any::<u64>()),
            prop::option::of(any::<u64>()),
        );
        let rest = (any::<bool>(), prop::option::of(".*"), outcome());
        (moments, gaps, counts, rest).prop_map(|(moments, gaps_ms, (index, input, output), (warmup, text, outcome))| {
            Record {
                index,
                warmup,
                input: index / 2,
                output: index / 3,
                scheduled: moments.0,
                sent: moments.1,
                first_byte: moments.2,
                first_token: moments.3,
                last_token: moments.2,
                ended: moments.4,
                events: gaps_ms.len() as u64,
                itl_ms: gaps_ms,
                tokens_seen: output,
                counts: Counts { input, output },
                finish: text.clone(),
                text,
                outcome,
            }
        })
    }

    proptest! {
        #[test]
        fn round_trip(record in record(), repeat in 1_u64..9) {
            let line = record.to_line(repeat).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Record::from_line(&line).unwrap(), (repeat, record));
        }
    }

    #[test]
    fn invalid_line_is_an_error() {
        for (line, word) in [("{}", "missing field"), ("", "EOF"), ("[1]", "invalid length")] {
            let fault = Record::from_line(line).unwrap_err();
            assert!(fault.message.contains(word), "{}", fault.message);
        }
    }
}
