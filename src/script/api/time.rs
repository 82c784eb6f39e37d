//! Waiting.

use std::time::Duration;

use rhai::plugin::*;

use crate::fault::Fault;
use crate::script::{Caught, host};

fn wait(context: &NativeCallContext, seconds: f64) -> Caught<()> {
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::usage(format!("`sleep` takes a non-negative number of seconds, not {seconds}")))?;
    Ok(host(context).tasks.sleep(time)?)
}

/// Waiting. Both numeric types have an overload, because otherwise Rhai's own, which cannot be interrupted, would be
/// found first.
#[export_module]
pub mod time {
    /// Waits for a number of seconds. Ctrl-C ends the wait and the script.
    ///
    /// # Errors
    ///
    /// `usage` if the number is negative or not finite.
    ///
    /// # Example
    ///
    /// ```rhai
    /// sleep(0.01);
    /// ```
    #[rhai_fn(name = "sleep", return_raw, volatile)]
    pub fn sleep_float(context: NativeCallContext, seconds: f64) -> Caught<()> {
        wait(&context, seconds)
    }

    /// Waits for a whole number of seconds. Ctrl-C ends the wait and the script.
    ///
    /// # Errors
    ///
    /// `usage` if the number is negative.
    ///
    /// # Example
    ///
    /// ```rhai
    /// sleep(0);
    /// ```
    #[rhai_fn(name = "sleep", return_raw, volatile)]
    pub fn sleep_int(context: NativeCallContext, seconds: i64) -> Caught<()> {
        wait(&context, seconds as f64)
    }
}
