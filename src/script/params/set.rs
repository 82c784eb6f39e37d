//! What the user set: `--set KEY=VALUE` and `--params FILE`.

use std::path::Path;

use serde_json::{Map, Value};

use crate::fault::{Fault, Result};

/// `search.max_probes=40` as its path and value. The value is read as JSON, else it is a string.
pub fn assignment(text: &str) -> Result<(&str, Value)> {
    let (path, value) = text
        .split_once('=')
        .ok_or_else(|| Fault::usage(format!("`--set {text}` has no value")).hint("write --set KEY=VALUE"))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((path.trim(), value))
}

/// Puts `value` at `path`, whose dots reach into maps: `a.b` of `{}` makes `{ "a": { "b": value } }`.
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

/// The parameters of a YAML, TOML or JSON file, by its extension. Keys may have dots, as with `--set`.
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
                Fault::usage(format!("`{name}` has none of the extensions of a parameter file"))
                    .hint("name it .yaml, .yml, .toml or .json"),
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
mod tests {
    use serde_json::{Map, Value, json};

    use super::{assign, assignment, read_file};

    #[test]
    fn values_are_json_else_strings() {
        assert_eq!(assignment("a=1").unwrap(), ("a", json!(1)));
        assert_eq!(assignment("a.b=[1, 2]").unwrap(), ("a.b", json!([1, 2])));
        assert_eq!(assignment("a=\"7\"").unwrap(), ("a", json!("7")));
        assert_eq!(
            assignment("url=http://h/?a=b").unwrap(),
            ("url", json!("http://h/?a=b"))
        );
        assert_eq!(assignment("a=").unwrap(), ("a", json!("")));
        assert!(assignment("a").is_err());
    }

    #[test]
    fn dots_reach_into_maps_and_the_last_word_wins() {
        let mut map = Map::new();
        for (path, value) in [("a.b", 1), ("a.c.d", 2), ("e", 3), ("a.b", 4)] {
            assign(&mut map, path, json!(value)).unwrap();
        }
        assert_eq!(
            Value::Object(map.clone()),
            json!({ "a": { "b": 4, "c": { "d": 2 } }, "e": 3 })
        );
        assert!(assign(&mut map, "e.f", json!(1)).is_err());
        for wrong in ["", ".a", "a.", "a..b"] {
            assert!(assign(&mut map, wrong, json!(1)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_of_three_kinds_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("p.yaml", "model: tiny\nsearch:\n  max_probes: 40\ninput: [1, 2]\n"),
            ("p.toml", "model = \"tiny\"\ninput = [1, 2]\nsearch.max_probes = 40\n"),
            (
                "p.json",
                "{\"model\": \"tiny\", \"search.max_probes\": 40, \"input\": [1, 2]}",
            ),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let map = Value::Object(read_file(&path).unwrap());
            assert_eq!(
                map,
                json!({ "model": "tiny", "search": { "max_probes": 40 }, "input": [1, 2] }),
                "{name}"
            );
        }
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("p.json", "[1]"),
            ("p.txt", "a: 1"),
            ("p.yaml", "a: [1"),
            ("p.toml", "a = "),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let fault = read_file(&path).unwrap_err();
            assert!(fault.message.contains(name), "{fault}");
        }
    }
}
