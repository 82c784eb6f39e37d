//! What is about to run, and how it differs from what ran: a resume continues only the same run.

use serde_json::{Map, Value};

use super::manifest::{Manifest, Script};
use super::secrets;

/// What is about to run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The script.
    pub script: Script,
    /// Its text.
    pub text: String,
    /// What `--params` and `--set` give. On a resume, nothing at all means: as before.
    pub set: Map<String, Value>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// What the user allowed.
    pub permissions: Vec<String>,
    /// `--shared-gpu`.
    pub shared_gpu: bool,
    /// `--max-operations`.
    pub max_operations: Option<u64>,
}

/// How `plan` differs from what `manifest` says ran, for people; `module` gives the hash of a module as it is now.
pub(super) fn differences(manifest: &Manifest, plan: &Plan, module: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut differences = Vec::new();
    if manifest.script.sha256 != plan.script.sha256 {
        differences.push(format!("the script `{}` has changed", plan.script.path));
    }
    for (name, sha256) in &manifest.modules {
        match module(name) {
            Some(now) if now == *sha256 => {}
            Some(_) => differences.push(format!("the module `{name}` has changed")),
            None => differences.push(format!("the module `{name}` is not there any more")),
        }
    }
    if !plan.set.is_empty() {
        parameters("", &manifest.set, &secrets::kept(&plan.set), &mut differences);
    }
    if let (Some(before), Some(now)) = (manifest.seed, plan.seed)
        && before != now
    {
        differences.push(format!("the seed was {before} and is {now}"));
    }
    differences
}

fn parameters(prefix: &str, before: &Map<String, Value>, now: &Map<String, Value>, found: &mut Vec<String>) {
    let added = now.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let name = format!("{prefix}{key}");
        match (before.get(key), now.get(key)) {
            (Some(Value::Object(before)), Some(Value::Object(now))) => {
                parameters(&format!("{name}."), before, now, found);
            }
            (Some(before), Some(now)) if before == now => {}
            (Some(before), Some(now)) => found.push(format!("the parameter `{name}` was {before} and is {now}")),
            (Some(before), None) => found.push(format!("the parameter `{name}` was {before} and is not set")),
            (None, Some(now)) => found.push(format!("the parameter `{name}` was not set and is {now}")),
            (None, None) => {}
        }
    }
}

/// What says that two starts are meant to be the same engine, as JSON pointers into their descriptions.
const MEANT: [&str; 3] = ["/info/engine", "/runtime", "/options"];

/// What must then be equal, wherever both descriptions tell it.
const EQUAL: [&str; 5] = [
    "/info/version",
    "/info/model",
    "/launched/image",
    "/launched/digest",
    "/launched/image_digest",
];

/// How an engine differs from what earlier lives of the run started in its place; nothing where it is the same, or a new one.
pub(super) fn engine_differences(before: &[Value], now: &Value) -> Vec<String> {
    let differ = |before: &Value| -> Vec<String> {
        let told = EQUAL.iter().filter_map(|pointer| {
            let (before, now) = (before.pointer(pointer)?, now.pointer(pointer)?);
            let same = before == now || before.is_null() || now.is_null();
            let name = pointer.rsplit('/').next().unwrap_or(pointer);
            (!same).then(|| format!("the engine's {name} was {before} and is {now}"))
        });
        told.collect()
    };
    let meant = |before: &&Value| MEANT.iter().all(|key| before.pointer(key) == now.pointer(key));
    before
        .iter()
        .filter(meant)
        .map(differ)
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// Whether the description is one more start of an engine that is among `before`.
pub(super) fn is_among(before: &[Value], now: &Value) -> bool {
    let same = |before: &Value| {
        let mut keys = MEANT.iter().chain(&EQUAL);
        keys.all(|key| before.pointer(key) == now.pointer(key))
    };
    before.iter().any(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn parameters_are_compared_by_their_paths() {
        let mut found = Vec::new();
        let before = map(json!({ "model": "a", "search": { "seed": 1, "coverage": 0.9 }, "gpus": [0] }));
        let now = map(json!({ "model": "a", "search": { "seed": 2, "coverage": 0.9 }, "url": "x" }));
        parameters("", &before, &now, &mut found);
        assert_eq!(
            found,
            [
                "the parameter `gpus` was [0] and is not set",
                "the parameter `search.seed` was 1 and is 2",
                "the parameter `url` was not set and is \"x\"",
            ]
        );
    }

    #[test]
    fn an_engine_must_be_the_one_that_was_started_in_its_place() {
        let engine = |version: Value, limit: u64| json!({ "info": { "engine": "vllm", "version": version }, "limits": { "input": limit } });
        let before = [engine(json!("0.24.0"), 1)];
        assert!(engine_differences(&before, &engine(json!("0.24.0"), 2)).is_empty());
        assert!(
            engine_differences(&before, &engine(Value::Null, 2)).is_empty(),
            "not told is not different"
        );
        assert!(engine_differences(&[], &engine(json!("0.25.0"), 1)).is_empty());
        assert_eq!(
            engine_differences(&before, &engine(json!("0.25.0"), 1)),
            ["the engine's version was \"0.24.0\" and is \"0.25.0\""]
        );
        let other = json!({ "info": { "engine": "tgi", "version": "3.3.6" } });
        assert!(
            engine_differences(&before, &other).is_empty(),
            "a second engine of the same script"
        );
        assert!(is_among(&before, &engine(json!("0.24.0"), 9)) && !is_among(&before, &other));
    }
}
