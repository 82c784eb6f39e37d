//! A user searches an engine whose own report rules out some points, and these are neither sent nor counted as
//! failures: on the simulated engine, on a running server, and in kept runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::made_up::MadeUp;
use crate::support::{Outcome, Profiler, engines};

fn adaptive(sets: &[&str]) -> Outcome {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let own = "sim::launch(options + #{ fit_length: false })";
    Profiler::new()
        .file(
            "mine.rhai",
            engines::in_process(0.0).replace("sim::launch(options)", own),
        )
        .args(["run", "adaptive", "--out", "out"])
        .args(sets)
        .run()
        .success()
}

/// An engine that does not fit the length of its context: it refuses the first start.
const REFUSING: [&str; 2] = ["engine=./mine.rhai", "runtime=sim"];

#[track_caller]
fn shown(run: &Path) -> Value {
    Profiler::new().args(["show", "--json"]).arg(run).run().success().json()
}

fn kept(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/runs", name].iter().collect()
}

/// The number of points for each verdict and effect on the boundary, in the JSON document and in the table.
#[track_caller]
fn counted(run: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in shown(run)["boundaries"][0]["points"].as_array().unwrap() {
        let answer = &row["answer"];
        let key = format!("{} {}", answer["verdict"], answer["moves"]).replace('"', "");
        *counts.entry(key).or_default() += 1;
    }
    let table = Profiler::new().args(["show", "--csv=points"]).arg(run).run().success();
    let mut lines = table.stdout.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let mut in_table = BTreeMap::new();
    for cells in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
        *in_table
            .entry(format!("{} {}", cells[column("verdict")], cells[column("moves")]))
            .or_default() += 1;
    }
    assert_eq!(in_table, counts);
    counts
}

/// The part of the answer about a limit beyond which nothing was sent.
#[track_caller]
fn bounded_by_report(run: &Path) -> Value {
    let answer = shown(run)["boundaries"][0]["answer"].clone();
    let inequality = &answer["inequality"];
    assert_eq!(
        (&inequality["not_sent"], &inequality["failed"]),
        (&json!(true), &Value::Null)
    );
    let (limit, sure) = (answer["limit"].to_string(), answer["sure"].to_string());
    assert!(
        limit.contains("nothing above was sent") && !limit.contains("confirmed"),
        "{limit}"
    );
    assert!(!sure.contains("both sides"), "{sure}");
    // Quoted text is the engine's own message.
    let why = answer["why"].as_str().unwrap();
    assert!(
        why.contains("was not sent") && !why.split('“').nth(1).unwrap().contains("fit, and"),
        "{why}"
    );
    answer
}

#[test]
fn what_the_simulated_engine_rules_out_is_not_sent_and_never_failed() {
    let outcome = adaptive(&REFUSING);
    let run = outcome.folder().join("out");
    let answer = bounded_by_report(&run);
    let inequality = &answer["inequality"];
    assert_eq!(
        [&inequality["fits"], &inequality["reported"], &inequality["fails"]],
        [&json!(8320), &json!(8352), &json!(8384)]
    );
    assert_eq!(answer["run"][0]["flags"], json!(["--max-model-len", "8320"]));
    assert_eq!(
        counted(&run),
        BTreeMap::from([("ok fits".into(), 4), ("not_sent bounds".into(), 4)])
    );
    let search = &shown(&run)["boundaries"][0]["report"]["search"];
    assert_eq!(
        (&search["stopped"], &search["verified"]["not_sent"]),
        (&json!("verified"), &json!(3))
    );
}

#[test]
fn a_comparison_calls_nothing_failed_that_was_not_sent() {
    let ranges = ["input=[1024,16384]", "output=[64,2048]"];
    let [more, less] = ["memory_fraction=0.72", "memory_fraction=0.70"]
        .map(|share| adaptive(&[&REFUSING[..], &ranges, &[share]].concat()));
    let compared = Profiler::new()
        .args(["compare", "--json"])
        .args([&more, &less].map(|outcome| outcome.folder().join("out")))
        .run();
    let changed = compared.json()["comparison"]["changed_points"].clone();
    let changed = changed.as_array().unwrap();
    assert!(!changed.is_empty());
    assert!(
        changed.iter().all(|point| point["after"] == "not_sent (memory)"),
        "{changed:?}"
    );
}

#[test]
fn without_the_report_a_start_is_tried_for_each_such_point() {
    let outcome = adaptive(&[&REFUSING[..], &["search.use_report=false", "output=64"]].concat());
    let counts = counted(&outcome.folder().join("out"));
    assert!(
        counts["start_failed fails"] > 1 && !counts.contains_key("not_sent bounds"),
        "{counts:?}"
    );
    outcome.stderr("start_failed").nowhere("not sent");
}

#[test]
fn coverage_is_what_is_proven_and_what_the_report_rules_out() {
    let outcome = adaptive(&[&REFUSING[..], &["search.proof=coverage", "output=64"]].concat());
    let run = outcome.folder().join("out");
    let answer = bounded_by_report(&run);
    assert_eq!(answer["inequality"]["fits"], 8320);
    assert_eq!(counted(&run)["not_sent bounds"], 1);
    let search = &shown(&run)["boundaries"][0]["report"]["search"];
    assert_eq!(search["stopped"], "coverage");
}

#[test]
fn what_a_server_refuses_was_sent() {
    let server = MadeUp {
        limit: Some(6000),
        ..MadeUp::default()
    }
    .start();
    let url = format!("url={}", server.url);
    let outcome = adaptive(&["model=", &url]);
    let run = outcome.folder().join("out");
    let counts = counted(&run);
    assert!(
        counts["refused none"] > 0 && !counts.contains_key("not_sent bounds"),
        "{counts:?}"
    );
    let found = &shown(&run)["boundaries"][0];
    assert_eq!(found["answer"]["inequality"]["not_sent"], false);
    assert_eq!(found["report"]["search"]["verified"]["not_sent"], 0);
    assert_eq!(found["answer"]["inequality"]["configured"], true);
}

#[test]
fn kept_runs_say_what_was_not_sent() {
    for (name, not_sent, failed) in [
        ("vllm-default", 3, 0),
        ("vllm-neighbours", 6, 1),
        ("vllm-longest", 5, 1),
    ] {
        let counts = counted(&kept(name));
        assert_eq!(counts["not_sent bounds"], not_sent, "{counts:?}");
        assert_eq!(
            counts.get("start_failed fails").copied().unwrap_or(0),
            failed,
            "{counts:?}"
        );
    }
    let run = kept("vllm-default");
    let answer = bounded_by_report(&run);
    assert_eq!(answer["inequality"]["reported"], 62_864);
    assert!(!answer["run"][0]["flags"].as_array().unwrap().is_empty(), "{answer}");
    let document = shown(&run);
    assert_eq!(document["result"]["answer"], answer);
    let page = Profiler::new()
        .args(["report", "--html", "page.html"])
        .arg(&run)
        .run()
        .success();
    let page = std::fs::read_to_string(page.folder().join("page.html")).unwrap();
    assert!(page.contains("nothing above was sent") && !page.contains("both sides"));
}

#[test]
fn a_script_cannot_say_that_a_point_was_ruled_out() {
    let _ = Profiler::new()
        .file(
            "own.rhai",
            "let map = boundary(#{ input: [1, 100] }, #{}); map.record(#{ input: 50 }, \"not_sent\")",
        )
        .args(["run", "own.rhai"])
        .run()
        .code(2)
        .stderr("not_sent");
}
