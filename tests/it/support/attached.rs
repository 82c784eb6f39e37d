//! Commands against a running server, for tests that are tables: a row is a server, a command, and what a user sees.

use super::{Outcome, Profiler};

/// The smallest search, of one point.
pub const POINT: &str = "run adaptive --input 32 --output 4 --concurrency 1";
/// The smallest load.
pub const LOAD: &str = "run throughput --input 20 --output 8 --concurrency [2] --min-requests 6";

/// A start of `profiler COMMAND --url URL`; the command is split at white space.
pub fn attached(url: &str, command: &str) -> Profiler {
    Profiler::new().args(command.split_whitespace()).args(["--url", url])
}

/// Makes one test of each row: `NAME: CELL, CELL;` is a test that calls `CHECK(CELL, CELL)`.
macro_rules! table {
    ($check:ident: $($(#[$doc:meta])* $name:ident: $($cell:expr),+;)+) => {
        $($(#[$doc])* #[test] fn $name() { $check($($cell),+); })+
    };
}
pub(crate) use table;

impl Outcome {
    /// Fails unless the exit status is `code` and either stream has each of `parts`. A part `!TEXT` must be on neither;
    /// a part `/POINTER=VALUE` is a field of the JSON document on standard output.
    #[track_caller]
    pub fn sees(self, code: i32, parts: &[&str]) -> Self {
        parts
            .iter()
            .fold(self.code(code), |outcome, part| match part.split_once('=') {
                Some((pointer, value)) if pointer.starts_with('/') => outcome.field(pointer, value),
                _ => match part.strip_prefix('!') {
                    Some(absent) => outcome.nowhere(absent),
                    None if outcome.stdout.contains(part) => outcome,
                    None => outcome.stderr(part),
                },
            })
    }

    /// Fails unless the JSON document has this value, given as JSON, at this pointer.
    #[track_caller]
    pub fn field(self, pointer: &str, value: &str) -> Self {
        let expected: serde_json::Value = serde_json::from_str(value).unwrap();
        let document = self.json();
        assert_eq!(document.pointer(pointer), Some(&expected), "{pointer} of {document}");
        self
    }
}
