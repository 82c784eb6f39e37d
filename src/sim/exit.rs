//! Messages of the engine's parts to the process around them: how it exits, and its log lines.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Receives log lines without the line end. Called from runtime threads; must not block.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Exit status of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exit {
    /// Exit code.
    pub code: i32,
    /// Whether the kernel OOM-killed it.
    pub oom_killed: bool,
}

impl Exit {
    pub(super) const FAILED: Self = Self::new(1);
    /// The status after SIGKILL.
    pub(super) const KILLED: Self = Self::new(137);

    pub(super) const fn new(code: i32) -> Self {
        Self {
            code,
            oom_killed: false,
        }
    }
}

impl Default for Exit {
    fn default() -> Self {
        Self::FAILED
    }
}
