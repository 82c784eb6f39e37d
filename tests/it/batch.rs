//! A user runs batches: reads the predecessor's format unchanged, previews a batch, runs it on the simulated engine,
//! resumes it, and sees what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Outcome, Profiler, copy_all, killed_and_resumed_at, needs_docker};

const PREDECESSOR: &str = include_str!("../data/batch/predecessor.yaml");
const MIXED: &str = include_str!("../data/batch/mixed.yaml");

/// A run of this batch file, at the fastest simulated clock that a test machine keeps up with.
fn batch(file: &str, set: &[&str]) -> Profiler {
    let run = Profiler::new()
        .file("batch.yaml", file)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .args(["run", "batch", "--set", "file=batch.yaml"])
        .args(["--set", "sim.time_scale=0.02"]);
    set.iter().fold(run, |run, set| run.args(["--set", set]))
}

fn simulated(file: &str) -> Profiler {
    batch(file, &["simulate=true"])
}

/// True if the row was measured. The simulated clock is fast: on a busy machine the first request of a probe may end
/// before the last is sent, which counts as queued.
fn served(row: &Value) -> bool {
    row["success"] == true && (row["verdict"] == "ok" || row["verdict"] == "queued")
}

fn rows(outcome: &Outcome) -> Vec<Value> {
    let text = fs::read_to_string(outcome.folder().join("out/tables/batch.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_predecessors_file_is_run_as_it_is() {
    let outcome = batch(PREDECESSOR, &["simulate=true", "min_requests=8"])
        .args(["--out", "out", "--json"])
        .run()
        .success();
    let document = outcome.json();
    assert_eq!(document["simulated"], true);
    let rows = rows(&outcome);
    assert_eq!(document["result"]["configurations"], json!(rows));
    let points: Vec<_> = rows
        .iter()
        .map(|row| [&row["input_len"], &row["output_len"], &row["batch_size"]].map(|value| value.as_u64().unwrap()))
        .collect();
    // Batch sizes vary fastest, then outputs, then inputs; the last row is the entry that the later version would have
    // written.
    assert_eq!(
        points,
        [[128, 16, 1], [128, 16, 4], [256, 16, 1], [256, 16, 4], [64, 8, 2]]
    );
    for row in &rows {
        let batch = row["batch_size"].as_u64().unwrap();
        assert!(served(row), "{row}");
        assert_eq!(row["completed"], json!((5 * batch).max(8)), "closed loop: {row}");
        assert!(row["output_throughput"].as_f64().unwrap() > 0.0 && row["mean_ttft_ms"].as_f64().unwrap() > 0.0);
        assert!(
            row["memory_since_start"].as_u64() > row["memory_baseline"].as_u64()
                && row["weights_bytes"].as_u64() > Some(0),
            "{row}"
        );
    }
    // 6.7e9 parameters of 2 bytes; 2 x 32 layers x 32 heads x 128 x 2 bytes for each of 144 tokens.
    assert_eq!(rows[0]["estimated_bytes"], json!(13_400_000_000_u64 + 144 * 524_288));
    assert_eq!(rows[0]["max_model_len"], 4096);
    assert_eq!(rows[4]["model_id"], "mistralai/Mistral-7B-v0.3");
    assert_eq!(rows[4]["estimated_bytes"], Value::Null, "its layers are unknown");
    // One start per entry.
    assert_eq!(document["result"]["summary"]["starts"], 2);

    let csv = fs::read_to_string(outcome.folder().join("out/tables/batch.csv")).unwrap();
    assert!(
        csv.starts_with("model_id,container_name,input_len,output_len,batch_size,success,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 6);
    let file = outcome
        .folder()
        .join("out/files/0002-meta-llama-Llama-2-7b-hf_128in_16out_bs4.json");
    let one: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        (&one["verdict"], &one["load"]["completed"]),
        (&rows[1]["verdict"], &json!(20))
    );
    assert_eq!(one["given"]["model_params"], 6.7e9);

    let shown = Profiler::new()
        .args(["show", file.to_str().unwrap(), "--json"])
        .run()
        .success()
        .json();
    assert_eq!(
        (&shown["simulated"], &shown["engine"]),
        (&json!(true), &json!("sim 0.24.0+SIMULATED"))
    );
    let read = |name: &str| {
        let mut figures = shown["cases"][0]["figures"].as_array().unwrap().iter();
        figures.find(|figure| figure["name"] == name).unwrap()["value"].as_f64()
    };
    for (name, column) in [
        ("total_measured", "memory_since_start"),
        ("weights", "weights_bytes"),
        ("kv_pool", "kv_pool_bytes"),
    ] {
        assert_eq!(read(name), rows[1][column].as_f64(), "{name}");
    }
    answers_the_guide(&one, &rows[1]);

    // The table and the run's folder are read too.
    let table = outcome.folder().join("out/tables/batch.csv");
    let drawn = Profiler::new()
        .args(["report", table.to_str().unwrap(), "--svg", "svg"])
        .run()
        .success();
    let _ = drawn.stdout("svg/curves.svg");
    let compared = Profiler::new()
        .args(["compare", outcome.folder().join("out").to_str().unwrap()])
        .args(["--with", "weights=1", "--json"])
        .run()
        .success()
        .json();
    assert_eq!(compared["cases"].as_array().unwrap().len(), 5);
    assert_eq!(compared["cases"][1]["rows"][0]["measured"], rows[1]["weights_bytes"]);
    let names: Vec<&Value> = compared["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| &case["case"])
        .collect();
    assert_eq!(names[4], "mistralai/Mistral-7B-v0.3 concurrency=2 input=64 output=8");
}

/// The jq lines of the profiling guide, as paths: each has a value, and those of the breakdown add up.
fn answers_the_guide(profile: &Value, row: &Value) {
    for path in [
        "/memory/total_gb",
        "/latency_stats/mean_latency_ms",
        "/latency_stats/tokens_per_second",
        "/memory_breakdown/weights",
        "/memory_breakdown/kv_cache",
        "/memory_breakdown/activations",
        "/memory_breakdown/overhead",
        "/memory_measurements/baseline/total_gb",
        "/memory_measurements/post_warmup/total_gb",
        "/memory_measurements/peak/total_gb",
        "/memory_measurements/memory_increase_gb",
        "/memory_breakdown/model_weights_gb",
        "/memory_breakdown/kv_cache_gb",
        "/memory_breakdown/activations_gb",
        "/memory_breakdown/framework_overhead_gb",
        "/memory_breakdown/total_measured_gb",
        "/model_info/num_parameters",
    ] {
        assert!(profile.pointer(path).is_some_and(Value::is_number), "{path}");
    }
    for (path, value) in [
        ("/profiler_version", json!("2.0")),
        ("/schema_version", json!("2.0")),
        ("/memory_breakdown/confidence_levels/overall", json!("high")),
        ("/memory_breakdown/confidence", json!("high")),
        ("/engine_metadata/engine_type", json!("sim")),
        ("/model_info/num_layers", json!(32)),
        ("/memory_measurements/scope", json!("cumulative")),
    ] {
        assert_eq!(profile.pointer(path), Some(&value), "{path}");
    }
    let each = profile.pointer("/memory_measurements/peak/per_gpu_details/0").unwrap();
    assert!(each["used_gb"].as_f64().unwrap() > 0.0 && each["device"] == 0, "{each}");
    let gb = |name: &str| profile["memory_breakdown"][name].as_f64().unwrap();
    let sum = gb("weights") + gb("kv_cache") + gb("activations") + gb("overhead") + gb("other_processes_gb");
    let total = row["memory_since_start"].as_f64().unwrap() / 1_073_741_824.0;
    assert!((sum - total).abs() < 1e-6, "{sum} and {total}");
}

#[test]
fn each_configuration_has_a_start_of_its_own_where_that_is_asked_for() {
    let file = "models:\n  - model_id: a/b\n    input_lengths: 64\n    output_lengths: 8\n    batch_sizes: [1, 2]\n    requests: 4\n";
    let outcome = simulated(file)
        .args(["--isolate", "true", "--out", "out"])
        .run()
        .success();
    let rows = rows(&outcome);
    let scopes: Vec<_> = rows.iter().map(|row| (&row["starts"], &row["memory_scope"])).collect();
    assert_eq!(scopes, [(&json!(1), &json!("own")); 2]);
    assert!(
        rows[1]["memory_warmed"].as_u64() >= rows[1]["memory_baseline"].as_u64(),
        "{}",
        rows[1]
    );
}

#[test]
fn one_that_fails_leaves_its_verdict_and_the_rest_goes_on() {
    let outcome = simulated(MIXED).args(["--out", "out"]).run().success();
    let rows = rows(&outcome);
    assert_eq!(
        (&rows[4]["verdict"], &rows[6]["verdict"], rows.len()),
        (&json!("start_failed"), &json!("refused"), 7)
    );
    assert!([0, 1, 2, 3, 5].into_iter().all(|row| served(&rows[row])), "{rows:?}");
    assert_eq!(
        (&rows[4]["cause"], &rows[4]["success"]),
        (&json!("memory"), &json!(false))
    );
    assert!(
        rows[4]["message"].as_str().unwrap().contains("No available memory"),
        "{}",
        rows[4]
    );
    assert_eq!(rows[4]["output_throughput"], Value::Null);
    assert_eq!(rows[6]["cause"], "length_limit");
    let file = outcome
        .folder()
        .join("out/files/0005-second-too-little-memory_64in_8out_bs1.json");
    let evidence: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert!(
        !evidence["evidence"]["log"].as_array().unwrap().is_empty(),
        "{evidence}"
    );
    let _ = outcome
        .stdout("5 of 7 configurations were measured")
        .stdout("SIMULATED");
}

#[test]
fn a_killed_batch_repeats_nothing_that_was_finished() {
    let run = simulated(MIXED).args(["--out", "killed"]);
    let (result, journal) = killed_and_resumed_at(run, "\"event\":\"done\",\"kind\":\"experiment\"", 3);
    let verdicts: Vec<_> = result["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["verdict"].clone())
        .collect();
    assert_eq!(verdicts.len(), 7, "{result}");
    assert_eq!(verdicts[4], "start_failed");
    let finished = journal
        .lines()
        .filter(|line| line.contains("\"done\"") && line.contains("\"experiment\""))
        .count();
    assert_eq!(finished, 6, "each of those that are asked once");
}

/// Wherever it is cut within a configuration: after its probe, or after its load and before its end.
#[test]
fn a_batch_that_was_cut_off_repeats_no_probe_and_no_load_of_a_configuration() {
    let outcome = simulated(MIXED).args(["--out", "whole"]).run().success();
    let whole = outcome.folder().join("whole");
    for (kind, times) in [("probe", 2), ("load", 2), ("load", 4)] {
        let cut = format!("{kind}-{times}");
        let folder = outcome.folder().join(&cut);
        copy_all(&whole, &folder);
        cut_journal(&folder, &format!("\"event\":\"done\",\"kind\":\"{kind}\""), times);
        let resume = ["run", "--resume", &cut];
        let resumed = Profiler::new().current_dir(outcome.folder()).args(resume).run();
        let _ = resumed.success();
        let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in journal.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            if event["event"] == "done" && (event["kind"] == "probe" || event["kind"] == "load") {
                *counts
                    .entry(format!("{} {}", event["kind"], event["args"]))
                    .or_default() += 1;
            }
        }
        assert!(counts.len() > 5, "{counts:?}");
        assert!(counts.values().all(|count| *count == 1), "{kind} {times}: {counts:?}");
    }
}

/// Cuts a run's journal after its `times`-th line with this text, as if it had been killed then.
fn cut_journal(folder: &Path, text: &str, times: usize) {
    let path = folder.join("journal.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let lines = whole.split_inclusive('\n').enumerate();
    let (last, _) = lines.filter(|(_, line)| line.contains(text)).nth(times - 1).unwrap();
    let kept: String = whole.split_inclusive('\n').take(last + 1).collect();
    fs::write(&path, kept).unwrap();
    let path = folder.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        manifest.replace("\"status\": \"done\"", "\"status\": \"running\""),
    )
    .unwrap();
}

#[test]
fn a_dry_run_tells_what_is_missing_and_starts_nothing() {
    let outcome = batch(PREDECESSOR, &[])
        .args(["--dry-run", "--out", "out"])
        .run()
        .code(3);
    assert!(!outcome.folder().join("out").exists());
    let _ = outcome
        .stdout("dry run")
        .stdout("attach to the container `vllm-7b`, which this run did not start")
        .stdout("the engine runs already, which ignores dtype=")
        .stdout("5 configurations of 2 entries")
        .stderr("2 of 2 entries cannot be measured");
}

#[test]
fn a_dry_run_where_nothing_is_missing_succeeds() {
    let _ = simulated(PREDECESSOR)
        .arg("--dry-run")
        .run()
        .success()
        .stdout("simulated")
        .stdout("12.6")
        .stdout("SIMULATED");
}

/// A readable configuration of the model overrides the file's figures, and bounds the lengths.
#[test]
fn a_model_that_can_be_read_is_held_against_the_file() {
    let config = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 1024, "torch_dtype": "bfloat16",
    });
    let file = "models:\n  - model_id: ./model\n    input_lengths: [512, 2000]\n    output_lengths: [8]\n    batch_sizes: [2]\n    num_layers: 32\n    model_params: 7e9\n";
    let _ = simulated(file)
        .file("model/config.json", config.to_string())
        .args(["--allow", "mount=model", "--dry-run"])
        .run()
        .code(3)
        .stdout("what was given says 32 layers, and the model's configuration 8, which counts")
        .stdout("7.0 billion parameters")
        .stdout("2000 + 8 tokens are more than the model's 1024 positions");
}

/// No hub, no files: what is known of a common model by its name is used, and said.
#[test]
fn a_model_that_cannot_be_read_is_estimated_from_the_preset_of_its_name() {
    let file = |model: &str| {
        format!("models:\n  - {{model_id: {model}, input_lengths: 512, output_lengths: 128, batch_sizes: 4}}")
    };
    let foreseen = |model: &str| {
        let program = Profiler::new().file("batch.yaml", file(model));
        let program = program.env("HF_ENDPOINT", "http://127.0.0.1:9").env("HF_HOME", "empty");
        let args = "run batch --set file=batch.yaml --engine vllm --dry-run";
        program.args(args.split(' ')).run().code(3)
    };
    // 8,190,735,360 parameters of two bytes, and 4 x 640 tokens of 147,456 bytes.
    let _ = foreseen("Qwen/Qwen3-8B")
        .stdout("15.6")
        .stdout("the preset qwen3-8b")
        .stdout("the configuration of Qwen/Qwen3-8B was not read");
    let other = foreseen("Qwen/Qwen3-8B-FP8");
    assert!(!other.stdout.contains("preset"), "{}", other.stdout);
}

#[test]
fn lists_on_the_command_line_are_a_batch_or_what_a_files_entries_leave_out() {
    let lists = ["input=[64,128]", "output=8", "concurrency=[1,2]", "simulate=true"];
    let run = |first: &[&str]| {
        let run = Profiler::new().file("batch.yaml", "models: [{model_id: e/f, output_lengths: 4}]");
        let run = run.args([
            "run",
            "batch",
            "--out",
            "out",
            "--set",
            "sim.time_scale=0.02",
            "--set",
            "min_requests=4",
        ]);
        let sets = first.iter().chain(&lists);
        sets.fold(run, |run, set| run.args(["--set", set])).run().success()
    };
    let outputs = |outcome: &Outcome| -> Vec<_> {
        let row = |row: &Value| (row["model_id"].clone(), row["output_len"].clone());
        rows(outcome).iter().map(row).collect()
    };
    let outcome = run(&["models=[\"a/b\",\"c/d\"]"]);
    let each = |model: &str, output: u64| vec![(json!(model), json!(output)); 4];
    assert_eq!(outputs(&outcome), [each("a/b", 8), each("c/d", 8)].concat());
    let summary = fs::read_to_string(outcome.folder().join("out/files/batch-summary.txt")).unwrap();
    assert!(summary.contains("8 of 8 configurations were measured"), "{summary}");
    // Lists in the file take precedence.
    assert_eq!(outputs(&run(&["file=batch.yaml"])), each("e/f", 4));
}

#[test]
fn a_batch_of_which_nothing_can_be_measured_fails() {
    let file = "models:\n  - model_id: a/b\n    profile: no-such-profile\n    input_lengths: 64\n    output_lengths: 8\n    batch_sizes: 1\n";
    let outcome = batch(file, &["engine=sim"]).args(["--out", "out"]).run().code(2);
    let outcome = outcome
        .stderr("none of the 1 configurations could be measured")
        .stderr("no-such-profile");
    assert_eq!(rows(&outcome)[0]["cause"], "usage");
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    for (file, part) in [
        ("runs: []", "it has no list `models`"),
        ("models: []", "it has no list `models`"),
        ("models: [1]", "entry 1 of `models` is no map"),
        ("models: [{model_id: a/b}]\nextra: 1", "unknown key `extra`"),
        ("models: [{model_id: a/b, batch_size: [1]}]", "`batch_sizes`"),
        ("models: [{input_lengths: 1}]", "names no model"),
        (
            "models: [{model_id: a/b, hf_model_id: c/d}]",
            "two models: `a/b` and `c/d`",
        ),
        (
            "models: [{model_id: a/b, container_name: x, image: y}]",
            "both `container_name` and `image`",
        ),
        (
            "models: [{model_id: a/b, output_lengths: 1, batch_sizes: 1}]",
            "no `input_lengths`",
        ),
        ("models: [{model_id: a/b, input_lengths: []}]", "no `input_lengths`"),
        (
            "models: [{model_id: a/b, input_lengths: [0]}]",
            "`input_lengths` is `0`",
        ),
        (
            "models: [{model_id: a/b, input_lengths: [1.5]}]",
            "`input_lengths` is `1.5`",
        ),
        (
            "models: [{model_id: a/b, model_params: seven}]",
            "`model_params` is `seven`",
        ),
        (
            "models: [{model_id: a/b, trust_remote_code: perhaps}]",
            "it must be true or false",
        ),
        ("models: [", "is not valid YAML"),
    ] {
        let outcome = simulated(file).run().code(2).nowhere("starting sim");
        assert!(
            part.split('|').any(|part| outcome.stderr.contains(part)),
            "{part} in {}",
            outcome.stderr
        );
    }
}

#[test]
fn without_a_file_or_the_users_word_for_it_nothing_is_read() {
    let _ = Profiler::new()
        .args(["run", "batch"])
        .run()
        .code(2)
        .stderr("neither a `file` nor lists are given");
    let _ = Profiler::new()
        .args(["run", "batch", "--url", "http://127.0.0.1:9", "--set", "input=8"])
        .args(["--set", "output=8", "--set", "concurrency=1"])
        .run()
        .code(2)
        .stderr("--model NAME");
    let error = Bench::script(r#"files::yaml("batch.yaml")"#).error();
    assert!(error.contains("batch.yaml"), "{error}");
}

#[test]
fn an_entrys_keys_hold_over_the_parameters() {
    let found = Bench::script(
        r#"import "std/batch" as batch;
        import "std/batch/format" as format;
        import "std/load" as load;
        let p = params(load::parameters() + #{ simulate: param(false, "") });
        let file = #{ models: [
            #{ model_id: "a/b", container_name: "c", input_lengths: 8, output_lengths: 4, batch_sizes: 1, dtype: "float16", tensor_parallel_size: 4 },
            #{ model_id: "a/b", image: "i", input_lengths: 8, output_lengths: 4, batch_sizes: 1, gpu_ids: "2,3", tensor_parallel_size: "2", gpu_memory_utilization: 0.5,
               quantization: "awq", kv_cache_dtype: "fp8", trust_remote_code: true, requests: 7, env: #{ A: "1" } },
        ] };
        format::entries(file).map(|entry| batch::settle(p, entry))"#,
    )
    .set(json!({ "program": "other", "requests": 9 }))
    .value();
    let (attached, started) = (&found[0], &found[1]);
    assert_eq!(
        (&attached["attached"], &attached["p"]["engine"]),
        (&json!(true), &json!("vllm"))
    );
    assert_eq!(
        (&attached["p"]["dtype"], &attached["p"]["tensor_parallel"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&attached["p"]["requests"], &attached["p"]["program"]),
        (&json!(9), &Value::Null)
    );
    let p = &started["p"];
    assert_eq!(
        (&p["gpus"], &p["tensor_parallel"], &p["memory_fraction"]),
        (&json!(["2", "3"]), &json!(2), &json!(0.5))
    );
    assert_eq!(
        (&p["quantization"], &p["kv_cache_dtype"], &p["trust_remote_code"]),
        (&json!("awq"), &json!("fp8"), &json!(true))
    );
    assert_eq!(
        (&p["image"], &p["program"], &p["requests"]),
        (&json!("i"), &Value::Null, &json!(7))
    );
}

#[test]
fn what_entries_share_is_written_once() {
    let file = "defaults: &shared {output_lengths: [4], batch_sizes: [2]}\nmodels:\n  - {model_id: a/b, input_lengths: 8}\n  - {<<: *shared, model_id: c/d, input_lengths: [8, 16], batch_sizes: [1]}\n";
    let outcome = simulated(file).args(["--dry-run", "--json"]).run().success();
    let said = outcome.json()["said"].to_string();
    assert!(said.contains("3 configurations of 2 entries"), "{said}");
    let _ = simulated("defaults: 1\nmodels: [{model_id: a/b}]")
        .run()
        .code(2)
        .stderr("`defaults` is no map");
    let many = "models: [{model_id: a/b, input_lengths: L, output_lengths: L, batch_sizes: L}]"
        .replace('L', &format!("[{}]", vec!["1"; 22].join(",")));
    let _ = simulated(&many).run().code(2).stderr("10648 configurations");
}

/// A running engine keeps its own settings, runs the configurations that it can hold, and is left running.
#[test]
fn an_engine_that_runs_is_asked_and_left_running() {
    let sim = [
        "sim",
        "--profile",
        "llama-8b-24gb-vllm",
        "--max-model-len",
        "-1",
        "--time-scale",
        "0.02",
    ];
    let (mut server, _home) = Profiler::new().args(sim).spawn();
    let mut url = String::new();
    let read = BufReader::new(server.stdout.take().unwrap()).read_line(&mut url);
    assert!(read.is_ok() && url.starts_with("http://127.0.0.1:"), "{url}");
    let file = format!(
        "models:\n  - model_id: ./nowhere\n    url: {}\n    input_lengths: [64, 9000]\n    output_lengths: [8]\n    batch_sizes: [2]\n    dtype: float16\n    requests: 8\n",
        url.trim()
    );
    // As with containers, the command line must name it too.
    let named = format!("url={}", url.trim());
    let _ = batch(&file, &[]).run().code(3).stderr("`--url 127.0.0.1:");
    // The simulated engine takes a second to start; until then it is not ready.
    let eventually = || {
        for _ in 0..200 {
            let outcome = batch(&file, &[&named]).args(["--dry-run"]).run();
            if outcome.code == Some(0) {
                return outcome;
            }
        }
        panic!("it never was ready");
    };
    let _ = eventually()
        .stdout("runs")
        .stdout("the engine runs already, which ignores dtype=float16");
    let outcome = batch(&file, &[&named]).args(["--out", "out"]).run().success();
    let rows = rows(&outcome);
    assert!(served(&rows[0]) && rows[0]["engine"] == "vllm", "{}", rows[0]);
    assert_eq!(
        (&rows[1]["verdict"], &rows[1]["cause"]),
        (&json!("refused"), &json!("length_limit"))
    );
    let starts: u64 = rows.iter().map(|row| row["starts"].as_u64().unwrap()).sum();
    assert_eq!(starts, 0);
    assert!(server.try_wait().unwrap().is_none(), "it still runs");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_image_that_is_not_here_is_told_and_not_pulled() {
    if !needs_docker() {
        return;
    }
    let file = "models:\n  - model_id: a/b\n    engine: llamacpp\n    image: profiler-tests/no-such-image:1\n    input_lengths: 64\n    output_lengths: 8\n    batch_sizes: 1\n";
    let named = || {
        Profiler::new()
            .file("batch.yaml", file)
            .args(["run", "batch", "--set", "file=batch.yaml"])
    };
    let _ = named()
        .arg("--dry-run")
        .run()
        .code(3)
        .stdout("--allow image=profiler-tests");
    let outcome = named().args(["--dry-run", "--allow", "image=profiler-tests"]).run();
    let _ = outcome
        .stdout("profiler-tests/no-such-image:1: to be pulled")
        .nowhere("pulling");
}

#[test]
fn a_resumed_profile_is_written_where_the_first_run_said() {
    let program = Profiler::new().args([
        "run",
        "profile",
        "--engine",
        "sim",
        "--set",
        "sim.time_scale=0.01",
        "--requests",
        "2",
    ]);
    let outcome = program
        .args(["--output", "mine/x.json", "--out", "run"])
        .run()
        .success();
    let (here, run) = (outcome.folder(), outcome.folder().join("run"));
    fs::remove_file(here.join("mine/x.json")).unwrap();
    cut_journal(&run, "\"event\":\"done\",\"kind\":\"probe\"", 1);
    let elsewhere = here.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let resumed = Profiler::new()
        .current_dir(&elsewhere)
        .args(["run", "--resume"])
        .arg(run.to_str().unwrap());
    let _ = resumed.run().success();
    assert!(here.join("mine/x.json").is_file() && !elsewhere.join("mine").exists());
}

/// Configurations with the same lengths, and those that were not measured, are all told.
#[test]
fn configurations_that_differ_only_in_their_settings_stay_apart() {
    let text = "models:
  - {model_id: a/b, input_lengths: [64], output_lengths: [8], batch_sizes: [1], tensor_parallel_size: 1}
  - {model_id: a/b, input_lengths: [64, 999999], output_lengths: [8], batch_sizes: [1], tensor_parallel_size: 2, gpu_ids: [0, 1]}
  - {model_id: a/b, input_lengths: [32], output_lengths: [8], batch_sizes: [1], image: \"no/such:1\"}
";
    let outcome = batch(text, &["engine=sim", "sim.time_scale=0.01", "requests=2"])
        .args(["--out", "run"])
        .run()
        .success();
    for file in ["run", "run/tables/batch.csv"] {
        let compared = Profiler::new()
            .current_dir(outcome.folder())
            .args(["compare", file, file, "--json"])
            .run()
            .success();
        let text = compared.stdout;
        for name in [
            "input=64 output=8 tensor_parallel=1\"",
            "input=64 output=8 tensor_parallel=2\"",
            "input=999999 output=8 tensor_parallel=2: refused",
        ] {
            assert!(text.contains(name), "{file}: {name}: {text}");
        }
        assert!(
            text.contains("input=32") && text.contains("`image` means nothing"),
            "{file}: {text}"
        );
    }
}

#[test]
fn where_a_profile_is_written_is_checked_before_anything_starts() {
    let run = |more: &[&str]| {
        let program = Profiler::new()
            .file("there/file", "kept")
            .args(["run", "profile", "--dry-run"]);
        program.args(["--engine", "sim"]).args(more).run()
    };
    let _ = run(&["--output", "100"]).code(2).stderr("--output-len");
    for wrong in ["there", "there/file/x.json", "nowhere/../../x.json", "there/"] {
        let _ = run(&["--output", wrong]).code(2).stderr(wrong);
    }
    let allowed = run(&["--output", "new/x.json"]).success();
    assert!(!allowed.folder().join("new").exists());
    let _ = run(&["--preset", "llama-2-7b"]).code(2).stderr("--model");
}
