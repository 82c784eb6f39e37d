//! One request in flight: unwritten bytes, what was read of the response, and timestamps. No I/O.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::http1::Response;
use super::{QueuedRequest, Rejection};
use crate::load::framing::{Counts, Decode, EventReader, Kept, StreamEvent, too_much};
use crate::load::record::{Failure, FailureForm, RequestOutcome, RequestRecord};
use crate::task::lock;

/// How much of an answer's end has come. An answer is whole from the first of these on, and what follows is waited for
/// a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AnswerEnd {
    /// It has the number of tokens that was asked for.
    Length,
    /// The finish reason.
    Finish,
    /// The finish reason and the token counts.
    Usage,
    /// The protocol's last event, or an error.
    Last,
}

impl AnswerEnd {
    /// How long to wait for what may follow: the end of the body, and before it the counts or the finish reason.
    fn linger(self) -> Duration {
        match self {
            Self::Length | Self::Finish => Duration::from_secs(2),
            Self::Usage | Self::Last => Duration::from_millis(200),
        }
    }
}

/// Bytes kept of a body without events, and characters of it shown in an error message.
const MAX_BEGINNING: usize = 16 << 10;
const MAX_SHOWN: usize = 120;

/// Finish reasons of nearly all engines, and those of llama.cpp's own protocol.
const USUAL_FINISHES: [&str; 4] = ["length", "stop", "eos", "word"];

/// Most characters kept of a finish reason, and of an error in a stream: both stay in the records of the load.
const MAX_FINISH: usize = 64;
const MAX_ERROR: usize = 4000;

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
    /// When it was first sent, if it was rejected and sent again.
    first_sent: Option<Instant>,
    pub(super) timeout: Duration,
    /// When it must be complete.
    pub(super) deadline: Instant,
    /// Until when to wait for what may follow a whole answer.
    lingers_until: Option<Instant>,
    /// It may be sent again if it is rejected.
    pub(super) retries: bool,
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
    /// When the newest event came that is part of the answer.
    newest: Option<Duration>,
    malformed: Option<String>,
    last: bool,
    /// Bytes of the request.
    request: u64,
    /// An upper bound of the tokens in the events so far.
    most_tokens: u64,
    kept: Kept,
}

impl Exchange {
    /// `began` is the start of the load; the body of the job is the whole request.
    pub(super) fn new(
        index: u64,
        (began, scheduled, ready): (Instant, Instant, Instant),
        keep_text: bool,
        kept: &Kept,
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
            events: EventReader::new(job.decoder.framing()),
            began,
            ready,
            sent: None,
            first_sent: None,
            timeout: job.timeout,
            deadline: ready + job.timeout,
            lingers_until: None,
            retries: false,
            on_idle: false,
            state: ResponseState {
                record,
                decoder: job.decoder,
                error: None,
                beginning: Vec::new(),
                any_event: false,
                newest: None,
                malformed: None,
                last: false,
                request: job.body.len() as u64,
                most_tokens: 0,
                kept: Kept::clone(kept),
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
        self.first_sent.get_or_insert(now);
        self.deadline = now + self.timeout;
    }

    /// When to give up waiting for it: at its deadline, or sooner once the answer is whole.
    pub(super) fn due(&self) -> Instant {
        self.lingers_until
            .map_or(self.deadline, |until| until.min(self.deadline))
    }

    /// How much of the answer's end has come; `None` if the answer is not whole.
    pub(super) fn end(&self) -> Option<AnswerEnd> {
        self.state.end()
    }

    /// Prepares a rejected request for being sent again at `at`.
    pub(super) fn again(&mut self, at: Instant) {
        self.response = Response::default();
        self.state.beginning = Vec::new();
        self.state.record.first_byte = None;
        self.state.record.rejections += 1;
        self.ready = at;
        self.on_idle = false;
    }

    /// The response, if it is complete and rejects the request for now.
    pub(super) fn rejection(&self) -> Option<Rejection> {
        let status = self.response.status.filter(|status| matches!(status, 429 | 503))?;
        let may = self.retries && self.response.done() && !self.wire.is_empty() && self.state.malformed.is_none();
        may.then(|| Rejection {
            status,
            retry_after: self.response.retry_after,
            body: String::from_utf8_lossy(&self.state.beginning).into_owned(),
        })
    }

    /// How often it was rejected before.
    pub(super) fn rejections(&self) -> u32 {
        self.state.record.rejections
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        if !self.on_idle && !self.retries {
            self.free_sent();
        }
    }

    /// Frees the request once it cannot be resent, so that a long prompt is not kept while the response is read.
    fn free_sent(&mut self) {
        let accepted = self.response.status.is_some_and(is_success);
        if self.written == self.wire.len() && (accepted || !self.retries) {
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
        self.lingers_until = state.end().map(|end| at + end.linger());
        self.free_sent();
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
        let Self {
            events,
            state,
            response,
            ..
        } = &mut self;
        // A whole answer may be given up in the middle of an event that follows it.
        let ends_in_event = state.end().is_some() && state.error.is_none() && !response.done();
        // Nothing after a malformed part can be trusted.
        if state.malformed.is_none() {
            if let Err(fault) = events.finish(|name, data| state.event(name, data, since)) {
                state.malformed = Some(fault.message);
            }
            if ends_in_event {
                state.error = None;
            }
            state.read_error();
        }
        self.state.settle();
        let outcome = self.state.outcome(&self.response);
        self.into_record(now, outcome)
    }

    /// The record of a whole answer whose body does not end.
    pub(super) fn held_open(mut self, now: Instant) -> RequestRecord {
        self.state.record.held_open = true;
        self.complete(now)
    }

    /// The record of a request whose connection failed. A whole answer is none the less, and errors in the content of the
    /// events take precedence over the connection's failure.
    pub(super) fn broken(self, now: Instant, form: FailureForm, message: String) -> RequestRecord {
        if self.end().is_some() || self.state.malformed.is_some() {
            return self.complete(now);
        }
        let outcome = match self.response.status {
            Some(status) if !is_success(status) => self.state.outcome(&self.response),
            _ => RequestOutcome::failed(form, message),
        };
        self.into_record(now, outcome)
    }

    /// The record of a request that was waited for until [`due`](Self::due).
    pub(super) fn given_up(self) -> RequestRecord {
        let due = self.due();
        if self.end().is_some() {
            return self.held_open(due);
        }
        self.broken(due, FailureForm::Deadline, "not finished before its timeout".to_owned())
    }

    /// The record of a request that was in flight when the load ended.
    pub(super) fn cut_off(self, now: Instant) -> RequestRecord {
        self.into_record(now, RequestOutcome::CutOff)
    }

    fn into_record(self, now: Instant, outcome: RequestOutcome) -> RequestRecord {
        let since = |moment: Instant| moment.saturating_duration_since(self.began);
        let sent = self.sent.unwrap_or(now);
        let rejected = self.state.record.rejections > 0;
        let first_sent = self.first_sent.filter(|_| rejected).unwrap_or(sent);
        RequestRecord {
            // A request that never got a connection was not sent; use the time when it failed.
            sent: since(sent),
            waited: sent.saturating_duration_since(first_sent),
            // Events after a whole answer are not part of it.
            ended: self
                .state
                .newest
                .filter(|_| self.end().is_some())
                .unwrap_or_else(|| since(now)),
            outcome,
            ..self.state.record
        }
    }
}

/// A finish reason to keep. A load keeps one for each request, so the usual ones are not copied, and long ones are cut.
fn finish_reason(text: String) -> Cow<'static, str> {
    if let Some(usual) = USUAL_FINISHES.iter().find(|usual| **usual == text) {
        return Cow::Borrowed(usual);
    }
    Cow::Owned(shortened(text, MAX_FINISH))
}

/// At most `most` characters of a text, without the memory of the rest.
fn shortened(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// A count that a server states, as a record keeps it.
fn at_most(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The record of a response that arrives as these bytes, a few at a time, on a connection that then closes. For tests
/// of protocols.
pub fn read_response(decoder: Box<dyn Decode>, bytes: &[u8]) -> RequestRecord {
    let job = QueuedRequest {
        at: None,
        body: Bytes::new(),
        decoder,
        timeout: Duration::ZERO,
        input: 0,
        output: 0,
    };
    let parts: Vec<(Duration, &[u8])> = bytes.chunks(7).map(|part| (Duration::ZERO, part)).collect();
    read_recorded(job, &parts, Some(Duration::ZERO))
}

/// The record of a request that is sent at time 0, and of the response that arrives in these parts at these times, on a
/// connection that closes at a time or stays open. By a clock of its own: it takes no time. For tests.
pub fn read_recorded(job: QueuedRequest, parts: &[(Duration, &[u8])], closes: Option<Duration>) -> RequestRecord {
    let began = Instant::now();
    let mut exchange = Exchange::new(0, (began, began, began), true, &Kept::default(), job);
    exchange.start(began);
    exchange.advance(exchange.unwritten().len());
    for (at, part) in parts {
        let at = began + *at;
        if exchange.due() < at {
            return exchange.given_up();
        }
        if exchange.feed(part, at) {
            return exchange.complete(at);
        }
    }
    match closes
        .map(|closes| began + closes)
        .filter(|closes| *closes <= exchange.due())
    {
        Some(closes) if exchange.close() => exchange.complete(closes),
        Some(closes) => exchange.broken(closes, FailureForm::Broken, "the connection was closed".to_owned()),
        None => exchange.given_up(),
    }
}

impl ResponseState {
    fn event(&mut self, name: &str, data: &str, at: Duration) {
        if self.last {
            return;
        }
        let text_bytes = |record: &RequestRecord| record.text.as_ref().map_or(0, String::len);
        let before = text_bytes(&self.record);
        let event = self.decoder.event(name, data, self.record.text.as_mut());
        self.any_event = true;
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                self.newest = Some(at);
                self.error.get_or_insert(shortened(error, MAX_ERROR));
                return;
            }
        };
        self.last |= event.last;
        self.most_tokens = self.most_tokens.saturating_add(event.most_tokens);
        if self.record.text.is_some()
            && let Err(fault) = lock(&self.kept).add(text_bytes(&self.record) - before)
        {
            self.malformed.get_or_insert(too_much(fault).message);
        }
        if event.content {
            self.content(&event, at);
        }
        // Zero means that the server does not count.
        let counts = [event.counts.input, event.counts.output].map(|count| count.filter(|count| *count > 0));
        if event.content || event.last || event.finish.is_some() || event.counts != Counts::default() {
            self.newest = Some(at);
        }
        let [input, output] = counts;
        let record = &mut self.record;
        for (what, before, now) in [
            ("prompt", record.counts.input, input),
            ("output", record.counts.output, output),
        ] {
            if let (Some(before), Some(now)) = (before, now)
                && (now < before || (what == "prompt" && now > before))
            {
                self.malformed.get_or_insert_with(|| {
                    format!("the engine counted {before} and then {now} tokens of the same {what}")
                });
            }
        }
        record.counts.input = input.or(record.counts.input);
        record.counts.output = output.or(record.counts.output).or(event.counts.output);
        record.reasoning = event.reasoning.map(at_most).or(record.reasoning);
        if let Some(finish) = event.finish {
            record.finish = Some(finish_reason(finish));
        }
    }

    /// An event with text or tokens came at `at`.
    fn content(&mut self, event: &StreamEvent, at: Duration) {
        let record = &mut self.record;
        match record.last_token {
            Some(before) => {
                if let Some(tokens) = event.tokens
                    && (tokens != 1 || !record.later_tokens.is_empty())
                {
                    // Until now, each had one.
                    record.later_tokens.resize(record.itl_ms.len(), 1);
                    record.later_tokens.push(at_most(tokens));
                }
                record
                    .itl_ms
                    .push(((at.as_secs_f64() - before.as_secs_f64()) * 1e3) as f32);
            }
            None => (record.first_tokens, record.first_bytes) = (event.tokens.map(at_most), at_most(event.bytes)),
        }
        record.first_token.get_or_insert(at);
        record.last_token = Some(at);
        record.events += 1;
        record.text_bytes = record.text_bytes.saturating_add(at_most(event.bytes));
        if event.visible {
            record.first_visible.get_or_insert(at);
            record.visible_events += 1;
        }
        record.tokens_seen = record
            .tokens_seen
            .zip(event.tokens)
            .map(|(sum, more)| sum.saturating_add(at_most(more)));
        if u64::from(record.events) > record.output.saturating_mul(2).saturating_add(MAX_MORE) {
            let (events, asked) = (record.events, record.output);
            self.malformed.get_or_insert_with(|| {
                format!(
                    "the engine does not stop: it sent {events} events with tokens where {asked} tokens were asked for"
                )
            });
        }
    }

    /// How much of the answer's end has come; `None` if the answer is not whole.
    fn end(&self) -> Option<AnswerEnd> {
        if self.last || self.error.is_some() {
            return Some(AnswerEnd::Last);
        }
        match (&self.record.finish, self.record.counts.output) {
            (Some(_), Some(_)) => Some(AnswerEnd::Usage),
            (Some(_), None) => Some(AnswerEnd::Finish),
            (None, _) => self.has_full_length().then_some(AnswerEnd::Length),
        }
    }

    /// Whether the answer has the requested number of tokens, by the engine's count, or else by the events.
    fn has_full_length(&self) -> bool {
        let record = &self.record;
        let counted = record.counts.output.filter(|output| *output > 0);
        let output = counted.unwrap_or_else(|| u64::from(record.tokens_seen.unwrap_or(record.events)));
        record.output > 0 && record.events > 0 && output >= record.output
    }

    /// Completes the record of an answer that has ended: a count of zero beside text is none, and an answer that is whole
    /// by its length, or by its counts and the protocol's last event, has a finish reason.
    fn settle(&mut self) {
        let full = self.has_full_length();
        let record = &mut self.record;
        if record.events > 0 {
            record.counts.output = record.counts.output.filter(|output| *output > 0);
        }
        if record.finish.is_none() && record.events > 0 {
            let ended = full || (self.last && record.counts.output.is_some());
            record.finish = ended.then(|| if full { "length" } else { "stop" }.into());
            record.no_finish = ended;
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

    /// The reason why the reported token counts cannot be true; `None` if they can. Thoughts need not be sent, if the
    /// engine says how many there were.
    fn impossible_count(&self) -> Option<String> {
        let Counts { input, output } = self.record.counts;
        let thoughts = self.record.reasoning.map_or(0, u64::from);
        let thoughts = thoughts.min(self.record.output.saturating_mul(2).saturating_add(MAX_MORE));
        let possible = self.most_tokens.saturating_mul(2).saturating_add(thoughts);
        if let Some(output) = output.filter(|output| *output > possible) {
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
        if let Some(status) = response.status.filter(|status| !is_success(*status)) {
            let body = String::from_utf8_lossy(&self.beginning);
            let message = match &response.location {
                Some(location) => format!("the server redirected to `{location}`; redirects are not followed"),
                None if body.trim().is_empty() => empty_body(status),
                None => body.into_owned(),
            };
            return RequestOutcome::Failed(Box::new(Failure {
                form: FailureForm::Status(status),
                message,
                retry_after: response.retry_after,
            }));
        }
        if let Some(error) = &self.error {
            return RequestOutcome::failed(FailureForm::InStream, error.clone());
        }
        if let Some(why) = &self.malformed {
            return RequestOutcome::failed(FailureForm::Malformed, why.clone());
        }
        if let Some(beginning) = self.non_event_body() {
            let message = if beginning.starts_with('{') {
                "the server does not stream: it answered with one JSON object".to_owned()
            } else {
                format!("the response is not an event stream; it begins with `{beginning}`")
            };
            return RequestOutcome::failed(FailureForm::Malformed, message);
        }
        match self.record.finish.as_deref() {
            Some(finish) if ABORT_REASONS.contains(&finish) => RequestOutcome::failed(
                FailureForm::InStream,
                format!("the engine ended the request: `{finish}`"),
            ),
            _ if self.record.events == 0 && !self.record.is_all_hidden() => {
                RequestOutcome::failed(FailureForm::EndedEarly, "the stream ended without text or tokens")
            }
            None => RequestOutcome::failed(FailureForm::EndedEarly, "the stream ended without a finish reason"),
            Some(_) => match self.impossible_count() {
                Some(why) => RequestOutcome::failed(FailureForm::Malformed, why),
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
