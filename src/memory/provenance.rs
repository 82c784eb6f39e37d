//! Where a figure comes from, in place of a word of confidence.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a figure comes from; the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Read from the driver, the kernel or the framework's allocator while the engine ran.
    Measured,
    /// The engine's own word: its log, its metrics, its information pages.
    EngineReported,
    /// Follows from the architecture, or from figures of the other kinds.
    Computed,
    /// Taken for granted, by us or by whoever made the estimate.
    Assumed,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provenance::Measured => "measured",
            Provenance::EngineReported => "engine-reported",
            Provenance::Computed => "computed",
            Provenance::Assumed => "assumed",
        })
    }
}
