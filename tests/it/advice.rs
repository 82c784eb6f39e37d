//! A user reads which launches a report recommends: each was tested at its lengths, without another start and within
//! the budgets.

use std::path::Path;

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Outcome, Profiler};

/// Ranges of a search over lengths and concurrency on the simulated engine.
const RANGES: [&str; 3] = ["--input=128..8192", "--output=64", "--concurrency=1..16"];

fn adaptive(flags: &[&str]) -> Outcome {
    Profiler::new()
        .args(["run", "adaptive", "--out", "out", "--engine", "sim"])
        .args(RANGES)
        .args(flags)
        .run()
        .success()
}

#[track_caller]
fn boundary(run: &Path) -> Value {
    let document = Profiler::new().args(["show", "--json"]).arg(run).run().success().json();
    document["boundaries"][0].clone()
}

fn of(outcome: &Outcome) -> Value {
    boundary(&outcome.folder().join("out"))
}

fn search<'a>(found: &'a Value, name: &str) -> &'a Value {
    &found["report"]["search"][name]
}

fn rows(found: &Value) -> &Vec<Value> {
    found["answer"]["run"].as_array().unwrap()
}

/// Fails unless every row has an answer that fits at the same lengths and at least its concurrency, and flags for
/// exactly these.
#[track_caller]
fn assert_tested(found: &Value) {
    for row in rows(found) {
        let point = &row["point"];
        let fits = |tested: &Value| {
            let (at, moves) = (&tested["point"], &tested["answer"]["moves"]);
            let enough = at["concurrency"].as_u64() >= point["concurrency"].as_u64();
            enough && at["input"] == point["input"] && at["output"] == point["output"] && moves == "fits"
        };
        assert!(found["points"].as_array().unwrap().iter().any(fits), "{row}");
        let flags = row["flags"].to_string();
        assert!(flags.contains(&point["concurrency"].to_string()), "{row}");
        assert!(!row["workload"].as_str().unwrap().contains("predict"), "{row}");
    }
}

#[test]
fn every_row_was_tested_and_budgets_hold() {
    let corner = of(&adaptive(&["--advice-probes", "0"]));
    assert_eq!(rows(&corner).len(), 1);
    assert_tested(&corner);

    let outcome = adaptive(&[]);
    let full = of(&outcome);
    assert!((2..=4).contains(&rows(&full).len()), "{}", full["answer"]);
    assert_tested(&full);
    assert_eq!(search(&full, "starts"), search(&corner, "starts"));
    assert_eq!(search(&full, "stopped"), search(&corner, "stopped"));

    // Where the limit needs about as many probes, some or none are left for other rows.
    let most = search(&corner, "probes").as_u64().unwrap();
    for most in [most, most + 1] {
        let within = of(&adaptive(&["--search.max-probes", &most.to_string()]));
        assert!(within["points"].as_array().unwrap().len() as u64 <= most);
        assert_tested(&within);
    }

    // Resuming a finished run sends no more probes.
    let resumed = Profiler::new()
        .current_dir(outcome.folder())
        .args(["run", "--resume", "out"]);
    let _ = resumed.run().success();
    assert_eq!(of(&outcome), full);
}

/// Runs a search on a made-up engine. `fits` is the condition under which a point fits, `serves` the condition under
/// which the engine can serve a point without another start.
fn made_up(fits: &str, serves: &str) -> Value {
    Bench::script(&format!(
        r#"import "std/search" as search; import "std/search/advice" as advice;
        let asked = [];
        let map = boundary(#{{ input: [512, 4096], output: [64, 64], concurrency: [1, 64] }}, #{{}});
        let probe = |p| #{{ verdict: if {fits} {{ "ok" }} else {{ "preempted" }}, cause: "kv_cache", report: #{{ tokens: 20000 }} }};
        let done = search::adaptive(map, probe, #{{ confirm: 0 }});
        let engine = #{{ serves: |p| {serves}, probe: |p| {{ asked.push(p); probe.call(p) }} }};
        let before = done.probes;
        done = advice::probe_rows(map, engine, 8, done, #{{ confirm: 0 }});
        #{{ asked: asked, further: done.probes - before, run: report(map, done).answer.run }}"#
    ))
    .value()
}

#[test]
fn half_way_is_tried_once_where_the_predicted_point_does_not_fit() {
    // At one input length, which the search itself does not probe, less fits than the reported limit predicts.
    let found = made_up(
        "p.concurrency * (p.input + p.output) <= 20000 && !(p.input == 2048 && p.concurrency > 7)",
        "true",
    );
    let at = |point: &&Value| point["input"] == 2048;
    let asked: Vec<u64> = (found["asked"].as_array().unwrap().iter().filter(at))
        .map(|point| point["concurrency"].as_u64().unwrap())
        .collect();
    assert_eq!((asked.len(), asked[0]), (2, 9), "{found}");
    assert!(asked[1] < 9, "{found}");
    assert!(found["asked"].as_array().unwrap().len() <= 8, "{found}");
}

#[test]
fn the_engine_is_not_started_again_for_it() {
    let found = made_up("p.concurrency * (p.input + p.output) <= 20000", "false");
    assert_eq!((&found["asked"], &found["further"]), (&json!([]), &json!(0)), "{found}");
    assert!(!found["run"].as_array().unwrap().is_empty(), "{found}");
}
