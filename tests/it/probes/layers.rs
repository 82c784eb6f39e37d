//! A user looks at a model with the script `layers`: by layer, by operation and token by token.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::model;
use crate::support::{Outcome, Profiler, needs_torch, temp};

/// The script on the CPU, with this Python.
fn layers(python: &str, model: &str, more: &[&str]) -> Profiler {
    Profiler::new()
        .args(["run", "layers", "--allow", "process", "--out", "run"])
        .args(["--python", python, "--model", model, "--json"])
        .args(more)
}

fn kept(outcome: &Outcome, name: &str) -> String {
    std::fs::read_to_string(outcome.folder().join("run").join(name)).unwrap()
}

#[test]
fn a_model_is_told_by_operation_and_token_by_real_torch() {
    let Some(python) = needs_torch() else { return };
    let folder = temp();
    let more = [
        "--device",
        "cpu",
        "--random-weights",
        "true",
        "--dtype",
        "float32",
        "--input",
        "50",
        "--concurrency",
        "2",
        "--output",
        "4",
    ];
    let outcome = layers(&python, &model(folder.path()), &more)
        .args(["--price-per-hour", "3.6"])
        .run()
        .success();
    let result = &outcome.json()["result"];

    // Each of three blocks keeps keys and values: two sequences, two heads of 16 floats, and a token more each time.
    let of = |tokens: u64| 3 * 2 * 2 * 2 * 16 * 4 * tokens;
    let loop_of = &result["generated"];
    assert_eq!(loop_of["kv_bytes"], serde_json::json!([of(50), of(51), of(52), of(53)]));
    let rate = loop_of["output_throughput"].as_f64().unwrap();
    let cost = loop_of["dollars_per_million_output"].as_f64().unwrap();
    assert!(
        loop_of["ttft_ms"].as_f64() > Some(0.0) && (cost * rate - 1000.0).abs() < 1e-6,
        "{loop_of}"
    );

    // The products of queries and outputs have the same shapes: two in each block, by their own bytes.
    let operations = result["operations"].as_array().unwrap();
    let shapes = serde_json::json!([[100, 64], [64, 64]]);
    let product = operations
        .iter()
        .find(|row| row["operation"] == "aten::mm" && row["shapes"] == shapes);
    assert_eq!(product.unwrap()["calls"], 3 * 2);
    let bytes: Vec<_> = operations
        .iter()
        .map(|row| row["self_bytes"].as_i64().unwrap())
        .collect();
    assert!(bytes.is_sorted_by(|a, b| a >= b) && bytes[0] > 0, "{bytes:?}");
    assert!(product.unwrap()["self_bytes"].as_i64() <= product.unwrap()["bytes"].as_i64());
    assert!(result["operations"][0]["device_us"].is_null(), "there is no GPU");

    let trace: Value = serde_json::from_str(&kept(&outcome, "files/trace.json")).unwrap();
    assert!(trace.to_string().contains("aten::mm"));
    assert!(kept(&outcome, "files/operations.txt").contains("[[100, 64], [64, 64]]"));
    assert!(kept(&outcome, "tables/operations.csv").starts_with("operation,calls,self_bytes,bytes,cpu_us,device_us,"));
    // Newer versions of transformers have a layer for the rotary embedding.
    let layers = result["layers"].as_array().unwrap().len();
    assert!(layers == 3 + 3 || layers == 3 + 4, "{layers}");
    assert_eq!(kept(&outcome, "tables/layers.csv").lines().count(), 1 + layers);
}

/// An answer of the probe, for a Python that has no torch.
const PRINTED: &str = r#"{"schema": "profiler-probe/1", "probe": "layers", "probe_version": 2, "python": "3.9.0", "versions": {"torch": "2.99.0"},
    "model": "m", "device": "cuda", "random_weights": false, "dtype": "bfloat16", "tokens": 7, "batch": 1, "with_cache": true,
    "layers": [{"layer": "a", "type": "A", "parameters": 5, "parameter_bytes": 10, "buffer_bytes": 0, "tied": false, "calls": 1, "peak": 8, "kept": 4}],
    "operations": [
        {"operation": "aten::few", "calls": 1, "cpu_us": 5, "device_us": 90, "self_bytes": 100, "bytes": 100},
        {"operation": "aten::many", "calls": 9, "cpu_us": 50, "device_us": null, "self_bytes": null, "bytes": 300}],
    "generated": null, "trace": null, "unknown": {"trace": "the trace is too long"},
    "parameters": 5, "parameter_bytes": 10, "activation_peak": 8, "devices": []}"#;

/// A Python that notes the probe's arguments, and prints [`PRINTED`] in its place.
fn python(folder: &Path) -> String {
    let path = folder.join("python3");
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in\n*layers.py) shift; echo \"$@\" > {0}/args; cat {0}/printed ;;\n*) exec /usr/bin/python3 \"$@\" ;;\nesac\n",
        folder.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("printed"), PRINTED).unwrap();
    path.display().to_string()
}

#[test]
fn its_parameters_reach_the_probe_and_the_table() {
    let folder = temp();
    let python = python(folder.path());
    let run = |more: &[&str]| layers(&python, "m", more).run();
    let more = [
        "--device",
        "cuda",
        "--input",
        "7",
        "--output",
        "3",
        "--concurrency",
        "2",
        "--with-cache",
        "true",
        "--second-copy",
        "true",
        "--random-weights",
        "true",
        "--shapes",
        "false",
        "--trace",
        "false",
        "--dtype",
        "float16",
        "--timeout",
        "60",
        "--sort",
        "calls",
        "--rows",
        "1",
    ];
    let outcome = run(&more).success().stderr("the trace is too long");
    let given = std::fs::read_to_string(folder.path().join("args")).unwrap();
    for word in [
        "--tokens 7",
        "--output 3",
        "--batch 2",
        "--device cuda",
        "--with-cache",
        "--second-copy",
        "--random-weights",
        "--dtype float16",
        "--model m",
    ] {
        assert!(given.contains(word), "{word}: {given}");
    }
    assert!(!given.contains("--shapes") && !given.contains("--trace"), "{given}");
    let names = |outcome: &Outcome| -> Vec<String> {
        let rows = outcome.json()["result"]["operations"].take();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["operation"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&outcome), ["aten::many", "aten::few"]);
    assert_eq!(
        names(&run(&["--sort", "device_us"]).success()),
        ["aten::few", "aten::many"]
    );
    let shown = Profiler::new()
        .current_dir(outcome.folder())
        .args(["show", "run"])
        .run()
        .success();
    let shown = shown.stdout("by calls, 1 of 2 operations").stdout("aten::many");
    assert!(!shown.stdout.contains("aten::few"), "{}", shown.stdout);

    let _ = run(&["--sort", "self_cuda_memory_usage"]).code(2).stderr("self_bytes");
    let _ = run(&["--price-per-hour", "3"]).code(2).stderr("`output`");
    for model in ["./m", "models/m"] {
        let _ = layers(&python, model, &["--runtime", "docker"])
            .file("models/m/config.json", "{}")
            .run()
            .code(2)
            .stderr("whole path");
    }
}

/// On a GPU, torch.profiler also lists kernels and the driver's calls.
#[test]
fn kernels_and_calls_of_the_driver_are_no_operations() {
    let program = r#"
from types import SimpleNamespace as Made
import layers
def row(key, kind):
    return Made(key=key, device_type=kind, count=1, self_cpu_time_total=1, self_device_time_total=9, self_device_memory_usage=0, device_memory_usage=0)
rows = [row("aten::mm", "DeviceType.CPU"), row("gemm_bf16", "DeviceType.CUDA"), row("cudaLaunchKernel", "DeviceType.CPU"), row("hipMalloc", "DeviceType.CPU"),
    row("cuLaunchKernelEx", "DeviceType.CPU"), row("custom::op", "DeviceType.CPU")]
profile = Made(key_averages=lambda group_by_input_shape: rows)
print([one["operation"] for one in layers.operations(profile, Made(shapes=False, device="cuda"))])
"#;
    let output = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib/probes"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "['aten::mm', 'custom::op']",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// RWKV, Mamba and their like keep a state of their own.
#[test]
fn nothing_is_generated_by_a_model_without_a_cache() {
    let Some(python) = needs_torch() else { return };
    let folder = temp();
    let config = r#"{"architectures": ["RwkvForCausalLM"], "model_type": "rwkv", "hidden_size": 16, "attention_hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 50}"#;
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    let model = folder.path().display().to_string();
    let more = [
        "--device",
        "cpu",
        "--random-weights",
        "true",
        "--input",
        "5",
        "--output",
        "3",
    ];
    let outcome = layers(&python, &model, &more)
        .run()
        .success()
        .stderr("no cache of keys and values");
    assert!(outcome.json()["result"]["generated"].is_null());
}

#[test]
fn a_dry_run_shows_the_launch_and_what_is_missing() {
    let folder = temp();
    let python = python(folder.path());
    let dry = layers(
        &python,
        "a/b",
        &["--runtime", "docker", "--engine", "vllm", "--gpus", "77", "--dry-run"],
    )
    .run();
    let _ = dry.code(3).stdout("vllm/vllm-openai");
}
