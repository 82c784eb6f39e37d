//! Streaming an answer as server-sent events or lines, in the form of whichever protocol was asked.

use std::fmt::Write as _;
use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::reader::{Finish, Part, Reader};
use crate::sim::tokens::produced_id;

/// One protocol's events. Each method appends whole events to `out`.
pub(super) trait Wire: Send + 'static {
    /// How the body is cut into events.
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    /// Before the first token.
    fn open(&mut self, _out: &mut String) {}

    /// Tokens, the last of the answer where `finish` is given.
    fn tokens(&mut self, out: &mut String, tokens: &[Produced], finish: Option<Finish>);

    /// After the last token.
    fn close(&mut self, out: &mut String);

    /// A failure, and whatever this protocol sends after one.
    fn failed(&mut self, out: &mut String, message: &str);
}

/// A token of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Produced {
    /// Its number, from 1.
    pub(super) index: u64,
    /// Its id.
    pub(super) id: u32,
}

impl Produced {
    /// The n-th token of this request's answer, from 1.
    pub(super) fn nth(request: u64, index: u64) -> Self {
        Self {
            index,
            id: produced_id(request, index),
        }
    }

    /// Appends its text, which needs no escaping in JSON.
    pub(super) fn text(self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(out, " w{}", self.id);
    }
}

/// The text of the first `count` tokens.
pub(super) fn text(request: u64, count: u64) -> String {
    let mut out = String::new();
    for index in 1..=count {
        Produced::nth(request, index).text(&mut out);
    }
    out
}

/// The answer as a stream.
pub(super) fn respond(reader: Reader, wire: impl Wire) -> Response {
    let content_type = wire.content_type();
    let state = Streaming {
        reader,
        wire,
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
    Flowing,
    Breaking,
    Over,
}

struct Streaming<W> {
    reader: Reader,
    wire: W,
    sent: u64,
    stage: Stage,
}

impl<W: Wire> Streaming<W> {
    /// The events that are there, at least one; none when the answer is over. An error closes the connection.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.stage {
            Stage::Over => return None,
            Stage::Breaking => {
                self.stage = Stage::Over;
                return Some(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Stage::Opening | Stage::Flowing => {}
        }
        let mut out = String::new();
        if self.stage == Stage::Opening {
            self.stage = Stage::Flowing;
            self.wire.open(&mut out);
        }
        while out.is_empty() && self.stage == Stage::Flowing {
            let part = self.reader.next().await;
            self.put(&mut out, part);
        }
        while self.stage == Stage::Flowing {
            match self.reader.ready() {
                Some(part) => self.put(&mut out, part),
                None => break,
            }
        }
        if out.is_empty() && self.stage == Stage::Breaking {
            return Some(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        (!out.is_empty()).then(|| Ok(Bytes::from(out)))
    }

    fn put(&mut self, out: &mut String, part: Part) {
        match part {
            Part::Tokens(0, None) => {}
            Part::Tokens(count, finish) => {
                let tokens: Vec<_> = (1..=count)
                    .map(|more| Produced::nth(self.reader.id(), self.sent + more))
                    .collect();
                self.sent += count;
                self.wire.tokens(out, &tokens, finish);
                if finish.is_some() {
                    self.wire.close(out);
                    self.stage = Stage::Over;
                }
            }
            Part::Failed(message) => {
                self.wire.failed(out, &message);
                self.stage = Stage::Over;
            }
            Part::Cut => self.stage = Stage::Over,
            Part::Broken => self.stage = Stage::Breaking,
        }
    }
}
