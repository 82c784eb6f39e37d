//! What a run was made with, as texts by name: what two runs differ in is read off two of these.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::run::Manifest;

/// Longer values of parameters are cut: they are told apart, not shown.
const LONGEST: usize = 120;

/// What is known of how a run was made. A parameter `input` is `parameter input`.
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
            together(manifest.engines.iter().filter_map(|engine| engine.pointer(pointer))),
        );
    }
    if let Some(Value::Object(parameters)) = &manifest.parameters {
        for (name, value) in parameters {
            add(&format!("parameter {name}"), text(value));
        }
    }
    setup
}

/// GPUs by their names: `2 x NVIDIA H200`.
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

/// The different values of all engines.
fn together<'a>(values: impl Iterator<Item = &'a Value>) -> String {
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
    if text.chars().count() <= LONGEST {
        return text;
    }
    let cut: String = text.chars().take(LONGEST).collect();
    format!("{cut}…")
}
