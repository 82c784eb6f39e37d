//! Incremental reader of one HTTP/1.1 response (RFC 9112): informational (1xx) heads, then a body with a content
//! length, in chunks, or until the connection closes. Pure.

use std::time::Duration;

use crate::http::retry_after;

/// Limits of a response head: bytes and headers.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// An error says why the bytes are not a valid HTTP/1.1 response.
type Result<T> = std::result::Result<T, String>;

#[derive(Debug, Default)]
enum ParseState {
    /// Before or inside the head.
    #[default]
    Head,
    /// Remaining bytes of the body.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Response {
    state: ParseState,
    // A head that arrived in several chunks.
    head: Vec<u8>,
    /// The status, once the final head is complete.
    pub(super) status: Option<u16>,
    /// Target of a redirect.
    pub(super) location: Option<String>,
    /// The time to wait before sending the request again.
    pub(super) retry_after: Option<Duration>,
    reusable: bool,
    /// Whether anything has arrived.
    pub(super) started: bool,
}

impl Response {
    pub(super) fn done(&self) -> bool {
        matches!(self.state, ParseState::Done)
    }

    /// Whether the connection can be reused after this complete response.
    pub(super) fn reusable(&self) -> bool {
        self.done() && self.reusable
    }

    /// Feeds bytes and passes on the body's bytes with the status. Bytes after the end make the connection not
    /// reusable.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut body: impl FnMut(u16, &[u8])) -> Result<()> {
        self.started |= !bytes.is_empty();
        while matches!(self.state, ParseState::Head) {
            match self.read_head(bytes)? {
                Some(read) => bytes = &bytes[read..],
                None => return Ok(()),
            }
        }
        let status = self.status.unwrap_or_default();
        let read = match &mut self.state {
            ParseState::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                if length > 0 {
                    body(status, &bytes[..length]);
                }
                *left -= length as u64;
                if *left == 0 {
                    self.state = ParseState::Done;
                }
                length
            }
            ParseState::Chunked(chunks) => {
                let read = chunks
                    .push(bytes, |part| body(status, part))
                    .ok_or("the body is not chunked, although its head says so")?;
                if chunks.done() {
                    self.state = ParseState::Done;
                }
                read
            }
            ParseState::UntilClose => {
                if !bytes.is_empty() {
                    body(status, bytes);
                }
                bytes.len()
            }
            ParseState::Head | ParseState::Done => 0,
        };
        self.reusable &= read == bytes.len();
        Ok(())
    }

    /// The connection was closed: returns whether that completes the response.
    pub(super) fn close(&mut self) -> bool {
        self.reusable = false;
        if matches!(self.state, ParseState::UntilClose) {
            self.state = ParseState::Done;
        }
        self.done()
    }

    /// Reads one head. Returns how many of `bytes` it took, or `None` if the head is incomplete.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
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
        if self.head.len() > MAX_HEAD {
            return Err(format!("the response head exceeds {} KiB", MAX_HEAD >> 10));
        }
        Ok(None)
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(format!("the response is not HTTP/1.1: {error}")),
        };
        let status = head.code.unwrap_or_default();
        // 101 would switch protocols, which was not requested.
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        // The header fields that determine the body's framing and connection reuse.
        let (mut chunked, mut body_length, mut close, mut keep_alive) = (false, None, false, false);
        for header in head.headers.iter() {
            let words = || header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            let has = |name: &str| words().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
            let named = |name: &str| header.name.eq_ignore_ascii_case(name);
            let text = || String::from_utf8_lossy(header.value);
            if named("transfer-encoding") {
                chunked |= has("chunked");
            } else if named("content-length") {
                let value = text();
                let parsed = value.trim().parse::<u64>();
                body_length = Some(parsed.map_err(|_| format!("invalid content length `{}`", value.trim()))?);
            } else if named("connection") {
                close |= has("close");
                keep_alive |= has("keep-alive");
            } else if named("location") && (300..400).contains(&status) {
                self.location.get_or_insert_with(|| text().into_owned());
            } else if named("retry-after") {
                self.retry_after = retry_after(&text());
            } else if named("content-encoding") && !has("identity") {
                return Err(format!(
                    "the response has content encoding `{}`, which was not requested",
                    text()
                ));
            }
        }
        self.status = Some(status);
        self.reusable = !close && (keep_alive || head.version == Some(1));
        self.state = match (status, body_length) {
            (204 | 304, _) => ParseState::Done,
            _ if chunked => ParseState::Chunked(Chunked::default()),
            (_, Some(0)) => ParseState::Done,
            (_, Some(length)) => ParseState::Length(length),
            (_, None) => ParseState::UntilClose,
        };
        Ok(Some(length))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// Before the digits of a chunk size.
    #[default]
    Begin,
    /// After the first digit of a chunk size.
    Size,
    /// After the digits, before the end of the line.
    Extension,
    /// In chunk data.
    Data,
    /// In the line end after the chunk data.
    DataEnd,
    /// At the start of a line of the trailer section.
    Trailer,
    /// Inside a trailer line.
    TrailerLine,
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunked {
    state: ChunkState,
    remaining: u64,
}

impl Chunked {
    fn done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Feeds bytes, passes on the body's bytes, and returns how many bytes belonged to the body, without bytes after
    /// its end. `None` if it is not chunked.
    fn push(&mut self, bytes: &[u8], mut body: impl FnMut(&[u8])) -> Option<usize> {
        let mut read = 0;
        while let Some(&byte) = bytes.get(read)
            && !self.done()
        {
            if self.state == ChunkState::Data {
                let rest = &bytes[read..];
                let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
                body(&rest[..length]);
                read += length;
                self.remaining -= length as u64;
                if self.remaining == 0 {
                    self.state = ChunkState::DataEnd;
                }
                continue;
            }
            self.state = self.step(byte)?;
            read += 1;
        }
        Some(read)
    }

    fn step(&mut self, byte: u8) -> Option<ChunkState> {
        Some(match (self.state, byte) {
            (ChunkState::Begin | ChunkState::Size, byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)?;
                self.remaining = self.remaining.checked_mul(16)? | u64::from(digit);
                ChunkState::Size
            }
            (ChunkState::Size, b';' | b' ' | b'\t' | b'\r') => ChunkState::Extension,
            (ChunkState::Size | ChunkState::Extension, b'\n') if self.remaining == 0 => ChunkState::Trailer,
            (ChunkState::Size | ChunkState::Extension, b'\n') => ChunkState::Data,
            (ChunkState::Extension, _) => ChunkState::Extension,
            (ChunkState::DataEnd, b'\r') => ChunkState::DataEnd,
            (ChunkState::DataEnd, b'\n') => ChunkState::Begin,
            (ChunkState::Trailer, b'\n') => ChunkState::Done,
            (ChunkState::Trailer, b'\r') => ChunkState::Trailer,
            (ChunkState::TrailerLine, b'\n') => ChunkState::Trailer,
            (ChunkState::Trailer | ChunkState::TrailerLine, _) => ChunkState::TrailerLine,
            (ChunkState::Begin | ChunkState::Size | ChunkState::DataEnd | ChunkState::Data | ChunkState::Done, _) => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Status, body, done, reusable; or the error.
    type Seen = Result<(Option<u16>, Vec<u8>, bool, bool)>;

    fn read(parts: &[&[u8]]) -> Seen {
        let mut response = Response::default();
        let mut body = Vec::new();
        for part in parts {
            response.push(part, |_, bytes| body.extend_from_slice(bytes))?;
        }
        Ok((response.status, body, response.done(), response.reusable()))
    }

    fn whole(text: &str) -> (Option<u16>, String, bool, bool) {
        let (status, body, done, reusable) = read(&[text.as_bytes()]).unwrap();
        (status, String::from_utf8(body).unwrap(), done, reusable)
    }

    #[test]
    fn body_with_content_length() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(whole(text), (Some(200), "hello".into(), true, true));
        assert_eq!(whole(&text[..text.len() - 1]), (Some(200), "hell".into(), false, false));
        assert_eq!(whole(&format!("{text}!")), (Some(200), "hello".into(), true, false));
        assert_eq!(
            whole("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
            (Some(503), String::new(), true, true)
        );
    }

    #[test]
    fn chunk_extensions_and_trailers_are_skipped() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n\
        3;name=\"a b\"\r\nabc\r\n00A \r\n0123456789\r\n0;last\r\nExpires: never\r\n\r\n";
        assert_eq!(whole(text), (Some(200), "abc0123456789".into(), true, true));
    }

    #[test]
    fn informational_heads_are_skipped() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(whole(text), (Some(200), "ok".into(), true, true));
    }

    #[test]
    fn body_without_length_ends_at_close() {
        let mut response = Response::default();
        let mut body = Vec::new();
        response
            .push(b"HTTP/1.1 200 OK\r\n\r\nda", |_, bytes| body.extend_from_slice(bytes))
            .unwrap();
        assert!(!response.done() && response.close() && !response.reusable());
        assert_eq!(body, b"da");
    }

    #[test]
    fn connection_reuse_follows_the_headers() {
        let reusable = |version: &str, field: &str| {
            whole(&format!(
                "HTTP/{version} 200 OK\r\ncontent-length: 0\r\n{field}\r\n\r\n"
            ))
            .3
        };
        assert!(reusable("1.1", "x: y") && !reusable("1.1", "Connection: close"));
        assert!(!reusable("1.0", "x: y") && reusable("1.0", "connection: Keep-Alive"));
        assert!(!reusable("1.1", "connection: x, CLOSE"));
    }

    #[test]
    fn truncated_response_is_not_complete() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-le",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        ] {
            let mut response = Response::default();
            response.push(text.as_bytes(), |_, _| {}).unwrap();
            assert!(!response.close(), "{text}");
        }
    }

    #[test]
    fn invalid_response_is_an_error() {
        let wrong = |text: &str| read(&[text.as_bytes()]).unwrap_err();
        assert!(wrong("SSH-2.0-OpenSSH_9.6\r\n\r\n").contains("not HTTP/1.1"));
        assert!(wrong("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ndata: x").contains("not chunked"));
        assert!(
            wrong("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n").contains("not chunked")
        );
        assert!(wrong("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").contains("`x`"));
        assert!(wrong("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").contains("`gzip`"));
        assert!(wrong(&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000))).contains("64 KiB"));
    }

    /// A response with one of the usual framings.
    fn responses() -> impl Strategy<Value = Vec<u8>> {
        let heads = prop::collection::vec(
            prop::sample::select(vec![
                "HTTP/1.1 100 Continue\r\n\r\n",
                "HTTP/1.1 102 Processing\r\na: b\r\n\r\n",
            ]),
            0..3,
        );
        let parts = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6);
        let form = 0..3;
        (heads, parts, form, "[a-z;=]{0,8}", any::<bool>()).prop_map(|(heads, parts, form, extension, trailer)| {
            let mut text = heads.concat().into_bytes();
            let body = parts.concat();
            match form {
                0 => {
                    text.extend(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).bytes());
                    text.extend(body);
                }
                1 => {
                    text.extend(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                    text.extend(body);
                }
                _ => {
                    text.extend(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for part in parts {
                        text.extend(format!("{:x};{extension}\r\n", part.len()).bytes());
                        text.extend(part);
                        text.extend(b"\r\n");
                    }
                    text.extend(if trailer {
                        &b"0\r\nDate: now\r\n\r\n"[..]
                    } else {
                        b"0\r\n\r\n"
                    });
                }
            }
            text
        })
    }

    fn cut<'a>(text: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn splitting_does_not_matter(text in responses(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let seen = read(&cut(&text, &cuts)).unwrap();
            prop_assert_eq!(&seen, &read(&[&text]).unwrap());
            let bytewise: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(&seen, &read(&bytewise).unwrap());
        }

        #[test]
        fn invalid_bytes_give_the_same_result_for_all_splits(
            tail in prop::collection::vec(any::<u8>(), 0..300),
            chunked in any::<bool>(),
            at in any::<prop::sample::Index>(),
        ) {
            let head: &[u8] = if chunked { b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" } else { b"HTTP/1.1 2" };
            let text = [head, &tail].concat();
            prop_assert_eq!(read(&cut(&text, &[at])), read(&[&text]));
        }
    }
}
