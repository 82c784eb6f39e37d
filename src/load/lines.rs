//! Splits bytes into lines as they arrive, whatever the splits and the line ends.

use memchr::memchr2;

use crate::fault::{Fault, Kind, Result};

/// The longest line that is kept. The largest seen is vLLM's first event of a prompt of a million tokens, with its ids: 8 MB.
const LONGEST: usize = 64 << 20;

/// An incremental splitter. LF, CR and CRLF end a line, also when CR and LF arrive in different chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    // The line that has begun but not ended.
    partial: Vec<u8>,
    // The last byte was CR: a LF that follows belongs to it.
    after_cr: bool,
}

impl Lines {
    /// Takes the next bytes and gives every line that they complete, without its end.
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
        if self.partial.len() + bytes.len() > LONGEST {
            return Err(too_long());
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// The line that had begun when the stream ended.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.partial)).filter(|line| !line.is_empty())
    }
}

/// What is said of a line, or an event, that does not end.
pub(super) fn too_long() -> Fault {
    Fault::new(
        Kind::Engine,
        format!("the engine sent more than {} MiB without an end of line", LONGEST >> 20),
    )
    .hint("check that the URL and the protocol are those of an inference engine")
}

/// The most that one event may hold.
pub(super) const LARGEST_EVENT: usize = LONGEST;
