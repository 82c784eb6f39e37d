//! Converts between Rhai and Rust values: script values to JSON, Rust values to maps, faults to catchable errors.

use rhai::{Dynamic, EvalAltResult, Position};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::fault::{Fault, Kind, Result};

/// Result of an API function.
pub type Caught<T> = std::result::Result<T, Box<EvalAltResult>>;

impl From<Fault> for Box<EvalAltResult> {
    /// An interruption, or the end of a dry run, ends the script and cannot be caught. Any other fault can.
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::DryRun | Kind::Interrupted => {
                EvalAltResult::ErrorTerminated(Dynamic::from(fault), Position::NONE).into()
            }
            _ => EvalAltResult::ErrorRuntime(Dynamic::from(fault), Position::NONE).into(),
        }
    }
}

/// Approximate memory limit of one value as JSON. 20,000 points with their evidence take half of it.
const MAX_BYTES: usize = 192 << 20;
/// Deepest nesting of a value; readers have the same limit.
const MAX_DEPTH: usize = 100;

/// Converts a script's value to JSON. Functions, handles and non-finite numbers are refused, with their path.
pub fn from_script(value: &Dynamic) -> Result<Value> {
    Writer::default().value(value)
}

/// Converts a Rust value for a script: structs to maps, `None` to `()`.
pub fn to_script(value: &impl Serialize) -> Result<Dynamic> {
    rhai::serde::to_dynamic(value).map_err(|error| Fault::internal(error.to_string()))
}

/// The script name of a value's type.
pub fn type_of(value: &Dynamic) -> String {
    type_name(value.type_name())
}

/// The script name of a Rust type.
pub(crate) fn type_name(rust: &str) -> String {
    let plain = rust.trim().trim_start_matches("&mut ").trim();
    match plain {
        "i64" | "INT" => "int",
        "f64" | "FLOAT" => "float",
        "&str" | "String" | "ImmutableString" | "&str | ImmutableString | String" | "string" => "string",
        "Array" | "array" => "array",
        "Map" | "map" => "map",
        "Dynamic" | "?" | "_" => "any",
        "FnPtr" | "Fn" => "function",
        "EngineHandle" | "BoundaryHandle" | "TruthHandle" => plain.trim_end_matches("Handle"),
        "ModelHandle" => "MemoryModel",
        other => other.rsplit("::").next().unwrap_or(other),
    }
    .to_owned()
}

#[derive(Default)]
struct Writer {
    /// Keys and indices that lead to the current value.
    path: Vec<String>,
    bytes: usize,
}

impl Writer {
    fn value(&mut self, value: &Dynamic) -> Result<Value> {
        self.charge(32)?;
        if let Ok(map) = value.as_map_ref() {
            return self.map(&map);
        }
        if let Ok(array) = value.as_array_ref() {
            return self.array(&array);
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            self.charge(text.len())?;
            return Ok(Value::String(text.to_string()));
        }
        if let Ok(whole) = value.as_int() {
            return Ok(Value::Number(whole.into()));
        }
        if let Ok(number) = value.as_float() {
            return Number::from_f64(number)
                .map(Value::Number)
                .ok_or_else(|| self.refuse(&format!("is {number}, which JSON cannot hold")));
        }
        if let Ok(truth) = value.as_bool() {
            return Ok(Value::Bool(truth));
        }
        if let Ok(letter) = value.as_char() {
            return Ok(Value::String(letter.to_string()));
        }
        if value.is_unit() {
            return Ok(Value::Null);
        }
        let kind = type_of(value);
        Err(self.refuse(&format!("is a {kind}, which JSON cannot hold")))
    }

    fn map(&mut self, map: &rhai::Map) -> Result<Value> {
        // A B-tree node has room for eleven entries, however few it holds.
        self.charge(700 * map.len().div_ceil(6))?;
        let mut object = Map::new();
        for (key, value) in map {
            let value = self.inside(key.to_string(), value)?;
            object.insert(key.to_string(), value);
        }
        Ok(Value::Object(object))
    }

    fn array(&mut self, array: &[Dynamic]) -> Result<Value> {
        let values = array.iter().enumerate();
        let values: Result<_> = values
            .map(|(index, value)| self.inside(format!("[{index}]"), value))
            .collect();
        Ok(Value::Array(values?))
    }

    fn inside(&mut self, step: String, value: &Dynamic) -> Result<Value> {
        if self.path.len() == MAX_DEPTH {
            return Err(Fault::usage(format!("the value nests deeper than {MAX_DEPTH} levels")));
        }
        self.path.push(step);
        let value = self.value(value)?;
        self.path.pop();
        Ok(value)
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            return Err(Fault::new(
                Kind::Limit,
                "the value is too large to be recorded: it takes more than 192 MiB",
            )
            .hint("record parts of it as they come, with `record(name, value)`"));
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> Fault {
        let fault = match self.path.join(".").replace(".[", "[").as_str() {
            "" => Fault::usage(format!("the value {why}")),
            path => Fault::usage(format!("the value at `{path}` {why}")),
        };
        fault.hint("give numbers, strings, booleans, `()`, arrays and maps of them")
    }
}

#[cfg(test)]
mod tests {
    use rhai::{Dynamic, Engine};
    use serde_json::json;

    use super::{from_script, to_script};

    fn value(script: &str) -> Dynamic {
        Engine::new().eval(script).unwrap()
    }

    #[test]
    fn plain_values_are_converted() {
        let json = json!({ "a": [1, 2.5, "x", true, null], "b": {} });
        assert_eq!(
            from_script(&value("#{ a: [1, 2.5, \"x\", true, ()], b: #{} }")).unwrap(),
            json
        );
        assert_eq!(from_script(&to_script(&json).unwrap()).unwrap(), json);
    }

    #[test]
    fn captured_variables_are_converted() {
        assert_eq!(from_script(&value("let x = [1]; let f = || x; x")).unwrap(), json!([1]));
    }

    #[test]
    fn values_without_json_form_are_refused_with_their_path() {
        let text = |script| from_script(&value(script)).unwrap_err().message;
        assert_eq!(
            text("#{ a: [0, || 1] }"),
            "the value at `a[1]` is a function, which JSON cannot hold"
        );
        assert_eq!(text("0.0 / 0.0"), "the value is NaN, which JSON cannot hold");
        assert!(text("let a = []; for i in 0..200 { a = [a]; } a").contains("deeper than 100"));
    }
}
