//! A user runs each shipped probe by itself.

use std::process::Command;

use serde_json::{Value, json};

use super::{STAND_INS, model, said, script};
use crate::support::{Profiler, needs_torch, temp};

/// `probe::run` of a shipped probe with the stand-ins.
fn stood_in(name: &str, args: &Value, env: &str) -> Profiler {
    script(&format!(
        r#"probe::run("{name}", #{{ args: parse_json(`{args}`), env: #{{ PYTHONPATH: "{STAND_INS}", {env} }} }})"#
    ))
}

#[test]
fn layers_are_weighed_and_watched_by_real_torch() {
    let Some(python) = needs_torch() else { return };
    let folder = temp();
    let args = json!({ "model": model(folder.path()), "tokens": 50, "batch": 2, "dtype": "float32", "device": "cpu", "random_weights": true });
    let text = format!(r#"probe::run("layers", #{{ python: "{python}", args: parse_json(`{args}`) }})"#);
    let outcome = script(&text).run().success();
    let result = &outcome.json()["result"];
    assert_eq!(
        (&result["schema"], &result["probe"]),
        (&json!("profiler-probe/1"), &json!("layers"))
    );
    assert!(
        result["versions"]["torch"]
            .as_str()
            .unwrap()
            .starts_with(char::is_numeric)
    );

    // The parameters of a Llama block: grouped-query attention with half as many KV heads, a gated feed-forward, two
    // norms.
    let block = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64;
    assert_eq!(result["parameters"], 2 * 100 * 64 + 3 * block + 64);
    let layers = result["layers"].as_array().unwrap();
    let names: Vec<_> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    for (name, parameters) in [
        ("model.embed_tokens", 6400),
        ("model.layers.2", block),
        ("lm_head", 6400),
    ] {
        let layer = &layers[names.iter().position(|known| *known == name).unwrap()];
        assert_eq!(layer["parameters"], parameters, "{name}");
        assert_eq!(layer["parameter_bytes"], 4 * parameters, "{name}");
        assert_eq!(layer["calls"], 1, "{name}");
    }
    // A block passes on as much as it received: 2 sequences of 50 tokens, 64 floats each. On the CPU a few bytes of the
    // profiling span itself are counted.
    let block = &layers[names.iter().position(|name| *name == "model.layers.1").unwrap()];
    let kept = block["kept"].as_i64().unwrap();
    assert!((kept - 2 * 50 * 64 * 4).abs() < 64, "{block}");
    assert!(block["peak"].as_i64().unwrap() >= 2 * 50 * 128 * 4, "{block}");
    assert!(result["activation_peak"].as_i64() >= block["peak"].as_i64());
    assert!(said(&outcome, "layers").contains("one pass of 50 tokens"));

    // Each of three blocks has seven matrix products, and the head has one.
    let operations = result["operations"].as_array().unwrap();
    let product = operations.iter().find(|row| row["operation"] == "aten::mm").unwrap();
    assert_eq!(product["calls"], 3 * 7 + 1, "{product}");
    let outputs = 3 * (64 + 32 + 32 + 64 + 128 + 128 + 64) + 100;
    assert!(
        product["cpu_us"].as_f64() > Some(0.0) && product["bytes"].as_i64() >= Some(2 * 50 * outputs * 4),
        "{product}"
    );
}

#[test]
fn without_a_gpu_or_torch_a_probe_says_what_is_missing() {
    let Some(python) = needs_torch() else { return };
    let run = |python: &str| {
        let folder = temp();
        let args = json!({ "model": model(folder.path()) });
        let text = format!(r#"probe::run("allocator", #{{ python: "{python}", args: parse_json(`{args}`) }})"#);
        script(&text).run()
    };
    run(&python)
        .code(3)
        .stderr("sees no GPU")
        .stderr("where the engine has its GPU");
    let empty = temp();
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(empty.path())
        .status();
    assert!(made.unwrap().success());
    let bare = run(&empty.path().join("bin/python3").display().to_string());
    bare.code(3)
        .stderr("`torch` cannot be imported")
        .stderr("option `python`");
    run("/no/such/python3").code(3).stderr("/no/such/python3");
}

#[test]
fn the_allocator_is_read_at_each_stage() {
    let folder = temp();
    let args = json!({ "model": model(folder.path()), "input": 100, "output": 28, "batch": 4, "second_copy": true });
    let outcome = stood_in("allocator", &args, "").run().success();
    let result = &outcome.json()["result"];
    let stage = |index: usize, key: &str| result["stages"][index]["devices"][0][key].as_i64();
    assert_eq!(result["versions"]["transformers"], "5.99.0");
    assert_eq!(result["stages"][1]["stage"], "loaded");
    assert_eq!(result["parameter_bytes"], 10_000_000);
    assert_eq!(stage(1, "allocated"), Some(10_000_000));
    assert_eq!(stage(1, "reserved"), Some(10 << 20));
    assert_eq!(stage(1, "inactive_split"), Some((10 << 20) - 10_000_000));
    // KV cache for 4 sequences of 128 tokens at 1 KiB, the prompt with its mask, and the generated text. Afterwards
    // only the prompt remains.
    let peak = 10_000_000 + 4 * 128 * 1024 + 4 * 100 * 8 * 2 + 4 * 128 * 8;
    assert_eq!(stage(2, "peak_allocated"), Some(peak));
    assert_eq!(stage(2, "allocated"), Some(10_000_000 + 4 * 100 * 8));
    assert_eq!(stage(2, "num_alloc_retries"), Some(1));
    assert_eq!(stage(2, "device_used"), Some((300 << 20) + (12 << 20)));
    // Without a driver, the memory of the process is unknown: null with a reason, not 0.
    assert!(result["stages"][2]["devices"][0]["outside_torch"].is_null());
    assert!(result["stages"][2]["devices"][0]["unknown"]["outside_torch"].is_string());
    assert_eq!(result["output"], 28);
}

#[test]
fn graphs_are_counted_by_draft_length_wherever_they_are_kept() {
    let folder = temp();
    let run = |place: &str, args: Value| {
        let mut args = args;
        args["model"] = json!(model(folder.path()));
        args["second_copy"] = json!(true);
        let outcome = stood_in("trtllm_graphs", &args, &format!(r#"STAND_IN: "{place}""#))
            .run()
            .success();
        outcome.json()["result"].clone()
    };
    let one = run("old", json!({ "max_batch_size": 4 }));
    assert_eq!(one["graphs"]["by_draft_len"], json!({ "4": 3 }));
    assert_eq!(one["graphs"]["found_at"], "_executor.model_engine._cuda_graphs");
    assert_eq!(one["unknown"], json!({}));
    assert_eq!(one["versions"]["tensorrt_llm"], "0.99.0");
    let before = one["before"][0]["allocated"].as_i64().unwrap();
    assert_eq!(one["after"][0]["allocated"].as_i64().unwrap() - before, 32 << 20);

    let two = run(
        "new",
        json!({ "max_batch_size": 8, "max_draft_len": 3, "max_concurrency": 16 }),
    );
    assert_eq!(two["graphs"]["by_draft_len"], json!({ "0": 4, "3": 4 }));
    assert_eq!(two["graphs"]["count"], 8);
    assert_eq!(two["graphs"]["batch_sizes"]["3"], json!([1, 2, 4, 8]));

    for place in ["odd", "nowhere"] {
        let unknown = run(place, json!({}));
        assert!(unknown["graphs"].is_null(), "{place}: never 0");
        assert!(unknown["unknown"]["graphs"].is_string(), "{place}");
    }
}

#[test]
fn the_hook_waits_until_real_torch_uses_cuda_and_then_answers() {
    let Some(python) = needs_torch() else { return };
    // There is no CUDA at this point, so the code makes torch's calls by hand.
    let code = r#"
import json, os, socket, sys, threading, time
import torch
begin = [call for call, *_ in torch.cuda._queued_calls if call.__module__ == "sitecustomize"]
assert len(begin) == 1 and threading.active_count() == 1, begin
begin[0]()
peer = socket.socket(socket.AF_UNIX)
deadline = time.monotonic() + 20
while True:
    try:
        peer.connect("\0profiler-probe/test/%d" % os.getpid())
        break
    except OSError:
        assert time.monotonic() < deadline
        time.sleep(0.01)
answer = json.load(peer.makefile())
assert answer == {"pid": os.getpid(), "torch": torch.__version__, "devices": []}, answer
"#;
    let hook = concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib/probes/hook");
    let command = |mark: Option<&str>| {
        let mut command = Command::new(&python);
        command
            .args(["-c", code])
            .env("PYTHONPATH", hook)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
            .envs(mark.map(|mark| ("PROFILER_IN_PROCESS", mark)))
            .output()
            .unwrap()
    };
    let done = command(Some("test"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let off = command(None);
    assert!(
        String::from_utf8_lossy(&off.stderr).contains("AssertionError: []"),
        "without the mark nothing is hooked"
    );
}

#[test]
fn probes_are_python_3_9_and_say_what_they_are() {
    let code = "import ast, sys\nfor name in sys.argv[1:]:\n    tree = ast.parse(open(name).read(), name, feature_version=(3, 9))\n    assert ast.get_docstring(tree), name";
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib/probes");
    let probes = [
        "allocator",
        "layers",
        "trtllm_graphs",
        "profiler_probe",
        "profiler_nvml",
        "hook/sitecustomize",
    ];
    let files = probes.map(|name| format!("{folder}/{name}.py"));
    let done = Command::new("python3").args(["-c", code]).args(files).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn probes_are_listed_and_can_be_forked() {
    let list = Profiler::new().args(["list", "--modules"]).run().success();
    let list = list.stdout("std/probes/layers         Memory by layer: ");
    assert!(!list.stdout.contains("profiler_probe") && !list.stdout.contains("sitecustomize"));

    let fork = Profiler::new().args(["fork", "std/probes/layers"]).run().success();
    let text = std::fs::read_to_string(fork.folder().join("layers.py")).unwrap();
    assert!(text.starts_with("# origin: profiler ") && text.contains("stdlib/probes/layers.py sha256:"));
    let help = Command::new("python3")
        .arg(fork.folder().join("layers.py"))
        .arg("--help")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("Memory by layer"));
    let near = Profiler::new().args(["fork", "std/probes/layer"]).run().code(2);
    near.stderr("std/probes/layers");
}
