//! Parameters of a script.

use rhai::Map;
use rhai::plugin::*;
use serde_json::json;

use crate::script::params::{Param, declared, lay_over};
use crate::script::{Caught, host, to_script};

/// Parameters of a script.
#[export_module]
pub mod params {
    /// Declares a parameter: its default, whose type values must have, and one line that says what it means. `()` takes
    /// any value, an empty map any keys.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ output: param([128, 4096], "output length, tokens: smallest and largest") });
    /// p.output == [128, 4096]
    /// ```
    pub fn param(default: Dynamic, meaning: &str) -> Param {
        Param {
            default,
            meaning: meaning.to_owned(),
        }
    }

    /// The script's parameters as a map: the defaults, and over them what the user gave with `--set` and `--params`. It comes
    /// first in a script, as `profiler run SCRIPT --help` evaluates up to here to list them.
    ///
    /// # Errors
    ///
    /// `usage` when the user set an unknown parameter (the nearest is named), or one of another type than its default.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{
    ///     engine: param("auto", "engine adapter, or a path to your own"),
    ///     search: param(#{}, "options of search::adaptive"),
    /// });
    /// p.engine == "auto"
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn params(context: NativeCallContext, declaration: Map) -> Caught<Dynamic> {
        let host = host(&context);
        let values = lay_over(&declared(declaration)?, &host.settings.set)?;
        let shown = to_script(&values)?;
        host.run.set_parameters(&json!(values));
        host.state().params = Some(values);
        Ok(shown)
    }
}
