//! Shell commands that run a script.

use serde_json::{Map, Value};

use crate::fmt::shell_quoted;

/// The options of `profiler run`, which win over a parameter of the same name. `--model` and `--url` are not among them:
/// they set the parameter.
pub const RUN_OPTIONS: [&str; 23] = [
    "allow",
    "attempt",
    "color",
    "dry-run",
    "force-new",
    "help",
    "insecure",
    "json",
    "matrix",
    "max-disk",
    "max-operations",
    "max-time",
    "out",
    "params",
    "quiet",
    "resume",
    "seed",
    "set",
    "shared-gpu",
    "trust-script",
    "verbose",
    "version",
    "wait",
];

/// `profiler run SCRIPT --NAME VALUE …`, with `--set NAME=VALUE` for a parameter that has no flag.
pub fn run_command(script: &str, set: &Map<String, Value>, flags: &[String]) -> String {
    let mut words = vec!["profiler".to_owned(), "run".to_owned(), shell_quoted(script)];
    for (key, value) in set {
        match value {
            Value::Object(options) if key == "search" && options.keys().all(|key| is_name(key)) => {
                words.extend(
                    options
                        .iter()
                        .map(|(name, value)| assignment(&format!("{key}.{name}"), value)),
                );
            }
            value => words.push(assignment(key, value)),
        }
    }
    words.extend_from_slice(flags);
    words.join(" ")
}

/// The words that set one parameter.
fn assignment(path: &str, value: &Value) -> String {
    let flag = path.replace('_', "-");
    let value_text = set_value(value);
    let is_host = RUN_OPTIONS.contains(&flag.as_str());
    // `--model` and `--url` take texts, and a value that looks like a flag is taken for one.
    let is_text = value.is_string() || !["model", "url"].contains(&path);
    if is_host || !is_text || !path.split('.').all(is_name) || value_text.starts_with("--") {
        return format!("--set {}", shell_quoted(&format!("{path}={value_text}")));
    }
    format!("--{flag} {}", shell_quoted(&value_text))
}

/// True if the name survives writing `_` as `-` and back.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// `--allow WHAT` for each permission.
pub fn allow_flags(permissions: &[String]) -> Vec<String> {
    permissions
        .iter()
        .map(|what| format!("--allow {}", shell_quoted(what)))
        .collect()
}

/// A value in the form that `--set` parses back: strings unquoted unless they would parse as something else.
fn set_value(value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::script::params;

    proptest! {
        #[test]
        fn values_round_trip(text in ".*", number in any::<i64>()) {
            for value in [json!(text), json!(number), json!([text, number]), json!({ "a.b": text }), json!(null)] {
                let assignment = format!("key={}", set_value(&value));
                prop_assert_eq!(params::assignment(&assignment).unwrap(), ("key", value));
            }
        }
    }
}
