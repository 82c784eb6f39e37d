//! A user launches the engines that take text (TGI, Ollama, transformers) and llama.cpp: their launch options, what
//! their adapters reject and read from logs, and how their simulated engines answer.

mod launches;
mod logs;
mod ollama;
mod own;
mod served;

use std::sync::Arc;

use profiler::engine::Adapter;
use profiler::script;
use serde_json::{Value, json};

use super::script::bench::Bench;

fn adapter(name: &str) -> Arc<dyn Adapter> {
    script::adapter(&Bench::script("").host(), name).unwrap()
}

/// The options of a launch as the engine module passes them, overridden by `given`.
fn options(given: &Value) -> Value {
    let mut options = json!(profiler::engine::LaunchOptions::default());
    for (key, value) in [
        ("runtime", json!("docker")),
        ("model", json!("m")),
        ("gpu_vendor", Value::Null),
        ("mounts", json!([])),
        (
            "limits",
            json!({ "input": 1000, "output": 100, "total": 1100, "concurrency": 4 }),
        ),
    ] {
        options[key] = value;
    }
    for (key, value) in given.as_object().unwrap() {
        options[key] = value.clone();
    }
    options
}
