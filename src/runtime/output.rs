//! Output of servers and of commands inside them: lines, the log of a server, captured streams.

use std::collections::VecDeque;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;

use crate::fault::Result;
use crate::run::{BoundedFile, Run, hide};
use crate::task::lock;
use crate::warning::Warning;

/// Older lines are only in the file.
const MAX_LINES_IN_MEMORY: usize = 20_000;
const MAX_BYTES_IN_MEMORY: usize = 16 << 20;

/// A shared log that grows while the server writes.
#[derive(Clone, Default)]
pub struct ServerLog {
    buffer: Arc<Mutex<LogBuffer>>,
    // Number of lines so far, and whether the log has ended; watched by waiters.
    progress: watch::Sender<(u64, bool)>,
}

/// A log line and when it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Line number, from 0.
    pub number: u64,
    /// Time of arrival.
    pub at: Instant,
    /// Text without the line end.
    pub text: String,
}

#[derive(Default)]
struct LogBuffer {
    lines: VecDeque<(Instant, String)>,
    first_number: u64,
    file: Option<LogFile>,
    /// Bytes of the lines.
    bytes: usize,
}

/// The file of a log.
struct LogFile {
    writer: BufWriter<BoundedFile>,
    name: String,
    /// Gets a warning when the file can no longer be written.
    run: Arc<Run>,
}

impl ServerLog {
    /// Creates the log of a server, with a file in the run's folder if the run has one.
    pub fn create(run: &Arc<Run>, server: &str) -> Result<Self> {
        let file = run.append("logs", &format!("{server}.log"))?;
        Ok(file.map_or_else(Self::default, |(path, file)| {
            // The name has a number if an earlier execution left a log.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Self::with_file(file, &name, run)
        }))
    }

    fn with_file(file: BoundedFile, name: &str, run: &Arc<Run>) -> Self {
        let log = Self::default();
        log.buffer().file = Some(LogFile {
            writer: BufWriter::new(file),
            name: format!("logs/{name}"),
            run: Arc::clone(run),
        });
        log
    }

    /// Adds a line. If the file can no longer be written, warns once and continues in memory, which is enough for
    /// verdicts.
    pub fn push(&self, line: impl Into<String>) {
        let line = hide(&line.into()).into_owned();
        let mut buffer = self.buffer();
        let written = match &mut buffer.file {
            Some(LogFile { writer, .. }) => writeln!(writer, "{line}").and_then(|()| writer.flush()),
            None => Ok(()),
        };
        let lost = written.err().and_then(|error| Some((buffer.file.take()?, error)));
        buffer.append(line);
        let count = buffer.end();
        drop(buffer);
        self.progress.send_modify(|state| state.0 = state.0.max(count));
        if let Some((LogFile { name, run, .. }, error)) = lost {
            // A full disk is reported by the next event that must be written.
            let _ = run.warn(Warning::new(
                "log_not_written",
                format!("the rest of {name} is not written: {error}"),
            ));
        }
    }

    /// Marks the end of the log.
    pub fn end(&self) {
        self.progress.send_modify(|state| state.1 = true);
    }

    /// Number of lines so far, to be passed to [`ServerLog::since`].
    pub fn cursor(&self) -> u64 {
        self.buffer().end()
    }

    /// The lines from number `cursor` on that are still in memory, and the next cursor.
    pub fn since(&self, cursor: u64) -> (Vec<String>, u64) {
        let buffer = self.buffer();
        let skip = usize::try_from(cursor.saturating_sub(buffer.first_number)).unwrap_or(usize::MAX);
        let lines = buffer.lines.iter().skip(skip).map(|(_, text)| text.clone()).collect();
        (lines, buffer.end())
    }

    /// The lines from number `cursor` on that are still in memory, with their arrival times.
    pub fn lines_since(&self, cursor: u64) -> Vec<LogLine> {
        let buffer = self.buffer();
        let numbered = (buffer.first_number..).zip(&buffer.lines);
        numbered
            .filter(|(number, _)| *number >= cursor)
            .map(|(number, (at, text))| LogLine {
                number,
                at: *at,
                text: text.clone(),
            })
            .collect()
    }

    /// The newest `count` lines, oldest first.
    pub fn last(&self, count: usize) -> Vec<String> {
        let buffer = self.buffer();
        let skip = buffer.lines.len().saturating_sub(count);
        buffer.lines.iter().skip(skip).map(|(_, text)| text.clone()).collect()
    }

    /// Waits for a line after `cursor`. False if the log ended without one.
    pub async fn wait_for_line(&self, cursor: u64) -> bool {
        let mut progress = self.progress.subscribe();
        let found = progress.wait_for(|&(count, ended)| count > cursor || ended).await;
        found.is_ok_and(|state| state.0 > cursor)
    }

    /// Waits until the server has closed its output.
    pub async fn wait_end(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.progress.subscribe().wait_for(|state| state.1).await;
    }

    fn buffer(&self) -> MutexGuard<'_, LogBuffer> {
        lock(&self.buffer)
    }
}

impl LogBuffer {
    /// The number of the next line.
    fn end(&self) -> u64 {
        self.first_number + self.lines.len() as u64
    }

    fn append(&mut self, line: String) {
        self.bytes += line.len();
        while self.lines.len() == MAX_LINES_IN_MEMORY || self.bytes > MAX_BYTES_IN_MEMORY {
            let Some((_, oldest)) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            self.first_number += 1;
        }
        self.lines.push_back((Instant::now(), line));
    }
}

/// Longer lines are split, so that output without line ends cannot fill the memory.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Longest secret, in bytes, that is still recognised where an overlong line is split.
const MAX_SECRET_BYTES: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
    // If the last byte was `\r`, a following `\n` belongs to it.
    after_carriage_return: bool,
}

impl LineSplitter {
    /// Adds bytes and returns the lines they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut done = Vec::new();
        for &byte in bytes {
            let after_carriage_return = std::mem::replace(&mut self.after_carriage_return, byte == b'\r');
            match byte {
                b'\n' if after_carriage_return => {}
                b'\n' | b'\r' => done.push(self.take()),
                _ => {
                    self.partial.push(byte);
                    if self.partial.len() >= MAX_LINE_BYTES {
                        done.push(self.split());
                    }
                }
            }
        }
        done
    }

    /// Cuts off the beginning of a line that is too long. A secret may span the cut, so the last bytes are kept for the
    /// next piece.
    fn split(&mut self) -> String {
        let mut clean = hide(&self.take()).into_owned().into_bytes();
        self.partial = clean.split_off(clean.len().saturating_sub(MAX_SECRET_BYTES));
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Returns the last line if the stream ended without a line end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned()
    }
}

/// Limit for standard output, which is one document.
const MAX_STDOUT_BYTES: usize = 16 * 1024 * 1024;
/// Limit for standard error. The end is kept, because the cause of a failure is printed last.
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
    pub fn stderr_tail(&self, lines: usize) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Reads a stream to its end in parts.
pub(super) async fn read(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}

/// Limit for the output, so that an endless command cannot fill the memory.
const MAX_EXEC_BYTES: usize = 4 * 1024 * 1024;

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

impl From<Captured> for ExecOutput {
    fn from(captured: Captured) -> Self {
        let Captured {
            code,
            mut stdout,
            truncated,
            ..
        } = captured;
        let truncated = truncated || stdout.len() > MAX_EXEC_BYTES;
        stdout.truncate(MAX_EXEC_BYTES);
        let output = String::from_utf8_lossy(&stdout).into_owned();
        Self {
            code,
            output,
            truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::add_secrets;

    #[test]
    fn a_cursor_returns_later_lines() {
        let log = ServerLog::default();
        log.push("one");
        let cursor = log.cursor();
        log.push("two");
        assert_eq!(log.since(cursor), (vec!["two".to_owned()], 2));
        assert_eq!(log.last(5), ["one", "two"]);
        assert_eq!(log.last(1), ["two"]);
        let arrived = log.lines_since(cursor);
        assert_eq!(
            (arrived.len(), arrived[0].number, arrived[0].text.as_str()),
            (1, 1, "two")
        );
        assert!(arrived[0].at >= log.lines_since(0)[0].at);
    }

    #[test]
    fn old_lines_are_dropped_from_memory_but_stay_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.log");
        let log = ServerLog::with_file(
            std::fs::File::create(&path).unwrap().into(),
            "engine-1",
            &Arc::default(),
        );
        for number in 0..MAX_LINES_IN_MEMORY + 2 {
            log.push(number.to_string());
        }
        assert_eq!(log.since(0).0.len(), MAX_LINES_IN_MEMORY);
        assert_eq!(log.since(0).0[0], "2");
        assert!(std::fs::read_to_string(path).unwrap().starts_with("0\n1\n2\n"));
    }

    #[tokio::test]
    async fn waiting_ends_with_a_new_line_or_the_end_of_the_log() {
        let log = ServerLog::default();
        let writer = log.clone();
        let (wait_for_line, ()) = tokio::join!(log.wait_for_line(0), async { writer.push("x") });
        assert!(wait_for_line);
        let (wait_for_line, ()) = tokio::join!(log.wait_for_line(1), async { writer.end() });
        assert!(!wait_for_line);
    }

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut out: Vec<_> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        out.extend(lines.finish());
        out
    }

    #[test]
    fn carriage_returns_and_windows_line_ends_split() {
        assert_eq!(all(&[b"a\r\nb\rc\n\nd"]), ["a", "b", "c", "", "d"]);
    }

    #[test]
    fn a_long_line_is_split_and_no_secret_in_it() {
        add_secrets(["split-me-7-times".to_owned()]);
        for before in [MAX_LINE_BYTES - 9, MAX_LINE_BYTES - MAX_SECRET_BYTES - 9] {
            let line = format!("{}split-me-7-times{}", "x".repeat(before), "y".repeat(MAX_LINE_BYTES));
            let lines = all(&[line.as_bytes()]);
            assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
            let whole: String = lines.iter().map(|line| hide(line)).collect();
            assert_eq!(whole, line.replace("split-me-7-times", "***"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(text in "[a-c\r\né]{0,40}", cut in 0_usize..80) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), all(&[bytes]));
        }
    }

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

    #[test]
    fn output_is_bounded_and_marked_as_truncated() {
        let mut captured = Captured::default();
        captured.push_stdout(&vec![b'x'; MAX_EXEC_BYTES - 1]);
        captured.push_stdout(b"yz");
        let output = ExecOutput::from(captured);
        assert!(output.truncated && output.output.ends_with("xy") && output.output.len() == MAX_EXEC_BYTES);
    }
}
