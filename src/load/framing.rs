//! Splits a streamed response into events, and the interface to the protocols that decode them.
//!
//! Server-sent events follow WHATWG HTML, "Server-sent events", 9.2.6, with two differences, because engines need
//! them: an event that the end of the stream cuts off before its blank line is still delivered, and so is an event
//! named `error` without data. Newline-delimited JSON is Ollama's streaming format.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memchr2;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind, Result};

/// How a body is split into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Ndjson,
}

/// Token counts reported by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Prompt tokens.
    pub input: Option<u64>,
    /// Generated tokens.
    pub output: Option<u64>,
}

/// The content of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// The event carries generated text or tokens.
    pub content: bool,
    /// Number of tokens it carries, if stated. An event may carry several tokens or none.
    pub tokens: Option<u64>,
    /// The most tokens that it can carry: the ids, or the bytes of its text. One without either may stand for a token
    /// that has no text.
    pub most_tokens: u64,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// Token counts, so far or final.
    pub counts: Counts,
    /// An error reported instead of a token.
    pub error: Option<String>,
    /// Nothing follows: `[DONE]`, or a final event.
    pub last: bool,
}

impl StreamEvent {
    /// An event that reports an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            error: Some(message.into()),
            ..Self::default()
        }
    }
}

/// Decodes the events of one response.
pub trait Decode: Send {
    /// How the body is split into events.
    fn framing(&self) -> Framing;

    /// Decodes the next event. `name` is the SSE `event:` field, otherwise empty. Appends the event's text to `text`,
    /// if given.
    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> StreamEvent;
}

/// What all streams of a load hold together: events that are not complete, and texts that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<AtomicUsize>);

impl Held {
    /// Adds bytes.
    ///
    /// # Errors
    ///
    /// `engine` if it is too much.
    pub(super) fn add(&self, bytes: usize) -> Result<()> {
        let held = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held <= MAX_HELD {
            return Ok(());
        }
        Err(Fault::new(
            Kind::Engine,
            format!(
                "the streams of this load hold more than {} MiB together, in unfinished events and kept texts",
                MAX_HELD >> 20
            ),
        ))
    }
}

/// Splits a body into events incrementally.
#[derive(Debug)]
pub(super) struct EventReader {
    framing: Framing,
    lines: Lines,
    partial: PartialEvent,
    held: Held,
    /// Bytes that the buffers take of `held`.
    buffered: usize,
}

impl EventReader {
    pub(super) fn new(framing: Framing, held: Held) -> Self {
        Self {
            framing,
            lines: Lines::default(),
            partial: PartialEvent::default(),
            held,
            buffered: 0,
        }
    }

    /// Feeds bytes and calls `event` with name and data of every completed event. The name is empty if absent; invalid
    /// UTF-8 is replaced.
    pub(super) fn push(&mut self, bytes: &[u8], mut event: impl FnMut(&str, &str)) -> Result<()> {
        let Self {
            framing,
            lines,
            partial,
            ..
        } = self;
        lines.push(bytes, |line| partial.line(*framing, line, &mut event))?;
        let buffered = self.lines.partial.capacity() + self.partial.data.capacity();
        let before = std::mem::replace(&mut self.buffered, buffered);
        match buffered.checked_sub(before) {
            Some(0) => Ok(()),
            Some(more) => self.held.add(more),
            None => {
                self.held.0.fetch_sub(before - buffered, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Ends the stream: calls `event` for a last event that was not terminated.
    pub(super) fn finish(&mut self, mut event: impl FnMut(&str, &str)) -> Result<()> {
        if let Some(line) = self.lines.finish() {
            self.partial.line(self.framing, &line, &mut event)?;
        }
        self.partial.dispatch(&mut event);
        Ok(())
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.buffered, Ordering::Relaxed);
    }
}

/// The server-sent event being read.
#[derive(Debug, Default)]
struct PartialEvent {
    name: Vec<u8>,
    /// The `data:` lines, joined by LF.
    data: Vec<u8>,
    has_data: bool,
    any_line: bool,
}

impl PartialEvent {
    fn line(&mut self, framing: Framing, line: &[u8], event: &mut impl FnMut(&str, &str)) -> Result<()> {
        if framing == Framing::Ndjson {
            if !line.trim_ascii().is_empty() {
                event("", &String::from_utf8_lossy(line));
            }
            return Ok(());
        }
        let line = if std::mem::replace(&mut self.any_line, true) {
            line
        } else {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        };
        if line.is_empty() {
            self.dispatch(event);
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() > MAX_LINE {
                    return Err(too_long());
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // An empty field name is a comment (keep-alive). `id` and `retry` do not matter for a single response.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, event: &mut impl FnMut(&str, &str)) {
        if self.has_data || self.name == b"error" {
            event(
                &String::from_utf8_lossy(&self.name),
                &String::from_utf8_lossy(&self.data),
            );
        }
        self.name.clear();
        empty(&mut self.data);
        self.has_data = false;
    }
}

/// Empties a buffer. It is kept for the next event unless a long one has made it large.
fn empty(buffer: &mut Vec<u8>) {
    const KEPT: usize = 64 << 10;
    match buffer.capacity() {
        0..=KEPT => buffer.clear(),
        _ => *buffer = Vec::new(),
    }
}

/// Maximum length of a line and of an event. The longest seen is 8 MB: vLLM's first event for a prompt of a million tokens, with its ids.
const MAX_LINE: usize = 64 << 20;

/// Maximum of [`Held`], bytes. The first events for a KV cache of ten million tokens, all at once, would need a third.
const MAX_HELD: usize = 256 << 20;

/// An incremental line splitter. Lines end with LF, CR or CRLF, even if CR and LF arrive in different chunks.
#[derive(Debug, Default)]
struct Lines {
    // The unfinished line.
    partial: Vec<u8>,
    // The last byte was CR: a LF that follows belongs to it.
    after_cr: bool,
}

impl Lines {
    /// Feeds bytes and calls `line` for every completed line, without its line end.
    fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (head, tail) = bytes.split_at(end);
            if self.partial.is_empty() {
                line(head)?;
            } else {
                self.partial.extend_from_slice(head);
                line(&self.partial)?;
                empty(&mut self.partial);
            }
            bytes = match tail {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        if self.partial.len() + bytes.len() > MAX_LINE {
            return Err(too_long());
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// The last line, if it had no line end.
    fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.partial)).filter(|line| !line.is_empty())
    }
}

/// The error for a line or an event that is too long.
fn too_long() -> Fault {
    Fault::new(
        Kind::Engine,
        format!("the engine sent more than {} MiB without a line end", MAX_LINE >> 20),
    )
    .hint("check that the URL and the protocol are those of an inference engine")
}

#[cfg(test)]
mod tests;
