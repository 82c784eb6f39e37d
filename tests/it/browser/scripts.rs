//! A user opens the report of each shipped script's run.

use std::path::Path;

use super::look::look;
use crate::support::{Profiler, needs_browser};

/// A small range, which a search settles in a few probes.
const BOX: [&str; 2] = ["input=[128,1024]", "output=[128,512]"];

/// Few requests on a fast clock.
const LOAD: [&str; 4] = [
    "sim.time_scale=0.02",
    "output=16",
    "requests_per_slot=2",
    "min_requests=8",
];

/// Runs a script and checks its report; returns the ids of its pictures.
async fn pictures(script: &str, sets: &[&str], files: &[(&str, &str)]) -> Vec<String> {
    let run = Profiler::new().args(["run", script, "--out", "out"]);
    let run = files.iter().fold(run, |run, (name, text)| run.file(name, text));
    let outcome = sets
        .iter()
        .fold(run, |run, set| run.args(["--set", set]))
        .run()
        .success();
    let page = outcome.folder().join("out/report.html");
    says_what_matters(&page, script);
    look(&page).await
}

/// Checks the facts that a reader needs who has only the file.
fn says_what_matters(page: &Path, script: &str) {
    let text = std::fs::read_to_string(page).unwrap();
    for part in ["<dt>seed</dt>", "SHA-256", &format!("profiler run {script}")] {
        assert!(text.contains(part), "{script}: no {part}");
    }
    assert!(text.contains("SIMULATED"), "{script}");
    assert!(text.len() < 2_000_000, "{script}: {} bytes", text.len());
}

/// Fails unless each part occurs in the id of some picture.
#[track_caller]
fn among(ids: &[String], parts: &[&str]) {
    for part in parts {
        assert!(ids.iter().any(|id| id.contains(part)), "no {part} in {ids:?}");
    }
}

macro_rules! reports {
    ($($name:ident: $script:literal, $sets:expr, $files:expr, [$($part:literal),*];)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            if !needs_browser() {
                return;
            }
            let ids = pictures($script, &$sets, &$files).await;
            among(&ids, &[$($part),*]);
        }
    )*};
}

const BATCH: &str = "models:\n  - model_id: meta-llama/Llama-3.1-8B-Instruct\n    input_lengths: [128]\n    output_lengths: [16]\n    batch_sizes: [1, 4]\n";

reports! {
    adaptive: "adaptive", BOX, [], ["boundary", "memory"];
    three_axes: "adaptive", ["input=[128,1024]", "output=[128,512]", "concurrency=[1,8]", "search.max_probes=12"], [], ["boundary"];
    bisect: "bisect", BOX, [], ["boundary"];
    grid: "grid", BOX, [], ["boundary"];
    neighbours: "neighbours", ["input=[128,1024]", "output=[128,512]", "engine=sim"], [], ["boundary"];
    model_guided: "model_guided", ["input=[128,1024]", "output=[128,512]", "engine=sim"], [], ["boundary"];
    memory_breakdown: "memory_breakdown", ["repeats=1"], [], ["breakdown", "memory"];
    engine_info: "engine_info", [], [], ["memory"];
    throughput: "throughput", [&LOAD[..], &["concurrency=[1,4,16]"]].concat(), [], ["load-curves", "load-trade", "load-spread", "load-time"];
    slo: "slo", [&LOAD[..], &["slo.ttft_ms=100000", "from=1", "most=16"]].concat(), [], ["load-curves", "load-time"];
    kv_cache: "kv_cache", LOAD, [], ["memory", "load-spread", "load-time"];
    compare_engines: "compare_engines", [&LOAD[..], &["engines=[{\"engine\":\"sim\",\"name\":\"a\"},{\"engine\":\"sim\",\"name\":\"b\",\"memory_fraction\":0.8}]", "concurrency=[1,4]"]].concat(), [], ["loads-curves", "loads-trade", "load-1-curves", "load-2-time"];
    batch: "batch", ["file=batch.yaml", "sim.time_scale=0.02", "requests=8"], [("batch.yaml", BATCH)], ["load-curves", "load-time"];
    cuda_graphs: "cuda_graphs", ["input=64", "output=8", "requests=8"], [], ["memory"];
    kv_dtype: "kv_dtype", ["input=64", "output=8", "requests=8"], [], ["memory"];
    tensor_parallel: "tensor_parallel", ["input=64", "output=8", "requests=8"], [], ["memory"];
}
