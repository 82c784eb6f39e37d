//! Splits a byte stream into lines.

use memchr::memchr2;

use crate::fault::{Fault, Kind, Result};

/// Maximum line length. The longest seen is 8 MB: vLLM's first event for a prompt of a million tokens, with its ids.
const MAX_LINE: usize = 64 << 20;

/// An incremental line splitter. Lines end with LF, CR or CRLF, even if CR and LF arrive in different chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    // The unfinished line.
    partial: Vec<u8>,
    // The last byte was CR: a LF that follows belongs to it.
    after_cr: bool,
}

impl Lines {
    /// Feeds bytes and calls `line` for every completed line, without its line end.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
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
                self.partial.clear();
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
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.partial)).filter(|line| !line.is_empty())
    }
}

/// The error for a line or an event that is too long.
pub(super) fn too_long() -> Fault {
    Fault::new(
        Kind::Engine,
        format!("the engine sent more than {} MiB without a line end", MAX_LINE >> 20),
    )
    .hint("check that the URL and the protocol are those of an inference engine")
}

/// Maximum size of one event.
pub(super) const MAX_EVENT: usize = MAX_LINE;
