//! A user's script handles an engine over real sockets: it describes, starts, probes, restarts and stops it.

use serde_json::Value;

use super::script::bench::Bench;
use crate::support::Profiler;

/// The value of a script that imports `std/engines` as `engines`.
#[track_caller]
pub fn value(script: &str) -> Value {
    Bench::script(&format!("import \"std/engines\" as engines;\n{script}")).value()
}

#[test]
fn a_coordinate_that_no_engine_has_is_named() {
    let script = "import \"std/engines\" as engines;
        engines::describe(\"sim\", #{}).probe(#{ input: 3, output: 4, batch: 2 })";
    let error = super::script::bench::Bench::script(script).error();
    assert!(error.contains("a point of an engine has no `batch`"), "{error}");
}

#[test]
fn a_probe_starts_the_engine_and_tells_counts_times_and_memory() {
    let answer = value(
        "let engine = engines::describe(\"sim\", #{});
         engine.probe(#{ input: 512, output: 64 })",
    );
    assert_eq!(answer["verdict"], "ok", "{answer}");
    assert_eq!((&answer["input"], &answer["output"]), (&512.into(), &64.into()));
    assert_eq!(answer["moves"], "fits");
    assert_eq!(answer["started"], true);
    for figure in ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "seconds"] {
        assert!(
            answer[figure].as_f64().is_some_and(|figure| figure >= 0.0),
            "{figure}: {answer}"
        );
    }
    assert!(answer["peak"].as_u64().unwrap() > 1 << 30, "{answer}");
    assert!(!answer["series"].as_array().unwrap().is_empty());
}

#[test]
fn what_memory_did_is_kept_though_the_script_stops_no_engine() {
    let script = "import \"std/engines\" as engines;
        engines::describe(\"sim\", #{}).probe(#{ input: 512, output: 64 }).verdict";
    let outcome = Profiler::new()
        .file("one.rhai", script)
        .args(["run", "one.rhai", "--out", "run"])
        .run()
        .success();
    let kept = std::fs::read_to_string(outcome.folder().join("run/memory/engine-1.csv")).unwrap();
    assert!(kept.contains(",loading,"), "{kept}");
    assert!(!kept.contains(",after,"), "nothing ended yet: {kept}");
}
