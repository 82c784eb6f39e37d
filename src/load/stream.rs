//! Sends one streaming request, reads the response, and computes its latencies. `engine` decides whether it was a
//! success.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{Client, Response, header};
use tokio_util::sync::CancellationToken;

use super::framing::{Counts, Decode, EventReader, StreamEvent};
use super::stats::per_token;
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
    reader.sink.response.timing.sent = Instant::now();
    match request.send().await {
        Ok(response) if response.status().is_success() => read(response, reader).await,
        Ok(response) => StreamEnd::Status(response.status().as_u16(), error_body(response).await),
        Err(error) if error.is_connect() => StreamEnd::Unreachable(root(&error)),
        Err(error) => StreamEnd::Broken(root(&error)),
    }
}

async fn read(mut response: Response, reader: &mut Reader<impl FnOnce()>) -> StreamEnd {
    loop {
        let chunk = if reader.sink.finished {
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

struct Reader<F> {
    events: EventReader,
    sink: Sink<F>,
}

/// Collects what the events contain.
struct Sink<F> {
    decoder: Box<dyn Decode>,
    on_first_token: Option<F>,
    finished: bool,
    response: StreamResponse,
}

impl<F: FnOnce()> Reader<F> {
    fn new(decoder: Box<dyn Decode>, on_first_token: F) -> Self {
        Self {
            events: EventReader::new(decoder.framing()),
            sink: Sink {
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
            },
        }
    }

    fn push(&mut self, bytes: &[u8], at: Instant) -> Result<()> {
        self.sink.response.timing.first_byte.get_or_insert(at);
        self.events.push(bytes, |name, data| self.sink.event(name, data, at))
    }

    fn finish(&mut self, at: Instant) -> Result<()> {
        self.events.finish(|name, data| self.sink.event(name, data, at))
    }

    fn into_response(self, end: StreamEnd) -> StreamResponse {
        let mut response = self.sink.response;
        response.end = end;
        response.timing.ended = Some(Instant::now());
        response
    }
}

impl<F: FnOnce()> Sink<F> {
    fn event(&mut self, name: &str, data: &str, at: Instant) {
        let event = self.decoder.event(name, data, None);
        self.finished |= event.last;
        if event.content
            && let Some(on_first_token) = self.on_first_token.take()
        {
            on_first_token();
        }
        self.response.take(event, at);
    }
}

impl StreamResponse {
    fn take(&mut self, event: StreamEvent, at: Instant) {
        if event.content {
            self.timing.record_content(at);
            self.tokens_seen = self.tokens_seen.zip(event.tokens).map(|(seen, more)| seen + more);
        }
        self.counts.input = event.counts.input.or(self.counts.input);
        self.counts.output = event.counts.output.or(self.counts.output);
        self.finish = event.finish.or(self.finish.take());
        self.error = self.error.take().or(event.error);
    }
}

/// Timestamps of one response, by a monotonic clock, taken when the network chunk was read.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Just before sending. Includes connection setup for a new connection.
    pub sent: Instant,
    /// First byte of the body.
    pub first_byte: Option<Instant>,
    /// First event with text or tokens.
    pub first_token: Option<Instant>,
    /// Last event with text or tokens.
    pub last_token: Option<Instant>,
    /// When the response ended, for whatever reason.
    pub ended: Option<Instant>,
    /// ITL: times between events with text or tokens, in milliseconds.
    itl_ms: Vec<f32>,
}

impl Timing {
    /// Starts timing a request that is sent now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            sent: Instant::now(),
            first_byte: None,
            first_token: None,
            last_token: None,
            ended: None,
            itl_ms: Vec::new(),
        }
    }

    /// Records an event with text or tokens.
    fn record_content(&mut self, at: Instant) {
        if let Some(previous) = self.last_token {
            self.itl_ms.push(milliseconds(at - previous) as f32);
        }
        self.first_token.get_or_insert(at);
        self.last_token = Some(at);
    }

    /// TTFT: from sending to the first text or token.
    #[must_use]
    pub fn ttft_ms(&self) -> Option<f64> {
        Some(milliseconds(self.first_token? - self.sent))
    }

    /// E2E latency: from sending to the last text or token, as in vLLM's bench. Later usage events and `[DONE]` do not
    /// count.
    #[must_use]
    pub fn e2el_ms(&self) -> Option<f64> {
        Some(milliseconds(self.last_token? - self.sent))
    }

    /// TPOT as in vLLM's bench: (E2E latency − TTFT) / (tokens − 1), with the engine's token count. `None` for one
    /// token.
    #[must_use]
    pub fn tpot_ms(&self, output: u64) -> Option<f64> {
        per_token(self.e2el_ms()? - self.ttft_ms()?, output)
    }

    /// ITL as in vLLM's bench: times between events with text or tokens, in milliseconds. An event with several tokens
    /// counts once.
    #[must_use]
    pub fn itl_ms(&self) -> &[f32] {
        &self.itl_ms
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_match_their_definitions() {
        let mut timing = Timing::start();
        let at = |ms: u64| timing.sent + Duration::from_millis(ms);
        let stamps = [at(100), at(110), at(140)];
        for stamp in stamps {
            timing.record_content(stamp);
        }
        assert_eq!(timing.ttft_ms(), Some(100.0));
        assert_eq!(timing.e2el_ms(), Some(140.0));
        // Three events, but the engine counted five tokens.
        assert_eq!(timing.tpot_ms(5), Some(10.0));
        assert_eq!(timing.tpot_ms(1), None);
        assert_eq!(timing.itl_ms(), [10.0, 30.0]);
    }

    #[test]
    fn no_token_gives_no_latency() {
        let timing = Timing::start();
        assert_eq!(
            (timing.ttft_ms(), timing.e2el_ms(), timing.tpot_ms(5)),
            (None, None, None)
        );
    }
}
