//! The runtimes by name, and the state of a server in them.

use serde::{Deserialize, Serialize};

/// Where an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// In a container started by this run.
    Docker,
    /// In a process started by this run.
    Process,
    /// Already running elsewhere.
    Attach,
    /// In this process: the simulated engine.
    Sim,
}

impl RuntimeKind {
    /// Name as users and adapters write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RuntimeKind::Docker => "docker",
            RuntimeKind::Process => "process",
            RuntimeKind::Attach => "attach",
            RuntimeKind::Sim => "sim",
        }
    }
}

impl std::fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

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
