//! Where a figure comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a figure comes from, most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Read from the driver, the kernel or the framework's allocator while the engine ran.
    Measured,
    /// Reported by the engine: its log, metrics or information pages.
    EngineReported,
    /// Computed from the architecture, or from other figures.
    Computed,
    /// Assumed, by us or by the author of the estimate.
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
