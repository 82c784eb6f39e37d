//! One request in flight: unwritten bytes, what was read of the response, and timestamps. No I/O.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::QueuedRequest;
use super::http1::Response;
use crate::load::framing::{Counts, Decode, EventReader, Held, StreamEvent};
use crate::load::record::{Failure, FailureForm, RequestOutcome, RequestRecord};

/// How long to wait for the end of the body after the last event.
const LINGER: Duration = Duration::from_millis(200);

/// Bytes kept of a body without events, and characters of it shown in an error message.
const MAX_BEGINNING: usize = 16 << 10;
const MAX_SHOWN: usize = 120;

/// Maximum number of bytes kept of an error response's body.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Upper limit of the preallocated capacity for inter-token latencies.
const MAX_ITL_CAPACITY: u64 = 1 << 16;

/// Tokens that a chat template and a system message may add to a prompt.
const MAX_ADDED: u64 = 1 << 16;

/// Allowance above twice the requested tokens. A stream with more does not end by itself.
const MAX_MORE: u64 = 1024;

/// Finish reasons of requests that the engine aborted.
const ABORT_REASONS: [&str; 3] = ["abort", "error", "cancelled"];

/// An issued request and its response.
pub(super) struct Exchange {
    wire: Bytes,
    written: usize,
    response: Response,
    events: EventReader,
    /// Start of the load; the record's times are relative to it.
    began: Instant,
    /// When it could have been sent: when it was due and had a slot.
    pub(super) ready: Instant,
    pub(super) sent: Option<Instant>,
    pub(super) timeout: Duration,
    /// When it must be complete. Shortened once only the end of the body is missing.
    pub(super) deadline: Instant,
    /// It was issued on a connection that the server may have closed at that moment because it was idle.
    pub(super) on_idle: bool,
    state: ResponseState,
}

/// The part of the response read so far.
struct ResponseState {
    record: RequestRecord,
    decoder: Box<dyn Decode>,
    error: Option<String>,
    /// Start of a body without events, or of the body of an error status.
    beginning: Vec<u8>,
    any_event: bool,
    malformed: Option<String>,
    last: bool,
    /// Bytes of the request.
    request: u64,
    /// An upper bound of the tokens in the events so far.
    most_tokens: u64,
    held: Held,
}

impl Exchange {
    /// `began` is the start of the load; the body of the job is the whole request.
    pub(super) fn new(
        index: u64,
        (began, scheduled, ready): (Instant, Instant, Instant),
        keep_text: bool,
        held: &Held,
        job: QueuedRequest,
    ) -> Self {
        let gaps = usize::try_from(job.output.min(MAX_ITL_CAPACITY)).unwrap_or_default();
        let record = RequestRecord {
            index,
            input: job.input,
            output: job.output,
            scheduled: scheduled.saturating_duration_since(began),
            itl_ms: Vec::with_capacity(gaps),
            tokens_seen: Some(0),
            text: keep_text.then(String::new),
            ..RequestRecord::default()
        };
        Self {
            written: 0,
            response: Response::default(),
            events: EventReader::new(job.decoder.framing(), held.clone()),
            began,
            ready,
            sent: None,
            timeout: job.timeout,
            deadline: ready + job.timeout,
            on_idle: false,
            state: ResponseState {
                record,
                decoder: job.decoder,
                error: None,
                beginning: Vec::new(),
                any_event: false,
                malformed: None,
                last: false,
                request: job.body.len() as u64,
                most_tokens: 0,
                held: held.clone(),
            },
            wire: job.body,
        }
    }

    pub(super) fn index(&self) -> u64 {
        self.state.record.index
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.wire[self.written..]
    }

    /// Called when the first byte is written. Overwrites the time of an earlier attempt on another connection.
    pub(super) fn start(&mut self, now: Instant) {
        self.written = 0;
        self.sent = Some(now);
        self.deadline = now + self.timeout;
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        if !self.on_idle {
            self.free_sent();
        }
    }

    /// Frees the request once it cannot be resent, so that a long prompt is not kept while the response is read.
    fn free_sent(&mut self) {
        if self.written == self.wire.len() {
            self.wire = Bytes::new();
            self.written = 0;
        }
    }

    /// Whether an event with text or tokens has arrived.
    pub(super) fn has_token(&self) -> bool {
        self.state.record.first_token.is_some()
    }

    /// Whether no byte of a response has arrived.
    pub(super) fn unanswered(&self) -> bool {
        !self.response.started
    }

    /// Feeds response bytes read at `at`. Returns whether the response is over.
    pub(super) fn feed(&mut self, bytes: &[u8], at: Instant) -> bool {
        self.free_sent();
        let since = at.saturating_duration_since(self.began);
        let Self {
            response,
            events,
            state,
            ..
        } = self;
        let pushed = response.push(bytes, |status, body| {
            state.record.first_byte.get_or_insert(since);
            let success = is_success(status);
            if !success || !state.any_event {
                let most = if success { MAX_BEGINNING } else { MAX_ERROR_BODY };
                let free = most - state.beginning.len();
                state.beginning.extend_from_slice(&body[..free.min(body.len())]);
            }
            if !success {
                return;
            }
            if let Err(fault) = events.push(body, |name, data| state.event(name, data, since)) {
                state.malformed.get_or_insert(fault.message);
            }
            if state.any_event {
                state.beginning = Vec::new();
            }
        });
        if let Err(error) = pushed {
            state.malformed.get_or_insert(error);
        }
        if state.last && !response.done() {
            self.deadline = self.deadline.min(at + LINGER);
        }
        self.state.malformed.is_some() || self.response.done()
    }

    /// The connection was closed: returns whether that completes the response.
    pub(super) fn close(&mut self) -> bool {
        self.response.close()
    }

    /// Whether the connection can carry another request.
    pub(super) fn connection_reusable(&self) -> bool {
        self.response.reusable() && self.unwritten().is_empty() && self.state.malformed.is_none()
    }

    /// The record of a complete response.
    pub(super) fn complete(mut self, now: Instant) -> RequestRecord {
        let since = now.saturating_duration_since(self.began);
        let Self { events, state, .. } = &mut self;
        // Nothing after a malformed part can be trusted.
        if state.malformed.is_none() {
            if let Err(fault) = events.finish(|name, data| state.event(name, data, since)) {
                state.malformed = Some(fault.message);
            }
            state.read_error();
        }
        let outcome = self.state.outcome(&self.response);
        self.into_record(now, outcome)
    }

    /// The record of a request whose connection failed. Errors in the content of the events take precedence over the
    /// connection's failure.
    pub(super) fn broken(self, now: Instant, form: FailureForm, message: String) -> RequestRecord {
        if self.state.last || self.state.error.is_some() || self.state.malformed.is_some() {
            return self.complete(now);
        }
        let outcome = match self.response.status {
            Some(status) if !is_success(status) => self.state.outcome(&self.response),
            _ => RequestOutcome::Failed(Failure { form, message }),
        };
        self.into_record(now, outcome)
    }

    /// The record of a request that was in flight when the load ended.
    pub(super) fn cut_off(self, now: Instant) -> RequestRecord {
        self.into_record(now, RequestOutcome::CutOff)
    }

    fn into_record(self, now: Instant, outcome: RequestOutcome) -> RequestRecord {
        let since = |moment: Instant| moment.saturating_duration_since(self.began);
        RequestRecord {
            // A request that never got a connection was not sent; use the time when it failed.
            sent: since(self.sent.unwrap_or(now)),
            ended: since(now),
            retry_after: self.response.retry_after,
            outcome,
            ..self.state.record
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The record of a response that arrives as these bytes, a few at a time, on a connection that then closes. For tests
/// of protocols.
pub fn read_response(decoder: Box<dyn Decode>, bytes: &[u8]) -> RequestRecord {
    let now = Instant::now();
    let job = QueuedRequest {
        at: None,
        body: Bytes::new(),
        decoder,
        timeout: Duration::ZERO,
        input: 0,
        output: 0,
    };
    let mut exchange = Exchange::new(0, (now, now, now), true, &Held::default(), job);
    let over = bytes.chunks(7).any(|part| exchange.feed(part, now));
    if over || exchange.close() {
        exchange.complete(now)
    } else {
        exchange.broken(now, FailureForm::Broken, "the connection was closed".to_owned())
    }
}

impl ResponseState {
    fn event(&mut self, name: &str, data: &str, at: Duration) {
        let text_bytes = |record: &RequestRecord| record.text.as_ref().map_or(0, String::len);
        let before = text_bytes(&self.record);
        let event = self.decoder.event(name, data, self.record.text.as_mut());
        self.any_event = true;
        let StreamEvent {
            content,
            tokens,
            most_tokens,
            finish,
            counts,
            last,
        } = match event {
            Ok(event) => event,
            Err(error) => {
                self.error.get_or_insert(error);
                return;
            }
        };
        self.last |= last;
        self.most_tokens = self.most_tokens.saturating_add(most_tokens);
        if self.record.text.is_some()
            && let Err(fault) = self.held.add(text_bytes(&self.record) - before)
        {
            self.malformed.get_or_insert(fault.message);
        }
        let record = &mut self.record;
        if content {
            if let Some(before) = record.last_token {
                record
                    .itl_ms
                    .push((at.saturating_sub(before).as_secs_f64() * 1e3) as f32);
            }
            record.first_token.get_or_insert(at);
            record.last_token = Some(at);
            record.events += 1;
            record.tokens_seen = record
                .tokens_seen
                .zip(tokens)
                .map(|(sum, more)| sum.saturating_add(more));
            if record.events > record.output.saturating_mul(2).saturating_add(MAX_MORE) {
                let (events, asked) = (record.events, record.output);
                self.malformed.get_or_insert_with(|| {
                    format!("the engine does not stop: it sent {events} events with tokens where {asked} tokens were asked for")
                });
            }
        }
        for (what, before, now) in [
            ("prompt", record.counts.input, counts.input),
            ("output", record.counts.output, counts.output),
        ] {
            if let (Some(before), Some(now)) = (before, now)
                && (now < before || (what == "prompt" && now > before && before > 0))
            {
                self.malformed.get_or_insert_with(|| {
                    format!("the engine counted {before} and then {now} tokens of the same {what}")
                });
            }
        }
        record.counts.input = counts.input.or(record.counts.input);
        record.counts.output = counts.output.or(record.counts.output);
        if finish.is_some() {
            record.finish = finish;
        }
    }

    /// Reads the error of a body that is JSON rather than a stream:
    /// `{"error": {"message": "CUDA out of memory"}}`. Some servers do not escape quoted text, so the body need not be
    /// valid JSON.
    fn read_error(&mut self) {
        let body = String::from_utf8_lossy(&self.beginning);
        let is_json = || serde_json::from_str::<IgnoredAny>(&body).is_ok();
        if !self.any_event && (body.trim_start().starts_with("{\"error\"") || is_json()) {
            self.error = self.decoder.event("", &body, None).err();
        }
    }

    /// The reason why the reported token counts cannot be true; `None` if they can.
    fn impossible_count(&self) -> Option<String> {
        let Counts { input, output } = self.record.counts;
        if let Some(output) = output.filter(|output| *output > self.most_tokens.saturating_mul(2)) {
            let most = self.most_tokens;
            return Some(format!(
                "the engine counted {output} tokens of output, and sent what can be {most} at most"
            ));
        }
        let input = input.filter(|input| *input > self.request.saturating_add(MAX_ADDED))?;
        let bytes = self.request;
        Some(format!(
            "the engine counted {input} tokens of input in a request of {bytes} bytes"
        ))
    }

    /// The outcome of a response that is complete, or complete enough.
    fn outcome(&self, response: &Response) -> RequestOutcome {
        let failed = |form, message: String| RequestOutcome::Failed(Failure { form, message });
        if let Some(status) = response.status.filter(|status| !is_success(*status)) {
            let body = String::from_utf8_lossy(&self.beginning);
            let message = match &response.location {
                Some(location) => format!("the server redirected to `{location}`; redirects are not followed"),
                None if body.trim().is_empty() => empty_body(status),
                None => body.into_owned(),
            };
            return failed(FailureForm::Status(status), message);
        }
        if let Some(error) = &self.error {
            return failed(FailureForm::InStream, error.clone());
        }
        if let Some(why) = &self.malformed {
            return failed(FailureForm::Malformed, why.clone());
        }
        if let Some(beginning) = self.non_event_body() {
            let message = if beginning.starts_with('{') {
                "the server does not stream: it answered with one JSON object".to_owned()
            } else {
                format!("the response is not an event stream; it begins with `{beginning}`")
            };
            return failed(FailureForm::Malformed, message);
        }
        match self.record.finish.as_deref() {
            Some(finish) if ABORT_REASONS.contains(&finish) => failed(
                FailureForm::InStream,
                format!("the engine ended the request: `{finish}`"),
            ),
            _ if self.record.events == 0 => failed(
                FailureForm::EndedEarly,
                "the stream ended without text or tokens".to_owned(),
            ),
            None => failed(
                FailureForm::EndedEarly,
                "the stream ended without a finish reason".to_owned(),
            ),
            Some(_) => match self.impossible_count() {
                Some(why) => failed(FailureForm::Malformed, why),
                None => RequestOutcome::Completed,
            },
        }
    }

    /// The start of a body that is not an event stream, such as an HTML page or a JSON object.
    fn non_event_body(&self) -> Option<String> {
        if self.any_event {
            return None;
        }
        let text = String::from_utf8_lossy(&self.beginning);
        let begins = |word: &str| text.trim_start().starts_with(word);
        if text.trim().is_empty() || [":", "data:", "event:", "id:", "retry:"].into_iter().any(begins) {
            return None;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        Some(words.join(" ").chars().take(MAX_SHOWN).collect())
    }
}

/// The message for an error status with an empty body.
fn empty_body(status: u16) -> String {
    let reason = reqwest::StatusCode::from_u16(status).ok();
    match reason.and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("{status} {reason} with an empty body"),
        None => format!("{status} with an empty body"),
    }
}
