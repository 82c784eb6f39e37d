//! Options of `engine.probe`.

use serde::{Deserialize, Serialize};

use crate::boundary::Overload;
use crate::fault::{Fault, Result};

/// Options of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeOptions {
    /// Timeout per request in seconds. Default: ten times the expected duration, at least a minute.
    pub timeout: Option<f64>,
    /// Seconds without running requests, while all unfinished requests are queued, after which they are cancelled.
    /// Default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
    /// Retries after an early end of text or an overloaded engine.
    pub retries: u32,
    /// Missing output tokens that still count as `ok`.
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
