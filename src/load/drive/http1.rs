//! Reads one HTTP/1.1 answer as it arrives (RFC 9112), whatever the splits: heads before the last one (1xx), then a body of a known length,
//! in chunks, or until the connection ends. Pure; sockets and events are elsewhere.

use super::chunked::{Chunked, NoChunk};

/// The most that a head may have.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

/// What arrived is no HTTP/1.1 answer, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong(pub(super) String);

#[derive(Debug)]
enum State {
    /// A head has begun, or none.
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// An incremental reader of one answer.
#[derive(Debug)]
pub(super) struct Answer {
    state: State,
    // A head that was split.
    head: Vec<u8>,
    status: Option<u16>,
    location: Option<String>,
    reusable: bool,
    begun: bool,
}

impl Answer {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            status: None,
            location: None,
            reusable: false,
            begun: false,
        }
    }

    /// Whether nothing of it has come.
    pub(super) fn is_empty(&self) -> bool {
        !self.begun
    }

    /// The status, once the final head is complete.
    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// Where a redirection leads.
    pub(super) fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    /// Whether the answer is complete.
    pub(super) fn done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the connection can carry another request, once the answer is complete.
    pub(super) fn reusable(&self) -> bool {
        self.done() && self.reusable
    }

    /// Takes the next bytes and gives those of the body, with the status. Bytes after the end are an answer to nothing: the connection is
    /// not used again.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut body: impl FnMut(u16, &[u8])) -> Result<(), Wrong> {
        self.begun |= !bytes.is_empty();
        while matches!(self.state, State::Head) {
            match self.read_head(bytes)? {
                Some(read) => bytes = &bytes[read..],
                None => return Ok(()),
            }
        }
        let status = self.status.unwrap_or_default();
        let read = match &mut self.state {
            State::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                if length > 0 {
                    body(status, &bytes[..length]);
                }
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                length
            }
            State::Chunked(chunks) => {
                let read = chunks
                    .push(bytes, |part| body(status, part))
                    .map_err(|NoChunk| Wrong("the body is not in chunks, as its head says".to_owned()))?;
                if chunks.done() {
                    self.state = State::Done;
                }
                read
            }
            State::UntilClose => {
                if !bytes.is_empty() {
                    body(status, bytes);
                }
                bytes.len()
            }
            State::Head | State::Done => 0,
        };
        self.reusable &= read == bytes.len();
        Ok(())
    }

    /// The connection ended: whether that completes the answer.
    pub(super) fn close(&mut self) -> bool {
        self.reusable = false;
        if matches!(self.state, State::UntilClose) {
            self.state = State::Done;
        }
        self.done()
    }

    /// Reads one head; `None` where it is not complete. Returns how many of `bytes` it took.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Wrong> {
        let before = self.head.len();
        if before == 0 {
            if let Some(length) = self.parse(bytes)? {
                return Ok(Some(length));
            }
            self.head.extend_from_slice(bytes);
        } else {
            self.head.extend_from_slice(bytes);
            let head = std::mem::take(&mut self.head);
            if let Some(length) = self.parse(&head)? {
                return Ok(Some(length - before));
            }
            self.head = head;
        }
        if self.head.len() > LONGEST_HEAD {
            return Err(Wrong(format!(
                "the head of the answer is beyond {} KiB",
                LONGEST_HEAD >> 10
            )));
        }
        Ok(None)
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Wrong> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(Wrong(format!("the answer is not HTTP/1.1: {error}"))),
        };
        let status = head.code.unwrap_or_default();
        // 101 would be another protocol; nobody asked for one.
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        let fields = Fields::read(head.headers)?;
        self.status = Some(status);
        if (300..400).contains(&status) {
            let location = head
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case("location"));
            self.location = location.map(|header| String::from_utf8_lossy(header.value).into_owned());
        }
        self.reusable = match head.version {
            Some(1) => !fields.close,
            _ => fields.keep_alive && !fields.close,
        };
        self.state = match (status, fields) {
            (204 | 304, _) => State::Done,
            (_, Fields { chunked: true, .. }) => State::Chunked(Chunked::new()),
            (_, Fields { length: Some(0), .. }) => State::Done,
            (
                _,
                Fields {
                    length: Some(length), ..
                },
            ) => State::Length(length),
            _ => State::UntilClose,
        };
        Ok(Some(length))
    }
}

/// What the fields of a head say of its body and of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    chunked: bool,
    length: Option<u64>,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Wrong> {
        let mut fields = Self::default();
        for header in headers {
            let words = || header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            let has = |name: &str| words().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
            let named = |name: &str| header.name.eq_ignore_ascii_case(name);
            if named("transfer-encoding") {
                fields.chunked |= has("chunked");
            } else if named("content-length") {
                fields.length = Some(length(header.value)?);
            } else if named("connection") {
                fields.close |= has("close");
                fields.keep_alive |= has("keep-alive");
            } else if named("content-encoding") && !has("identity") {
                let coding = String::from_utf8_lossy(header.value);
                return Err(Wrong(format!(
                    "the answer is coded as `{coding}`, which nobody asked for"
                )));
            }
        }
        Ok(fields)
    }
}

fn length(value: &[u8]) -> Result<u64, Wrong> {
    let text = str::from_utf8(value).unwrap_or_default().trim();
    text.parse()
        .map_err(|_| Wrong(format!("`{text}` is no length of a body")))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
