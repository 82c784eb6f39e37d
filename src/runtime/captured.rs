//! What a program inside a server printed, its two streams apart.

/// As much of standard output as is kept: one document, however large.
const MOST: usize = 16 * 1024 * 1024;
/// As much of the end of standard error as is kept: why a program failed is said last.
const END: usize = 64 * 1024;

/// What a program inside a server printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The exit code; 128 + the signal's number after a signal; none where the runtime does not tell.
    pub code: Option<i64>,
    /// Standard output, its first 16 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, its last 64 KiB.
    pub stderr: Vec<u8>,
    /// Whether there was more standard output.
    pub truncated: bool,
}

impl Captured {
    pub(super) fn out(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(MOST - self.stdout.len());
        self.stdout.extend_from_slice(&bytes[..kept]);
        self.truncated |= kept < bytes.len();
    }

    pub(super) fn err(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        let surplus = self.stderr.len().saturating_sub(END);
        self.stderr.drain(..surplus);
    }

    /// The last lines of standard error.
    #[must_use]
    pub fn last_words(&self, lines: usize) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_one_stream_and_the_end_of_the_other_are_kept() {
        let mut captured = Captured::default();
        captured.out(&vec![b'x'; MOST - 1]);
        captured.out(b"yz");
        assert!(captured.truncated && captured.stdout.len() == MOST && captured.stdout.ends_with(b"xy"));
        captured.err(b"first\n");
        captured.err(&vec![b'.'; END]);
        captured.err(b"\n\nwhy\nlast\n");
        assert_eq!(captured.stderr.len(), END);
        assert_eq!(captured.last_words(2), "why\nlast");
    }
}
