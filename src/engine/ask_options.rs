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
    /// Seconds for which the engine may run nothing while every unfinished request waits; then they are given up. Without it, 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
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
            stall: None,
            retries: 3,
            output_tolerance: 0,
            overload: Overload::Fails,
        }
    }
}

impl ProbeOptions {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        for (name, given) in [("timeout", self.timeout), ("stall", self.stall)] {
            if let Some(seconds) = given
                && !(seconds > 0.0 && seconds <= 1e7)
            {
                return Err(Fault::usage(format!(
                    "option `{name}` is {seconds}, not a number of seconds"
                )));
            }
        }
        Ok(())
    }
}
