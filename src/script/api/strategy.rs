//! Helpers for search strategies.

use rhai::Map;
use rhai::plugin::*;

use crate::fault::{Fault, Result};
use crate::script::nearest::nearest;
use crate::script::{Caught, host, type_of};

/// Overrides `defaults` with `given`, checking names and types.
fn fill_defaults(given: &Map, defaults: Map) -> Result<Map> {
    let mut all = defaults;
    for (name, value) in given {
        let Some(place) = all.get_mut(name) else {
            return Err(unknown(name, &all));
        };
        let number = value.is_int() || value.is_float();
        *place = match (place.type_name(), value.as_int()) {
            ("f64", Ok(whole)) => (whole as f64).into(),
            // An option without a default is a limit: a number, or none.
            ("()", _) if number || value.is_unit() => value.clone(),
            (wanted, _) if wanted == value.type_name() => value.clone(),
            (wanted, _) => {
                let wanted = if wanted == "()" {
                    "number".to_owned()
                } else {
                    type_of(place)
                };
                let given = type_of(value);
                return Err(Fault::usage(format!(
                    "option `{name}` takes a {wanted}, not `{value}`, a {given}"
                )));
            }
        };
    }
    Ok(all)
}

fn unknown(name: &str, known: &Map) -> Fault {
    let fault = Fault::usage(format!("there is no option `{name}`"));
    match nearest(name, known.keys().map(rhai::Identifier::as_str)) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => {
            let names: Vec<_> = known.keys().map(|name| format!("`{name}`")).collect();
            fault.hint(format!("the options are {}", names.join(", ")))
        }
    }
}

/// Helpers for search strategies.
#[export_module]
pub mod strategy {
    /// Fills in defaults for missing options. A default of `()` stands for an unset limit and accepts a number; any
    /// other default accepts its own type, and a float also an integer.
    ///
    /// # Errors
    ///
    /// `usage` for an option that is not among the defaults, with the closest name, and for one of a wrong type.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let options = with_defaults(#{ coverage: 1 }, #{ coverage: 0.95, max_probes: () });
    /// assert(options == #{ coverage: 1.0, max_probes: () });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn with_defaults(options: Map, defaults: Map) -> Caught<Map> {
        Ok(fill_defaults(&options, defaults)?)
    }

    /// Seconds since the run started. A resumed run starts at 0 again.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let before = elapsed();
    /// sleep(0.01);
    /// assert(elapsed() - before >= 0.01);
    /// ```
    #[rhai_fn(volatile)]
    pub fn elapsed(context: NativeCallContext) -> f64 {
        let host = host(&context);
        let state = host.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.started.0.elapsed().as_secs_f64()
    }
}
