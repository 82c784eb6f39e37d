//! Waiting.

use std::time::Duration;

use rhai::plugin::*;

use crate::fault::Fault;
use crate::script::{Caught, host};

/// Waiting.
#[export_module]
pub mod time {
    /// Waits for a number of seconds, int or float. Ctrl-C ends the wait and the script.
    ///
    /// # Errors
    ///
    /// `usage` when the number is negative, not finite, or not a number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// sleep(0.01);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn sleep(context: NativeCallContext, seconds: Dynamic) -> Caught<()> {
        let time = seconds
            .as_float()
            .or_else(|_| seconds.as_int().map(|whole| whole as f64))
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| Fault::usage(format!("`sleep` takes seconds, not `{seconds}`")))?;
        Ok(host(&context).tasks.sleep(time)?)
    }
}
