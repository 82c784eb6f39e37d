//! What is not there to be read: an ordinary condition with a name, not an error of anybody.

use std::fmt;

use crate::fault::Fault;

/// Why there is nothing to read, and what to do where somebody needs it.
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

    /// For whoever cannot do without it: exit 3.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault::missing(self.why, self.remedy)
    }

    /// Neither of the two is there.
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
