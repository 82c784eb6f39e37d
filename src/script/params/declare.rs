//! Parameters declared with `params(#{ name: param(default, "meaning") })`, merged with the user's values.

use rhai::{Dynamic, Map as ScriptMap};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::fault::{Fault, Result};
use crate::script::convert::{from_script, type_of};
use crate::script::nearest::nearest;

/// The result of `param(default, meaning)`.
#[derive(Clone, Debug)]
pub struct Param {
    /// The value unless the user sets one.
    pub default: Dynamic,
    /// One line for people.
    pub meaning: String,
}

/// A declared parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The value unless the user sets one.
    pub default: Value,
    /// One line for people.
    pub meaning: String,
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
            Ok(Declared {
                default: from_script(&param.default)
                    .map_err(|fault| fault.while_doing(format!("parameter `{name}`")))?,
                name: name.to_string(),
                meaning: param.meaning,
            })
        })
        .collect()
}

/// Merges the user's values into the defaults.
///
/// The default determines the type. An int is accepted for a float, anything for `()`, any keys for an empty map, and
/// only the declared keys for any other map.
pub(in crate::script) fn merge_values(declared: &[Declared], set: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut values: Map<_, _> = declared
        .iter()
        .map(|param| (param.name.clone(), param.default.clone()))
        .collect();
    merge(&mut values, set, "")?;
    Ok(values)
}

fn merge(values: &mut Map<String, Value>, set: &Map<String, Value>, parent: &str) -> Result<()> {
    for (key, value) in set {
        let path = format!("{parent}{key}");
        if !values.contains_key(key) {
            return Err(unknown(values, &path, key));
        }
        if let Some(slot) = values.get_mut(key) {
            assign_checked(slot, value, &path)?;
        }
    }
    Ok(())
}

fn assign_checked(slot: &mut Value, value: &Value, path: &str) -> Result<()> {
    match (&mut *slot, value) {
        (Value::Object(known), Value::Object(set)) if !known.is_empty() => {
            return merge(known, set, &format!("{path}."));
        }
        (Value::Number(default), Value::Number(number)) if default.is_f64() && !number.is_f64() => {
            let number = number.as_f64().and_then(Number::from_f64);
            *slot = number.map_or_else(|| value.clone(), Value::Number);
            return Ok(());
        }
        (default, value) if default.is_null() || type_with_article(default) == type_with_article(value) => {}
        (default, value) => {
            let fault = Fault::usage(format!(
                "parameter `{path}` must be {}, but is {} `{value}`",
                type_with_article(default),
                type_with_article(value)
            ));
            return Err(if default.is_string() && !value.is_object() {
                fault.hint(format!(
                    "to give these characters as a string: --set '{path}=\"{value}\"'"
                ))
            } else {
                fault.hint(format!("its default is `{default}`"))
            });
        }
    }
    *slot = value.clone();
    Ok(())
}

fn unknown(values: &Map<String, Value>, path: &str, key: &str) -> Fault {
    let fault = Fault::usage(format!("unknown parameter `{path}`"));
    let names = values.keys().map(String::as_str);
    if let Some(near) = nearest(key, names.clone()) {
        return fault.hint(format!("a similar parameter exists: `{near}`"));
    }
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        fault.hint("the script declares no parameters")
    } else {
        fault.hint(format!("the parameters are {}", names.join(", ")))
    }
}

fn type_with_article(value: &Value) -> &'static str {
    match value {
        Value::Null => "`()`",
        Value::Bool(_) => "a bool",
        Value::Number(number) if number.is_f64() => "a float",
        Value::Number(_) => "an int",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
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
            .map(|(name, default)| Declared {
                name: name.clone(),
                default: default.clone(),
                meaning: String::new(),
            })
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
            (
                "unknown parameter `engin`".into(),
                "a similar parameter exists: `engine`".into()
            )
        );
        assert_eq!(
            refused(json!({ "box": { "hihg": 1 } })),
            (
                "unknown parameter `box.hihg`".into(),
                "a similar parameter exists: `high`".into()
            )
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
