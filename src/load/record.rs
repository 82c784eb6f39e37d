//! The record of one request of a load (token counts, timestamps, outcome), and its JSON line. Pure.
//!
//! All statistics can be recomputed from the lines. Times are seconds since the start of the load, exact to the
//! nanosecond; gaps are milliseconds. Missing values are `null`.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::framing::Counts;
use crate::fault::{Fault, Result};
use crate::outside;

/// How a request of a load ended. Every issued request ends in exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The stream ended as its protocol says, without an error event. The token counts are not checked here.
    #[default]
    Completed,
    /// The request failed.
    Failed(Box<Failure>),
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
    /// When a rejected request may be sent again, by the server's `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl RequestOutcome {
    /// A failure with the engine's message.
    pub fn failed(form: FailureForm, message: impl Into<String>) -> Self {
        Self::Failed(Box::new(Failure {
            form,
            message: message.into(),
            retry_after: None,
        }))
    }
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
    /// When its first byte was written to the connection; of a request that was rejected and sent again, the last time.
    #[serde(serialize_with = "seconds")]
    pub sent: Duration,
    /// How often the server rejected it (429 or 503) before `sent`, and for how long it waited since it was first sent.
    pub rejections: u32,
    /// See `rejections`.
    #[serde(serialize_with = "seconds")]
    pub waited: Duration,
    /// First byte of the response body.
    #[serde(serialize_with = "seconds_if_any")]
    pub first_byte: Option<Duration>,
    /// First event with text or tokens.
    #[serde(serialize_with = "seconds_if_any")]
    pub first_token: Option<Duration>,
    /// First event with text that a user sees: no thought, and no argument of a tool call.
    #[serde(serialize_with = "seconds_if_any")]
    pub first_visible: Option<Duration>,
    /// Last event with text or tokens.
    #[serde(serialize_with = "seconds_if_any")]
    pub last_token: Option<Duration>,
    /// When the request ended: at the last event of a whole answer, however long its connection stayed open.
    #[serde(serialize_with = "seconds")]
    pub ended: Duration,
    /// ITL: times between events with text or tokens, in milliseconds. Negative if the clock went back.
    #[serde(rename = "gaps_ms")]
    pub itl_ms: Vec<f32>,
    /// Number of events with text or tokens.
    pub events: u32,
    /// Number of events with text that a user sees.
    pub visible_events: u32,
    /// Tokens carried by events, if every event stated its number.
    pub tokens_seen: Option<u32>,
    /// Tokens carried by the first event, if it stated them.
    pub first_tokens: Option<u32>,
    /// Tokens carried by each later event, if every event stated them and not all of these had one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later_tokens: Vec<u32>,
    /// Bytes of text in all events, and in the first.
    pub text_bytes: u32,
    /// See `text_bytes`.
    pub first_bytes: u32,
    /// Output tokens that the engine says it does not show.
    pub reasoning: Option<u32>,
    /// Token counts reported by the engine.
    #[serde(rename = "counted")]
    pub counts: Counts,
    /// The full text, if it was kept.
    #[serde(skip)]
    pub text: Option<String>,
    /// The engine's finish reason. Where a whole answer had none: `length`, or `stop` if it is shorter than requested.
    pub finish: Option<Cow<'static, str>>,
    /// The engine gave no finish reason.
    pub no_finish: bool,
    /// The server held the connection open after the last event, and the client closed it.
    pub held_open: bool,
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

    /// Time to the first text that a user sees, from `from`.
    pub fn first_visible_ms(&self, from: Duration) -> Option<f64> {
        milliseconds(from, self.first_visible?)
    }

    /// TPOT: (E2EL − TTFT) / the tokens that came after the first event, of `output` in all: one less than `output` if
    /// each event carries one token, as in vLLM's bench. `None` if none came after it, or if it is not known how many.
    pub fn tpot_ms(&self, output: u64) -> Option<f64> {
        let rest = self.after_first(output).likely.filter(|rest| *rest > 0.0)?;
        Some(milliseconds(self.first_token?, self.last_token?)? / rest)
    }

    /// The lowest and the highest TPOT that the answer may have had. `None` if no token came after the first event.
    pub fn tpot_bounds(&self, output: u64) -> Option<[f64; 2]> {
        let AfterFirst { least, most, .. } = self.after_first(output);
        let span = milliseconds(self.first_token?, self.last_token?)?;
        (least > 0).then(|| [span / most as f64, span / least as f64])
    }

    /// How many of `output` tokens came after the first event.
    pub(super) fn after_first(&self, output: u64) -> AfterFirst {
        let streamed = output.saturating_sub(self.unstreamed());
        if let (Some(seen), Some(first)) = (self.tokens_seen, self.first_tokens)
            && u64::from(seen) <= output
        {
            return AfterFirst::known(u64::from(seen.saturating_sub(first)));
        }
        let (least, most) = (u64::from(self.events.saturating_sub(1)), streamed.saturating_sub(1));
        if most <= least {
            return AfterFirst::known(most);
        }
        let (least_rest, most_rest) = (least as f64, most as f64);
        let bytes = f64::from(self.text_bytes);
        let bundled = bytes >= BUNDLE_BYTES * f64::from(self.events) && bytes >= TOKEN_BYTES * streamed as f64;
        let likely = if most_rest <= FEW_MORE * least_rest {
            Some((least_rest * most_rest).sqrt())
        } else if bundled && least > 0 {
            let after = 1.0 - f64::from(self.first_bytes) / bytes;
            Some((streamed as f64 * after).clamp(least_rest, most_rest))
        } else {
            None
        };
        AfterFirst { least, most, likely }
    }

    /// Times between tokens, in milliseconds: a gap before several tokens is shared by them, and tokens of one event have
    /// no gap between them to be seen. `None` if it is not known which event carried how many.
    pub fn token_gaps_ms(&self, output: u64) -> Option<Cow<'_, [f32]>> {
        if self.tokens_seen.is_none() || self.later_tokens.is_empty() {
            let AfterFirst { least, most, .. } = self.after_first(output);
            let one_each = least == most && most == self.itl_ms.len() as u64;
            return one_each.then_some(Cow::Borrowed(self.itl_ms.as_slice()));
        }
        // A server may state more tokens than were requested.
        if self.tokens_seen.is_none_or(|seen| u64::from(seen) > self.output) {
            return None;
        }
        let mut gaps = Vec::new();
        let mut waited = 0.0;
        for (gap, tokens) in self.itl_ms.iter().zip(&self.later_tokens) {
            waited += gap;
            if *tokens > 0 {
                gaps.resize(gaps.len() + *tokens as usize, waited / *tokens as f32);
                waited = 0.0;
            }
        }
        Some(Cow::Owned(gaps))
    }

    /// The output tokens read so far: by the engine's count, by the counts in events, or one for each event.
    pub(super) fn produced(&self) -> u64 {
        let streamed = || u64::from(self.tokens_seen.unwrap_or(self.events));
        self.counts.output.unwrap_or_else(streamed)
    }

    /// Output tokens that no event carried, as far as the engine states them. Thoughts that are streamed are events.
    pub fn unstreamed(&self) -> u64 {
        if self.events > self.visible_events {
            0
        } else {
            self.reasoning.map_or(0, u64::from)
        }
    }

    /// Whether the engine counted output tokens but sent none: thoughts, or tokens without text.
    pub fn is_all_hidden(&self) -> bool {
        let counted = self.counts.output.filter(|output| *output > 0);
        let whole = counted.is_some_and(|output| self.output > 0 && output >= self.output);
        self.events == 0 && (whole || counted.is_some() && self.reasoning.is_some_and(|tokens| tokens > 0))
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
            first_visible: self.first_visible.map(&to),
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

/// An event with at least this many bytes of text carries several tokens: a token has three to five bytes.
const BUNDLE_BYTES: f64 = 6.0;
/// Fewer bytes of text for each token mean that tokens came without text.
const TOKEN_BYTES: f64 = 2.5;
/// If the most is at most this many times the least, a value between them is near enough.
const FEW_MORE: f64 = 1.1;

/// How many tokens came after an answer's first event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AfterFirst {
    /// If all tokens beyond one for each event were in the first.
    pub(super) least: u64,
    /// If the first event had one.
    pub(super) most: u64,
    /// As stated by the events, or as their text shows; `None` if it is not known.
    pub(super) likely: Option<f64>,
}

impl AfterFirst {
    fn known(tokens: u64) -> Self {
        Self {
            least: tokens,
            most: tokens,
            likely: Some(tokens as f64),
        }
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

/// Longest line of a file of requests: an interval for each of millions of tokens.
const MAX_LINE: u64 = 64 << 20;

/// The lines of a file of requests, each with the fields of `T`; `None` for a line that is no request.
pub fn request_lines<T: DeserializeOwned>(mut file: impl BufRead) -> impl Iterator<Item = io::Result<Option<T>>> {
    let mut text = Vec::new();
    std::iter::from_fn(move || {
        text.clear();
        match outside::line(&mut file, &mut text, MAX_LINE) {
            Ok(0) => None,
            Ok(_) => Some(Ok(serde_json::from_slice(&text).ok())),
            Err(error) => Some(Err(error)),
        }
    })
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
            "repeat": 2, "index": 3, "warmup": false, "input": 8, "output": 4, "scheduled": 0.005, "sent": 0.01, "rejections": 0,
            "waited": 0.0, "first_byte": null, "first_token": 0.03, "first_visible": null, "last_token": null, "ended": 0.0,
            "gaps_ms": [12.5], "events": 0, "visible_events": 0, "tokens_seen": null, "first_tokens": null, "text_bytes": 0,
            "first_bytes": 0, "reasoning": null, "counted": { "input": null, "output": null }, "finish": null, "no_finish": false,
            "held_open": false, "outcome": "completed", "failure": null,
        });
        assert_eq!(line(&record), expected);
        record.text = Some("a\nb".to_owned());
        record.outcome = RequestOutcome::failed(FailureForm::Status(429), "busy");
        let failed = line(&record);
        assert_eq!(failed["failure"], json!({ "form": "status_429", "message": "busy" }));
        assert_eq!(
            (&failed["outcome"], &failed["text"]),
            (&json!("failed"), &json!("a\nb"))
        );
    }

    /// An answer: events, bytes of each, stated tokens of the first and of all, output tokens, thoughts of these that were
    /// not streamed.
    fn answer(events: u32, bytes: u32, stated: Option<(u32, u32)>, reasoning: Option<u32>) -> RequestRecord {
        RequestRecord {
            first_token: Some(Duration::from_millis(100)),
            last_token: Some(Duration::from_millis(100 + 24 * u64::from(events - 1))),
            events,
            visible_events: events,
            text_bytes: bytes * events,
            first_bytes: bytes,
            first_tokens: stated.map(|stated| stated.0),
            tokens_seen: stated.map(|stated| stated.1),
            reasoning,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn tpot_divides_by_the_tokens_after_the_first_event() {
        for (name, record, output, tpot) in [
            ("one each", answer(20, 4, None, None), 20, Some(24.0)),
            (
                "one each, as stated",
                answer(20, 4, Some((1, 20)), None),
                20,
                Some(24.0),
            ),
            (
                "two each, as stated",
                answer(10, 8, Some((2, 20)), None),
                20,
                Some(12.0),
            ),
            ("two each, by their text", answer(10, 8, None, None), 20, Some(12.0)),
            (
                "many first, as counted",
                answer(20, 4, Some((81, 100)), None),
                100,
                Some(24.0),
            ),
            (
                "thoughts before, as counted in the end",
                answer(20, 4, None, Some(80)),
                100,
                Some(24.0),
            ),
            ("thoughts before, not stated", answer(20, 4, None, None), 100, None),
            ("all at once", answer(1, 80, None, None), 20, None),
            ("one token", answer(1, 4, None, None), 1, None),
            (
                "parts of tokens",
                answer(21, 4, None, None),
                20,
                Some(24.0 * 20.0 / 19.0),
            ),
        ] {
            let got = record.tpot_ms(output);
            let near = got.zip(tpot).is_some_and(|(got, tpot)| (got - tpot).abs() < 1e-9);
            assert!(near || got.is_none() && tpot.is_none(), "{name}: {got:?}");
        }
        let unknown = answer(20, 4, None, None).tpot_bounds(100).unwrap();
        assert_eq!(unknown.map(|bound| bound.round()), [5.0, 24.0]);
        let an_end_without_text = answer(20, 4, None, None).tpot_ms(21).unwrap();
        assert!((22.8..24.0).contains(&an_end_without_text), "{an_end_without_text}");
    }
}
