//! Assertions.

use rhai::plugin::*;

use crate::fault::{Fault, Kind};
use crate::script::Caught;

/// Assertions.
#[export_module]
pub mod assert {
    /// Ends the script with an error unless the condition is true.
    ///
    /// # Errors
    ///
    /// `script` if it is false.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(1 + 1 == 2);
    /// ```
    #[rhai_fn(name = "assert", return_raw, volatile)]
    pub fn plain(condition: bool) -> Caught<()> {
        explained(condition, "an assertion of the script failed")
    }

    /// Ends the script with the error `message` unless the condition is true.
    ///
    /// # Errors
    ///
    /// `script` if it is false.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(1 + 1 == 2, "arithmetic is broken");
    /// ```
    #[rhai_fn(name = "assert", return_raw, volatile)]
    pub fn explained(condition: bool, message: &str) -> Caught<()> {
        if condition {
            return Ok(());
        }
        Err(Fault::new(Kind::Script, message).into())
    }
}
