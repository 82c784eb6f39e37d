//! The runtimes by name.

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
