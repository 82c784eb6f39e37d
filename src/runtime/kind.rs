//! The runtimes by name.

use serde::{Deserialize, Serialize};

/// Where an engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// In a container that this run starts.
    Docker,
    /// In a process that this run starts.
    Process,
    /// Somewhere, already running.
    Attach,
    /// In this very process: the simulated engine.
    Sim,
}

impl RuntimeKind {
    /// The name that users and adapters write.
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
