//! Faults in scripts: caught ones, and those that scripts throw.

use rhai::plugin::*;

use crate::fault::{Fault, Kind};
use crate::script::Caught;

const THROWN: [Kind; 4] = [Kind::Missing, Kind::Script, Kind::Threshold, Kind::Usage];

/// Faults that a script caught or throws.
#[export_module]
pub mod fault {
    /// A fault to throw. If it is not caught, the run ends with the exit status of its kind: `usage` 2, `missing` 3,
    /// `threshold` 4, `script` 1 (as for any other thrown value). `hint` is the remedy.
    ///
    /// # Errors
    ///
    /// `usage` for another kind.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { throw fault("missing", "there is no second GPU", "run it with one"); } catch (e) { assert(e.kind == "missing"); }
    /// ```
    #[rhai_fn(name = "fault", global, return_raw)]
    pub fn thrown(kind: &str, message: &str, hint: &str) -> Caught<Fault> {
        let Some(kind) = THROWN.into_iter().find(|known| known.name() == kind) else {
            let names = THROWN.map(|kind| format!("`{}`", kind.name())).join(", ");
            return Err(Fault::usage(format!("a script cannot throw a fault of kind `{kind}`"))
                .hint(format!("the kinds are {names}"))
                .into());
        };
        Ok(Fault::new(kind, message).hint(hint))
    }

    /// The kind of the fault, a stable name: `usage`, `missing`, `not_allowed`, `timeout`, `limit`, `http`, `engine`,
    /// `io`, `script`, `threshold`, `compile` or `internal`.
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

    /// One sentence about what went wrong.
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

    /// What to do about it, or `()`.
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

    /// The fault's message, for `print(e)` and `` `${e}` ``.
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
