//! A user calls `profiler run` and reads the folder that it leaves.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::Profiler;

/// A search over a closure instead of an engine.
pub const SEARCH: &str = r#"
//! Finds a line.
import "std/search" as search;
let p = params(#{ limit: param(700, "sum that fits"), pause: param(0.0, "seconds that a probe takes") });
let map = boundary(#{ input: [1, 1000], output: [1, 1000] }, #{});
let limit = p.limit;
let pause = p.pause;
search::adaptive(map, |q| {
    sleep(pause);
    if q.input + q.output <= limit { "ok" } else { "oom" }
}, #{ proof: "coverage" });
report(map)
"#;

/// The events of a journal.
pub fn journal(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_search_leaves_its_folder_and_prints_a_picture() {
    let outcome = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--out", "out", "--set", "limit=600", "--seed", "7"])
        .run()
        .success()
        .stdout("input + output ≤ 600 tokens")
        .stderr("run folder: out")
        .stderr("[0:00] input=");
    let folder = outcome.folder().join("out");
    let manifest = json(&folder.join("manifest.json"));
    assert_eq!(manifest["status"], "done");
    assert_eq!(manifest["parameters"]["limit"], 600);
    assert_eq!(manifest["seed"], 7);
    assert_eq!(manifest["simulated"], false);
    assert_eq!(manifest["script"]["sha256"].as_str().unwrap().len(), 64);
    assert!(manifest["modules"]["std/search.rhai"].is_string());
    assert_eq!(fs::read_to_string(folder.join("script.rhai")).unwrap(), SEARCH);
    assert!(folder.join("modules/std/search.rhai").is_file());
    let events = journal(&folder);
    let kinds = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((kinds("boundary"), kinds("end")), (1, 1));
    assert!(kinds("point") > 10 && events.iter().all(|event| event["time"].is_string()));
    let result = json(&folder.join("result.json"));
    assert_eq!(result["result"]["points"].as_array().unwrap().len(), kinds("point"));
}

#[test]
fn json_is_one_document_and_the_same_as_in_the_folder() {
    let outcome = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--out", "out", "--json"])
        .run()
        .success();
    let document = outcome.json();
    let keys: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["result", "run", "schema", "script", "simulated", "warnings"]);
    assert_eq!(document["script"], "line.rhai");
    assert_eq!(document, json(&outcome.folder().join("out/result.json")));
    for key in [
        "answer",
        "frontier",
        "recommended",
        "flags",
        "headroom",
        "points",
        "gap",
    ] {
        assert!(document["result"].get(key).is_some(), "{key}");
    }
}

#[test]
fn what_was_used_wrongly_before_anything_was_asked_leaves_no_folder() {
    for (set, name) in [("modl=x", "`modl`"), ("input=abc", "`input`")] {
        let outcome = Profiler::new()
            .args(["run", "adaptive", "--set", set])
            .run()
            .code(2)
            .stderr(name);
        assert!(!outcome.folder().join("runs").exists(), "{set}");
    }
    // Neither the user's files nor the measurements are touched.
    let outcome = Profiler::new()
        .file(
            "s.rhai",
            "boundary(#{ input: [1, 9] }, #{}).record(#{ input: 4 }, \"ok\"); params(#{ a: param(1, \"a\") })",
        )
        .args(["run", "s.rhai", "--out", "out", "--set", "b=1"])
        .run()
        .code(2);
    assert!(outcome.folder().join("out/report.html").is_file());
}

#[test]
fn warnings_and_records_are_kept_and_printed_lines_are_not_mixed_with_json() {
    let script = r#"print("a line"); warn("careful"); warn("careful"); record("figure", 3); #{ a: 1 }"#;
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out", "--json"])
        .run()
        .success()
        .stderr("a line")
        .stderr("warning: careful");
    assert_eq!(outcome.json()["warnings"].as_array().map(Vec::len), Some(1));
    assert_eq!(outcome.json()["warnings"][0]["message"], "careful");
    let shown = Profiler::new()
        .arg("show")
        .arg(outcome.folder().join("out"))
        .run()
        .success()
        .stdout("figure: 3")
        .stdout("careful");
    assert!(shown.stdout.contains("\"a\": 1"));
}

#[test]
fn secrets_never_reach_the_folder() {
    let script = r#"
        let p = params(#{ url: param("", "where") });
        print("at " + p.url);
        record("url", p.url);
        warn("token hf_very_secret_value");
        p.url
    "#;
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .env("HF_TOKEN", "hf_very_secret_value")
        .args([
            "run",
            "s.rhai",
            "--out",
            "out",
            "--json",
            "--set",
            "url=http://me:hunter2@localhost:1/x",
        ])
        .run()
        .success();
    assert_eq!(outcome.json()["result"], "http://***@localhost:1/x");
    for name in ["journal.jsonl", "manifest.json", "result.json"] {
        let text = fs::read_to_string(outcome.folder().join("out").join(name)).unwrap();
        assert!(
            !text.contains("hunter2") && !text.contains("hf_very_secret"),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_full_disk_is_named_and_what_was_measured_stays() {
    let script = r#"
        let map = boundary(#{ input: [1, 100000] }, #{});
        for n in 1..100000 { map.record(#{ input: n }, "ok"); }
        report(map)
    "#;
    let program = env!("CARGO_BIN_EXE_profiler");
    let folder = crate::support::temp();
    fs::write(folder.path().join("s.rhai"), script).unwrap();
    // A file-size limit simulates a full disk without privileges.
    let output = std::process::Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", &format!("ulimit -f 64; exec {program} run s.rhai --out out")])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("journal.jsonl") && stderr.contains("--out"), "{stderr}");
    let points = journal(&folder.path().join("out"))
        .iter()
        .filter(|event| event["event"] == "point")
        .count();
    assert!(points > 100, "{points}");
    let _ = Profiler::new()
        .arg("show")
        .arg(folder.path().join("out"))
        .run()
        .success()
        .stdout(&format!("{points} points; "));
}

#[test]
fn a_dry_run_starts_nothing_and_says_what_would_be_done() {
    let outcome = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--dry-run", "--set", "limit=5"])
        .run()
        .success()
        .stdout("nothing was started")
        .stdout("limit = 5")
        .stdout(r#"point 1: {"input":1000,"output":1000}"#);
    assert!(!outcome.folder().join("runs").exists());
}

#[test]
fn a_dry_run_rehearses_the_strategy_of_the_script() {
    let rehearsed = |script: &str| {
        let outcome = Profiler::new()
            .args(["run", script, "--dry-run", "--json", "--set", "engine=sim"])
            .run()
            .success();
        outcome.json()["boundaries"][0].clone()
    };
    let (adaptive, grid) = (rehearsed("adaptive"), rehearsed("grid"));
    assert_eq!(
        adaptive["first_points"][0],
        serde_json::json!({ "input": 128, "output": 64 })
    );
    assert_ne!(adaptive["first_points"], grid["first_points"]);
    assert!(adaptive["expected_probes"].as_u64() > Some(5), "{adaptive}");
}

#[test]
fn a_script_tells_its_own_parameters() {
    let outcome = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--help"])
        .run()
        .success()
        .stdout("Finds a line.")
        .stdout("--limit")
        .stdout("700")
        .stdout("sum that fits");
    assert!(!outcome.folder().join("runs").exists());
    let _ = Profiler::new()
        .args(["run", "--help"])
        .run()
        .success()
        .stdout("--resume");
}

#[test]
fn a_simulated_run_says_so_everywhere_and_tells_flags_and_headroom() {
    let outcome = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--set",
            "engine=sim",
            "--set",
            "input=[128,2048]",
            "--set",
            "output=[128,256]",
        ])
        .args(["--out", "out"])
        .run()
        .success()
        .stdout("SIMULATED")
        .stdout("limit not reached: everything up to input=2048 output=256 fits")
        .stdout("--max-model-len 2304")
        .stdout("outside the engine's share");
    let notices = outcome.stdout.matches("SIMULATED: ").count() + outcome.stderr.matches("SIMULATED: ").count();
    assert_eq!(notices, 1, "{}{}", outcome.stdout, outcome.stderr);
    let result = json(&outcome.folder().join("out/result.json"));
    assert_eq!(result["simulated"], true);
    assert!(
        result["result"]["headroom"].as_u64().is_some_and(|bytes| bytes > 0),
        "{}",
        result["result"]["headroom"]
    );
    let manifest = json(&outcome.folder().join("out/manifest.json"));
    assert_eq!(manifest["simulated"], true);
    assert_eq!(manifest["engines"][0]["info"]["engine"], "sim");
    let _ = Profiler::new()
        .arg("show")
        .arg(outcome.folder().join("out"))
        .run()
        .success()
        .stdout("SIMULATED")
        .stdout("--max-model-len 2304");
}

/// `neighbours` has no parameter for concurrency.
#[test]
fn what_to_ask_next_is_a_command_that_the_script_takes() {
    let next = |script: &str| {
        let ranges = ["--input", "128..256", "--output", "64..128", "--out", "out"];
        let outcome = Profiler::new()
            .args(["run", script, "--engine", "sim"])
            .args(ranges)
            .run()
            .success()
            .stdout("limit not reached");
        json(&outcome.folder().join("out/result.json"))["result"]["answer"]["next"].clone()
    };
    let command = next("adaptive");
    let words = command.as_str().unwrap().split(' ').skip(1);
    assert!(words.clone().any(|word| word == "256"), "{command}");
    let _ = Profiler::new().args(words).arg("--dry-run").run().success();
    assert!(next("neighbours").is_null());
}

#[test]
fn a_folder_does_not_hide_the_shipped_script_of_its_name() {
    let program = Profiler::new().file("adaptive/manifest.json", "{}");
    program
        .args(["run", "adaptive", "--set", "engine=sim", "--dry-run"])
        .run()
        .success();
}
