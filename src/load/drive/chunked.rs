//! The chunked transfer coding of HTTP/1.1 (RFC 9112, 7.1), read as it arrives. Extensions and trailers are skipped. Pure.

/// Where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a size; whether one was seen.
    Size(bool),
    /// After the digits, before the end of the line.
    Extension,
    /// So many bytes of the chunk are to come.
    Data,
    /// The line end after a chunk.
    DataEnd,
    /// At the beginning of a line of the trailer section.
    Trailer,
    /// Within such a line.
    TrailerLine,
    /// The body is complete.
    Done,
}

/// An incremental reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    at: At,
    left: u64,
}

/// The bytes are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoChunk;

impl Chunked {
    pub(super) fn new() -> Self {
        Self {
            at: At::Size(false),
            left: 0,
        }
    }

    pub(super) fn done(&self) -> bool {
        self.at == At::Done
    }

    /// Takes the next bytes, gives those of the body, and returns how many belonged to it: what follows the end does not.
    pub(super) fn push(&mut self, bytes: &[u8], mut body: impl FnMut(&[u8])) -> Result<usize, NoChunk> {
        let mut read = 0;
        while let Some(&byte) = bytes.get(read)
            && !self.done()
        {
            if self.at == At::Data {
                let rest = &bytes[read..];
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                body(&rest[..length]);
                read += length;
                self.left -= length as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            self.at = self.step(byte)?;
            read += 1;
        }
        Ok(read)
    }

    fn step(&mut self, byte: u8) -> Result<At, NoChunk> {
        Ok(match (self.at, byte) {
            (At::Size(_), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(NoChunk)?;
                let shifted = self.left.checked_mul(16).ok_or(NoChunk)?;
                self.left = shifted | u64::from(digit);
                At::Size(true)
            }
            (At::Size(true), b';' | b' ' | b'\t' | b'\r') => At::Extension,
            (At::Size(true) | At::Extension, b'\n') if self.left == 0 => At::Trailer,
            (At::Size(true) | At::Extension, b'\n') => At::Data,
            (At::Extension, _) => At::Extension,
            (At::DataEnd, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Size(false),
            (At::Trailer, b'\n') => At::Done,
            (At::Trailer, b'\r') => At::Trailer,
            (At::TrailerLine, b'\n') => At::Trailer,
            (At::Trailer | At::TrailerLine, _) => At::TrailerLine,
            (At::Size(_) | At::DataEnd | At::Data | At::Done, _) => return Err(NoChunk),
        })
    }
}
