//! Incremental decoder of HTTP/1.1 chunked transfer coding (RFC 9112, 7.1). Skips extensions and trailers. Pure.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a chunk size; true after the first digit.
    Size(bool),
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    state: State,
    remaining: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidChunk;

impl Chunked {
    pub(super) fn new() -> Self {
        Self {
            state: State::Size(false),
            remaining: 0,
        }
    }

    pub(super) fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Feeds bytes, passes on the body's bytes, and returns how many bytes belonged to the body: bytes after its end do
    /// not.
    pub(super) fn push(&mut self, bytes: &[u8], mut body: impl FnMut(&[u8])) -> Result<usize, InvalidChunk> {
        let mut read = 0;
        while let Some(&byte) = bytes.get(read)
            && !self.done()
        {
            if self.state == State::Data {
                let rest = &bytes[read..];
                let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
                body(&rest[..length]);
                read += length;
                self.remaining -= length as u64;
                if self.remaining == 0 {
                    self.state = State::DataEnd;
                }
                continue;
            }
            self.state = self.step(byte)?;
            read += 1;
        }
        Ok(read)
    }

    fn step(&mut self, byte: u8) -> Result<State, InvalidChunk> {
        Ok(match (self.state, byte) {
            (State::Size(_), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(InvalidChunk)?;
                let shifted = self.remaining.checked_mul(16).ok_or(InvalidChunk)?;
                self.remaining = shifted | u64::from(digit);
                State::Size(true)
            }
            (State::Size(true), b';' | b' ' | b'\t' | b'\r') => State::Extension,
            (State::Size(true) | State::Extension, b'\n') if self.remaining == 0 => State::Trailer,
            (State::Size(true) | State::Extension, b'\n') => State::Data,
            (State::Extension, _) => State::Extension,
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size(false),
            (State::Trailer, b'\n') => State::Done,
            (State::Trailer, b'\r') => State::Trailer,
            (State::TrailerLine, b'\n') => State::Trailer,
            (State::Trailer | State::TrailerLine, _) => State::TrailerLine,
            (State::Size(_) | State::DataEnd | State::Data | State::Done, _) => return Err(InvalidChunk),
        })
    }
}
