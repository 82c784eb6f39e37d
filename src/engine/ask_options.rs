//! Options of `engine.probe`.

use serde::{Deserialize, Serialize};

use crate::boundary::Overload;
use crate::fault::{Fault, Result};

/// Options of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeOptions {
    /// Seconds that each request may take; without it, ten times what such a request usually takes, at least a minute.
    pub timeout: Option<f64>,
    /// How often a text that ended early, or an overloaded engine, is asked again.
    pub retries: u32,
    /// Tokens of output that may be missing from an `ok`.
    pub output_tolerance: u64,
    /// Whether `preempted` and `queued` count as fitting.
    pub overload: Overload,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            retries: 3,
            output_tolerance: 0,
            overload: Overload::Fails,
        }
    }
}

impl ProbeOptions {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        match self.timeout {
            Some(seconds) if !(seconds > 0.0 && seconds <= 1e7) => Err(Fault::usage(format!(
                "option `timeout` is {seconds}, not a number of seconds"
            ))),
            _ => Ok(()),
        }
    }
}
