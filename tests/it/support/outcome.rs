//! What one run of the program left, and the questions that tests ask of it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

/// How a run ended. Every assertion shows both streams when it fails.
pub struct Outcome {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit status; none after a signal.
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

    /// The folder that the program ran in, until this is dropped.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Exit status 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.code(0)
    }

    /// This exit status.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit status{}", self.streams());
        self
    }

    /// Standard output contains this.
    #[track_caller]
    pub fn stdout(self, part: &str) -> Self {
        assert!(
            self.stdout.contains(part),
            "not on standard output: {part}{}",
            self.streams()
        );
        self
    }

    /// Standard error contains this.
    #[track_caller]
    pub fn stderr(self, part: &str) -> Self {
        assert!(
            self.stderr.contains(part),
            "not on standard error: {part}{}",
            self.streams()
        );
        self
    }

    /// Neither stream contains this.
    #[track_caller]
    pub fn nowhere(self, part: &str) -> Self {
        let shown = self.stdout.contains(part) || self.stderr.contains(part);
        assert!(!shown, "must not be shown: {part}{}", self.streams());
        self
    }

    /// The most bytes that a program started by [`Profiler::measured`](super::Profiler::measured) held.
    #[track_caller]
    pub fn peak(&self) -> u64 {
        let kib = self
            .stderr
            .rsplit_once("peak KiB: ")
            .map(|(_, rest)| rest.trim().parse::<u64>());
        kib.unwrap_or_else(|| panic!("not measured{}", self.streams())).unwrap() << 10
    }

    /// Standard output as one JSON document.
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
