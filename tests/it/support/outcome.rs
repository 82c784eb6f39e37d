//! The outcome of one run of the program, with assertions on it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

/// A finished run. Every failed assertion shows both streams.
pub struct Outcome {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    folder: TempDir,
}

impl Outcome {
    pub(super) fn new(output: &Output, folder: TempDir) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
            folder,
        }
    }

    /// The folder in which the program ran, removed on drop.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Fails unless the exit status is 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.code(0)
    }

    /// Fails unless the exit status is `code`.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit status{}", self.streams());
        self
    }

    /// Fails unless standard output contains `part`.
    #[track_caller]
    pub fn stdout(self, part: &str) -> Self {
        assert!(
            self.stdout.contains(part),
            "not on standard output: {part}{}",
            self.streams()
        );
        self
    }

    /// Fails unless standard error contains `part`.
    #[track_caller]
    pub fn stderr(self, part: &str) -> Self {
        assert!(
            self.stderr.contains(part),
            "not on standard error: {part}{}",
            self.streams()
        );
        self
    }

    /// Fails if either stream contains `part`.
    #[track_caller]
    pub fn nowhere(self, part: &str) -> Self {
        let shown = self.stdout.contains(part) || self.stderr.contains(part);
        assert!(!shown, "must not be shown: {part}{}", self.streams());
        self
    }

    /// Peak memory of a program started by [`Profiler::measured`](super::Profiler::measured), in bytes.
    #[track_caller]
    pub fn peak(&self) -> u64 {
        let kib = self
            .stderr
            .rsplit_once("peak KiB: ")
            .map(|(_, rest)| rest.trim().parse::<u64>());
        kib.unwrap_or_else(|| panic!("not measured{}", self.streams())).unwrap() << 10
    }

    /// Parses standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}{}", self.streams()))
    }

    fn streams(&self) -> String {
        format!(
            "\n--- standard output\n{}\n--- standard error\n{}",
            self.stdout, self.stderr
        )
    }
}
