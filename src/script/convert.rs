//! Between Rhai values and ours: options checked against structs, results as maps, faults that scripts can catch.

use rhai::{Dynamic, EvalAltResult, Map, Position};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::{Fault, Kind, Result};

/// The result of a primitive.
pub type Caught<T> = std::result::Result<T, Box<EvalAltResult>>;

impl From<Fault> for Box<EvalAltResult> {
    /// An interruption ends the script and cannot be caught; anything else can.
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::Interrupted => EvalAltResult::ErrorTerminated(Dynamic::from(fault), Position::NONE).into(),
            _ => EvalAltResult::ErrorRuntime(Dynamic::from(fault), Position::NONE).into(),
        }
    }
}

/// A script's value as JSON. Functions and handles have no JSON form and are refused.
pub fn from_script(value: &Dynamic) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Fault::usage(format!("a value that cannot be recorded: {error}")))
}

/// A value of ours as a script sees it: structs as maps, `None` as `()`.
pub fn to_script(value: &impl Serialize) -> Result<Dynamic> {
    rhai::serde::to_dynamic(value).map_err(|error| Fault::internal(error.to_string()))
}

/// Options as a struct with `deny_unknown_fields`; a fault names the option's path.
pub fn options<T: DeserializeOwned>(map: Map) -> Result<T> {
    let value = from_script(&Dynamic::from(map))?;
    serde_path_to_error::deserialize(value)
        .map_err(|error| Fault::usage(format!("option `{}`: {}", error.path(), error.inner())))
}
