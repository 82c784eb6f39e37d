//! Parses `--set KEY=VALUE` and `--params FILE`.

use std::path::Path;

use serde_json::{Map, Value};

use crate::fault::{Fault, Result};

/// Splits `search.max_probes=40` into path and value. The value is JSON, or else a string.
pub fn assignment(text: &str) -> Result<(&str, Value)> {
    let (path, value) = text
        .split_once('=')
        .ok_or_else(|| Fault::usage(format!("`--set {text}` has no value")).hint("write --set KEY=VALUE"))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((path.trim(), value))
}

/// Inserts `value` at a dotted path: `a.b` in `{}` gives `{ "a": { "b": value } }`.
pub fn assign(map: &mut Map<String, Value>, path: &str, value: Value) -> Result<()> {
    let mut parents: Vec<&str> = path.split('.').collect();
    if parents.iter().any(|key| key.is_empty()) {
        return Err(Fault::usage(format!("`{path}` is not the name of a parameter"))
            .hint("write --set KEY=VALUE, with dots between the keys of nested maps"));
    }
    let last = parents.pop().unwrap_or_default();
    let mut inner = map;
    for key in parents {
        inner = inner
            .entry(key)
            .or_insert_with(|| Value::Object(Map::new()))
            .as_object_mut()
            .ok_or_else(|| Fault::usage(format!("`{path}` reaches into `{key}`, which is not a map")))?;
    }
    inner.insert(last.to_owned(), value);
    Ok(())
}

/// Reads a YAML, TOML or JSON file, by its extension. Keys may contain dots, as with `--set`.
pub fn read_file(path: &Path) -> Result<Map<String, Value>> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Fault::usage(format!("`{name}`: {error}")).hint("--params takes a YAML, TOML or JSON file"))?;
    let wrong = |error: &dyn std::fmt::Display| Fault::usage(format!("`{name}`: {error}"));
    let value: Value = match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => yaml_serde::from_str(&text).map_err(|error| wrong(&error))?,
        Some("toml") => toml::from_str(&text).map_err(|error| wrong(&error))?,
        Some("json") => serde_json::from_str(&text).map_err(|error| wrong(&error))?,
        _ => {
            return Err(
                Fault::usage(format!("`{name}` is not a parameter file")).hint("name it .yaml, .yml, .toml or .json")
            );
        }
    };
    let Value::Object(written) = value else {
        return Err(Fault::usage(format!("`{name}` is not a map of parameters")).hint("write `name: value` lines"));
    };
    let mut map = Map::new();
    for (key, value) in written {
        assign(&mut map, &key, value)?;
    }
    Ok(map)
}

#[cfg(test)]
mod tests;
