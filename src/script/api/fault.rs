//! What a script sees of a fault that it caught.

use rhai::plugin::*;

use crate::fault::Fault;

/// What a script sees of a fault that it caught.
#[export_module]
pub mod fault {
    /// What kind of thing went wrong, a stable name to compare with: `usage`, `missing`, `not_allowed`, `timeout`, `limit`,
    /// `http`, `engine`, `io`, `script`, `threshold`, `compile` or `internal`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { e.kind == "usage" }
    /// ```
    #[rhai_fn(get = "kind", pure)]
    pub fn kind(fault: &mut Fault) -> String {
        fault.kind.name().to_owned()
    }

    /// One sentence that says what went wrong.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { print(e.message); }
    /// ```
    #[rhai_fn(get = "message", pure)]
    pub fn message(fault: &mut Fault) -> String {
        fault.message.clone()
    }

    /// What to do about it, or `()` where nothing is known.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { if e.hint != () { print(e.hint); } }
    /// ```
    #[rhai_fn(get = "hint", pure)]
    pub fn hint(fault: &mut Fault) -> Dynamic {
        fault.hint.clone().map_or(Dynamic::UNIT, Dynamic::from)
    }

    /// The fault's message, so that `print(e)` and `` `${e}` `` show it.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { sleep(-1); } catch (e) { print(`it failed: ${e}`); }
    /// ```
    #[rhai_fn(name = "to_string", name = "to_debug", global, pure)]
    pub fn shown(fault: &mut Fault) -> String {
        fault.message.clone()
    }
}
