//! Whether a server lives, and how it ended.

use serde::{Deserialize, Serialize};

/// Whether a server lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It runs, as far as the runtime can tell.
    Running,
    /// It ended.
    Exited(Exit),
}

impl State {
    /// How it ended, if it did.
    #[must_use]
    pub fn exit(&self) -> Option<&Exit> {
        match self {
            State::Running => None,
            State::Exited(exit) => Some(exit),
        }
    }
}

/// How a server ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; 128 + the signal's number after a signal, as shells and Docker say it.
    pub code: Option<i64>,
    /// The signal that ended it, where the runtime tells.
    pub signal: Option<i32>,
    /// Whether the kernel says that it killed it for its memory. Exit code 137 alone does not.
    pub oom_killed: bool,
    /// The time of death in UTC, RFC 3339.
    pub finished_at: Option<String>,
}
