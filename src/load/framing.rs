//! Splits a streamed response into events, and the interface to the protocols that decode them.
//!
//! Server-sent events follow WHATWG HTML, "Server-sent events", 9.2.6, with two differences that engines require: an
//! event that is cut off by the end of the stream before its blank line is still delivered, and so is an event named
//! `error` without data. Newline-delimited JSON is Ollama's streaming format.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use memchr::memchr2;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind, Result};
use crate::outside::Charge;

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
    /// It carries text that a user sees, unlike thoughts and the arguments of tool calls.
    pub visible: bool,
    /// Length of its text in bytes.
    pub bytes: u64,
    /// Number of tokens it carries, if stated. An event may carry several tokens or none.
    pub tokens: Option<u64>,
    /// The most tokens that it can carry: the number of ids, or of bytes of its text. An event without either may stand
    /// for a token without text.
    pub most_tokens: u64,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// Token counts, so far or final.
    pub counts: Counts,
    /// Output tokens that the engine says it does not show.
    pub reasoning: Option<u64>,
    /// Nothing follows: `[DONE]`, or a final event.
    pub last: bool,
}

/// Decodes the events of one response.
pub trait Decode: Send {
    /// How the body is split into events.
    fn framing(&self) -> Framing;

    /// Decodes the next event. `name` is the SSE `event:` field, otherwise empty. Appends the event's text to `text`,
    /// if given.
    ///
    /// # Errors
    ///
    /// The error that the engine reported instead of a token, or the defect of the event.
    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String>;
}

/// For the texts that the records of one load keep.
pub(super) type Kept = Arc<Mutex<Charge>>;

/// Splits a body into events incrementally.
#[derive(Debug)]
pub(super) struct EventReader {
    framing: Framing,
    lines: Lines,
    partial: PartialEvent,
    /// For the bytes of the buffers.
    charge: Charge,
}

impl EventReader {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            framing,
            lines: Lines::default(),
            partial: PartialEvent::default(),
            charge: Charge::default(),
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
        let buffers = self.lines.partial.capacity() + self.partial.data.capacity();
        self.charge.set(buffers).map_err(too_much)
    }

    /// Ends the stream: calls `event` for a last event that was not terminated.
    pub(super) fn finish(&mut self, mut event: impl FnMut(&str, &str)) -> Result<()> {
        if let Some(line) = self.lines.finish() {
            self.partial.line(self.framing, &line, &mut event)?;
        }
        self.partial.dispatch(&mut event)
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
                let _parsed = charge_parsed(line)?;
                event("", &lossy(line));
            }
            return Ok(());
        }
        let line = if std::mem::replace(&mut self.any_line, true) {
            line
        } else {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch(event);
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
                self.name.extend_from_slice(&value[..value.len().min(MAX_NAME)]);
            }
            // An empty field name is a comment (keep-alive). `id` and `retry` do not matter for a single response.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, event: &mut impl FnMut(&str, &str)) -> Result<()> {
        if self.has_data || self.name == b"error" {
            let _parsed = charge_parsed(&self.data)?;
            event(&lossy(&self.name), &lossy(&self.data));
        }
        self.name.clear();
        empty(&mut self.data);
        self.has_data = false;
        Ok(())
    }
}

/// The text of an event. Nearly all are valid, and checking that is faster than looking for what is not.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// The charge for what an event takes while it is parsed: copies of its texts, and of all of it where invalid bytes are
/// replaced by three. Decoders make no values of the rest, such as the ids of a prompt. That of an ordinary event is not
/// worth counting.
fn charge_parsed(data: &[u8]) -> Result<Charge> {
    const ORDINARY: usize = 64 << 10;
    let mut charge = Charge::default();
    if data.len() > ORDINARY {
        let replaced = if str::from_utf8(data).is_ok() { 0 } else { 3 };
        charge.add((2 + replaced) * data.len()).map_err(too_much)?;
    }
    Ok(charge)
}

/// Empties a buffer. It is reused for the next event unless a long one has made it large.
fn empty(buffer: &mut Vec<u8>) {
    const KEPT: usize = 64 << 10;
    match buffer.capacity() {
        0..=KEPT => buffer.clear(),
        _ => *buffer = Vec::new(),
    }
}

/// Maximum length of a line and of an event. The longest one observed is 8 MB: vLLM's first event for a prompt of a
/// million tokens, with its ids.
const MAX_LINE: usize = 64 << 20;

/// Most bytes that are kept of an event's name: those of every protocol are short words.
const MAX_NAME: usize = 256;

/// The error of streams whose unfinished events and kept texts are too large together. The first events for a KV cache
/// of ten million tokens would need a third of what the process may keep.
pub(super) fn too_much(fault: Fault) -> Fault {
    Fault {
        kind: Kind::Engine,
        ..fault.while_doing("the streams of this load")
    }
}

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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        read(Framing::Sse, chunks)
    }

    fn read(framing: Framing, chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut reader = EventReader::new(framing);
        let mut seen = Vec::new();
        let mut keep = |name: &str, data: &str| seen.push((name.to_owned(), data.to_owned()));
        for chunk in chunks {
            reader.push(chunk, &mut keep).unwrap();
        }
        reader.finish(&mut keep).unwrap();
        seen
    }

    #[test]
    fn lines_of_json_are_read_for_all_splits() {
        let text = "{\"a\":1}\n\r\n{\"b\":\"é\"}\n{\"c\":3}".as_bytes();
        for at in 0..text.len() {
            let seen = read(Framing::Ndjson, &[&text[..at], &text[at..]]);
            let data: Vec<_> = seen.iter().map(|(_, data)| data.as_str()).collect();
            assert_eq!(data, ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"], "split at {at}");
        }
    }

    fn data(text: &str) -> Vec<String> {
        events(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn reads_every_line_end() {
        assert_eq!(
            data("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n"),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn accepts_values_with_and_without_leading_space() {
        assert_eq!(
            data("data:{\"a\":1}\n\ndata:  two blanks\n\n"),
            ["{\"a\":1}", " two blanks"]
        );
    }

    #[test]
    fn joins_data_lines() {
        assert_eq!(data("data: a\ndata\ndata: b\n\n"), ["a\n\nb"]);
    }

    #[test]
    fn skips_comments_keep_alives_and_unknown_fields() {
        assert_eq!(
            data(":\n\n: ping\n\nid: 3\nretry: 10\nfoo: bar\n\ndata: a\n: within\n\n"),
            ["a"]
        );
    }

    #[test]
    fn an_empty_data_line_is_an_event_and_a_blank_line_is_not() {
        assert_eq!(data("data:\n\n\n\n\n"), [""]);
    }

    #[test]
    fn returns_the_event_cut_off_by_the_end() {
        assert_eq!(data("data: a\n\ndata: b"), ["a", "b"]);
        assert_eq!(data("data: a\n\ndata: b\n"), ["a", "b"]);
    }

    #[test]
    fn names_an_event_once() {
        let events = events(&[b"event: error\ndata: x\n\ndata: y\n\nevent: error\n\n"]);
        let seen: Vec<_> = events
            .iter()
            .map(|(name, data)| (name.as_str(), data.as_str()))
            .collect();
        assert_eq!(seen, [("error", "x"), ("", "y"), ("error", "")]);
    }

    #[test]
    fn joins_utf8_that_was_split_and_ignores_a_byte_order_mark() {
        let text = "\u{feff}data: \u{1f980}\n\n".as_bytes();
        for at in 0..text.len() {
            assert_eq!(events(&[&text[..at], &text[at..]])[0].1, "\u{1f980}", "split at {at}");
        }
    }

    #[test]
    fn bounds_a_line_that_does_not_end() {
        let mut parser = EventReader::new(Framing::Sse);
        let chunk = vec![b'x'; 1 << 20];
        let fault = (0..100).find_map(|_| parser.push(&chunk, |_, _| {}).err()).unwrap();
        assert!(fault.message.contains("64 MiB"), "{fault}");
    }

    #[test]
    fn bounds_an_event_of_many_lines() {
        let mut parser = EventReader::new(Framing::Sse);
        let mut line = b"data: ".to_vec();
        line.resize(1 << 20, b'x');
        line.push(b'\n');
        assert!((0..100).any(|_| parser.push(&line, |_, _| {}).is_err()));
    }

    proptest! {
        #[test]
        fn splitting_does_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: a", "data:b", "data", ":c", "event: error", "é\u{1f980}", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n"]),
                0..40,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&chunks), events(&[&text]));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
            let at = at.index(bytes.len() + 1);
            prop_assert_eq!(events(&[&bytes[..at], &bytes[at..]]), events(&[&bytes]));
        }
    }

    /// First events with the ids of long prompts, of eight streams.
    #[test]
    fn long_events_are_read_at_the_same_time() {
        // Other tests charge the process too, so that these are shorter.
        let event = [b"data: ", "12345,".repeat((1 << 20) / 6).as_bytes()].concat();
        let mut readers: Vec<EventReader> = (0..8).map(|_| EventReader::new(Framing::Sse)).collect();
        for reader in &mut readers {
            reader
                .push(&event, |_, _| unreachable!("there is no line end"))
                .unwrap();
        }
        let charged: usize = readers.iter().map(|reader| reader.charge.bytes()).sum();
        assert!(charged >= 8 * event.len());
        for reader in &mut readers {
            let mut read = 0;
            reader.push(b"\n\n", |_, data| read += data.len()).unwrap();
            assert_eq!(read, event.len() - b"data: ".len());
        }
    }

    #[test]
    fn what_a_stream_holds_is_charged_until_its_events_end() {
        let mut reader = EventReader::new(Framing::Sse);
        let chunk = vec![b'x'; 1 << 20];
        let fill = |reader: &mut EventReader, start: &[u8]| {
            reader.push(start, |_, _| unreachable!("there is no line end")).unwrap();
            (0..32).for_each(|_| {
                reader
                    .push(&chunk, |_, _| unreachable!("there is no line end"))
                    .unwrap()
            });
            assert!(reader.charge.bytes() >= 32 << 20);
            reader.push(b"\n", |_, _| {}).unwrap();
            assert!(reader.charge.bytes() < 1 << 20, "a long line is freed at its end");
        };
        fill(&mut reader, b"");
        // A name is kept until its event, but not in full.
        fill(&mut reader, b"event: ");
        assert!(reader.partial.name.capacity() < 1 << 10);
    }
}
