//! Sends one streaming request and reads the response. `engine` decides whether it was a success.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{Client, Response, header};
use tokio_util::sync::CancellationToken;

use super::decode::{Counts, Decode, Framing, StreamEvent};
use super::ndjson::Ndjson;
use super::sse::Sse;
use super::timing::Timing;
use crate::fault::Result;
use crate::http::root;

/// How long to wait for the end of the body after the last event.
const LINGER: Duration = Duration::from_millis(200);

/// Maximum number of bytes kept of an error response's body.
const MAX_ERROR_BODY: usize = 64 << 10;

/// One streaming request.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    /// Full URL.
    pub url: String,
    /// JSON body.
    pub body: Bytes,
    /// Maximum time from sending to the complete response.
    pub timeout: Duration,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The body was complete.
    Complete,
    /// The engine answered with a non-2xx status; with the body.
    Status(u16, String),
    /// The connection broke before the response was complete.
    Broken(String),
    /// No connection could be made.
    Unreachable(String),
    /// The timeout passed.
    Deadline,
    /// The caller cancelled the request.
    Cancelled,
    /// The response is not an event stream.
    Malformed(String),
}

/// The response to a streaming request.
#[derive(Clone, Debug)]
pub struct StreamResponse {
    /// How it ended.
    pub end: StreamEnd,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// Token counts reported by the engine.
    pub counts: Counts,
    /// Tokens carried by events, if every event stated its number.
    pub tokens_seen: Option<u64>,
    /// The first error event.
    pub error: Option<String>,
    /// Timestamps.
    pub timing: Timing,
}

/// Sends a request and reads the response until it ends or is cancelled. Calls `on_first_token` at the first text or
/// token.
pub async fn send_streaming(
    client: &Client,
    request: StreamRequest,
    decoder: Box<dyn Decode>,
    cancel: &CancellationToken,
    on_first_token: impl FnOnce() + Send,
) -> StreamResponse {
    let mut reader = Reader::new(decoder, on_first_token);
    let end = tokio::select! {
        end = exchange(client, &request, &mut reader) => end,
        () = tokio::time::sleep(request.timeout) => StreamEnd::Deadline,
        () = cancel.cancelled() => StreamEnd::Cancelled,
    };
    reader.into_response(end)
}

async fn exchange(client: &Client, request: &StreamRequest, reader: &mut Reader<impl FnOnce()>) -> StreamEnd {
    let request = client
        .post(&request.url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(
            header::ACCEPT,
            "text/event-stream, application/x-ndjson, application/json",
        )
        .body(request.body.clone());
    reader.response.timing.sent = Instant::now();
    match request.send().await {
        Ok(response) if response.status().is_success() => read(response, reader).await,
        Ok(response) => StreamEnd::Status(response.status().as_u16(), error_body(response).await),
        Err(error) if error.is_connect() => StreamEnd::Unreachable(root(&error)),
        Err(error) => StreamEnd::Broken(root(&error)),
    }
}

async fn read(mut response: Response, reader: &mut Reader<impl FnOnce()>) -> StreamEnd {
    loop {
        let chunk = if reader.finished {
            // Only the end of the body can follow the last event. Waiting for it makes the connection reusable.
            match tokio::time::timeout(LINGER, response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(_)) | Err(_) => return StreamEnd::Complete,
            }
        } else {
            match response.chunk().await {
                Ok(chunk) => chunk,
                Err(error) => return StreamEnd::Broken(root(&error)),
            }
        };
        let read = match chunk {
            Some(bytes) => reader.push(&bytes, Instant::now()),
            None => {
                return reader
                    .finish(Instant::now())
                    .map_or_else(|fault| StreamEnd::Malformed(fault.message), |()| StreamEnd::Complete);
            }
        };
        if let Err(fault) = read {
            return StreamEnd::Malformed(fault.message);
        }
    }
}

async fn error_body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() >= MAX_ERROR_BODY {
            break;
        }
    }
    body.truncate(MAX_ERROR_BODY);
    String::from_utf8_lossy(&body).into_owned()
}

enum Frames {
    Sse(Sse),
    Ndjson(Ndjson),
}

struct Reader<F> {
    frames: Frames,
    decoder: Box<dyn Decode>,
    on_first_token: Option<F>,
    finished: bool,
    response: StreamResponse,
}

impl<F: FnOnce()> Reader<F> {
    fn new(decoder: Box<dyn Decode>, on_first_token: F) -> Self {
        Self {
            frames: match decoder.framing() {
                Framing::Sse => Frames::Sse(Sse::new()),
                Framing::Ndjson => Frames::Ndjson(Ndjson::new()),
            },
            decoder,
            on_first_token: Some(on_first_token),
            finished: false,
            response: StreamResponse {
                end: StreamEnd::Deadline,
                finish: None,
                counts: Counts::default(),
                tokens_seen: Some(0),
                error: None,
                timing: Timing::start(),
            },
        }
    }

    fn push(&mut self, bytes: &[u8], at: Instant) -> Result<()> {
        self.response.timing.first_byte.get_or_insert(at);
        self.with_frames(|frames, piece| match frames {
            Frames::Sse(sse) => sse.push(bytes, |event| piece(event.name, event.data, at)),
            Frames::Ndjson(ndjson) => ndjson.push(bytes, |line| piece("", line, at)),
        })
    }

    fn finish(&mut self, at: Instant) -> Result<()> {
        self.with_frames(|frames, piece| match frames {
            Frames::Sse(sse) => sse.finish(|event| piece(event.name, event.data, at)),
            Frames::Ndjson(ndjson) => {
                ndjson.finish(|line| piece("", line, at));
                Ok(())
            }
        })
    }

    fn with_frames<T>(&mut self, work: impl FnOnce(&mut Frames, &mut dyn FnMut(&str, &str, Instant)) -> T) -> T {
        let Self {
            frames,
            decoder,
            on_first_token,
            finished,
            response,
        } = self;
        work(frames, &mut |name, data, at| {
            let piece = decoder.event(name, data, None);
            *finished |= piece.last;
            if piece.content
                && let Some(on_first_token) = on_first_token.take()
            {
                on_first_token();
            }
            response.take(piece, at);
        })
    }

    fn into_response(mut self, end: StreamEnd) -> StreamResponse {
        self.response.end = end;
        self.response.timing.ended = Some(Instant::now());
        self.response
    }
}

impl StreamResponse {
    fn take(&mut self, piece: StreamEvent, at: Instant) {
        if piece.content {
            self.timing.record_content(at);
            self.tokens_seen = self.tokens_seen.zip(piece.tokens).map(|(seen, more)| seen + more);
        }
        self.counts.input = piece.counts.input.or(self.counts.input);
        self.counts.output = piece.counts.output.or(self.counts.output);
        self.finish = piece.finish.or(self.finish.take());
        self.error = self.error.take().or(piece.error);
    }
}
