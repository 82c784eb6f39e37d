//! A missing driver or device: a normal condition with a reason, not an error.

use std::fmt;

use crate::fault::Fault;

/// Why there is nothing to read, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// One clause: `no NVIDIA driver: libnvidia-ml.so.1 is not installed`.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

impl Absent {
    pub(super) fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            remedy: remedy.into(),
        }
    }

    /// As an error of kind `missing` (exit 3), for callers that need the device.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault::missing(self.why, self.remedy)
    }

    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            why: format!("{}; {}", self.why, other.why),
            remedy: self.remedy,
        }
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
