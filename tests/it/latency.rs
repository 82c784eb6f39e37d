//! A user searches what fits, and asks where latencies bind before memory does.

use super::tune::on_slow_engine;
use crate::support::Profiler;

#[test]
fn a_search_says_at_each_length_whether_memory_or_which_latency_binds() {
    // Each step takes 20 ms and at most 2,048 prompt tokens: two steps exceed 35 ms, and a busy machine only more often.
    let outcome = on_slow_engine("adaptive", 256)
        .args([
            "--input",
            "128..2048",
            "--output",
            "16",
            "--concurrency",
            "1..64",
            "--search.max-probes",
            "12",
        ])
        .args([
            "--slo.ttft-ms",
            "35",
            "--slo.e2el-ms",
            "100000",
            "--json",
            "--out",
            "run",
        ])
        .run()
        .success();
    let found = outcome.json()["result"].clone();
    let rows = found["latency"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "{found}");
    for row in rows {
        assert_eq!(row["binds"], "ttft_ms", "{row}");
        assert!(
            row["within"].as_u64() < row["memory"].as_u64() && row["memory"].as_u64() >= Some(3),
            "{row}"
        );
    }
    // The boundary of memory is told as without limits of latency, and both lines are drawn.
    assert!(found["frontier"].is_array(), "{found}");
    let run = outcome.folder().join("run");
    let shown = Profiler::new().arg("show").arg(&run).run().success();
    let _ = shown.stdout("TTFT binds").stdout("memory: concurrency");
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("figure-memory-and-latency"), "the chart");
}

#[test]
fn a_latency_that_is_none_is_refused_before_anything_starts() {
    for limit in ["--slo.speed=3", "--slo.ttft-ms=0", "--slo.ttft-ms=soon"] {
        let outcome = Profiler::new()
            .args(["run", "adaptive", "--engine", "sim", limit, "--out", "run"])
            .run();
        assert_eq!(outcome.code, Some(2), "{limit}: {}", outcome.stderr);
        assert!(!outcome.folder().join("run").exists(), "{limit}");
    }
}
