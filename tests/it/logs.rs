//! The shipped adapters on what real engines wrote (tests/data/README.md): facts, and what a failed start was.

use std::sync::Arc;

use profiler::engine::{Adapter, read_start};
use profiler::script;
use serde_json::{Value, json};

use super::script::bench::Bench;

fn adapter(name: &str) -> Arc<dyn Adapter> {
    script::adapter(&Bench::script("").host(), name).unwrap()
}

/// What the adapter reads from a log, had the engine ended with `code`.
fn read(engine: &str, file: &str, code: i64) -> Value {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let log: Vec<String> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    json!(read_start(adapter(engine).as_ref(), &log, code).unwrap())
}

#[test]
fn vllm_tells_its_memory() {
    let facts = read("vllm", "vllm-0.24.0-h200/default.log", 0)["facts"].clone();
    let gib = |gib: f64| json!((gib * 1_073_741_824.0_f64).round() as i64);
    assert_eq!(facts["kv_tokens"], 910_336);
    assert_eq!(facts["version"], "0.24.0");
    assert_eq!(facts["weights_bytes"], gib(13.54));
    assert_eq!(facts["kv_bytes"], gib(111.13));
    assert_eq!(facts["graphs_bytes"], gib(0.98));
    assert_eq!(facts["max_model_len"], 32_768);
    assert_eq!(
        read("vllm", "vllm-0.24.0-h200/eager.log", 0)["facts"]["kv_tokens"],
        910_816
    );
    assert_eq!(
        read("vllm", "vllm-0.24.0-h200/fp8kv.log", 0)["facts"]["kv_tokens"],
        126_176
    );
}

#[test]
fn vllm_that_reduces_its_length_says_so() {
    let facts = read("vllm", "vllm-0.24.0-h200/autolen.log", 0)["facts"].clone();
    assert_eq!(facts["max_model_len"], 63_344);
    assert!(facts["degraded"].as_str().unwrap().contains("63344"), "{facts}");
}

#[test]
fn vllm_starts_that_failed_for_memory_are_told() {
    for (file, longest) in [("toolow", Value::Null), ("toolong", json!(63_344))] {
        let read = read("vllm", &format!("vllm-0.24.0-h200/{file}.log"), 1);
        assert_eq!(
            (&read["verdict"], &read["cause"]),
            (&json!("start_failed"), &json!("memory")),
            "{file}: {read}"
        );
        assert_eq!(read["facts"]["longest"], longest, "{file}");
    }
}

#[test]
fn a_log_of_a_good_start_holds_no_failure() {
    for (engine, file) in [
        ("vllm", "vllm-0.24.0-h200/default.log"),
        ("vllm", "vllm-0.24.0-h200/small.log"),
        ("vllm", "vllm-0.24.0-h200/ngram.log"),
        ("tgi", "tgi-3.3.6-h200/start.log"),
        ("tgi", "tgi-3.3.6-h200/start-large.log"),
        ("transformers", "transformers-5.17.0-h200/serve.log"),
    ] {
        assert_eq!(read(engine, file, 0)["verdict"], Value::Null, "{file}");
    }
}

#[test]
fn a_shard_that_dies_on_an_import_is_no_lack_of_memory() {
    let read = read("tgi", "tgi-3.3.6-h200/start-failed-not-memory.log", 1);
    assert_ne!(read["cause"], "memory", "{read}");
}
