//! Reads an answer from the scheduler, applies the configured misbehaviour, and streams it.

use std::{future, io};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::answer::{Answer, Finish};
use crate::sim::engine_core::QueuedRequest;
use crate::sim::handle::Exit;
use crate::sim::misbehave::{FailedRequest, Misbehave};
use crate::sim::scheduler::Event;

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
    /// What this request does wrong, if it is one of those that misbehave.
    misbehave: Option<Misbehave>,
    produced: u64,
    buffered: u64,
}

/// What a misbehaving answer does next.
enum Misdeed {
    FailRequest(FailedRequest),
    Die,
    Hang,
    Answer(Part),
}

impl AnswerReader {
    pub(super) fn new(request: QueuedRequest) -> Self {
        let misbehave = &request.core.setup.options.misbehave;
        Self {
            misbehave: misbehave.applies_to(request.id).then(|| misbehave.clone()),
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
        match self.due() {
            None => {
                let event = self.request.events.recv().await;
                self.part(event)
            }
            Some(Misdeed::Answer(part)) => part,
            Some(Misdeed::FailRequest(failed)) => {
                self.request.core.apply_failure(&failed);
                match failed.message {
                    Some(message) => Part::Failed(message),
                    None => future::pending().await,
                }
            }
            Some(Misdeed::Die) => {
                self.request.core.exit_process(Exit::FAILED);
                future::pending().await
            }
            Some(Misdeed::Hang) => future::pending().await,
        }
    }

    /// The next part, if it is available.
    pub(super) fn try_next(&mut self) -> Option<Part> {
        if self.due().is_some() {
            return None;
        }
        let event = self.request.events.try_recv().ok()?;
        Some(self.part(Some(event)))
    }

    fn part(&mut self, event: Option<Event>) -> Part {
        let last = match event {
            None => return Part::Ended,
            Some(Event::Oom(oom)) => return Part::Failed(oom.to_string()),
            Some(Event::Token) => None,
            Some(Event::Last) => Some(Finish::Length),
        };
        self.produced += 1;
        let ends = |at: Option<u64>| at == Some(self.produced);
        let finish = last.or(match &self.misbehave {
            Some(misbehave) if ends(misbehave.end_early) => Some(Finish::Stop),
            Some(misbehave) if ends(misbehave.clip) => Some(Finish::Length),
            _ => None,
        });
        if self.request.core.setup.options.misbehave.two_tokens && finish.is_none() && self.buffered == 0 {
            self.buffered = 1;
            return Part::Tokens(0, None);
        }
        Part::Tokens(1 + std::mem::take(&mut self.buffered), finish)
    }

    /// The misbehaviour that comes before the next token.
    fn due(&self) -> Option<Misdeed> {
        let misbehave = self.misbehave.as_ref()?;
        if let Some(failed) = &misbehave.fail_request
            && failed.status.is_none()
            && failed.after == self.produced
            && self.request.total > failed.longer_than
        {
            return Some(Misdeed::FailRequest(failed.clone()));
        }
        let failure = Part::Failed("SIMULATED failure of the engine".to_owned());
        let misdeeds = [
            (misbehave.die_mid_stream, Misdeed::Die),
            (misbehave.hang, Misdeed::Hang),
            (misbehave.break_off, Misdeed::Answer(Part::ConnectionClosed)),
            (misbehave.end_silently, Misdeed::Answer(Part::Ended)),
            (misbehave.error_then_done, Misdeed::Answer(failure)),
        ];
        let mut due = misdeeds.into_iter().filter(|(at, _)| *at == Some(self.produced));
        due.next().map(|(_, misdeed)| misdeed)
    }
}

/// Tokens of each prompt, and why they end, once all are there; or why they are not.
pub(super) async fn read_all(reader: &mut AnswerReader) -> Result<(u64, Finish), String> {
    let mut tokens = 0;
    loop {
        match reader.next().await {
            Part::Tokens(more, None) => tokens += more,
            Part::Tokens(more, Some(finish)) => return Ok((tokens + more, finish)),
            Part::Failed(message) => return Err(message),
            Part::Ended | Part::ConnectionClosed => return Err("the engine is gone".to_owned()),
        }
    }
}

pub(super) fn respond(reader: AnswerReader, answer: Answer) -> Response {
    let headers = [(CONTENT_TYPE, answer.content_type()), (CACHE_CONTROL, "no-cache")];
    let state = AnswerStream {
        unsent: answer.opening(),
        reader,
        answer,
        end: None,
    };
    let body = Body::from_stream(stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((bytes, state))
    }));
    (headers, body).into_response()
}

/// How a stream ends once all events are sent.
#[derive(Clone, Copy)]
enum End {
    Complete,
    /// The connection is closed.
    Aborted,
}

struct AnswerStream {
    reader: AnswerReader,
    answer: Answer,
    unsent: String,
    end: Option<End>,
}

impl AnswerStream {
    /// All available events, at least one; none at the end. An error closes the connection.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.unsent.is_empty() && self.end.is_none() {
            let part = self.reader.next().await;
            self.add(part);
        }
        while self.end.is_none()
            && let Some(part) = self.reader.try_next()
        {
            self.add(part);
        }
        if !self.unsent.is_empty() {
            return Some(Ok(Bytes::from(std::mem::take(&mut self.unsent))));
        }
        match self.end.replace(End::Complete) {
            Some(End::Aborted) => Some(Err(io::ErrorKind::ConnectionAborted.into())),
            _ => None,
        }
    }

    fn add(&mut self, part: Part) {
        match part {
            Part::Tokens(0, None) => {}
            Part::Tokens(count, finish) => {
                self.answer.tokens(&mut self.unsent, count, finish);
                self.end = finish.map(|_| End::Complete);
            }
            Part::Failed(message) => {
                self.answer.failed(&mut self.unsent, &message);
                self.end = Some(End::Complete);
            }
            Part::Ended => self.end = Some(End::Complete),
            Part::ConnectionClosed => self.end = Some(End::Aborted),
        }
    }
}
