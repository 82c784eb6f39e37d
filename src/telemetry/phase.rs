//! The phases of an engine's life, by which memory samples are grouped.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the engine was doing when memory was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the engine starts.
    #[default]
    Baseline,
    /// From the engine's start until it is ready.
    Loading,
    /// Ready and idle.
    Ready,
    /// Warm-up requests.
    WarmUp,
    /// Measured requests.
    Load,
    /// After the engine ended.
    After,
}

impl Phase {
    /// All phases in chronological order.
    pub const ALL: [Phase; 6] = [
        Phase::Baseline,
        Phase::Loading,
        Phase::Ready,
        Phase::WarmUp,
        Phase::Load,
        Phase::After,
    ];

    /// The name in scripts and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Baseline => "baseline",
            Phase::Loading => "loading",
            Phase::Ready => "ready",
            Phase::WarmUp => "warm_up",
            Phase::Load => "load",
            Phase::After => "after",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
