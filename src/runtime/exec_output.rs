//! What a command inside a server printed, and how it ended.

use serde::Serialize;

/// As much output as is kept: a command that prints for ever must not fill the memory.
const MOST: usize = 4 * 1024 * 1024;

/// What a command inside a server printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExecOutput {
    /// The exit code; 128 + the signal's number after a signal; none where the runtime does not tell.
    pub code: Option<i64>,
    /// Standard output and error together, each in its order; Docker may mix the two up. Its first 4 MiB.
    pub output: String,
    /// Whether there was more.
    pub truncated: bool,
}

/// Output while it comes.
#[derive(Default)]
pub(super) struct Collected {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Collected {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(MOST - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.truncated |= kept < bytes.len();
    }

    pub(super) fn output(self, code: Option<i64>) -> ExecOutput {
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
    fn output_is_bounded_and_says_so() {
        let mut collected = Collected::default();
        collected.push(&vec![b'x'; MOST - 1]);
        collected.push(b"yz");
        let output = collected.output(Some(0));
        assert!(output.truncated && output.output.ends_with("xy") && output.output.len() == MOST);
    }
}
