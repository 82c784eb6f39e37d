//! Converts between Rhai and Rust values: script values to JSON, Rust values to maps, and options to structs, with an
//! explanation of invalid ones.

use profiler_search::error::Error;
use rhai::{Dynamic, EvalAltResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::suggest::{quoted, suggest};
use crate::fault::{Fault, Kind, Result};

/// Result of an API function.
pub type Caught<T> = std::result::Result<T, Box<EvalAltResult>>;

/// Raises an error of the search in the script.
pub(super) fn caught<T>(result: std::result::Result<T, Error>) -> Caught<T> {
    result.map_err(|error| Fault::from(error).into())
}

/// An error that a closure of the script threw, or one of the search that called it.
pub(super) struct Thrown(Box<EvalAltResult>);

impl From<Error> for Thrown {
    fn from(error: Error) -> Self {
        Self(Fault::from(error).into())
    }
}

impl From<Box<EvalAltResult>> for Thrown {
    fn from(thrown: Box<EvalAltResult>) -> Self {
        Self(thrown)
    }
}

impl From<Thrown> for Box<EvalAltResult> {
    fn from(thrown: Thrown) -> Self {
        thrown.0
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
    rhai::serde::to_dynamic(value).map_err(Fault::internal)
}

/// Converts Rust data with named fields to a map.
pub(super) fn to_map(value: &impl Serialize) -> Result<rhai::Map> {
    Ok(to_script(value)?.cast())
}

/// The script name of a value's type.
pub fn type_of(value: &Dynamic) -> String {
    type_name(value.type_name())
}

/// The script name of a Rust type, as Rust, Rhai or its macros write it; empty for none.
pub(crate) fn type_name(spelled: &str) -> String {
    let first = spelled.split('|').next().unwrap_or(spelled);
    let compact: String = first.chars().filter(|c| !c.is_whitespace()).collect();
    // Without white space, `&mut T` is `&mutT`.
    let bare = compact.strip_prefix("&mut").unwrap_or(&compact).trim_start_matches('&');
    let (path, inner) = bare.split_once('<').unwrap_or((bare, ""));
    let name = path.rsplit("::").next().unwrap_or(path);
    let inner = || type_name(inner.trim_end_matches('>').split(',').next().unwrap_or_default());
    match name {
        "Result" | "RhaiResultOf" | "Caught" | "Arc" | "Rc" | "Box" | "Shared" => return inner(),
        "Option" => return format!("{} or ()", inner()),
        "INT" | "i64" | "i32" | "u64" | "u32" | "usize" => "int",
        "FLOAT" | "f64" | "f32" => "float",
        "ImmutableString" | "String" | "str" | "SmartString" | "Identifier" => "string",
        "Array" | "Vec" => "array",
        "Blob" => "blob",
        "Map" => "map",
        "Range" | "RangeInclusive" | "ExclusiveRange" | "InclusiveRange" => "range",
        "Dynamic" | "RhaiResult" | "?" | "_" => "any",
        "FnPtr" | "Fn" => "function",
        "ModelHandle" => "MemoryModel",
        other => other.strip_suffix("Handle").unwrap_or(other),
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
        match value.as_float() {
            Ok(number) if !number.is_finite() => Err(self.refuse(&format!("is {number}, which JSON cannot hold"))),
            Err(_) if !(value.is_int() || value.is_bool() || value.is_char() || value.is_unit()) => {
                Err(self.refuse(&format!("is a {}, which JSON cannot hold", type_of(value))))
            }
            _ => serde_json::to_value(value).map_err(Fault::internal),
        }
    }

    fn map(&mut self, map: &rhai::Map) -> Result<Value> {
        // A B-tree node has room for eleven entries, even if it holds fewer.
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

/// Converts options to a struct with `deny_unknown_fields`. A fault names the option's path and the expected type, and
/// for an unknown option the closest known one.
pub fn options<T: DeserializeOwned>(map: rhai::Map) -> Result<T> {
    deserialize_as("option", from_script(&Dynamic::from(map))?)
}

/// Converts a value to a struct. Faults call its parts `what`: `option` or `key`.
pub(super) fn deserialize_as<T: DeserializeOwned>(what: &str, value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        explain(what, &path, &error.inner().to_string())
    })
}

/// Rewrites a serde message about the value at `path` for script authors.
fn explain(what: &str, path: &str, message: &str) -> Fault {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (name, known) = names
        .split_first()
        .map_or(("", &[][..]), |(name, known)| (*name, known));
    // Serde calls the whole value `.`; some paths already include the name.
    let full = match path {
        "." => name.to_owned(),
        path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        path => format!("{path}.{name}"),
    };
    if message.starts_with("unknown field") {
        let fault = Fault::usage(format!("unknown {what} `{full}`"));
        let otherwise = match known {
            [] => format!("there is no {what} here"),
            known => format!("the {what}s are {}", quoted(known)),
        };
        return suggest(fault, name, known.iter().copied(), otherwise);
    }
    if message.starts_with("unknown variant") {
        let fault = Fault::usage(format!("{what} `{path}` cannot be `{name}`"));
        let otherwise = format!("valid values: {}", quoted(known));
        return suggest(fault, name, known.iter().copied(), otherwise);
    }
    if message.starts_with("missing field") {
        return Fault::usage(format!("{what} `{full}` is missing"));
    }
    let (place, verb) = match path {
        "." => (format!("the {what}s"), "are"),
        path => (format!("{what} `{path}`"), "is"),
    };
    Fault::usage(match mismatch(message) {
        Some((found, wanted)) => format!("{place} must be {wanted}, but {verb} {found}"),
        None => format!("{place}: {message}"),
    })
}

/// Splits `invalid type: string "x", expected u64` into found and expected, in script terms.
fn mismatch(message: &str) -> Option<(String, String)> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .or_else(|| message.strip_prefix("invalid length "))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let negative = found.starts_with("integer `-");
    let found = match found.split_once(' ') {
        Some(("integer", value)) => format!("the int {value}"),
        Some(("floating", value)) => format!("the float {}", value.trim_start_matches("point ")),
        Some(("string", value)) => format!("the string {value}"),
        Some(("boolean", value)) => format!("the bool {value}"),
        _ => match found {
            "sequence" => "an array".to_owned(),
            "map" => "a map".to_owned(),
            "null" | "unit" | "unit value" | "Option value" => "`()`".to_owned(),
            length if length.parse::<u64>().is_ok() => format!("an array of {length}"),
            other => other.to_owned(),
        },
    };
    let wanted = match wanted {
        "i8" | "i16" | "i32" | "i64" | "isize" => "an int".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" if negative => "an int from 0".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "an int".to_owned(),
        "f32" | "f64" => "a float".to_owned(),
        "a boolean" => "a bool".to_owned(),
        "a sequence" => "an array".to_owned(),
        "unit" | "null" => "`()`".to_owned(),
        other if other.starts_with("struct ") => "a map".to_owned(),
        other => match other.strip_prefix("a tuple of size ") {
            Some(size) => format!("an array of {size}"),
            None => other.to_owned(),
        },
    };
    Some((found, wanted))
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

#[cfg(test)]
mod options_tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::deserialize_as;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape matters")]
    struct Outer {
        ratio: f64,
        mode: Option<Mode>,
        #[serde(default)]
        search: Inner,
        #[serde(default)]
        gpus: Vec<u32>,
        span: Option<(i64, i64)>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only its shape matters")]
    struct Inner {
        max_probes: u64,
        seed: i64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Linear,
        Log,
    }

    #[track_caller]
    fn error(value: Value) -> (String, String) {
        let fault = deserialize_as::<Outer>("option", value).unwrap_err();
        (fault.message, fault.hint.unwrap_or_default())
    }

    #[test]
    fn an_int_is_accepted_where_a_float_is_wanted() {
        assert!(deserialize_as::<Outer>("option", json!({ "ratio": 1 })).is_ok());
    }

    #[test]
    fn an_unknown_option_is_reported_with_path_and_suggestion() {
        let (message, hint) = error(json!({ "ratio": 1, "search": { "max_prbes": 1 } }));
        assert_eq!(message, "unknown option `search.max_prbes`");
        assert_eq!(hint, "did you mean `max_probes`?");
        let (message, hint) = error(json!({ "ratio": 1, "colour": 1 }));
        assert_eq!(message, "unknown option `colour`");
        assert_eq!(hint, "the options are `ratio`, `mode`, `search`, `gpus`, `span`");
    }

    #[test]
    fn a_wrong_type_is_reported_in_script_terms() {
        assert_eq!(
            error(json!({ "ratio": "x" })).0,
            "option `ratio` must be a float, but is the string \"x\""
        );
        assert_eq!(
            error(json!({ "ratio": 1, "gpus": [0, 1.5] })).0,
            "option `gpus[1]` must be an int, but is the float `1.5`"
        );
        assert_eq!(
            error(json!({ "ratio": 1, "gpus": [-1] })).0,
            "option `gpus[0]` must be an int from 0, but is the int `-1`"
        );
        assert_eq!(
            error(json!({ "ratio": 1, "gpus": {} })).0,
            "option `gpus` must be an array, but is a map"
        );
        assert_eq!(
            error(json!({ "ratio": 1, "search": 3 })).0,
            "option `search` must be a map, but is the int `3`"
        );
        assert_eq!(
            error(json!({ "ratio": null })).0,
            "option `ratio` must be a float, but is `()`"
        );
        assert_eq!(
            error(json!({ "ratio": 1, "span": [1] })).0,
            "option `span` must be an array of 2, but is an array of 1"
        );
    }

    #[test]
    fn a_missing_option_and_a_wrong_value() {
        assert_eq!(error(json!({})).0, "option `ratio` is missing");
        let (message, hint) = error(json!({ "ratio": 1, "mode": "lgo" }));
        assert_eq!(message, "option `mode` cannot be `lgo`");
        assert_eq!(hint, "did you mean `log`?");
    }
}
