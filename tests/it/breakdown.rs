//! A user reads memory by component: for recorded starts of real engines, for simulated ones, and in the output of
//! `show` and the report.

mod engines;
mod estimated;

use serde_json::{Value, json};

use super::logs::rules;
use super::script::bench::Bench;
use crate::support::Profiler;

const MIB: i64 = 1 << 20;
const GIB: f64 = 1_073_741_824.0;

/// Memory that the driver of the H200 reserves. The recorded series count it as used; our own source of device memory
/// does not.
const RESERVED: i64 = 615 * MIB;

/// The capacity of the H200 without the driver's reserve.
const H200: i64 = 143_771 * MIB - RESERVED;

/// The facts that the vLLM adapter reads from a recorded log.
fn vllm(start: &str) -> Value {
    let path = format!("{}/tests/data/vllm-0.24.0-h200/{start}.log", env!("CARGO_MANIFEST_DIR"));
    facts("vllm", &std::fs::read_to_string(path).unwrap())
}

/// The facts that an adapter reads from log lines.
fn facts(engine: &str, log: &str) -> Value {
    let log: Vec<String> = log.lines().map(str::to_owned).collect();
    json!(rules(engine).read_start(&log, 0).reported)
}

/// Memory in use at a time of a recorded series, in bytes.
fn used(start: &str, seconds: f64) -> i64 {
    let path = format!(
        "{}/tests/data/vllm-0.24.0-h200/{start}.memory.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let series = std::fs::read_to_string(path).unwrap();
    let rows = series.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let row = rows
        .take_while(|row| row[0].parse::<f64>().unwrap() <= seconds)
        .last()
        .unwrap();
    row[1].parse::<i64>().unwrap() * MIB - RESERVED
}

/// The memory of one device at a stage.
fn stage(used: i64) -> Value {
    json!({ "sum": used, "per_gpu": [{ "id": "gpu0", "used": used, "total": H200 }] })
}

/// The breakdown that `std/memory` makes of reported facts, as a script gets it.
fn broken_down(facts: &Value, usage: &Value, options: &str) -> Value {
    Bench::script(&format!(
        "import \"std/memory\" as memory;
         let p = params(#{{ reported: param(#{{}}, \"what the engine reported\") }});
         breakdown::note(\"test\", #{{ devices: memory::explain(p.reported, {options}) }})"
    ))
    .set(json!({ "reported": { "facts": facts, "usage": usage } }))
    .value()
}

/// A component summed over all devices: GiB and provenance.
fn part(breakdown: &Value, component: &str) -> (f64, String) {
    let parts = breakdown["all"]["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["component"] == component);
    let part = part.unwrap_or_else(|| panic!("no {component}: {breakdown}"));
    (
        part["bytes"].as_i64().unwrap() as f64 / GIB,
        part["provenance"].as_str().unwrap().to_owned(),
    )
}

#[track_caller]
fn assert_part(breakdown: &Value, component: &str, gib: f64, provenance: &str) {
    let (bytes, found) = part(breakdown, component);
    assert!((bytes - gib).abs() < 0.006, "{component} is {bytes}: {breakdown:#}");
    assert_eq!(found, provenance, "{component}");
}

#[track_caller]
fn assert_adds_up(breakdown: &Value) {
    let parts = breakdown["all"]["parts"].as_array().unwrap();
    let outer = parts
        .iter()
        .filter(|part| part.get("within").is_none_or(Value::is_null));
    let sum: i64 = outer.map(|part| part["bytes"].as_i64().unwrap()).sum();
    assert_eq!(sum, breakdown["all"]["total"].as_i64().unwrap());
}

/// By the log, loading took 1.933 s and ended before the next allocation at 47.748 s. So it began at 45.80 s, which the
/// log's clock (12:50:19) and the clock of the samples allow too.
#[test]
fn the_default_start_of_vllm_is_explained() {
    let mut facts = vllm("default");
    assert_eq!(facts["max_num_batched_tokens"][0]["value"], 8192);
    facts["loading"][0]["before"] = json!({ "gpu0": used("default", 45.80) });
    facts["weights_bytes"][0]["after"] = json!({ "gpu0": used("default", 47.70) });
    let usage = json!({
        "baseline": stage(used("default", 1.0)),
        "loaded": stage(used("default", 80.0)),
        "peak": stage(used("default", 80.0)),
    });
    let found = broken_down(&facts, &usage, "#{ tokens: 91033 }");
    assert_adds_up(&found);
    assert_part(&found, "weights", 13.54, "engine_reported");
    assert_part(&found, "kv_pool", 111.13, "engine_reported");
    assert_part(&found, "kv_used", 11.113, "computed");
    assert_part(&found, "cuda_graphs", 0.98, "engine_reported");
    assert_part(&found, "runtime_context", 0.674, "measured");
    // The profiling run needed 1.15 GiB; 0.70 GiB of it stayed after the graphs were captured.
    assert_part(&found, "activations", 0.705, "computed");
    let (unexplained, _) = part(&found, "unexplained");
    assert!(unexplained.abs() < 0.5, "{unexplained}");
}

/// Memory from a leak, or from a wrong report of the engine, is not attributed to a component.
#[test]
fn what_nobody_told_of_stays_unexplained() {
    let mut facts = vllm("default");
    facts["loading"][0]["before"] = json!({ "gpu0": used("default", 45.80) });
    facts["weights_bytes"][0]["after"] = json!({ "gpu0": used("default", 47.70) });
    let ready = used("default", 80.0) + 3 * 1024 * MIB;
    let usage = json!({ "baseline": stage(0), "loaded": stage(ready), "peak": stage(ready) });
    let found = broken_down(&facts, &usage, "#{}");
    assert_adds_up(&found);
    let (activations, _) = part(&found, "activations");
    assert!(
        activations < 1.16,
        "more than a forward pass was found to need: {activations}"
    );
    let (unexplained, _) = part(&found, "unexplained");
    assert!((2.0..3.0).contains(&unexplained), "{unexplained}");
}

/// An eager engine under a real load: 48 streams arrived after it was ready.
#[test]
fn a_load_on_a_small_pool_is_explained() {
    let mut facts = vllm("small");
    facts["loading"][0]["before"] = json!({ "gpu0": used("small", 25.40) });
    facts["weights_bytes"][0]["after"] = json!({ "gpu0": used("small", 26.80) });
    let usage = json!({
        "baseline": stage(used("small", 1.0)),
        "loaded": stage(used("small", 30.7)),
        "peak": stage(used("small", 60.0)),
    });
    let found = broken_down(&facts, &usage, "#{}");
    assert_adds_up(&found);
    assert_part(&found, "runtime_context", 0.584, "measured");
    assert_part(&found, "kv_pool", 7.73, "engine_reported");
    // 1.10 GiB by the engine's budget, and 0.22 GiB that appeared with the load.
    assert_part(&found, "activations", 1.318, "computed");
    let (unexplained, _) = part(&found, "unexplained");
    assert!((0.0..0.5).contains(&unexplained), "{unexplained}");
}

/// The series of this start was not kept, so the context cannot be separated from the rest, and is not guessed.
#[test]
fn without_a_series_the_context_is_not_made_up() {
    let usage = json!({ "baseline": stage(0), "peak": stage(129_733 * MIB) });
    let found = broken_down(&vllm("eager"), &usage, "#{}");
    assert_adds_up(&found);
    assert_part(&found, "activations", 1.091, "computed");
    let named: Vec<_> = found["all"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["component"])
        .collect();
    assert!(!named.contains(&&json!("runtime_context")), "{named:?}");
    assert_part(&found, "unexplained", 0.872, "computed");
}

#[test]
fn the_script_shows_the_breakdown_of_the_simulated_engine_and_so_does_show() {
    let outcome = Profiler::new()
        .args(["run", "memory_breakdown", "--out", "run", "--set", "concurrency=2"])
        .run()
        .success()
        .stdout("SIMULATED")
        .stdout("memory of sim: weights 15.0 GiB of ")
        .stdout("where the figures come from")
        .nowhere("\"bytes\"");
    let folder = outcome.folder().join("run");
    let folder = folder.display().to_string();
    let _ = Profiler::new()
        .args(["show", &folder])
        .run()
        .success()
        .stdout("memory of sim: weights 15.0 GiB of ")
        .stdout("repeated: 3 times: ")
        .stdout("memory in use by stage, GiB")
        .stdout("before  loaded  warmed up   peak  after")
        .stdout("SIMULATED");
    let document = Profiler::new().args(["show", &folder, "--json"]).run().success().json();
    let found = &document["result"];
    assert_eq!(document["simulated"], true);
    assert_adds_up(found);
    let (unexplained, _) = part(found, "unexplained");
    assert!(unexplained.abs() < 0.05, "{unexplained}");
    assert_eq!(found["details"]["repeats"]["physical"]["n"], 3);
    // Every stage was recorded, the last one after the script had stopped its engine.
    let stages = &document["memory"]["engine-1"];
    assert_eq!(stages["after"]["sum"], stages["baseline"]["sum"]);
    assert!(
        stages["loaded"]["sum"].as_u64() <= stages["peak"]["sum"].as_u64(),
        "{stages}"
    );
    assert_eq!(found["per_gpu"][0]["total"], found["all"]["total"]);
}

#[test]
fn the_breakdown_takes_a_prompt_of_ones_own_and_new_starts() {
    let run = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        Profiler::new()
            .args(["run", "memory_breakdown", "--json"])
            .args(sets)
            .run()
    };
    let found = run(&["prompt=a few words of my own", "output=7"]).success().json()["result"].take();
    let asked = found["details"]["asked"].as_str().unwrap();
    assert!(asked.contains("+ 7 tokens each: ok"), "{asked}");
    let found = run(&["restart=true", "repeats=2"]).success().json()["result"].take();
    assert_eq!(found["details"]["repeats"]["weights"]["n"], 2);
    let _ = run(&["restart=true", "url=http://127.0.0.1:1"])
        .code(2)
        .stderr("leave out `restart`");
    let _ = run(&["repeats=0"]).code(2).stderr("`repeats` is 0");
}

#[test]
fn the_script_tells_what_an_engine_is() {
    let outcome = Profiler::new().args(["run", "engine_info", "--json"]).run().success();
    let found = outcome.json()["result"].take();
    assert_eq!(found["info"]["engine"], "sim");
    assert_eq!(found["facts"]["kv_tokens"][0]["value"], found["info"]["kv_tokens"]);
    assert_eq!(found["facts"]["kv_tokens"][0]["origin"], "log");
    assert!(found["memory"]["used"].as_u64().unwrap() > 1 << 30, "{found}");
    let _ = Profiler::new()
        .args(["run", "engine_info"])
        .run()
        .success()
        .stdout("SIMULATED: Llama-3.1-8B-Instruct, 24 GB card (profile llama-8b-24gb-vllm); ");
    // The length is what memory allows, not one that the script chose; and the engine serves the model of its profile.
    assert_eq!(found["info"]["max_model_len"], found["info"]["kv_tokens"]);
    let _ = Profiler::new()
        .args(["run", "engine_info", "--model", "Qwen/Qwen3-8B"])
        .run()
        .success()
        .stdout("serves meta-llama/Llama-3.1-8B-Instruct")
        .stderr("`Qwen/Qwen3-8B` is not simulated")
        .stderr("the start failed (memory): ");
}

/// Two ranks log separately: their lines are not mixed up, and a value that only the first one logs is marked as
/// assumed for the second.
#[test]
fn ranks_are_told_apart() {
    let log = "(Worker_TP0 pid=1) INFO [gpu_worker.py:1] Model loading took 8.00 GiB and 1.0 seconds\n\
               (Worker_TP1 pid=2) INFO [gpu_worker.py:1] Model loading took 9.00 GiB and 1.0 seconds\n\
               (Worker_TP0 pid=1) INFO [gpu_worker.py:2] Available KV cache memory: 20.0 GiB\n\
               (EngineCore pid=3) INFO [kv_cache_utils.py:3] GPU KV cache size: 1,000 tokens";
    let device = |id: &str, gib: f64| json!({ "id": id, "used": (gib * GIB) as i64, "total": H200 });
    let usage = json!({
        "baseline": { "per_gpu": [device("a", 0.5), device("b", 2.5)] },
        "peak": { "per_gpu": [device("a", 30.0), device("b", 34.0)] },
    });
    let found = broken_down(&facts("vllm", log), &usage, "#{ tokens: 500 }");
    assert_adds_up(&found);
    let bytes = |rank: usize, component: &str| {
        let parts = found["per_gpu"][rank]["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["component"] == component).unwrap();
        (
            part["bytes"].as_i64().unwrap() as f64 / GIB,
            part["provenance"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(bytes(0, "weights"), (8.0, "engine_reported".to_owned()));
    assert_eq!(bytes(1, "weights"), (9.0, "engine_reported".to_owned()));
    assert_eq!(bytes(1, "kv_pool"), (20.0, "assumed".to_owned()));
    assert_eq!(bytes(1, "kv_used").0, 10.0);
    assert_eq!(bytes(1, "other_tenants").0, 2.5);
    assert_part(&found, "weights", 17.0, "engine_reported");
    assert_eq!(found["overhead"], Value::Null);
    let text = found["per_gpu"][1]["parts"][1]["source"].as_str().unwrap();
    assert!(text.starts_with("as the first rank reports"), "{text}");
}

/// In the summary of vLLM 0.28, "consumed memory" is weights plus growth outside torch, and peak activation includes
/// the graphs.
#[test]
fn both_wordings_of_the_summary_of_vllm_are_read() {
    let head = "(EngineCore pid=3) INFO [gpu_worker.py:1] ";
    let common = format!(
        "{head}Model loading took 13.54 GiB memory and 1.0 seconds\n{head}Available KV cache memory: 50.0 GiB\n"
    );
    let tail = "`--kv-cache-memory=1` (1.0 GiB) to fit into requested memory";
    let old = format!(
        "{common}{head}Free memory on device (138.00/139.80 GiB) on startup. Desired GPU memory utilization is (0.5, 69.9 GiB). Actual usage is \
         13.54 GiB for weight, 1.20 GiB for peak activation, 0.10 GiB for non-torch memory, and 0.62 GiB for CUDAGraph memory. {tail}"
    );
    let new = format!(
        "{common}{head}Estimated CUDA graph memory: 0.46 GiB total\n{head}Free memory on device (138.00/139.80 GiB) on startup. Desired GPU \
         memory utilization is (0.5, 69.9 GiB). Actual usage is 13.64 GiB for consumed memory (weights + non-torch), 1.66 GiB for peak \
         activation, and 0.62 GiB for CUDAGraph memory. {tail}"
    );
    for (log, provenance) in [(old, "engine_reported"), (new, "computed")] {
        let usage = json!({ "peak": stage(66 << 30) });
        let found = broken_down(&facts("vllm", &log), &usage, "#{}");
        assert_adds_up(&found);
        assert_part(&found, "weights", 13.54, "engine_reported");
        assert_part(&found, "activations", 1.20, provenance);
        assert_part(&found, "cuda_graphs", 0.62, "engine_reported");
        assert_part(&found, "runtime_context", 0.10, provenance);
        assert_part(&found, "unexplained", 0.54, "computed");
    }
}

/// llama.cpp names the device in every line, does a trial fit before the real load, and keeps some buffers on the host.
#[test]
fn buffers_of_llamacpp_are_those_of_the_last_load_on_the_device() {
    let load = "load_tensors:        CUDA0 model buffer size =  4096.00 MiB\n\
                load_tensors:   CPU_Mapped model buffer size =   512.00 MiB\n\
                llama_context:  CUDA_Host  output buffer size =     1.00 MiB\n\
                llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB\n\
                llama_kv_cache: size = 1024.00 MiB ( 8192 cells,  32 layers,  1/1 seqs), K (f16):  512.00 MiB, V (f16):  512.00 MiB\n\
                llama_kv_cache:      CUDA0 KV buffer size =   256.00 MiB\n\
                llama_context:      CUDA0 compute buffer size =   512.00 MiB\n\
                llama_context:  CUDA_Host compute buffer size =    20.00 MiB\n";
    let facts = facts("llamacpp", &format!("{load}{load}"));
    let usage = json!({ "source": "nvml", "peak": stage(6 << 30) });
    let found = broken_down(&facts, &usage, "#{}");
    assert_part(&found, "weights", 4.0, "engine_reported");
    assert_part(&found, "kv_pool", 1.25, "engine_reported");
    assert_part(&found, "activations", 0.5, "engine_reported");
}

/// The breakdown of an engine that reports nothing: a model of 2 GiB, with 32,768 tokens of 32 KiB in its cache.
fn by_architecture(usage: &Value) -> Value {
    let weights = (2.0 * GIB) as i64;
    let estimate = json!({
        "weight_bytes": weights,
        "kv_bytes_per_token_per_rank": 32_768,
        "ranks": [{ "parts": [{ "component": "weights", "bytes": weights, "provenance": "computed", "source": "config.json" }] }],
    });
    Bench::script(
        "import \"std/memory\" as memory;
         let p = params(#{ usage: param(#{}, \"memory\"), estimate: param(#{}, \"architecture\") });
         breakdown::note(\"test\", #{ devices: memory::explain(#{ facts: #{}, usage: p.usage }, #{ tokens: 32768, estimate: p.estimate }) })",
    )
    .set(json!({ "usage": usage, "estimate": estimate }))
    .value()
}

/// `device_map` spreads the layers of transformers over the GPUs: each has its share of the weights and of their cache.
#[test]
fn layers_that_are_spread_over_gpus_are_counted_once() {
    let gib = |gib: f64| (gib * GIB) as i64;
    let stage = |first: f64, second: f64| {
        let gpu = |id: &str, used: f64| json!({ "id": id, "used": gib(used), "total": H200 });
        json!({ "sum": gib(first + second), "per_gpu": [gpu("gpu0", first), gpu("gpu1", second)] })
    };
    let (before, ready, peak) = (stage(0.0, 0.0), stage(2.0, 0.5), stage(3.0, 1.0));
    let seen = by_architecture(&json!({ "baseline": before, "loaded": ready, "peak": peak }));
    assert_adds_up(&seen);
    assert_part(&seen, "weights", 2.0, "computed");
    assert_part(&seen, "kv_used", 1.0, "computed");
    let of = |device: usize| &seen["per_gpu"][device]["parts"][0];
    assert_eq!(
        (&of(0)["component"], &of(1)["component"]),
        (&json!("weights"), &json!("weights"))
    );
    let tenths = |device: usize| (10.0 * of(device)["bytes"].as_f64().unwrap() / GIB).round();
    assert_eq!([0, 1].map(tenths), [16.0, 4.0]);
    // It ran already when it was attached to.
    let attached = by_architecture(&json!({ "peak": peak }));
    assert_part(&attached, "weights", 2.0, "assumed");
}

/// The engine reports nothing and allocates memory as requests arrive: weights and KV cache follow from the model's
/// architecture.
#[test]
fn an_engine_without_a_pool_is_explained_by_its_architecture() {
    let gib = |gib: f64| (gib * GIB) as i64;
    let found = by_architecture(&json!({ "baseline": stage(0), "loaded": stage(gib(2.75)), "peak": stage(gib(4.0)) }));
    assert_adds_up(&found);
    assert_part(&found, "weights", 2.0, "computed");
    assert_part(&found, "runtime_context", 0.75, "computed");
    assert_part(&found, "kv_used", 1.0, "computed");
    assert_part(&found, "activations", 0.25, "computed");
    assert_part(&found, "unexplained", 0.0, "computed");
}

#[test]
fn an_unknown_option_of_a_breakdown_is_named() {
    let error =
        Bench::script("import \"std/memory\" as memory; memory::explain(#{ facts: #{}, usage: #{} }, #{ att: 1 })")
            .error();
    assert!(error.contains("unknown option `att`"), "{error}");
}

#[test]
fn what_tensor_parallel_adds_cannot_be_measured_on_one_gpu() {
    Profiler::new()
        .args([
            "run",
            "memory_breakdown",
            "--set",
            "engine=sim",
            "--set",
            "one_gpu=true",
        ])
        .run()
        .code(2)
        .stderr("`one_gpu` measures what tensor parallel adds")
        .stderr("gpus=[0,1] tensor_parallel=2");
}
