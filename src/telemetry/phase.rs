//! The phases of an engine's life, by which its memory is told apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the engine was doing while memory was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing of ours is there yet.
    #[default]
    Baseline,
    /// From the start of the engine until it is ready.
    Loading,
    /// Ready, and idle.
    Ready,
    /// Requests whose figures do not count.
    WarmUp,
    /// Requests that count.
    Load,
    /// After the engine's end.
    After,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub const ALL: [Phase; 6] = [
        Phase::Baseline,
        Phase::Loading,
        Phase::Ready,
        Phase::WarmUp,
        Phase::Load,
        Phase::After,
    ];

    /// The name in scripts and series.
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
