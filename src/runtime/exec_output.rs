//! Output of a command inside a server.

use serde::Serialize;

/// Limit for the output, so that an endless command cannot fill the memory.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Output and exit code of a command inside a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExecOutput {
    /// Exit code; 128 + signal number after a signal. None if the runtime does not report one.
    pub code: Option<i64>,
    /// Standard output and error interleaved (Docker may change the order between the two). First 4 MiB.
    pub output: String,
    /// Whether the output was cut.
    pub truncated: bool,
}

#[derive(Default)]
pub(super) struct OutputBuffer {
    bytes: Vec<u8>,
    truncated: bool,
}

impl OutputBuffer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(MAX_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..count]);
        self.truncated |= count < bytes.len();
    }

    pub(super) fn finish(self, code: Option<i64>) -> ExecOutput {
        ExecOutput {
            code,
            output: String::from_utf8_lossy(&self.bytes).into_owned(),
            truncated: self.truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded_and_marked_as_truncated() {
        let mut buffer = OutputBuffer::default();
        buffer.push(&vec![b'x'; MAX_BYTES - 1]);
        buffer.push(b"yz");
        let output = buffer.finish(Some(0));
        assert!(output.truncated && output.output.ends_with("xy") && output.output.len() == MAX_BYTES);
    }
}
