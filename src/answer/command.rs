//! Shell commands that run a script.

use serde_json::{Map, Value};

use crate::fmt::shell_quoted;

/// `profiler run SCRIPT --set KEY=VALUE …`
pub fn run_command(script: &str, set: &Map<String, Value>, flags: &[String]) -> String {
    let mut words = vec!["profiler".to_owned(), "run".to_owned(), shell_quoted(script)];
    for (key, value) in set {
        words.push("--set".to_owned());
        words.push(shell_quoted(&format!("{key}={}", set_value(value))));
    }
    words.extend_from_slice(flags);
    words.join(" ")
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
