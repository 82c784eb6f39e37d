//! A user passes a run on to other systems: metrics for Prometheus, OpenTelemetry and MLflow, and the table of the
//! GitHub action.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Outcome, Profiler, temp};

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/runs");

fn show(run: &str, args: &[&str]) -> String {
    Profiler::new()
        .args(["show", &format!("{RUNS}/{run}")])
        .args(args)
        .run()
        .success()
        .stdout
}

#[test]
fn prometheus_gets_each_figure_with_its_unit_and_what_it_is_of() {
    let text = show("vllm-sweep", &["--export", "prometheus"]);
    let line = regex::Regex::new(r#"^([a-z_:][a-z0-9_:]*)\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)+\} -?[0-9.e+-]+$"#).unwrap();
    let mut family = "";
    for row in text.lines() {
        match row.strip_prefix("# TYPE ") {
            Some(named) => family = named.strip_suffix(" gauge").unwrap(),
            None => assert_eq!(&line.captures(row).unwrap_or_else(|| panic!("{row}"))[1], family),
        }
    }
    assert!(
        text.contains("# TYPE profiler_output_throughput_tokens_per_second gauge"),
        "{text:.2000}"
    );
    assert!(text.contains(r#"simulated="false""#) && text.contains("profiler_p99_tpot_ms{"));
    let memory = show("vllm-breakdown", &["--export", "prometheus"]);
    assert!(
        memory
            .lines()
            .any(|row| row.starts_with("profiler_memory_bytes{") && row.contains(r#"component="weights""#))
    );
    let limit = show("vllm-how-many", &["--export", "prometheus"]);
    let limit = limit.lines().find(|row| row.contains(r#"axis="concurrency""#)).unwrap();
    assert!(
        limit.starts_with("profiler_largest_that_fits{") && limit.ends_with(" 372"),
        "{limit}"
    );
}

#[test]
fn opentelemetry_gets_gauges_at_the_end_of_the_run() {
    let document: Value = serde_json::from_str(&show("vllm-breakdown", &["--export", "opentelemetry"])).unwrap();
    let of = &document["resourceMetrics"][0];
    let attributes = of["resource"]["attributes"].as_array().unwrap();
    assert!(
        attributes
            .iter()
            .any(|one| one["key"] == "service.name" && one["value"]["stringValue"] == "profiler")
    );
    assert!(
        attributes.iter().any(|one| one["key"] == "profiler.engine"),
        "{attributes:?}"
    );
    let metrics = of["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let memory = metrics
        .iter()
        .find(|metric| metric["name"] == "profiler.memory")
        .unwrap();
    let point = &memory["gauge"]["dataPoints"][0];
    assert_eq!(memory["unit"], "By");
    assert!(
        point["asDouble"].is_number() && point["timeUnixNano"].as_str().unwrap().len() == 19,
        "{point}"
    );
}

#[test]
fn mlflow_gets_a_run_of_its_file_store() {
    let folder = temp();
    let store = folder.path().join("mlruns");
    let _ = show("vllm-sweep", &["--mlflow", store.to_str().unwrap()]);
    let only = |folder: &Path| -> std::path::PathBuf {
        let mut inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        inside.find(|path| path.is_dir()).unwrap()
    };
    let experiment = only(&store);
    let run = only(&experiment);
    let meta: Value = yaml_serde::from_str(&fs::read_to_string(run.join("meta.yaml")).unwrap()).unwrap();
    assert_eq!(meta["run_id"].as_str(), run.file_name().unwrap().to_str());
    assert_eq!(meta["experiment_id"].as_str(), experiment.file_name().unwrap().to_str());
    assert_eq!(meta["status"], 3);
    let metrics = fs::read_dir(run.join("metrics")).unwrap().map(|entry| entry.unwrap());
    for metric in metrics {
        let line = fs::read_to_string(metric.path()).unwrap();
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        assert!(
            words.len() == 3 && words[0].len() == 13 && words[1].parse::<f64>().is_ok(),
            "{line}"
        );
    }
    assert_eq!(
        fs::read_to_string(run.join("tags/profiler.simulated")).unwrap(),
        "false"
    );
    assert!(run.join("params/model").is_file());
}

/// vLLM's `plot` reads every `summary.json` below the folder, a list of runs with the metrics and what was varied.
#[test]
fn vllms_plot_gets_the_folder_of_a_sweep() {
    let run = Profiler::new()
        .args([
            "run",
            "throughput",
            "--engine",
            "sim",
            "--concurrency",
            "1,4",
            "--requests",
            "8",
            "--repeats",
            "2",
        ])
        .args([
            "--input",
            "64",
            "--output",
            "8",
            "--set",
            "sim.time_scale=0.02",
            "--price-per-hour",
            "2.93",
            "--out",
            "run",
        ])
        .run()
        .success();
    let page = fs::read_to_string(run.folder().join("run/report.html")).unwrap();
    assert!(page.contains("cost of a million output tokens"), "a price is a curve");
    let sweep = run.folder().join("sweep");
    let export = || {
        let show = Profiler::new().arg("show").arg(run.folder().join("run"));
        show.arg("--vllm-sweep").arg(&sweep).run()
    };
    let _ = export().success();
    for concurrency in [1, 4] {
        let setting =
            format!("SERVE--engine=sim-BENCH--max_concurrency={concurrency}-random_input_len=64-random_output_len=8");
        let text = fs::read_to_string(sweep.join(&setting).join("summary.json")).unwrap();
        let runs: Vec<Value> = serde_json::from_str(&text).unwrap();
        let numbers: Vec<_> = runs.iter().map(|run| run["run_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [0, 1]);
        for run in &runs {
            assert_eq!(run["max_concurrency"], concurrency);
            assert!(run["request_throughput"].is_number() && run["p99_e2el_ms"].is_number() && run["ttfts"].is_null());
        }
        assert!(sweep.join(setting).join("run=1.json").is_file());
    }
    let csv = fs::read_to_string(sweep.join("summary.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let _ = export().code(2).stderr("name an empty folder");
    reads_hpmls_files(&run);
    let read = Profiler::new()
        .arg("show")
        .arg(&sweep)
        .arg("--json")
        .run()
        .success()
        .json();
    assert_eq!(
        (&read["cases"][1]["facts"]["concurrency"], &read["simulated"]),
        (&4.into(), &true.into())
    );
    let _ = Profiler::new()
        .args(["show", &format!("{RUNS}/vllm-how-many"), "--vllm-sweep", "sweep"])
        .run()
        .code(2)
        .stderr("no files of loads");
}

/// The files with hpml's keys have the figures of the run's loads, and are read back as what they are of.
fn reads_hpmls_files(run: &Outcome) {
    let export = |to: &str| {
        let show = Profiler::new()
            .current_dir(run.folder())
            .args(["show", "run", "--hpml"]);
        show.arg(to).run()
    };
    let _ = export("studies").success();
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(run.folder().join("studies/load-2").join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let requests = read("metrics_data.json");
    let requests = requests.as_array().unwrap();
    let of_run = |number: u64| requests.iter().filter(|one| one["run"] == number).count();
    assert_eq!(
        [of_run(1), of_run(2), requests.len()],
        [8, 8, 16],
        "without the warm-up"
    );
    let one = &requests[0];
    assert_eq!((&one["concurrency"], &one["tokens"]), (&4.into(), &8.into()));
    let cost = one["cost_per_token_usd"].as_f64().unwrap() * one["aggregate_throughput_tok_per_sec"].as_f64().unwrap();
    assert!((cost * 3600.0 - 2.93).abs() < 1e-9, "{one}");
    let (memory, cache) = (
        read("repeat-2/gpu_memory_data.json"),
        read("repeat-2/kv_cache_data.json"),
    );
    assert_eq!(memory["requests_completed"], 8, "of this repeat");
    let _ = export("studies").code(2).stderr("name an empty folder");
    let used = memory["history_memory_mb"].as_array().unwrap();
    assert_eq!(used.len(), memory["history_times"].as_array().unwrap().len());
    // The card of 24 GB that is simulated.
    assert_eq!(memory["total_memory_mb"], 24564.0);
    assert!(cache["peak_usage_percent"].as_f64().unwrap() > 0.1, "{cache}");
    for name in [
        "metrics_data.json",
        "repeat-1/gpu_memory_data.json",
        "repeat-1/kv_cache_data.json",
    ] {
        let file = run.folder().join("studies/load-2").join(name);
        let shown = Profiler::new()
            .arg("show")
            .arg(file)
            .arg("--json")
            .run()
            .success()
            .json();
        assert_eq!(
            (&shown["engine"], &shown["simulated"]),
            (&"sim".into(), &true.into()),
            "{name}"
        );
    }
    // One engine had one GPU, and the other two.
    let engines = Profiler::new().args(["show", &format!("{RUNS}/vllm-tensor-parallel"), "--hpml", "studies"]);
    let engines = engines.run().success();
    let memory = fs::read_to_string(engines.folder().join("studies/load-1/gpu_memory_data.json")).unwrap();
    let memory: Value = serde_json::from_str(&memory).unwrap();
    assert!(
        memory["peak_memory_mb"].is_number() && memory["total_memory_mb"].is_null(),
        "{memory}"
    );
    let nothing = Profiler::new().args(["show", &format!("{RUNS}/vllm-how-many"), "--hpml", "studies"]);
    let _ = nothing.run().code(2).stderr("no requests of loads");
}

/// Runs the steps of `action.yml` as a GitHub runner does.
#[test]
fn the_action_says_what_changed_and_fails_where_a_threshold_is_exceeded() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/action.yml")).unwrap();
    let action: Value = yaml_serde::from_str(&text).unwrap();
    let steps = action["runs"]["steps"].as_array().unwrap();
    let script = |name: &str| {
        steps.iter().find(|step| step["name"] == name).unwrap()["run"]
            .as_str()
            .unwrap()
    };
    for (run, options, status) in [
        ("vllm-sweep", "--max-regression 5", 0),
        ("sglang-sweep", "--max-regression 5 --strict", 4),
    ] {
        let folder = temp();
        let file = |name: &str| folder.path().join(name);
        let bash = |script: &str, status: &str| {
            let mut bash = Command::new("bash");
            bash.args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]);
            bash.env("BASELINE", format!("{RUNS}/vllm-sweep"))
                .env("RUN", format!("{RUNS}/{run}"))
                .env("OPTIONS", options);
            bash.env("PROFILER", env!("CARGO_BIN_EXE_profiler"))
                .env("STATUS", status)
                .env("RUNNER_TEMP", folder.path());
            bash.env("GITHUB_STEP_SUMMARY", file("summary"))
                .env("GITHUB_OUTPUT", file("output"))
                .output()
                .unwrap()
        };
        let compared = bash(script("compare"), "");
        assert!(compared.status.success(), "{compared:?}");
        let output = fs::read_to_string(file("output")).unwrap();
        assert_eq!(output.trim(), format!("status={status}"), "{compared:?}");
        assert!(fs::read_to_string(file("summary")).unwrap().contains("| "));
        assert!(file("profiler-comparison.md").is_file());
        assert_eq!(bash(script("verdict"), &status.to_string()).status.code(), Some(status));
    }
}
