//! Running state and exit status of a server.

use serde::{Deserialize, Serialize};

/// Whether a server is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Running, as far as the runtime can tell.
    Running,
    /// Exited.
    Exited(Exit),
}

impl State {
    /// The exit status, if it has exited.
    #[must_use]
    pub fn exit(&self) -> Option<&Exit> {
        match self {
            State::Running => None,
            State::Exited(exit) => Some(exit),
        }
    }
}

/// Exit status of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; 128 + signal number after a signal, as shells and Docker report it.
    pub code: Option<i64>,
    /// The signal, if the runtime reports it.
    pub signal: Option<i32>,
    /// Whether the kernel reported an OOM kill. Exit code 137 alone is not enough.
    pub oom_killed: bool,
    /// Time of exit in UTC, RFC 3339.
    pub finished_at: Option<String>,
}
