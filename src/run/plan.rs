//! What is about to run, and how it differs from what ran: a resume continues only the same run.

use serde_json::{Map, Value};

use super::manifest::{Manifest, Script};

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
        parameters("", &manifest.set, &plan.set, &mut differences);
    }
    if let Some(seed) = plan.seed.filter(|seed| *seed != manifest.seed) {
        differences.push(format!("the seed was {} and is {seed}", manifest.seed));
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

/// What makes an engine the same one: whatever of this both descriptions tell.
const IDENTITY: [&str; 8] = [
    "engine",
    "runtime",
    "version",
    "image",
    "image_digest",
    "digest",
    "model",
    "profile",
];

/// How an engine differs from those that earlier lives of the run started; none when it is one of them, or the first.
pub(super) fn engine_differences(before: &[Value], now: &Value) -> Vec<String> {
    let differ = |before: &Value| -> Vec<String> {
        let told = IDENTITY.iter().filter_map(|key| {
            let (before, now) = (before.get(key)?, now.get(key)?);
            let same = before == now || before.is_null() || now.is_null();
            (!same).then(|| format!("`{key}` of the engine was {before} and is {now}"))
        });
        told.collect()
    };
    before.iter().map(differ).min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

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
    fn an_engine_is_known_by_what_both_sides_tell() {
        let before = [json!({ "engine": "vllm", "version": "0.24.0", "limits": { "input": 1 }, "digest": null })];
        let same = json!({ "engine": "vllm", "version": "0.24.0", "limits": { "input": 2 }, "digest": "sha256:1" });
        assert_eq!(engine_differences(&before, &same), Vec::<String>::new());
        assert_eq!(engine_differences(&[], &same), Vec::<String>::new());
        let newer = json!({ "engine": "vllm", "version": "0.25.0" });
        assert_eq!(
            engine_differences(&before, &newer),
            ["`version` of the engine was \"0.24.0\" and is \"0.25.0\""]
        );
    }
}
