//! The setup of a run as texts by name, to find differences between runs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::run::Manifest;

/// Longer parameter values are cut: they need to be distinguished, not read.
const MAX_LENGTH: usize = 120;

/// The setup of a run. A parameter `input` is named `parameter input`.
pub(super) fn setup(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut setup = BTreeMap::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            setup.insert(name.to_owned(), text);
        }
    };
    add("GPU", gpus(&manifest.gpus));
    add("driver", manifest.driver.clone().unwrap_or_default());
    add("machine", manifest.host.name.clone());
    add("profiler", manifest.profiler.clone());
    add("script", manifest.script.path.clone());
    add("text of the script", manifest.script.sha256.chars().take(12).collect());
    add("seed", manifest.seed.map_or_else(String::new, |seed| seed.to_string()));
    for (name, pointer) in [
        ("memory of the GPUs, bytes", "/memory_total"),
        ("runtime", "/runtime"),
        ("image", "/launched/image"),
        ("simulated profile", "/launched/profile"),
    ] {
        add(
            name,
            distinct(manifest.engines.iter().filter_map(|engine| engine.pointer(pointer))),
        );
    }
    if let Some(Value::Object(parameters)) = &manifest.parameters {
        for (name, value) in parameters {
            add(&format!("parameter {name}"), text(value));
        }
    }
    setup
}

/// GPU names with counts: `2 x NVIDIA H200`.
fn gpus(gpus: &[Value]) -> String {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for name in gpus.iter().filter_map(|gpu| gpu["name"].as_str()) {
        *counted.entry(name).or_default() += 1;
    }
    let each = counted.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{count} x {name}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The distinct values of all engines.
fn distinct<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let mut texts: Vec<String> = values.filter(|value| !value.is_null()).map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    texts.join(", ")
}

fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if text.chars().count() <= MAX_LENGTH {
        return text;
    }
    let cut: String = text.chars().take(MAX_LENGTH).collect();
    format!("{cut}…")
}
