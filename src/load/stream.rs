//! One streaming request: sent, read as it arrives, and told how it ended. Whether that is a success is `engine`'s to say.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{Client, Response, header};
use tokio_util::sync::CancellationToken;

use super::decode::{Counts, Decode, Framing, Piece};
use super::ndjson::Ndjson;
use super::sse::Sse;
use super::timing::Timing;
use crate::fault::Result;
use crate::http::root;

/// How long the end of the body is waited for after the event that says that nothing follows.
const LINGER: Duration = Duration::from_millis(200);

/// The most of a refusal's body that is kept.
const LONGEST_REFUSAL: usize = 64 << 10;

/// One request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The whole address.
    pub url: String,
    /// The JSON body.
    pub body: Bytes,
    /// The answer must be complete within this time of sending.
    pub timeout: Duration,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The body ended as the protocol of the connection has it.
    Complete,
    /// The engine answered with a status that is not success.
    Status(u16, String),
    /// The connection broke within the answer, or before it.
    Broken(String),
    /// No connection could be made.
    Unreachable(String),
    /// Unfinished when its time was up.
    Deadline,
    /// Given up before its time was up: whoever asked saw that nothing more would come.
    GivenUp,
    /// What arrived is no stream of events.
    Malformed(String),
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it ended.
    pub end: End,
    /// Why the generation ended, in the engine's words.
    pub finish: Option<String>,
    /// The engine's own counts.
    pub counts: Counts,
    /// Tokens that events carried, where each told how many.
    pub tokens_seen: Option<u64>,
    /// The first error that an event reported.
    pub error: Option<String>,
    /// When.
    pub timing: Timing,
}

/// Sends a request and reads its answer to the end, or until it is given up. `first` is called when the first text or token has arrived.
pub async fn ask(
    client: &Client,
    ask: Ask,
    decoder: Box<dyn Decode>,
    give_up: &CancellationToken,
    first: impl FnOnce() + Send,
) -> Answer {
    let mut reader = Reader::new(decoder, first);
    let end = tokio::select! {
        end = exchange(client, &ask, &mut reader) => end,
        () = tokio::time::sleep(ask.timeout) => End::Deadline,
        () = give_up.cancelled() => End::GivenUp,
    };
    reader.into_answer(end)
}

async fn exchange(client: &Client, ask: &Ask, reader: &mut Reader<impl FnOnce()>) -> End {
    let request = client
        .post(&ask.url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(
            header::ACCEPT,
            "text/event-stream, application/x-ndjson, application/json",
        )
        .body(ask.body.clone());
    reader.answer.timing.sent = Instant::now();
    match request.send().await {
        Ok(response) if response.status().is_success() => read(response, reader).await,
        Ok(response) => End::Status(response.status().as_u16(), refusal(response).await),
        Err(error) if error.is_connect() => End::Unreachable(root(&error)),
        Err(error) => End::Broken(root(&error)),
    }
}

async fn read(mut response: Response, reader: &mut Reader<impl FnOnce()>) -> End {
    loop {
        let chunk = if reader.last {
            // What follows the last event can only be the end; waiting for it lets the connection be used again.
            match tokio::time::timeout(LINGER, response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(_)) | Err(_) => return End::Complete,
            }
        } else {
            match response.chunk().await {
                Ok(chunk) => chunk,
                Err(error) => return End::Broken(root(&error)),
            }
        };
        let read = match chunk {
            Some(bytes) => reader.push(&bytes, Instant::now()),
            None => {
                return reader
                    .finish(Instant::now())
                    .map_or_else(|fault| End::Malformed(fault.message), |()| End::Complete);
            }
        };
        if let Err(fault) = read {
            return End::Malformed(fault.message);
        }
    }
}

async fn refusal(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() >= LONGEST_REFUSAL {
            break;
        }
    }
    body.truncate(LONGEST_REFUSAL);
    String::from_utf8_lossy(&body).into_owned()
}

enum Frames {
    Sse(Sse),
    Ndjson(Ndjson),
}

struct Reader<F> {
    frames: Frames,
    decoder: Box<dyn Decode>,
    first: Option<F>,
    last: bool,
    answer: Answer,
}

impl<F: FnOnce()> Reader<F> {
    fn new(decoder: Box<dyn Decode>, first: F) -> Self {
        Self {
            frames: match decoder.framing() {
                Framing::Sse => Frames::Sse(Sse::new()),
                Framing::Ndjson => Frames::Ndjson(Ndjson::new()),
            },
            decoder,
            first: Some(first),
            last: false,
            answer: Answer {
                end: End::Deadline,
                finish: None,
                counts: Counts::default(),
                tokens_seen: Some(0),
                error: None,
                timing: Timing::start(),
            },
        }
    }

    fn push(&mut self, bytes: &[u8], at: Instant) -> Result<()> {
        self.answer.timing.first_byte.get_or_insert(at);
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
            first,
            last,
            answer,
        } = self;
        work(frames, &mut |name, data, at| {
            let piece = decoder.event(name, data, None);
            *last |= piece.last;
            if piece.content
                && let Some(first) = first.take()
            {
                first();
            }
            answer.take(piece, at);
        })
    }

    fn into_answer(mut self, end: End) -> Answer {
        self.answer.end = end;
        self.answer.timing.ended = Some(Instant::now());
        self.answer
    }
}

impl Answer {
    fn take(&mut self, piece: Piece, at: Instant) {
        if piece.content {
            self.timing.content(at);
            self.tokens_seen = self.tokens_seen.zip(piece.tokens).map(|(seen, more)| seen + more);
        }
        self.counts.input = piece.counts.input.or(self.counts.input);
        self.counts.output = piece.counts.output.or(self.counts.output);
        self.finish = piece.finish.or(self.finish.take());
        self.error = self.error.take().or(piece.error);
    }
}
