//! Reads an answer from the scheduler, applies the configured misbehaviour, and streams it as server-sent events or
//! NDJSON in the format of the requested API.

use std::fmt::Write as _;
use std::{future, io};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::sim::engine_core::QueuedRequest;
use crate::sim::handle::Exit;
use crate::sim::misbehave::FailedRequest;
use crate::sim::scheduler::Event;
use crate::sim::tokens::output_token_id;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It has the requested length.
    Length,
    /// It ended earlier.
    Stop,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Number of tokens, and the finish reason with the last ones.
    Tokens(u64, Option<Finish>),
    /// Generation failed.
    Failed(String),
    /// The stream ends without a reason.
    Ended,
    /// The connection is closed.
    ConnectionClosed,
}

pub(super) struct AnswerReader {
    request: QueuedRequest,
    // This request is one of those that misbehave.
    misbehaves: bool,
    produced: u64,
    buffered: u64,
}

impl AnswerReader {
    pub(super) fn new(request: QueuedRequest) -> Self {
        Self {
            misbehaves: request.core.setup.misbehave.applies_to(request.id),
            request,
            produced: 0,
            buffered: 0,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.request.id
    }

    /// Waits for the next part. Must not be called again after a part that ends the answer.
    pub(super) async fn next(&mut self) -> Part {
        if let Some(part) = self.misbehaviour().await {
            return part;
        }
        let event = self.request.events.recv().await;
        self.part(event)
    }

    /// The next part, if it is available.
    pub(super) fn try_next(&mut self) -> Option<Part> {
        if self.misbehaves_now() {
            return None;
        }
        let event = self.request.events.try_recv().ok()?;
        Some(self.part(Some(event)))
    }

    fn part(&mut self, event: Option<Event>) -> Part {
        let misbehave = &self.request.core.setup.misbehave;
        let enabled = |tokens: Option<u64>| tokens.filter(|_| self.misbehaves);
        let (end_early, clip) = (enabled(misbehave.end_early), enabled(misbehave.clip));
        let last = match event {
            None => return Part::Ended,
            Some(Event::Oom(oom)) => return Part::Failed(oom.to_string()),
            Some(Event::Token) => None,
            Some(Event::Last) => Some(Finish::Length),
        };
        self.produced += 1;
        let finish = last
            .or((end_early == Some(self.produced)).then_some(Finish::Stop))
            .or((clip == Some(self.produced)).then_some(Finish::Length));
        if misbehave.two_tokens && finish.is_none() && self.buffered == 0 {
            self.buffered = 1;
            return Part::Tokens(0, None);
        }
        let tokens = 1 + std::mem::take(&mut self.buffered);
        Part::Tokens(tokens, finish)
    }

    /// Whether the next part is misbehaviour.
    fn misbehaves_now(&self) -> bool {
        let misbehave = &self.request.core.setup.misbehave;
        let kinds = [
            misbehave.die_mid_stream,
            misbehave.hang,
            misbehave.error_then_done,
            misbehave.break_off,
            misbehave.end_silently,
        ];
        self.failure().is_some() || (self.misbehaves && kinds.contains(&Some(self.produced)))
    }

    /// The failure that is due now.
    fn failure(&self) -> Option<&FailedRequest> {
        let failed = self.request.core.setup.misbehave.fail_request.as_ref();
        let failed = failed.filter(|_| self.misbehaves)?;
        let due = failed.status.is_none() && failed.after == self.produced && self.request.total > failed.longer_than;
        due.then_some(failed)
    }

    async fn misbehaviour(&self) -> Option<Part> {
        let core = &self.request.core;
        if let Some(failed) = self.failure() {
            core.apply_failure(failed);
            return match &failed.message {
                Some(message) => Some(Part::Failed(message.clone())),
                None => future::pending().await,
            };
        }
        if !self.misbehaves {
            return None;
        }
        let now = Some(self.produced);
        if core.setup.misbehave.die_mid_stream == now {
            core.exit_process(Exit::FAILED);
            return future::pending().await;
        }
        if core.setup.misbehave.hang == now {
            return future::pending().await;
        }
        if core.setup.misbehave.break_off == now {
            return Some(Part::ConnectionClosed);
        }
        if core.setup.misbehave.end_silently == now {
            return Some(Part::Ended);
        }
        (core.setup.misbehave.error_then_done == now)
            .then(|| Part::Failed("SIMULATED failure of the engine".to_owned()))
    }
}

/// A complete answer.
pub(super) struct CompleteAnswer {
    /// Tokens of each prompt.
    pub(super) tokens: u64,
    pub(super) finish: Finish,
}

pub(super) async fn read_all(reader: &mut AnswerReader) -> Result<CompleteAnswer, String> {
    let mut tokens = 0;
    loop {
        match reader.next().await {
            Part::Tokens(more, None) => tokens += more,
            Part::Tokens(more, Some(finish)) => {
                return Ok(CompleteAnswer {
                    tokens: tokens + more,
                    finish,
                });
            }
            Part::Failed(message) => return Err(message),
            Part::Ended | Part::ConnectionClosed => return Err("the engine is gone".to_owned()),
        }
    }
}

/// Stream events of one API. Each method appends whole events to `out`.
pub(super) trait StreamFormat: Send + 'static {
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    /// Before the first token.
    fn open(&mut self, _out: &mut String) {}

    /// Tokens; the last ones if `finish` is given.
    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>);

    /// After the last token.
    fn close(&mut self, out: &mut String);

    /// A failure, and what this API sends after one.
    fn failed(&mut self, out: &mut String, message: &str);
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OutputToken {
    /// Number of the token, from 1.
    pub(super) index: u64,
    pub(super) id: u32,
}

impl OutputToken {
    pub(super) fn nth(request: u64, index: u64) -> Self {
        Self {
            index,
            id: output_token_id(request, index),
        }
    }

    /// Appends the text, which needs no JSON escaping.
    pub(super) fn text(self, out: &mut String) {
        let _ = write!(out, " w{}", self.id);
    }
}

/// Text of the first `count` tokens.
pub(super) fn text(request: u64, count: u64) -> String {
    let mut out = String::new();
    for index in 1..=count {
        OutputToken::nth(request, index).text(&mut out);
    }
    out
}

pub(super) fn respond(reader: AnswerReader, format: impl StreamFormat) -> Response {
    let content_type = format.content_type();
    let state = AnswerStream {
        reader,
        format,
        sent: 0,
        stage: Stage::Opening,
    };
    let body = Body::from_stream(stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((bytes, state))
    }));
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

#[derive(PartialEq, Eq)]
enum Stage {
    Opening,
    Streaming,
    Closing,
    Done,
}

struct AnswerStream<W> {
    reader: AnswerReader,
    format: W,
    sent: u64,
    stage: Stage,
}

impl<W: StreamFormat> AnswerStream<W> {
    /// All available events, at least one; none at the end. An error closes the connection.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.stage {
            Stage::Done => return None,
            Stage::Closing => {
                self.stage = Stage::Done;
                return Some(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Stage::Opening | Stage::Streaming => {}
        }
        let mut out = String::new();
        if self.stage == Stage::Opening {
            self.stage = Stage::Streaming;
            self.format.open(&mut out);
        }
        while out.is_empty() && self.stage == Stage::Streaming {
            let part = self.reader.next().await;
            self.put(&mut out, part);
        }
        while self.stage == Stage::Streaming {
            match self.reader.try_next() {
                Some(part) => self.put(&mut out, part),
                None => break,
            }
        }
        if out.is_empty() && self.stage == Stage::Closing {
            return Some(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        (!out.is_empty()).then(|| Ok(Bytes::from(out)))
    }

    fn put(&mut self, out: &mut String, part: Part) {
        match part {
            Part::Tokens(0, None) => {}
            Part::Tokens(count, finish) => {
                let tokens: Vec<_> = (1..=count)
                    .map(|more| OutputToken::nth(self.reader.id(), self.sent + more))
                    .collect();
                self.sent += count;
                self.format.tokens(out, &tokens, finish);
                if finish.is_some() {
                    self.format.close(out);
                    self.stage = Stage::Done;
                }
            }
            Part::Failed(message) => {
                self.format.failed(out, &message);
                self.stage = Stage::Done;
            }
            Part::Ended => self.stage = Stage::Done,
            Part::ConnectionClosed => self.stage = Stage::Closing,
        }
    }
}
