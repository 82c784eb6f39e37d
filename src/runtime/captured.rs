//! Captured output of a program inside a server: standard output and standard error separately.

/// Limit for standard output; one document, however large.
const MAX_STDOUT_BYTES: usize = 16 * 1024 * 1024;
/// Limit for standard error. The end is count, because the cause of a failure is printed last.
const MAX_STDERR_BYTES: usize = 64 * 1024;

/// Output and exit code of a program inside a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Exit code; 128 + signal number after a signal. None if the runtime does not report one.
    pub code: Option<i64>,
    /// First 16 MiB of standard output.
    pub stdout: Vec<u8>,
    /// Last 64 KiB of standard error.
    pub stderr: Vec<u8>,
    /// Whether standard output was cut.
    pub truncated: bool,
}

impl Captured {
    pub(super) fn push_stdout(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(MAX_STDOUT_BYTES - self.stdout.len());
        self.stdout.extend_from_slice(&bytes[..count]);
        self.truncated |= count < bytes.len();
    }

    pub(super) fn push_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        let excess = self.stderr.len().saturating_sub(MAX_STDERR_BYTES);
        self.stderr.drain(..excess);
    }

    /// Last non-empty lines of standard error.
    #[must_use]
    pub fn stderr_tail(&self, lines: usize) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdout_keeps_its_start_and_stderr_its_end() {
        let mut captured = Captured::default();
        captured.push_stdout(&vec![b'x'; MAX_STDOUT_BYTES - 1]);
        captured.push_stdout(b"yz");
        assert!(captured.truncated && captured.stdout.len() == MAX_STDOUT_BYTES && captured.stdout.ends_with(b"xy"));
        captured.push_stderr(b"first\n");
        captured.push_stderr(&vec![b'.'; MAX_STDERR_BYTES]);
        captured.push_stderr(b"\n\nwhy\nlast\n");
        assert_eq!(captured.stderr.len(), MAX_STDERR_BYTES);
        assert_eq!(captured.stderr_tail(2), "why\nlast");
    }
}
