//! A script's parameters: parses `--set KEY=VALUE` and `--params FILE`, and merges them with the defaults that the script
//! declares with `params(#{ name: param(default, "meaning") })`.

use std::path::Path;

use rhai::{Dynamic, Map as ScriptMap};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::convert::{from_script, type_of};
use super::form::{Form, FormOptions, json_or_string};
use super::shipped;
use super::signature::is_name;
use super::suggest::{quoted, suggest};
use crate::fault::{Fault, Result};
use crate::outside;
use crate::sim::Spec;

/// The result of `param(default, meaning, options)`.
#[derive(Clone, Debug)]
pub struct Param {
    /// The default value.
    pub default: Dynamic,
    /// One line for people.
    pub meaning: String,
    /// The options of the declaration about its form.
    pub form: FormOptions,
}

/// A declared parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declared {
    /// Its name; entries of maps are separated by dots.
    pub name: String,
    /// The default value.
    pub default: Value,
    /// One line for people.
    pub meaning: String,
    /// The form of its values.
    #[serde(flatten)]
    pub form: Form,
}

impl Declared {
    /// A parameter whose form follows from its default.
    fn new(name: String, default: Value, meaning: &str) -> Self {
        Self {
            form: Form::new(&default, FormOptions::default()),
            name,
            default,
            meaning: meaning.to_owned(),
        }
    }

    /// The entry `key` of a map that accepts any keys.
    pub fn within(map: &Self, key: &str) -> Self {
        Self::new(format!("{}.{key}", map.name), Value::Null, &map.meaning)
    }

    /// The known entries of a parameter: those of a map with defaults, and the options of a search.
    fn parts(&self) -> Vec<Self> {
        let mut parts = search_options(std::slice::from_ref(self));
        if let Value::Object(map) = &self.default {
            parts.extend(map.iter().map(|(key, value)| Self::new(key.clone(), value.clone(), "")));
        }
        parts
    }

    /// The error for an option that the search of this parameter has no use for.
    fn unused(&self, path: &str, key: &str) -> Option<Fault> {
        let (module, strategy) = strategy(std::slice::from_ref(self))?;
        unused_by(module, strategy).iter().find(|name| *name == key)?;
        let fault = Fault::usage(format!("`{module}::{strategy}` has no use for `{path}`"));
        Some(fault.hint("leave it out, or run another strategy: `profiler list`"))
    }

    /// Checks the value that the user gave and converts it for scripts; entries of a map that are not given keep their
    /// defaults. `path` is the parameter's dotted name, for errors: `search.max_probes`.
    fn read(&self, path: &str, value: &Value) -> Result<Value> {
        let parts = self.parts();
        let (Value::Object(set), false) = (value, parts.is_empty()) else {
            return self.form.read(path, &self.default, value);
        };
        let mut map = self.default.as_object().cloned().unwrap_or_default();
        for (key, value) in set {
            let path = format!("{path}.{key}");
            let part = parts.iter().find(|part| part.name == *key);
            let part = part.ok_or_else(|| self.unused(&path, key).unwrap_or_else(|| unknown(&parts, &path, key)))?;
            map.insert(key.clone(), part.read(&path, value)?);
        }
        Ok(Value::Object(map))
    }
}

/// Converts the argument of `params`.
pub(in crate::script) fn declared(map: ScriptMap) -> Result<Vec<Declared>> {
    map.into_iter()
        .map(|(name, value)| {
            let kind = type_of(&value);
            let param = value.try_cast::<Param>().ok_or_else(|| {
                Fault::usage(format!("parameter `{name}` is a {kind}, not a `param(…)`"))
                    .hint(format!("write `{name}: param(default, \"what it means\")`"))
            })?;
            let default =
                from_script(&param.default).map_err(|fault| fault.while_doing(format!("parameter `{name}`")))?;
            Ok(Declared {
                form: Form::new(&default, param.form),
                default,
                name: name.to_string(),
                meaning: param.meaning,
            })
        })
        .collect()
}

/// The parameters that a user can set, including entries of maps: `search`, then `search.max_probes` and so on.
pub fn settable(declared: &[Declared]) -> Vec<Declared> {
    let mut all = Vec::new();
    for one in declared {
        all.push(one.clone());
        all.extend(one.parts().into_iter().map(|part| Declared {
            name: format!("{}.{}", one.name, part.name),
            ..part
        }));
    }
    all
}

/// Merges the user's values into the defaults.
///
/// The declaration determines the type and the other forms that a value may have. An int is accepted for a
/// float, anything for `()`, any keys for an empty map, and only the declared keys for any other map.
pub(in crate::script) fn merge_values(declared: &[Declared], set: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut values: Map<_, _> = declared
        .iter()
        .map(|param| (param.name.clone(), param.default.clone()))
        .collect();
    for (key, value) in set {
        let one = declared.iter().find(|one| one.name == *key);
        let one = one.ok_or_else(|| unknown(declared, key, key))?;
        values.insert(key.clone(), one.read(key, value)?);
    }
    Ok(values)
}

/// The beginning of the hint that lists all parameters of a script.
pub(in crate::script) const PARAMETERS_ARE: &str = "the parameters are";

fn unknown(known: &[Declared], path: &str, key: &str) -> Fault {
    let fault = Fault::usage(format!("unknown parameter `{path}`"));
    let names = || known.iter().map(|one| one.name.as_str());
    let otherwise = if known.is_empty() {
        "the script declares no parameters".to_owned()
    } else {
        format!("{PARAMETERS_ARE} {}", quoted(names()))
    };
    suggest(fault, key, names(), otherwise)
}

/// Checks in advance what a start would refuse: the profile of a simulated engine. `home` is the script's folder.
pub(in crate::script) fn check_values(declared: &[Declared], values: &Map<String, Value>, home: &Path) -> Result<()> {
    let is_engine = declared.iter().any(|one| one.name == "sim");
    if let Some(Value::String(profile)) = values.get("profile").filter(|profile| is_engine && *profile != "") {
        Spec::from_script(json!({ "profile": profile }), home)?.resolve()?;
    }
    Ok(())
}

/// The options of the search that a parameter is for, by its meaning: `options of model_guided::search` gives the
/// options of `std/model_guided` and those of every strategy that it has a use for, with defaults in Rhai notation.
/// Empty if it is not a search of the standard library.
pub fn search_options(declared: &[Declared]) -> Vec<Declared> {
    let Some((module, strategy)) = strategy(declared) else {
        return Vec::new();
    };
    let unused = unused_by(module, strategy);
    let mut options = options_of(module);
    let mut shared = options_of("search/options");
    shared.retain(|one| !unused.contains(&one.name) && options.iter().all(|own| own.name != one.name));
    options.extend(shared);
    options
}

/// The shipped module and its function that the parameter `search` has options of.
fn strategy(declared: &[Declared]) -> Option<(&str, &str)> {
    let search = declared.iter().find(|one| one.name == "search")?;
    let (module, rest) = search.meaning.strip_prefix("options of ")?.split_once("::")?;
    let function = rest
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()?;
    shipped::modules()
        .any(|known| known == module)
        .then_some((module, function))
}

/// The options of every strategy that this one has no use for, from `UNUSED` of its module.
fn unused_by(module: &str, strategy: &str) -> Vec<String> {
    let lists = constant(module, "UNUSED");
    let mut lists = lists.lines().filter_map(|line| line.trim().split_once(": "));
    let list = lists.find(|(name, _)| *name == strategy).map_or("", |(_, list)| list);
    serde_json::from_str(list.trim_end_matches(',')).unwrap_or_default()
}

/// The lines of a map that is a constant of a shipped module; empty without it.
fn constant(module: &str, name: &str) -> String {
    let text = shipped::module(module).unwrap_or_default();
    let lines = text
        .split_once(&format!("const {name} = #{{"))
        .and_then(|(_, rest)| rest.split_once("\n};"));
    lines.map_or("", |(lines, _)| lines).to_owned()
}

/// The options in `OPTIONS` of a shipped module.
fn options_of(module: &str) -> Vec<Declared> {
    let mut meaning = String::new();
    let mut found = Vec::new();
    for line in constant(module, "OPTIONS").lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            meaning.push_str(comment);
        } else if let Some((name, default)) = line.split_once(": ") {
            let default = match default.trim_end_matches(',') {
                "#{}" => json!({}),
                default => json_or_string(default),
            };
            let meaning = std::mem::take(&mut meaning);
            let mut option = Declared::new(name.to_owned(), default, meaning.trim());
            if option.default.is_string() {
                // The comment names the possible texts in quotes.
                option.form.values = meaning.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            }
            found.push(option);
        }
    }
    found
}

/// A value in Rhai notation.
pub fn in_script(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "()".to_owned(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(in_script).collect())),
        Value::Object(map) if map.is_empty() => "#{}".to_owned(),
        Value::Object(map) => {
            let item = |(key, value): (&String, &Value)| {
                if is_name(key) {
                    format!("{key}: {}", in_script(value))
                } else {
                    format!("{key:?}: {}", in_script(value))
                }
            };
            let items = map.iter().map(item);
            format!("#{{ {} }}", list(items.collect()))
        }
        other => other.to_string(),
    }
}

/// Splits `search.max_probes=40` into path and value. The value is JSON or `()`, or else a string.
pub fn assignment(text: &str) -> Result<(&str, Value)> {
    let (path, value) = text
        .split_once('=')
        .ok_or_else(|| Fault::usage(format!("`--set {text}` has no value")).hint("write --set KEY=VALUE"))?;
    Ok((path.trim(), json_or_string(value)))
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
    let text = super::added::read(path)
        .map_err(|fault| Fault::usage(fault.message).hint("--params takes a YAML, TOML or JSON file"))?;
    let parsed: Result<Value, String> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => yaml_serde::from_str(&text).map_err(|error| error.to_string()),
        Some("toml") => toml::from_str(&text).map_err(|error| error.to_string()),
        Some("json") => outside::json(text.as_bytes()).map_err(|error| error.to_string()),
        _ => {
            let fault = Fault::usage(format!("`{name}` is not a parameter file"));
            return Err(fault.hint("name it .yaml, .yml, .toml or .json"));
        }
    };
    let value = parsed.map_err(|error| Fault::usage(format!("`{name}`: {error}")))?;
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
mod declare_tests {
    use serde_json::{Value, json};

    use super::{Declared, merge_values};

    fn merged(set: Value) -> crate::fault::Result<Value> {
        let defaults = json!({
            "engine": "auto", "gpus": [0], "ratio": 0.5, "count": 3, "any": null, "free": {}, "box": { "low": 1, "high": 2 },
        });
        let declared: Vec<_> = defaults
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, default)| Declared::new(name.clone(), default.clone(), ""))
            .collect();
        merge_values(&declared, set.as_object().unwrap()).map(Value::Object)
    }

    #[track_caller]
    fn refused(set: Value) -> (String, String) {
        let fault = merged(set).unwrap_err();
        (fault.message, fault.hint.unwrap())
    }

    #[test]
    fn a_set_value_replaces_the_default() {
        let values =
            merged(json!({ "engine": "sim", "gpus": ["GPU-1"], "ratio": 1, "any": [1], "free": { "x": 1 } })).unwrap();
        assert_eq!(values["engine"], "sim");
        assert_eq!(values["gpus"], json!(["GPU-1"]));
        assert_eq!(values["ratio"], json!(1.0));
        assert!(values["ratio"].is_f64());
        assert_eq!(values["any"], json!([1]));
        assert_eq!(values["free"], json!({ "x": 1 }));
        assert_eq!(values["count"], 3);
    }

    #[test]
    fn a_map_keeps_its_other_keys() {
        assert_eq!(
            merged(json!({ "box": { "high": 9 } })).unwrap()["box"],
            json!({ "low": 1, "high": 9 })
        );
    }

    #[test]
    fn unknown_names_are_reported_with_path_and_suggestion() {
        assert_eq!(
            refused(json!({ "engin": 1 })),
            ("unknown parameter `engin`".into(), "did you mean `engine`?".into())
        );
        assert_eq!(
            refused(json!({ "box": { "hihg": 1 } })),
            ("unknown parameter `box.hihg`".into(), "did you mean `high`?".into())
        );
    }

    #[test]
    fn a_wrong_type_is_reported() {
        assert_eq!(
            refused(json!({ "count": 2.5 })).0,
            "parameter `count` must be an int, but is a float `2.5`"
        );
        assert_eq!(
            refused(json!({ "box": 2 })).0,
            "parameter `box` must be a map, but is an int `2`"
        );
        assert_eq!(
            refused(json!({ "engine": 7 })).1,
            "to give these characters as a string: --set 'engine=\"7\"'"
        );
    }
}

#[cfg(test)]
mod set_tests {
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
        assert_eq!(assignment("a=()").unwrap(), ("a", json!(null)));
        assert!(assignment("a").is_err());
    }

    #[test]
    fn dots_reach_into_maps_and_the_last_assignment_wins() {
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
    fn yaml_toml_and_json_files_give_the_same_parameters() {
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
    fn an_invalid_file_is_refused() {
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
