//! Failures defined by a test: log lines of a failing engine, when they appear, and the effect on the engine.

use serde::{Deserialize, Serialize};

use super::handle;

/// A start that fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedStart {
    /// The start goes well up to the first log line containing this text. Empty: it fails at once.
    #[serde(default)]
    pub after: String,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Exit status of the process.
    #[serde(default)]
    pub ending: Ending,
}

/// Requests that fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailedRequest {
    /// Only requests with more tokens (input and output) than this fail.
    pub longer_than: u64,
    /// Tokens streamed before the failure.
    pub after: u64,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Error message in the stream. None: the stream stays open and silent.
    pub message: Option<String>,
    /// If set, every request gets this HTTP status with `message` as body, whatever its length.
    pub status: Option<u16>,
    /// Effect on the engine.
    pub then: AfterFailure,
    /// Exit status, if the process exits.
    pub ending: Ending,
}

/// Effect of a failed request on the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// It keeps serving.
    #[default]
    Lives,
    /// The process stays alive, and every route answers 503.
    Dead,
    /// The process exits.
    Exits,
}

/// Exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    /// Exit code.
    pub code: i32,
    /// Whether the kernel OOM-killed it.
    pub oom_killed: bool,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            code: 1,
            oom_killed: false,
        }
    }
}

impl From<Ending> for handle::Exit {
    fn from(ending: Ending) -> Self {
        Self {
            code: ending.code,
            oom_killed: ending.oom_killed,
        }
    }
}
