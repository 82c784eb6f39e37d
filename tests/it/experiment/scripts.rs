//! A user runs the shipped experiments, here on the simulated engine.

use serde_json::{Value, json};

use super::contrast;
use crate::support::{Outcome, Profiler};

/// Few requests, which the simulated engine answers at once.
const QUICK: [&str; 3] = ["input=64", "output=8", "requests=8"];

fn run(script: &str, sets: &[&str], more: &[&str]) -> Outcome {
    let sets = QUICK.iter().chain(sets).flat_map(|set| ["--set", set]);
    Profiler::new().args(["run", script]).args(sets).args(more).run()
}

fn found(script: &str, sets: &[&str]) -> Value {
    run(script, sets, &["--json"]).success().json()["result"].take()
}

/// The metric of this name among the further ones.
fn further(found: &Value, name: &str) -> f64 {
    let all = found["further"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == name);
    one.unwrap_or_else(|| panic!("no {name}: {all:?}"))["value"]
        .as_f64()
        .unwrap()
}

#[test]
fn graphs_on_and_off() {
    let sets = QUICK.iter().flat_map(|set| ["--set", set]);
    let narrow = Profiler::new()
        .env("COLUMNS", "80")
        .args(["run", "cuda_graphs"])
        .args(sets);
    let outcome = narrow.run().success();
    let outcome = outcome
        .stdout("SIMULATED")
        .stdout("\n\nCUDA graphs: ")
        .stdout("experiment: CUDA graphs of sim")
        .stdout("  cuda_graphs=         false   true  difference")
        .stdout("non-KV memory, GiB");
    // The simulated clock is too fast for latencies and rates, so the progress lines of the loads leave them out too.
    // The headline and the table agree on the direction: graphs turned on.
    assert!(!outcome.stderr.contains("tokens/s"), "{}", outcome.stderr);
    let outcome = outcome.stderr(" requests completed\n");
    for gone in ["requests/s", "throughput", "better"] {
        assert!(!outcome.stdout.contains(gone), "{gone}: {}", outcome.stdout);
    }
    let outcome = outcome.stdout("CUDA graphs: worse: ").stdout("`sim.time_scale`");
    // At 80 columns every verdict is on the line of its figure.
    let verdicts = ["better", "worse", "negligible", "not significant", "not measured"];
    let rows = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("  ") && line.contains(", GiB"));
    assert!(rows.clone().count() > 2, "{}", outcome.stdout);
    for row in rows {
        assert!(
            verdicts.iter().any(|verdict| row.ends_with(verdict)) && row.chars().count() <= 80,
            "{row}"
        );
    }
    let _ = run("cuda_graphs", &["cuda_graphs=true"], &[])
        .code(2)
        .stderr("turns on and off");
}

/// 32 batch sizes, as in the predecessor's matrix, and 620 MiB for 34 graphs.
#[test]
fn a_second_set_of_graphs_in_tensorrt_llm() {
    let sets = [
        "engine=tensorrt_llm",
        "runtime=sim",
        "max_draft_len=4",
        "sim.time_scale=0",
    ];
    let found = found("cuda_graphs", &sets);
    let graphs = &found["comparisons"].as_array().unwrap().iter();
    let counts = |name: &str| {
        let one = graphs.clone().find(|one| one["name"] == name).unwrap();
        one["means"].clone()
    };
    assert_eq!(counts("cuda_graphs"), json!([32.0, 64.0]));
    assert_eq!(counts("cuda_graphs_draft_0"), json!([0.0, 32.0]));
    assert_eq!(counts("cuda_graphs_draft_4"), json!([32.0, 32.0]));
    // The loss is below 1 % of a large cache.
    assert_eq!(contrast(&found, "kv_tokens")["verdict"], "negligible");
    let overhead = 620.0 / 34.0 * 32.0;
    let mib = further(&found, "overhead") / f64::from(1 << 20);
    assert!((mib - overhead).abs() < 10.24, "{mib}");
    assert!(further(&found, "kv_tokens_lost") > 0.0);
    let each = further(&found, "memory_for_each_graph") / f64::from(1 << 20);
    assert!((each - 620.0 / 34.0).abs() < 10.24 / 32.0, "{each}");
    let judged = found["conclusions"][0].as_str().unwrap();
    assert!(judged.contains("between 500 MiB and 2 GiB"), "{judged}");
    assert_eq!(found["settings"][1]["options"]["speculation"]["max_concurrency"], 16);
}

/// As on a card that is too small: the answer is that nothing fits, with what to change in the engine's own flags.
#[test]
fn where_every_start_runs_out_of_memory_the_remedy_is_told() {
    let log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    let misbehave = format!("sim.misbehave={}", json!({ "fail_start": { "log": [log] } }));
    let sets = [
        "engine=tensorrt_llm",
        "runtime=sim",
        "max_draft_len=4",
        "repeats=2",
        &misbehave,
    ];
    let _ = run("cuda_graphs", &sets, &[])
        .code(1)
        .stdout("2 starts failed; 2 repeats skipped")
        .stdout("lower `--max_num_tokens`")
        .stderr("none of the 2 settings could be measured");
}

/// Otherwise a combination would be compared with itself.
#[test]
fn a_setting_has_one_value_in_a_start() {
    let space = "space={\"max_num_seqs\":[4,8]}";
    let rows: [(&str, &[&str], &str); 4] = [
        (
            "settings",
            &[space, "settings={\"max_num_seqs\":16}"],
            "is to be chosen too",
        ),
        (
            "settings",
            &[space, "settings={\"--max-num-seqs\":16}"],
            "is to be chosen too",
        ),
        (
            "kv_dtype",
            &["settings={\"max_num_seqs\":64,\"--max-num-seqs\":32}"],
            "given twice",
        ),
        (
            "kv_dtype",
            &["settings.max_num_seqs=64", "engine_args=[\"--max-num-seqs=128\"]"],
            "given twice",
        ),
    ];
    for (script, sets, says) in rows {
        let sets = [&["engine=sim"], sets].concat();
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let outcome = Profiler::new()
            .args(["run", script])
            .args(sets)
            .run()
            .code(2)
            .stderr(says);
        assert!(!outcome.folder().join("runs").exists(), "{script}: {}", outcome.stderr);
    }
}

/// The figures carry the names of the tool that first measured them, so that results can be compared.
#[test]
fn graphs_beside_those_of_the_tensorrt_llm_graph_profiler() {
    let sets = [
        "engine=tensorrt_llm",
        "runtime=sim",
        "max_draft_len=4",
        "sim.time_scale=0",
        "repeats=1",
    ];
    let outcome = run("cuda_graphs", &sets, &["--out", "run"]).success();
    let folder = outcome.folder().join("run").display().to_string();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/foreign/tensorrt-graphs-matrix.json"
    );
    let beside = Profiler::new().args(["compare", file, &folder]).run().success();
    let _ = beside
        .stdout("batch=32 draft=4 max_concurrency=none")
        .stdout("batch=32 draft=4 max_concurrency=16")
        .stdout("additional_cuda_graphs   32   32");
}

#[test]
fn drafts_come_from_where_they_are_said_to_come() {
    let sets = [
        "engine=tensorrt_llm",
        "runtime=sim",
        "max_draft_len=3",
        "draft_method=eagle3",
        "draft_model=a/b",
        "label=lab/deepseek",
        "repeats=1",
        "sim.time_scale=0",
    ];
    let outcome = run("cuda_graphs", &sets, &["--out", "run"]).success();
    let files = std::fs::read_dir(outcome.folder().join("run/files")).unwrap();
    let names: Vec<String> = files.map(|file| file.unwrap().path().display().to_string()).collect();
    assert!(
        names.len() == 1 && names[0].contains("/results_lab-deepseek_2"),
        "{names:?}"
    );
    // The file has the layout of the tool that first measured this, and is read as its files are.
    let read = Profiler::new()
        .args(["show", &names[0], "--json"])
        .run()
        .success()
        .json();
    let read = read.to_string();
    assert!(
        read.contains("lab/deepseek") && read.contains("batch=32 draft=3 max_concurrency=16"),
        "{read}"
    );
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&names[0]).unwrap()).unwrap();
    assert_eq!(
        written["experiments"][1]["graph_breakdown"],
        json!({ "draft_len_0": 32, "draft_len_3": 32 })
    );
    assert_eq!(written["summary"]["additional_cuda_graphs"], 32);
    assert!(written["experiments"][0]["memory_diff"]["reserved_mb"].is_null());

    let sets = [
        "engine=tensorrt_llm",
        "runtime=docker",
        "max_draft_len=3",
        "draft_method=eagle",
        "draft_model=a/b",
    ];
    let dry = run("cuda_graphs", &sets, &["--dry-run"]);
    assert!(
        dry.stdout.contains(r#"\"speculative_model_dir\":\"a/b\""#),
        "{}",
        dry.stdout
    );
    assert!(dry.stdout.contains(r#"\"eagle3_one_model\":false"#), "{}", dry.stdout);
    let refused = |sets: &[&str]| run("cuda_graphs", &[&["engine=sim", "max_draft_len=3"], sets].concat(), &[]).code(2);
    let _ = refused(&["draft_method=mtp"]).stderr("no second set of graphs");
    let _ = refused(&["draft_method=eagle3"]).stderr("--draft-model");
    let _ = refused(&["draft_method=eagle3", "draft_model=a/b", "max_matching_ngram_size=3"])
        .stderr("only applies to n-grams");
}

#[test]
fn an_8_bit_cache_holds_nearly_twice_as_much() {
    let found = found("kv_dtype", &[]);
    assert_eq!(contrast(&found, "kv_tokens")["verdict"], "better");
    let share = further(&found, "kv_tokens_of_fp8");
    assert!((190.0..200.0).contains(&share), "{share}");
    let _ = run("kv_dtype", &["kv_cache_dtype=fp8"], &[])
        .code(2)
        .stderr("`kv_cache_dtypes`");
}

#[test]
fn each_choice_of_a_launch_setting_is_compared_with_the_defaults() {
    let found = found("settings", &[r#"space={"cuda_graphs":[true,false]}"#]);
    assert_eq!(found["settings"][0]["name"], "the defaults");
    assert_eq!(found["settings"][1]["name"], "cuda_graphs=false");
    assert_eq!(contrast(&found, "memory_beside_kv")["verdict"], "better");
    for space in ["{}", r#"{"cuda_graphs":[true]}"#, r#"{"graphs":[true]}"#] {
        let _ = run("settings", &[&format!("space={space}")], &[]).code(2);
    }
}

#[test]
fn two_gpus_hold_half_of_the_weights_each() {
    let found = found("tensor_parallel", &["sim.time_scale=0.01"]);
    assert_eq!(contrast(&found, "memory")["verdict"], "worse");
    assert_eq!(contrast(&found, "kv_tokens")["verdict"], "better");
    let gpus = |trial: &Value| trial["details"]["per_gpu"].as_array().unwrap().len() as u64;
    for trial in found["trials"].as_array().unwrap() {
        assert_eq!(gpus(trial), trial["setting"].as_u64().unwrap() + 1);
    }
    assert!(further(&found, "scaling_efficiency_of_2") > 0.0);
}

#[test]
fn too_few_gpus_are_missing_unless_they_are_simulated() {
    let real = ["engine=vllm", "gpus=[0]"];
    let _ = run("tensor_parallel", &real, &[])
        .code(3)
        .stderr("2 GPUs are needed, and there are 1");
    let _ = run("tensor_parallel", &["ranks=[1,2,4]", "repeats=1"], &["--dry-run"])
        .success()
        .stdout("3 separate starts");
}
