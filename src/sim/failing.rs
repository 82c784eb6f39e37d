//! Failures as a test writes them down: the words of an engine that fails, where in its life they are said, and what becomes of it.

use serde::{Deserialize, Serialize};

use super::handle;

/// A start that goes wrong on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedStart {
    /// It goes well up to the first log line with this text. Empty: nothing goes well.
    #[serde(default)]
    pub after: String,
    /// What is logged then.
    pub log: Vec<String>,
    /// How the process ends.
    #[serde(default)]
    pub ending: Ending,
}

/// Requests that go wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailedRequest {
    /// Only requests of more than so many tokens in all, input and output.
    pub longer_than: u64,
    /// Tokens of the stream before it.
    pub after: u64,
    /// What is logged then.
    pub log: Vec<String>,
    /// The error that the stream tells. None: it says nothing more and stays open.
    pub message: Option<String>,
    /// Every request is answered with this status and `message` as its body instead, whatever its length.
    pub status: Option<u16>,
    /// What becomes of the engine.
    pub then: Fate,
    /// How the process ends, where it does.
    pub ending: Ending,
}

/// What becomes of an engine over a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It serves on.
    #[default]
    Lives,
    /// Its process lives, and every page answers 503.
    Dead,
    /// Its process ends.
    Exits,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    /// The status that it tells.
    pub code: i32,
    /// Whether the kernel killed it for memory.
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
