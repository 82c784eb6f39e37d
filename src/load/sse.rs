//! Incremental parser of server-sent events (WHATWG HTML, "Server-sent events", 9.2.6).
//!
//! Handles framing only; the protocols interpret the data. Two deliberate differences from the standard, because
//! engines need them: an event that the end of the stream cuts off before its blank line is still delivered, and so is
//! an event named `error` without data.

use super::lines::{Lines, MAX_EVENT, too_long};
use crate::fault::Result;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event:` field; empty if absent.
    pub name: &'a str,
    /// The `data:` lines, joined by LF. Invalid UTF-8 is replaced.
    pub data: &'a str,
}

/// An incremental parser.
#[derive(Debug, Default)]
pub struct Sse {
    lines: Lines,
    pending: Pending,
}

/// The event being read.
#[derive(Debug, Default)]
struct Pending {
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    any_line: bool,
}

impl Sse {
    /// Creates a parser for a new stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Feeds bytes and calls `event` for every completed event.
    ///
    /// # Errors
    ///
    /// `engine` if a line or an event exceeds 64 MiB.
    pub fn push(&mut self, bytes: &[u8], mut event: impl FnMut(SseEvent<'_>)) -> Result<()> {
        let Self { lines, pending } = self;
        lines.push(bytes, |line| pending.line(line, &mut event))
    }

    /// Ends the stream: delivers the last event even without a blank line after it.
    pub fn finish(&mut self, mut event: impl FnMut(SseEvent<'_>)) -> Result<()> {
        if let Some(line) = self.lines.finish() {
            self.pending.line(&line, &mut event)?;
        }
        self.pending.dispatch(&mut event);
        Ok(())
    }
}

impl Pending {
    fn line(&mut self, line: &[u8], event: &mut impl FnMut(SseEvent<'_>)) -> Result<()> {
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
                if self.data.len() + value.len() > MAX_EVENT {
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

    fn dispatch(&mut self, event: &mut impl FnMut(SseEvent<'_>)) {
        if self.has_data || self.name == b"error" {
            event(SseEvent {
                name: &String::from_utf8_lossy(&self.name),
                data: &String::from_utf8_lossy(&self.data),
            });
        }
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests;
