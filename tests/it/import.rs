//! A user reads files of other tools with `profiler show`: their figures come out equal, in bytes, and damaged files
//! are named.

use serde_json::{Value, json};

use crate::support::{Outcome, Profiler};

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// The path of a fixture in the format of its tool.
pub fn fixture(name: &str) -> String {
    format!("{}/tests/data/foreign/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn shown(name: &str) -> Value {
    Profiler::new()
        .args(["show", &fixture(name), "--json"])
        .run()
        .success()
        .json()
}

#[track_caller]
fn figure(shown: &Value, case: usize, name: &str) -> f64 {
    let figures = shown["cases"][case]["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {figures:?}"))["value"]
        .as_f64()
        .unwrap()
}

#[track_caller]
fn assert_figures(shown: &Value, case: usize, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        let found = figure(shown, case, name);
        assert!(
            (found - expected).abs() <= 0.5 + expected.abs() * 1e-12,
            "{name}: {found} and {expected}"
        );
    }
}

#[track_caller]
fn part(shown: &Value, case: usize, component: &str) -> Value {
    let parts = shown["cases"][case]["breakdown"]["parts"].as_array().unwrap();
    let found = parts.iter().find(|part| part["component"] == component);
    found.unwrap_or_else(|| panic!("no `{component}` in {parts:?}")).clone()
}

#[track_caller]
fn assert_noted(shown: &Value, words: &str) {
    let notes = shown["notes"].as_array().unwrap();
    let noted = notes.iter().any(|note| note.as_str().unwrap().contains(words));
    assert!(noted, "{words}: {notes:#?}");
}

fn show(text: impl AsRef<[u8]>) -> Outcome {
    Profiler::new().file("x", text).args(["show", "x"]).run()
}

#[test]
fn tgi_profiler_becomes_a_boundary_that_claims_no_more_than_it_knows() {
    let shown = shown("tgi-profiler.json");
    assert_eq!(shown["format"], "tgi-profiler");
    assert_eq!(shown["model"], "meta-llama/Llama-3.1-8B-Instruct");
    assert_eq!(
        shown["boundary"]["axes"],
        json!({ "input": [2048, 32768], "output": [512, 32768] })
    );
    let verdicts: Vec<&str> = shown["boundary"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["answer"]["verdict"].as_str().unwrap())
        .collect();
    let expected = [
        "ok",
        "ok",
        "start_failed",
        "start_failed",
        "ok",
        "short_output",
        "error",
        "oom",
    ];
    assert_eq!(verdicts, expected);
    assert_eq!(
        shown["boundary"]["points"][1]["point"],
        json!({ "input": 2050, "output": 10899 })
    );
    let figures = [
        ("points", 8.0),
        ("succeeded", 3.0),
        ("largest_total_that_succeeded", 12_949.0),
        ("smallest_total_that_failed", 23_040.0),
    ];
    assert_figures(&shown, 0, &figures);
    let text = Profiler::new()
        .args(["show", &fixture("tgi-profiler.json")])
        .run()
        .success();
    let text = text.stdout("8 points; ").stdout("a request of 8,192 + 521 tokens");
    let _ = text
        .stdout("inconclusive: 4 points")
        .stdout("all 5 failures as lack of memory");
}

#[test]
fn sizer_3_tells_the_pool_from_what_is_used() {
    let shown = shown("llm-sizer-3.0.json");
    let figures = [
        ("total_measured", 124.83 * GIB),
        ("model_weights", 14.99 * GIB),
        ("kv_cache_pool", 102.52 * GIB),
        ("kv_cache_used", 8.59e9),
        ("graph_capture", 0.54 * GIB),
        ("kv_tokens", 839_872.0),
        ("timeline_p95", 124.83 * GIB),
        ("timeline_samples", 412.0),
    ];
    assert_figures(&shown, 0, &figures);
    assert_eq!(part(&shown, 0, "kv_used")["within"], "kv_pool");
    assert_eq!(part(&shown, 0, "weights")["provenance"], "engine_reported");
    assert_eq!(part(&shown, 0, "activations")["provenance"], "assumed");
    assert_eq!(shown["cases"][0]["implausible"], json!([]));
    assert_eq!(shown["cases"][0]["facts"]["tokens"], 16_384);
}

#[test]
fn schema_2_says_that_its_total_is_of_an_idle_gpu() {
    let shown = shown("llm-sizer-2.0.json");
    let figures = [
        ("total_measured", 22.4 * GIB),
        ("model_weights", 16.06e9),
        ("kv_cache_used", 8.59e9),
        ("activations", 0.54e9),
        ("mean_latency_ms", 7250.0),
    ];
    assert_figures(&shown, 0, &figures);
    assert_eq!(part(&shown, 0, "activations")["provenance"], "computed");
    assert_eq!(shown["cases"][0]["implausible"][0]["name"], "parts_exceed_whole");
    assert_noted(&shown, "idle GPU");
    let batch = self::shown("llm-sizer-batch-22.csv");
    assert_figures(&batch, 1, &[("kv_cache_used", 8.6e9), ("total_measured", 24.9 * GIB)]);
    assert_noted(&batch, "idle GPU");
    let first = self::shown("llm-sizer-transformers.json");
    assert_figures(&first, 0, &[("weights", 16.06e9), ("total_measured", 16.5e9)]);
    let facts = &first["cases"][0]["facts"];
    assert_eq!(
        (&facts["parameters"], &facts["output"]),
        (&json!(8_030_261_248.0), &json!(100))
    );
}

#[test]
fn the_studies_files_are_read() {
    let memory = shown("hpml-gpu-memory.json");
    assert_figures(
        &memory,
        0,
        &[
            ("baseline", 20_000.0 * MIB),
            ("peak_memory", 20_512.0 * MIB),
            ("failed", 1.0),
        ],
    );
    assert_eq!(memory["series"][0]["points"][2], json!([0.2, 20_512.0 * MIB]));
    let cache = shown("hpml-kv-cache.json");
    assert!((figure(&cache, 0, "kv_usage") - 73.5).abs() < 1e-9);
    let requests = shown("hpml-concurrency.csv");
    assert_eq!(requests["cases"][1]["name"], "throughput concurrency=4");
    assert_figures(&requests, 1, &[("output_throughput", 64.0), ("mean_e2el_ms", 4005.0)]);
    let unequal = r#"{"history_times": [0, 1], "history_values": [5.0], "peak_usage_percent": 5.0}"#;
    let _ = show(unequal).code(2).stderr("`history_times` has 2 entries");
    let sweep = shown("vllm-sweep");
    assert_eq!(
        sweep["cases"].as_array().unwrap().len(),
        2,
        "runs of equal settings are one case"
    );
    assert!((figure(&sweep, 1, "output_throughput") - 120.5).abs() < 1e-9);
}

/// What each file of a predecessor is drawn as.
#[test]
fn files_of_the_predecessors_are_drawn() {
    for (name, chart) in [
        ("tensorrt-graphs-matrix.json", "graphs"),
        ("llm-sizer-2.0.json", "components"),
        ("llm-sizer-3.0.json", "components"),
        ("llm-sizer-transformers.json", "components"),
        ("llm-sizer-batch-22.csv", "curves"),
        ("llm-sizer-validation.csv", "components"),
        ("hpml-gpu-memory.json", "gpu-memory"),
        ("hpml-kv-cache.json", "kv-cache-in-use"),
        ("hpml-concurrency.csv", "curves"),
        ("vllm-bench-summary.csv", "curves"),
        ("vllm-bench-run.json", "latencies"),
        ("vllm-sweep", "curves"),
    ] {
        let drawn = Profiler::new()
            .args(["report", &fixture(name), "--svg", "pictures", "--json"])
            .run()
            .success();
        let chart = format!("pictures/{chart}.svg");
        let files = drawn.json()["svg"].clone();
        assert!(files.as_array().unwrap().contains(&json!(chart)), "{name}: {files}");
        let svg = std::fs::read_to_string(drawn.folder().join(chart)).unwrap();
        assert!(svg.contains("<path") || svg.contains("<rect"), "{name}");
    }
}

/// The output of `show` for a schema 3 profile with changed values.
fn sizer(change: impl FnOnce(&mut Value)) -> Outcome {
    let text = std::fs::read_to_string(fixture("llm-sizer-3.0.json")).unwrap();
    let mut profile: Value = serde_json::from_str(&text).unwrap();
    change(&mut profile);
    Profiler::new()
        .file("x", profile.to_string())
        .args(["show", "x", "--json"])
        .run()
}

#[test]
fn of_several_ranks_figures_of_one_are_multiplied_and_confidence_tells_the_source() {
    let outcome = sizer(|profile| {
        profile["benchmark_parameters"]["tensor_parallel_size"] = json!(4);
        profile["memory_breakdown"]["confidence_levels"]["weights"] = json!("medium_from_config");
        profile["memory_breakdown"]["total_measured_gb"] = json!(600.0);
    });
    let shown = outcome.success().json();
    let figures = [
        ("total_measured", 600.0 * GIB),
        ("model_weights", 4.0 * 14.99e9),
        ("kv_cache_pool", 4.0 * 102.52 * GIB),
        ("activations", 4.33 * GIB),
    ];
    assert_figures(&shown, 0, &figures);
    assert_eq!(part(&shown, 0, "weights")["provenance"], "computed");
    assert_noted(&shown, "multiplied by 4");
}

#[test]
fn what_cannot_be_is_shown_first() {
    let text = std::fs::read_to_string(fixture("llm-sizer-3.0.json")).unwrap();
    let idle = text.replace("\"total_measured_gb\": 124.83", "\"total_measured_gb\": 0.44");
    let text = show(idle).success();
    let (gate, table) = (text.stdout.find("implausible"), text.stdout.find("memory of input="));
    assert!(gate.unwrap() < table.unwrap(), "{}", text.stdout);
    let _ = text.stdout("weights_above_peak").stdout("parts_exceed_whole");
}

#[test]
fn a_row_of_a_sizer_batch_is_as_its_profile() {
    let later = shown("llm-sizer-batch-39.csv");
    let single = shown("llm-sizer-3.0.json");
    for name in [
        "total_measured",
        "model_weights",
        "kv_cache_pool",
        "kv_cache_used",
        "graph_capture",
        "kv_tokens",
        "mean_latency_ms",
    ] {
        assert_figures(&later, 0, &[(name, figure(&single, 0, name))]);
    }
    let none = later["cases"][0]["figures"].as_array().unwrap();
    assert!(
        none.iter().all(|figure| figure["name"] != "power_mean"),
        "an empty cell is not known"
    );
    let table = std::fs::read_to_string(fixture("llm-sizer-batch-39.csv")).unwrap();
    let failed = table.replace(",8,True,", ",64,False,").replace(
        ",310.4,,,,,",
        ",310.4,,,,,\"Traceback\n  one\nRuntimeError: out of memory, \"\"tried\"\" it\n\"",
    );
    let _ = show(failed)
        .success()
        .stdout("batch=64 failed: RuntimeError: out of memory, \"tried\" it");
}

/// A calculator beside what was measured, both from one file.
#[test]
fn a_validation_of_sizer_is_its_calculator_beside_its_profiles() {
    let shown = shown("llm-sizer-validation.csv");
    let figures = [
        ("total_measured", 24.9 * GIB),
        ("model_weights", 13.48e9),
        ("calculator_total", 20e9),
        ("mean_latency_ms", 7250.0),
    ];
    assert_figures(&shown, 0, &figures);
    assert_eq!(shown["cases"][2]["facts"]["tensor_parallel"], 4);
    let compare = |further: &[&str]| {
        let program = Profiler::new().args(["compare", &fixture("llm-sizer-validation.csv"), "--json"]);
        program.args(further).run()
    };
    let compared = compare(&[]).success().json();
    let rows = compared["cases"][2]["rows"].as_array().unwrap();
    let kv = rows.iter().find(|row| row["measured"] == 2_680_000_000_i64).unwrap();
    assert_eq!(kv["said"], 10_740_000_000_i64);
    let _ = compare(&["--fail-above", "50"]).code(4);
    let text = Profiler::new()
        .args(["compare", &fixture("llm-sizer-validation.csv")])
        .run();
    let _ = text.success().stdout("40 to 80 B").stdout("LLM-sizer's calculator");
    let edited = std::fs::read_to_string(fixture("llm-sizer-validation.csv")).unwrap();
    let _ = show(edited.replace("13.48", "many")).code(2).stderr("row 1");
}

#[test]
fn vllm_bench_runs_and_sweeps() {
    let run = shown("vllm-bench-run.json");
    assert_eq!(run["cases"][0]["name"], "concurrency=1");
    assert_figures(&run, 0, &[("output_throughput", 18.0), ("completed", 100.0)]);
    for (name, value) in [
        ("mean_ttft_ms", 63.0),
        ("p99_e2el_ms", 278.5),
        ("std_tpot_ms", 0.125),
        ("request_throughput", 3.6),
    ] {
        assert!((figure(&run, 0, name) - value).abs() < 1e-9, "{name}");
    }
    let summary = shown("vllm-bench-summary.json");
    assert_eq!(
        summary["cases"].as_array().unwrap().len(),
        2,
        "runs of equal settings are one case"
    );
    assert!((figure(&summary, 0, "output_throughput") - 18.5).abs() < 1e-9);
    assert!((figure(&summary, 1, "mean_ttft_ms") - 420.0).abs() < 1e-9);
    assert_noted(&summary, "100 prompts cannot reach a concurrency of 128");
    let table = shown("vllm-bench-summary.csv");
    assert_eq!(table["cases"], summary["cases"]);
    let latency = shown("vllm-bench-latency.json");
    assert_figures(
        &latency,
        0,
        &[("mean_latency_ms", 1234.5), ("median_latency_ms", 1233.5)],
    );
}

#[test]
fn tensorrt_graphs_in_a_matrix_and_alone() {
    let matrix = shown("tensorrt-graphs-matrix.json");
    let names: Vec<&str> = matrix["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["name"].as_str().unwrap())
        .collect();
    let expected = [
        "batch=32 draft=4 max_concurrency=none",
        "batch=32 draft=4 max_concurrency=16",
        "summary",
    ];
    assert_eq!(names, expected, "the third experiment is the summary");
    assert_figures(&matrix, 0, &[("reserved_after", 15_746.0 * MIB), ("cuda_graphs", 32.0)]);
    assert_figures(
        &matrix,
        1,
        &[("allocated_added", 15_517.25 * MIB), ("start_time", 33.0)],
    );
    assert_figures(
        &matrix,
        2,
        &[
            ("reserved_for_each_graph", 1.1875 * MIB),
            ("additional_cuda_graphs", 32.0),
        ],
    );
    let single = shown("tensorrt-graphs-single.json");
    assert_eq!(
        single["cases"][0]["name"],
        "batch=32 draft=4 max_concurrency=16 pools=shared"
    );
    assert_figures(&single, 0, &[("reserved_after", 15_784.0 * MIB), ("cuda_graphs", 64.0)]);
    // Our own, without torch's counters.
    let of = |device: f64| json!({ "max_batch_size": 2, "max_draft_len": device as u64, "memory_diff": { "reserved_mb": null, "device_mb": device }, "num_cuda_graphs": 2 });
    let ours = json!({
        "model_name": "m", "experiments": [of(10.0), of(12.0)],
        "summary": { "model_name": "m", "device_overhead_mb": 2.0, "device_overhead_pct": 20.0 },
    });
    let read = Profiler::new().file("ours.json", ours.to_string());
    let read = read.args(["show", "ours.json", "--json"]).run().success().json();
    assert_figures(&read, 1, &[("memory_beside_kv", 12.0 * MIB), ("cuda_graphs", 2.0)]);
    assert_figures(&read, 2, &[("overhead", 2.0 * MIB), ("overhead_share", 20.0)]);
    assert!(!read["notes"].to_string().contains("one process"), "{}", read["notes"]);
    let failed = r#"{"model_name":"m","experiments":[{"experiment_name":"a","max_concurrency":null,"error":"no_result"}],"summary":{}}"#;
    let _ = show(failed).success().stdout("`a` failed: \"no_result\"");
}

#[test]
fn the_name_of_a_file_says_nothing() {
    let text = std::fs::read(fixture("vllm-bench-run.json")).unwrap();
    let named = Profiler::new().file("profile_res_20250130.csv", text);
    let _ = named
        .args(["show", "profile_res_20250130.csv"])
        .run()
        .success()
        .stdout("vllm bench");
}

#[test]
fn what_lacks_keys_or_has_texts_for_numbers_is_read_as_far_as_it_goes() {
    let bare = r#"{"schema_version": 3.0, "memory_breakdown": {"model_weights_gb": "14.99", "total_measured_gb": null}, "memory_timeline": null}"#;
    let _ = show(bare).success().stdout("model_weights");
    let _ = show(r#"{"request_throughput": "1.5", "duration": "2", "itls": [[0.1, 0.2]], "generated_texts": ["a"]}"#)
        .success()
        .stdout("1.500 requests/s");
    let _ = show(r#"{"request_throughput": 1.5, "duration": 2, "output_throughput": NaN, "itls": [[NaN, 5.0]]}"#)
        .success()
        .stdout("NaN or Infinity")
        .stdout("1.500 requests/s");
    let odd = r#"{"request_throughput": 1.5, "duration": 2, "tensor_parallel_size": "auto", "max_concurrency": "unlimited", "failed": [1], "output_throughput": "--"}"#;
    let _ = show(odd)
        .success()
        .stdout("1.500 requests/s")
        .stdout("`output_throughput`: `--` is not a number: it is left out");
}

#[test]
fn what_is_no_known_file_is_refused_with_what_it_is() {
    let refused = |text: &str| show(text).code(2);
    let _ = refused(r#"{"a": 1, "b": 2}"#)
        .stderr("it is an object of `a`, `b`")
        .stderr("tgi-profiler");
    let _ = refused("[1, 2]").stderr("an array of something other than objects");
    let _ = refused("[]").stderr("an empty array");
    let _ = refused("hello").stderr("neither JSON nor a table");
    let _ = refused("").stderr("neither JSON nor a table");
    let _ = refused("a,b\n1,2\n").stderr("its columns are `a`, `b`");
    let _ = show([0xff, 0xfe, 0x00]).code(2).stderr("is not text");
    let _ = Profiler::new()
        .args(["show", "nowhere"])
        .run()
        .code(2)
        .stderr("nowhere");
}

#[test]
fn what_is_broken_is_named_with_its_place_and_a_remedy() {
    let whole = std::fs::read_to_string(fixture("tgi-profiler.json")).unwrap();
    let cut = show(&whole[..whole.len() / 2]).code(2);
    let _ = cut
        .stderr("is not whole JSON")
        .stderr("line")
        .stderr("hint: it was cut off or edited");
    let wrong = whole.replacen("\"success\": true", "\"success\": \"yes\"", 1);
    let _ = show(wrong)
        .code(2)
        .stderr("`results[0].success`")
        .stderr("tgi-profiler")
        .stderr("hint");
    let wrong = whole.replacen("\"input_length\": 2051", "\"input_length\": 2051.5", 1);
    let _ = show(wrong).code(2).stderr("`results[0]` has no whole lengths");
    let table = std::fs::read_to_string(fixture("llm-sizer-batch-39.csv")).unwrap();
    let short = table.replacen(",124.83,0.6,", ",0.6,", 1);
    let _ = show(short).code(2).stderr("row 1 has 38 cells below 39 columns");
    let wrong = table.replacen(",1024,1024,8,", ",many,1024,8,", 1);
    let _ = show(wrong).code(2).stderr("row 1: `input_len` is not a whole number");
    let newer = std::fs::read_to_string(fixture("llm-sizer-3.0.json")).unwrap();
    let newer = newer.replace("\"schema_version\": \"3.0\"", "\"schema_version\": \"9.1\"");
    let _ = show(newer)
        .code(2)
        .stderr("its schema is `9.1`, and only 2 and 3 are known");
    let older = r#"{"memory_breakdown": {}, "model_info": {}, "schema_version": "1.0"}"#;
    let _ = show(older)
        .code(2)
        .stderr("its schema is `1.0`, and only 2 and 3 are known");
    let _ = show("model_id,batch_size,total_memory_gb\nm,1,2\n")
        .code(2)
        .stderr("is unknown: its columns are `model_id`")
        .stderr("llm-sizer batch CSV");
}

#[test]
fn hostile_files_end_in_a_message() {
    let _ = show("[".repeat(100_000)).code(2).stderr("is not whole JSON");
    let _ = show(format!("[{{}}{}]", ",{}".repeat(200_000)))
        .code(2)
        .stderr("is unknown: ");
    let many = format!(
        r#"[{{"request_throughput": 1, "duration": 1}}{}]"#,
        ",{}".repeat(150_000)
    );
    let _ = show(many).code(2).stderr("more than 100000 entries");
    let huge = r#"{"schema_version": "3.0", "memory_breakdown": {"total_measured_gb": 1e300, "model_weights_gb": -5}}"#;
    let _ = show(huge).success();
    let lengths = r#"{"config": {}, "results": [{"input_length": 9e15, "output_length": 9e15, "success": true}]}"#;
    let _ = show(lengths);
    // A long list that no figure is read from.
    let list = "1,".repeat(4_000_000);
    let long = format!(r#"{{"request_throughput": 1.5, "duration": 1, "itls": [[{list}1]]}}"#);
    let _ = show(long).success().stdout("1.500 requests/s");
}

#[test]
fn results_that_were_appended_to_one_file_are_runs() {
    let shown = shown("vllm-bench-appended.jsonl");
    assert_eq!(
        (shown["cases"].as_array().unwrap().len(), &shown["format"]),
        (2, &json!("vllm bench"))
    );
    let text = std::fs::read_to_string(fixture("vllm-bench-appended.jsonl")).unwrap();
    let first = text.lines().next().unwrap();
    let same = show(format!("{first}\n{first}\n")).success();
    same.stdout("#2");
    show(format!("{first}\n{}", &first[..100]))
        .code(2)
        .stderr("not whole JSON");
}

#[test]
fn names_of_sglang_and_of_older_versions_are_known() {
    let sglang = shown("sglang-bench.jsonl");
    assert_eq!(sglang["format"], "SGLang bench_serving");
    assert_figures(
        &sglang,
        0,
        &[
            ("total_token_throughput", 5485.7),
            ("input_throughput", 4876.2),
            ("mean_e2el_ms", 2900.0),
            ("mean_concurrency", 13.8),
        ],
    );
    assert_noted(&sglang, "version 0.5.23");
    let older = shown("vllm-bench-older.json");
    assert_eq!(figure(&older, 0, "request_goodput"), 3.2);
    assert_noted(&older, "older version of vLLM");
    // vLLM 0.5 stated the rate of input too; SGLang alone has its name of the E2E latency.
    let oldest = json!({"backend": "vllm", "model_id": "m", "num_prompts": 100, "duration": 30.0, "completed": 100,
        "request_throughput": 3.33, "input_throughput": 853.3, "output_throughput": 213.3, "mean_ttft_ms": 40.0});
    let oldest = shown_text(oldest);
    assert_eq!(oldest["format"], "vllm bench");
    assert_figures(&oldest, 0, &[("input_throughput", 853.3), ("mean_ttft_ms", 40.0)]);
}

/// `show` of a file with this text.
fn shown_text(text: impl ToString) -> Value {
    let profiler = Profiler::new().file("x", text.to_string());
    profiler.args(["show", "x", "--json"]).run().success().json()
}

/// AIPerf's from a run against the simulated engine, whose 64 requests have these means; genai-perf's by its schema.
#[test]
fn tables_of_statistics_become_the_figures_of_their_json() {
    let aiperf = shown("aiperf.csv");
    assert_eq!(aiperf["format"], "AIPerf or genai-perf");
    assert_figures(
        &aiperf,
        0,
        &[
            ("mean_ttft_ms", 68.20),
            ("mean_tpot_ms", 21.40),
            ("mean_e2el_ms", 1416.64),
            ("request_throughput", 5.50),
            ("total_output_tokens", 4096.0),
        ],
    );
    let genai = "Metric,avg,p99,p90,p50\nTime To First Token (ms),50.10,69.00,60.00,50.00\n\
        Request Latency (ms),\"1,250.50\",\"1,299.00\",\"1,280.00\",\"1,250.00\"\n\nMetric,Value\nOutput Token Throughput (tokens/sec),356.70\n";
    let genai = shown_text(genai);
    assert_figures(
        &genai,
        0,
        &[
            ("mean_ttft_ms", 50.1),
            ("p99_e2el_ms", 1299.0),
            ("output_throughput", 356.7),
        ],
    );
}

/// Files of these tools against the simulated engine (`docs/parity.md`). The expected means are those of the tools' own
/// records of the 64 requests (inference-perf: 40), so that a wrong unit shows.
#[test]
fn figures_of_real_files_are_the_means_of_their_requests() {
    let expected =
        |ttft: f64, tpot: f64, e2el: f64| [("mean_ttft_ms", ttft), ("mean_tpot_ms", tpot), ("mean_e2el_ms", e2el)];
    let aiperf = shown("aiperf.json");
    assert_figures(&aiperf, 0, &expected(78.306_710_703, 21.560_824_544, 1_436.638_657));
    assert_noted(&aiperf, "AIPerf 0.13.0");
    let counts = |shown: &Value| shown["notes"].to_string().contains("--use-server-token-count");
    assert!(!counts(&aiperf), "{aiperf:#}");
    // Counted from the text of the same kind of answers.
    let own = r#"{"schema_version": "1.4", "aiperf_version": "0.13.0", "request_throughput": {"unit": "requests/sec", "avg": 5.5},
        "request_latency": {"unit": "ms", "avg": 1423.0}, "time_to_first_token": {"unit": "ms", "avg": 53.7},
        "total_osl": {"unit": "tokens", "avg": 13502.0}, "total_usage_completion_tokens": {"unit": "tokens", "avg": 4096.0}}"#;
    let own = shown_text(own);
    assert!(counts(&own), "{own:#}");
    let guidellm = shown("guidellm.json");
    assert_figures(
        &guidellm,
        0,
        &expected(61.527_162_790, 21.454_949_582, 1_413.793_470_710),
    );
    let perf = shown("inference-perf.json");
    assert_figures(&perf, 0, &expected(13.092_168_675, 6.062_355_022, 1_288.556_460));
    assert_figures(&perf, 0, &[("request_throughput", 3.623_168_859), ("completed", 40.0)]);
    assert_noted(
        &perf,
        "counted 8452 output tokens with a tokenizer of its own, and the server 2560",
    );
    // Its figures may be by the server's count: nothing is wrong with these.
    let mut by_server: Value = serde_json::from_slice(&std::fs::read(fixture("inference-perf.json")).unwrap()).unwrap();
    by_server["successes"]["throughput"]["output_tokens_per_sec"] = json!(2560.0 / 40.0 * 3.623_168_859_063_533);
    let by_server = shown_text(by_server);
    assert!(
        !by_server["notes"].to_string().contains("tokenizer of its own"),
        "{by_server:#}"
    );
    let llama = shown("llama-bench.json");
    let rows: Vec<Value> = serde_json::from_slice(&std::fs::read(fixture("llama-bench.json")).unwrap()).unwrap();
    for (case, name) in ["input_throughput", "output_throughput", "total_token_throughput"]
        .into_iter()
        .enumerate()
    {
        let row = &rows[case];
        let tokens = row["n_prompt"].as_f64().unwrap() + row["n_gen"].as_f64().unwrap();
        let runs: Vec<f64> = row["samples_ns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ns| tokens / (ns.as_f64().unwrap() * 1e-9))
            .collect();
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        assert!((figure(&llama, case, name) / mean - 1.0).abs() < 1e-4, "{name}: {mean}");
    }
}

/// Made from the schemas of these tools; each unit as the tool states or documents it.
#[test]
fn statistics_of_other_tools_become_the_same_figures() {
    let figures = |text: Value, format: &str| {
        let shown = shown_text(text);
        assert_eq!(shown["format"], format);
        shown
    };
    let latency = |unit: &str, avg: f64| json!({"unit": unit, "avg": avg, "p50": avg, "p99": avg * 2.0});
    let aiperf = figures(
        json!({"schema_version": "1.4", "aiperf_version": "0.13.0", "request_throughput": {"unit": "requests/sec", "avg": 4.0},
               "request_latency": latency("ms", 2900.0), "time_to_first_token": latency("ms", 200.0), "inter_token_latency": latency("sec", 0.02),
               "output_token_throughput": {"unit": "tokens/sec", "avg": 600.0}}),
        "AIPerf or genai-perf",
    );
    let expected = [
        ("request_throughput", 4.0),
        ("output_throughput", 600.0),
        ("mean_e2el_ms", 2900.0),
        ("p99_ttft_ms", 400.0),
        ("mean_tpot_ms", 20.0),
    ];
    assert_figures(&aiperf, 0, &expected);
    assert_noted(&aiperf, "AIPerf 0.13.0");

    let of = |mean: f64| json!({"successful": {"mean": mean, "median": mean, "percentiles": {"p99": mean * 2.0}}});
    let guidellm = figures(
        json!({"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 8}},
               "metrics": {"requests_per_second": of(4.0), "output_tokens_per_second": of(600.0), "request_latency": of(2.9),
                           "time_to_first_token_ms": of(200.0), "inter_token_latency_ms": of(20.0)}}]}),
        "GuideLLM",
    );
    assert_figures(&guidellm, 0, &expected);
    assert_eq!(guidellm["cases"][0]["name"], "concurrent concurrency=8");
    let older = shown_text(
        json!({"benchmarks": [{"args": {"strategy": {"type_": "concurrent", "streams": 8}}, "metrics": {"requests_per_second": of(4.0)}}]}),
    );
    assert_eq!(
        (&older["format"], &older["cases"][0]["name"]),
        (&guidellm["format"], &guidellm["cases"][0]["name"])
    );

    let seconds = |mean: f64| json!({"mean": mean, "median": mean, "p99": mean * 2.0});
    let perf = figures(
        json!({"load_summary": {}, "failures": {"count": 0}, "successes": {"count": 9, "latency": {"request_latency": seconds(2.9),
               "time_to_first_token": seconds(0.2), "time_per_output_token": seconds(0.02)},
               "throughput": {"requests_per_sec": 4.0, "output_tokens_per_sec": 600.0}}}),
        "inference-perf",
    );
    assert_figures(&perf, 0, &expected);

    let trtllm = figures(
        json!({"engine": {"model": "m", "version": "1.2"}, "request_info": {"num_requests": 9},
               "performance": {"request_throughput_req_s": 4.0, "system_output_throughput_tok_s": 600.0, "avg_request_latency_ms": 2900.0}}),
        "trtllm-bench",
    );
    assert_figures(
        &trtllm,
        0,
        &[
            ("request_throughput", 4.0),
            ("output_throughput", 600.0),
            ("mean_e2el_ms", 2900.0),
        ],
    );

    let row = |prompt: u64, generated: u64, rate: f64| json!({"build_commit": "abc", "build_number": 6000, "model_type": "llama 1B", "n_prompt": prompt, "n_gen": generated, "avg_ts": rate});
    let llama = figures(json!([row(512, 0, 5000.0), row(0, 128, 90.0)]), "llama-bench");
    assert_eq!(
        (
            figure(&llama, 0, "input_throughput"),
            figure(&llama, 1, "output_throughput")
        ),
        (5000.0, 90.0)
    );
    assert_eq!(
        (&llama["cases"][0]["name"], &llama["cases"][1]["name"]),
        (&json!("pp512"), &json!("tg128"))
    );
}
