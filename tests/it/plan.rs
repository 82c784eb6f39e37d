//! A user knows a traffic and has measured one engine: how many replicas, and what do they cost?

use std::path::Path;

use serde_json::Value;

use super::tune::on_slow_engine;
use crate::support::Profiler;

fn recorded(run: &str) -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
    runs.join(run).display().to_string()
}

fn plan(run: &str, flags: &[&str]) -> crate::support::Outcome {
    let flags = [flags, &["--gpus-per-replica", "1", "--json"]].concat();
    Profiler::new().args(["plan", run]).args(flags).run()
}

#[test]
fn two_measured_engines_are_planned_for_a_peak_with_a_spare_replica() {
    let (vllm, sglang) = (recorded("vllm-sweep"), recorded("sglang-sweep"));
    let flags = ["--rate", "100", "--mean", "40", "--price-per-gpu-hour", "3.5"];
    let outcome = Profiler::new()
        .args(["plan", &vllm, &sglang])
        .args(flags)
        .args(["--gpus-per-replica", "1", "--json"])
        .run();
    let found = outcome.success().json()["result"].clone();
    // 44.4 requests/s at 70 %, and one more.
    assert_eq!(
        (&found["replicas"], &found["gpus"]),
        (&Value::from(4), &Value::from(5)),
        "{found}"
    );
    assert_eq!(found["dollars_per_hour"], 17.5, "{found}");
    assert!(found["margin_down"].as_f64().unwrap() > 0.4, "{found}");
    assert_eq!(found["others"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["simulated"], false);
    // Shorter requests than measured are planned as if they were longer, which is said.
    let found = plan(&vllm, &["--rate", "100", "--input", "256", "--output", "128"])
        .success()
        .json()["result"]
        .clone();
    assert_eq!(found["longer"], serde_json::json!([1.0, 0.0]), "{found}");
    assert!(
        found["dollars"].is_null() && found["dollars_per_hour"].is_null(),
        "{found}"
    );
}

/// The recorded server was running before, so nothing says how many GPUs it has.
#[test]
fn unknown_gpus_are_asked_for_and_waits_count_for_every_limited_latency() {
    let run = recorded("vllm-sweep");
    let unknown = Profiler::new().args(["plan", &run, "--rate", "10"]).run();
    let _ = unknown.code(2).stderr("--gpus-per-replica");
    let flags = "--rate 43.9 --utilization 0.99 --spare 0 --percentile 50 --slo.e2el-ms";
    let replicas = |limit: &str| {
        let flags: Vec<&str> = flags.split(' ').chain([limit]).collect();
        plan(&run, &flags).success().json()["result"]["replicas"].clone()
    };
    assert_eq!((replicas("3000"), replicas("30000")), (2.into(), 1.into()));
    let huge = plan(&run, &["--rate", "100000000", "--slo.ttft-ms", "1900"]).success();
    assert!(huge.json()["result"]["replicas"].as_f64() > Some(2e6));
}

#[test]
fn a_plan_beyond_what_was_measured_is_refused() {
    let run = recorded("vllm-sweep");
    let refused = |flags: &[&str], code: i32, says: &str| {
        let outcome = plan(&run, flags);
        assert_eq!(outcome.code, Some(code), "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{flags:?}: {}", outcome.stderr);
    };
    refused(&["--rate", "10", "--input", "1024"], 2, "--input 1024");
    refused(&["--rate", "10", "--output", "256"], 2, "512 + 128");
    refused(&["--rate", "10", "--mean", "20"], 2, "mean");
    refused(&["--rate", "10", "--utilization", "1"], 2, "utilization");
    refused(&["--rate", "10", "--slo.itl-ms", "1"], 2, "itl_ms");
    refused(&["--rate", "10", "--slo.tpot-ms", "0.1"], 1, "tpot_ms");
    refused(&["--input", "512"], 2, "--rate");
    let _ = Profiler::new()
        .args(["plan", "--rate", "10"])
        .run()
        .code(2)
        .stderr("runs");
    let _ = Profiler::new()
        .args(["plan", "nowhere", "--rate", "10"])
        .run()
        .code(2)
        .stderr("nowhere");
}

/// The queue of a plan, against requests at that rate on the engine itself, which serves eight at a time. How slow it is
/// then depends on the machine; which rate is the slower one does not.
#[test]
fn a_planned_latency_grows_with_the_rate_as_that_of_the_engine() {
    let load = |args: &[&str]| {
        on_slow_engine("throughput", 8)
            .args(["--input", "64", "--output", "16", "--json", "--out", "run"])
            .args(args)
            .run()
            .success()
    };
    let measured = load(&[
        "--concurrency",
        "2,8",
        "--min-requests",
        "16",
        "--requests-per-slot",
        "3",
    ]);
    let curve = measured.folder().join("run").display().to_string();
    // Of what it serves on this machine now; a fraction and a whole number, in any order.
    let most = measured.json()["result"]["workloads"][0]["levels"][1]["request_throughput"]
        .as_f64()
        .unwrap();
    let rates = format!("{},{}", (0.9 * most).floor(), 0.3 * most);
    let at_rates = load(&["--rates", &rates, "--min-requests", "40", "--set", "seconds=1"]).json();
    let levels = at_rates["result"]["workloads"][0]["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2, "{at_rates}");
    let mut latencies = Vec::new();
    for level in levels {
        let rate = level["rate"].as_f64().unwrap().to_string();
        let flags = ["--rate", &rate, "--spare", "0", "--utilization", "0.99"];
        let found = plan(&curve, &flags).success().json()["result"].clone();
        assert_eq!(
            (&found["replicas"], &found["simulated"]),
            (&Value::from(1), &Value::from(true)),
            "{found}"
        );
        latencies.push([&level["rate"], &level["mean_e2el_ms"], &found["e2el_ms"]].map(|one| one.as_f64().unwrap()));
    }
    latencies.sort_by(|one, other| one[0].total_cmp(&other[0]));
    assert!(
        (1..3).all(|at| latencies[0][at] < latencies[1][at]),
        "rate, measured, planned: {latencies:?}"
    );
}
