//! Converts a script's map of options to a struct, and explains what is wrong with it.

use rhai::{Dynamic, Map};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::convert::from_script;
use super::nearest::{quoted, suggest};
use crate::fault::{Fault, Result};

/// Converts options to a struct with `deny_unknown_fields`. A fault names the option's path and the expected type, and
/// for an unknown option the closest known one.
pub fn options<T: DeserializeOwned>(map: Map) -> Result<T> {
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
    let names = in_backticks(message);
    let here = if path == "." {
        String::new()
    } else {
        format!("`{path}`")
    };
    if message.starts_with("unknown field") {
        let (name, known) = names
            .split_first()
            .map_or(("", &[][..]), |(name, known)| (*name, known));
        // Some paths already include the unknown name.
        let full = match (here.is_empty(), path == name || path.ends_with(&format!(".{name}"))) {
            (true, _) => name.to_owned(),
            (false, true) => path.to_owned(),
            (false, false) => format!("{path}.{name}"),
        };
        let fault = Fault::usage(format!("unknown {what} `{full}`"));
        let otherwise = match known.is_empty() {
            true => format!("there is no {what} here"),
            false => format!("the {what}s are {}", quoted(known)),
        };
        return suggest(fault, name, known.iter().copied(), otherwise);
    }
    if message.starts_with("unknown variant") {
        let (name, known) = names
            .split_first()
            .map_or(("", &[][..]), |(name, known)| (*name, known));
        let fault = Fault::usage(format!("{what} {here} cannot be `{name}`"));
        let otherwise = format!("valid values: {}", quoted(known));
        return suggest(fault, name, known.iter().copied(), otherwise);
    }
    if message.starts_with("missing field") {
        let name = names.first().copied().unwrap_or_default();
        let full = if path == "." {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        return Fault::usage(format!("{what} `{full}` is missing"));
    }
    let place = if here.is_empty() {
        format!("the {what}s")
    } else {
        format!("{what} {here}")
    };
    let Some((found, wanted)) = mismatch(message) else {
        return Fault::usage(format!("{place}: {message}"));
    };
    let verb = if here.is_empty() { "are" } else { "is" };
    Fault::usage(format!("{place} must be {wanted}, but {verb} {found}"))
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

/// The texts between backticks.
fn in_backticks(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::deserialize_as;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape matters")]
    struct Outer {
        ratio: f64,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        search: Inner,
        #[serde(default)]
        gpus: Vec<u32>,
        #[serde(default)]
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
