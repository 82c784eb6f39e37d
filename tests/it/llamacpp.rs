//! A user measures a real engine: llama-server in a container, and a kernel that kills it.

use serde_json::{Value, json};

use crate::support::llamacpp::{Start, image, start};
use crate::support::{Profiler, model, temp};

/// Enough memory for a context of 1024 tokens (64 MiB of KV cache), and not for one of 4096 (256 MiB).
const MEMORY: u64 = 160 << 20;

#[test]
fn the_kernel_kills_a_server_whose_context_is_too_large() {
    let Some(image) = image() else { return };
    let folder = temp();
    model::write(folder.path());
    assert_eq!(start(image, folder.path(), 1024, MEMORY), Start::Serves);
    assert_eq!(start(image, folder.path(), 4096, MEMORY), Start::KilledForMemory);
}

/// Runs a script with permission for the image and the model's folder; returns its result.
fn scripted(image: &str, folder: &std::path::Path, body: &str) -> serde_json::Value {
    let outcome = Profiler::new()
        .file(
            "main.rhai",
            format!(
                "import \"std/engines\" as engines;
                 let engine = engines::describe(\"llamacpp\", #{{
                     image: \"{image}\", model: \"{}/tiny.gguf\", memory_limit: {MEMORY}, gpus: [0],
                 }});
                 {body}",
                folder.display()
            ),
        )
        .args(["run", "main.rhai", "--json"])
        .args(["--allow", &format!("image={image},mount={}", folder.display())])
        .run();
    outcome.success().json()["result"].take()
}

/// The answers of two simultaneous requests are long enough to overlap on a busy machine.
#[test]
fn a_probe_of_a_real_server_is_ok_or_the_kernels_kill() {
    let Some(image) = image() else { return };
    let folder = temp();
    model::write(folder.path());
    let answers = scripted(
        image,
        folder.path(),
        "[engine.probe(#{ input: 900, output: 16 }), engine.probe(#{ input: 4000, output: 16 }), engine.probe(#{ input: 200, output: 200, concurrency: 2 })]",
    );
    let [fits, fails, both] = [&answers[0], &answers[1], &answers[2]];
    assert_eq!(
        (&fits["verdict"], &fits["input"], &fits["output"]),
        (&"ok".into(), &900.into(), &16.into()),
        "{fits}"
    );
    assert_eq!(
        (&fails["verdict"], &fails["cause"]),
        (&"start_failed".into(), &"memory".into()),
        "{fails}"
    );
    assert_eq!(fails["evidence"]["oom_killed"], true, "{fails}");
    assert_eq!(both["verdict"], "ok", "{both}");
    assert!(fits["peak"].as_u64().unwrap() > 1 << 20, "{fits}");
}

/// Compares the buffers in the server's log with the memory of its container.
#[test]
fn what_a_real_server_tells_of_its_memory_adds_up_to_what_it_holds() {
    let Some(image) = image() else { return };
    let folder = temp();
    let file = std::fs::metadata(model::write(folder.path())).unwrap().len();
    let result = scripted(
        image,
        folder.path(),
        "engine.probe(#{ input: 900, output: 16 });
         let sum = |name| { let sum = 0; for fact in engine.facts().get(name) ?? [] { sum += fact.value; } sum };
         #{
             weights: sum.call(\"weights_bytes\"), kv: sum.call(\"kv_bytes\"), activations: sum.call(\"activations_bytes\"),
             info: engine.info(), used: engine.memory().used, flags: engine.flags(),
         }",
    );
    let bytes = |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("no {name}: {result}"));
    let [weights, kv, activations] = ["weights", "kv", "activations"].map(bytes);
    // The log rounds to 0.01 MiB; the file also contains the vocabulary.
    assert!(
        weights < file && weights > file * 9 / 10,
        "{result} of a file of {file}"
    );
    let tokens = result["info"]["kv_tokens"].as_u64().unwrap();
    assert_eq!(kv, tokens * model::KV_BYTES_PER_TOKEN, "{result}");
    assert!(tokens >= 917 && activations > 0, "{result}");
    assert!(
        result["info"]["version"].as_str().unwrap().contains("0c1e570"),
        "{result}"
    );
    let (sum, used) = (weights + kv + activations, bytes("used"));
    assert!(used > sum * 9 / 10 && used < MEMORY, "{sum} of {result}");
    assert_eq!(result["flags"], json!(["--ctx-size", "917", "--parallel", "1"]));
}

/// With one axis, the boundary is a pair of lengths, and each of its sides can be started by hand.
#[test]
fn adaptive_finds_the_context_at_which_the_kernel_kills() {
    let Some(image) = image() else { return };
    let folder = temp();
    let model = model::write(folder.path());
    let outcome = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--json",
            "--set",
            "engine=llamacpp",
            "--set",
            "runtime=docker",
        ])
        .args([
            "--set",
            &format!("image={image}"),
            "--set",
            &format!("model={}", model.display()),
        ])
        .args([
            "--set",
            &format!("memory_limit={MEMORY}"),
            "--set",
            "input=[64,3072]",
            "--set",
            "output=[8,8]",
        ])
        .args(["--set", "search.coverage=0.9"])
        .run()
        .success()
        .stdout(r#""simulated": false"#);
    let found = &outcome.json()["result"];
    let points = found["points"].as_array().unwrap();

    // The kernel's kill is the cause of every failing answer, and the evidence says so.
    let failing: Vec<_> = points.iter().filter(|row| row["moves"] == "fails").collect();
    assert!(!failing.is_empty(), "{found}");
    for row in &failing {
        assert_eq!(row["evidence"]["oom_killed"], json!(true), "{row}");
    }

    // Starts both sides of the boundary without our program. llama-server needs a context of one token more than the
    // text.
    let input = |row: &Value| row["point"]["input"].as_u64().unwrap();
    let fits = points
        .iter()
        .filter(|row| row["moves"] == "fits")
        .map(input)
        .max()
        .unwrap();
    let fails = failing
        .iter()
        .filter(|row| row["verdict"] == "start_failed")
        .map(|row| input(row))
        .min()
        .unwrap();
    assert_eq!(start(image, folder.path(), fits + 8 + 1, MEMORY), Start::Serves);
    assert_eq!(
        start(image, folder.path(), fails + 8 + 1, MEMORY),
        Start::KilledForMemory
    );
    assert_eq!(found["frontier"], json!([{"input": fits, "output": 8}]));
    assert!(!found["flags"].as_array().unwrap().is_empty(), "{found}");
    assert!(
        found["headroom"].as_u64().is_some_and(|bytes| bytes < MEMORY),
        "{found}"
    );
}

/// Host memory takes the place of GPU memory: the buffers that the real server names, and the total that the kernel
/// counts.
#[test]
fn the_memory_of_a_real_server_is_broken_down() {
    let Some(image) = image() else { return };
    let folder = temp();
    let model = model::write(folder.path());
    let run = |script: &str, sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let mut outcome = Profiler::new()
            .args(["run", script, "--json", "--set", "engine=llamacpp"])
            .args(["--set", &format!("model={}", model.display())])
            .args(sets)
            .args(["--set", "input=600", "--set", "output=8"])
            .args(["--allow", &format!("image={image},mount={}", folder.path().display())])
            .run()
            .success()
            .stdout(r#""simulated": false"#)
            .json();
        outcome["result"].take()
    };
    let (image, limit) = (format!("image={image}"), format!("memory_limit={MEMORY}"));
    let found = run("memory_breakdown", &["runtime=docker", &image, &limit, "repeats=2"]);
    let part = |name: &str| {
        let parts = found["all"]["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["component"] == name);
        part.unwrap_or_else(|| panic!("no {name}: {found:#}"))
    };
    for name in ["weights", "kv_pool", "activations"] {
        assert_eq!(part(name)["provenance"], "engine_reported", "{name}");
        assert!(part(name)["source"].as_str().unwrap().contains("buffer size"), "{name}");
    }
    // 64 KiB a token, on which the memory limit is based too; the server rounds the context up to a multiple of 256.
    let pool = part("kv_pool")["bytes"].as_u64().unwrap();
    assert!((38 << 20..=50 << 20).contains(&pool), "{pool}");
    assert_eq!(part("kv_used")["within"], "kv_pool");
    let total = found["all"]["total"].as_u64().unwrap();
    assert!(total > pool && total < MEMORY, "{total}");
    assert_eq!(found["details"]["repeats"]["physical"]["n"], 2);

    let result = run("engine_info", &["runtime=docker", &image]);
    assert_eq!(result["info"]["engine"], "llamacpp");
    assert_eq!(result["memory"]["source"], "host");
    assert!(
        result["facts"]["kv_bytes"][0]["value"]
            .as_u64()
            .is_some_and(|bytes| bytes > 1 << 20),
        "{result:#}"
    );
}
