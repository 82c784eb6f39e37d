//! Streams an answer as server-sent events or NDJSON, in the format of the requested API.

use std::fmt::Write as _;
use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::reader::{AnswerReader, Finish, Part};
use crate::sim::tokens::output_token_id;

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
