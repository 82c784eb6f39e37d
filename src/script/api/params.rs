//! Parameters of a script.

use rhai::Map;
use rhai::plugin::*;
use serde_json::json;

use crate::script::params::{Param, declared, merge_values};
use crate::script::{Caught, host, to_script};

/// Parameters of a script.
#[export_module]
pub mod params {
    /// Declares a parameter: its default, which determines its type, and one line that explains it. `()` accepts any
    /// value, an empty map any keys.
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

    /// The script's parameters as a map: the defaults, overridden by the user's `--set` and `--params`. Call it first
    /// in a script: `profiler run SCRIPT --help` evaluates the script up to here to list them.
    ///
    /// # Errors
    ///
    /// `usage` if the user set an unknown parameter (the closest one is suggested), or one with a wrong type.
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
        let values = merge_values(&declared(declaration)?, &host.settings.set)?;
        let shown = to_script(&values)?;
        host.run.set_parameters(&json!(values));
        host.state().params = Some(values);
        Ok(shown)
    }
}
