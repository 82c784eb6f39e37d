//! The state of a server in every runtime: its kind, whether it runs, how it exited; and what a start returns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ServerLog;
use crate::fmt::GIB;

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
    /// The name in options and adapters.
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
    /// The outside event that ended it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}

impl Exit {
    /// Describes an outside event that ended the server; `None` if there was none.
    pub fn stopped_by(&self) -> Option<String> {
        Some(match self.ended_by? {
            EndedBy::Removed => "somebody else removed the engine's container".to_owned(),
            EndedBy::Restarted => "somebody else restarted the engine's container".to_owned(),
            EndedBy::Daemon => "the Docker daemon was restarted, which ended the engine".to_owned(),
            EndedBy::Signal(signal) => format!("somebody else stopped the engine's container (signal {signal})"),
            EndedBy::MemoryLimit(bytes) => format!(
                "the engine's container reached the memory limit of {:.1} GiB that profiler sets so that the machine stays usable; set `memory_limit` yourself",
                bytes as f64 / GIB
            ),
            EndedBy::Process(signal) => {
                format!("the engine was ended by signal {signal}: somebody else stopped it, or it did so itself")
            }
        })
    }

    /// The exit status, for people.
    pub fn status(&self) -> String {
        self.code
            .map_or_else(|| "an unknown status".to_owned(), |code| format!("status {code}"))
    }
}

/// The cause of the end of a server, apart from this program and the OOM killer. Includes an OOM kill at the memory
/// limit that this program chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its container was removed.
    Removed,
    /// Its container was restarted.
    Restarted,
    /// Its container was sent a signal: `docker stop`, `docker kill`.
    Signal(i32),
    /// The Docker daemon was restarted, and ended its container.
    Daemon,
    /// The kernel killed it, because its container reached the memory limit, in bytes, that this program chose.
    MemoryLimit(u64),
    /// A process ended by SIGTERM or SIGKILL, which it may have sent to itself.
    Process(i32),
}

/// A started or attached server, as its runtime returns it: `B` is the server itself.
pub(super) struct Started<B> {
    pub(super) backend: B,
    pub(super) base_url: Option<String>,
    pub(super) logs: ServerLog,
    /// For the manifest; without secrets.
    pub(super) info: Value,
}

impl<B> Started<B> {
    pub(super) fn map<C>(self, wrap: impl FnOnce(B) -> C) -> Started<C> {
        Started {
            backend: wrap(self.backend),
            base_url: self.base_url,
            logs: self.logs,
            info: self.info,
        }
    }
}
