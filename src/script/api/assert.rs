//! Conditions that a script relies on.

use rhai::plugin::*;

use crate::fault::{Fault, Kind};
use crate::script::Caught;

/// Conditions that a script relies on.
#[export_module]
pub mod assert {
    /// Ends the script with an error unless the condition holds.
    ///
    /// # Errors
    ///
    /// `script` when it does not hold.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(1 + 1 == 2);
    /// ```
    #[rhai_fn(name = "assert", return_raw, volatile)]
    pub fn plain(condition: bool) -> Caught<()> {
        explained(condition, "a condition that the script asserts does not hold")
    }

    /// Ends the script with an error that says `message` unless the condition holds.
    ///
    /// # Errors
    ///
    /// `script` when it does not hold.
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
