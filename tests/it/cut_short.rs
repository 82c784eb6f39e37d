//! A user's run ends before its script does: its measurements until then are the answer, on standard output, in
//! `--json` and in `show`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Profiler, wait_for_text};

/// Part of every result so far that a script keeps in the journal.
const SO_FAR: &str = "\"missing\":";

/// Starts a run into `out`, and waits until its journal contains this text `times` times.
fn until(run: Profiler, text: &str, times: usize) -> (Child, TempDir) {
    let (child, folder) = run.args(["--out", "out"]).spawn();
    wait_for_text(&folder.path().join("out/journal.jsonl"), text, times);
    (child, folder)
}

/// Ends the run with `signal` at that moment; returns its output.
fn cut(run: Profiler, text: &str, times: usize, signal: Signal) -> (Output, TempDir) {
    let (child, folder) = until(run, text, times);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    (child.wait_with_output().unwrap(), folder)
}

fn show(folder: &Path, args: &[&str]) -> String {
    let show = Profiler::new().current_dir(folder).args(["show", "out"]).args(args);
    show.run().success().stdout
}

#[track_caller]
fn json_of(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn shipped(name: &str, set: &[&str]) -> Profiler {
    let run = Profiler::new().args(["run", name]);
    // It has a list of engines.
    let one: &[&str] = if name == "compare_engines" {
        &[]
    } else {
        &["engine=sim"]
    };
    one.iter().chain(set).fold(run, |run, set| run.args(["--set", set]))
}

/// Levels 1, 2 and 4 take 60 requests each, plus one warm-up request per concurrent slot; at level 8 the engine stops
/// answering.
const SLO: [&str; 6] = [
    "sim.time_scale=0.02",
    "sim.misbehave={\"hang\":1,\"after\":190}",
    "slo={\"ttft_ms\":1000000}",
    "input=16",
    "output=4",
    "timeout=600",
];

#[test]
fn an_slo_search_says_what_meets_and_what_was_not_tried() {
    let (output, folder) = cut(shipped("slo", &SLO), SO_FAR, 3, Signal::SIGINT);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    for part in [
        "up to 4 concurrent requests meet",
        "nothing above",
        "8 is next",
        "--resume out",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let shown = show(folder.path(), &[]);
    let answer = stdout.split("not finished").next().unwrap();
    assert!(shown.starts_with(answer), "{shown}");
    let document = json_of(show(folder.path(), &["--json"]).as_bytes());
    let result = &document["result"];
    assert_eq!(
        (&result["meets"], &result["fails"], &result["next"]),
        (&json!(4), &Value::Null, &json!(8)),
        "{result}"
    );
    assert_eq!(result["levels"].as_array().unwrap().len(), 3);
    let kept = json_of(&fs::read(folder.path().join("out/result.json")).unwrap());
    assert_eq!(kept["result"], *result);
}

/// A server that dies for another reason says nothing about the level under test.
#[test]
fn a_server_that_dies_leaves_the_answer_so_far() {
    let serve = ["sim", "--profile", "llama-8b-24gb-vllm", "--max-model-len", "2048"];
    let misbehave = [
        "--time-scale",
        "0.02",
        "--misbehave",
        "hang",
        "--misbehave",
        "after:200",
    ];
    let (mut engine, _home) = Profiler::new().args(serve).args(misbehave).spawn();
    let mut url = String::new();
    BufReader::new(engine.stdout.as_mut().unwrap())
        .read_line(&mut url)
        .unwrap();
    let log = BufReader::new(engine.stderr.as_mut().unwrap());
    assert!(log.lines().any(|line| line.unwrap().contains("startup complete")));
    let run = Profiler::new().args(["run", "slo", "--json", "--url", url.trim()]);
    let run = SLO[2..].iter().fold(run, |run, set| run.args(["--set", set]));
    let (child, folder) = until(run, SO_FAR, 2);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    // The server dies within a load, which the load notices, or between two loads.
    assert!(
        matches!(output.status.code(), Some(1 | 3)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document = json_of(&output.stdout);
    let result = &document["result"];
    assert!(
        result["meets"].as_i64() >= Some(2) && result["fails"].is_null(),
        "{document}"
    );
    assert!(
        document["stopped"].is_string() && document["fault"].is_object(),
        "{document}"
    );
    let shown = json_of(show(folder.path(), &["--json"]).as_bytes());
    for name in ["result", "stopped", "unfinished", "fault"] {
        assert_eq!(shown[name], document[name], "{name}");
    }
}

/// Each script gets more to measure than it can finish, and the field that its answer so far must have.
#[test]
fn every_script_has_its_answer_so_far() {
    let many: Vec<String> = (1..200).map(|level| level.to_string()).collect();
    let levels = format!("concurrency=[{}]", many.join(","));
    let clock = "sim.time_scale=0.01";
    let engines = r#"engines=["sim",{"engine":"sim","name":"other"}]"#;
    let starts = ["repeats=500", "requests=4", "concurrency=1", "input=16", "output=4"];
    let cases: [(&str, &[&str], &str); 8] = [
        (
            "throughput",
            &[&levels, "study=both", "requests=8", "output=4"],
            "finding",
        ),
        (
            "compare_engines",
            &[engines, "repeats=500", "concurrency=[1]", "requests=8", "output=4"],
            "engines",
        ),
        ("kv_dtype", &starts, "comparisons"),
        ("cuda_graphs", &starts, "comparisons"),
        ("tensor_parallel", &starts, "comparisons"),
        ("memory_breakdown", &["repeats=500", "output=4"], "all"),
        (
            "batch",
            &[&levels, "requests=4", "input=16", "output=4"],
            "configurations",
        ),
        (
            "adaptive",
            &["search.proof=coverage", "search.coverage=1.0"],
            "frontier",
        ),
    ];
    for (name, sets, key) in cases {
        let run = shipped(name, &[&[clock], sets].concat()).arg("--json");
        let text = if name == "adaptive" {
            "\"event\":\"point\""
        } else {
            SO_FAR
        };
        let (output, folder) = cut(run, text, 2, Signal::SIGTERM);
        assert_eq!(
            output.status.code(),
            Some(143),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let document = json_of(&output.stdout);
        let result = &document["result"];
        assert!(!result[key].is_null(), "{name}: {document}");
        assert!(
            document["unfinished"].is_string() && document["resume"].is_string(),
            "{name}"
        );
        let shown = json_of(show(folder.path(), &["--json"]).as_bytes());
        assert_eq!(
            (&shown["result"], &shown["unfinished"]),
            (result, &document["unfinished"]),
            "{name}"
        );
        // The text output wraps lines, so only the first word is compared.
        let missing = document["unfinished"].as_str().unwrap().split(' ').next().unwrap();
        let text = show(folder.path(), &[]);
        let is_said = |line: &str| {
            line.strip_prefix("missing ")
                .is_some_and(|said| said.trim_start().starts_with(missing))
        };
        assert!(text.lines().any(is_said), "{name}: {text}");
    }
}

/// A time limit, a full disk and a fault of the script leave the same answer as a signal does.
#[test]
fn limits_and_faults_leave_the_answer_so_far() {
    let so_far = "show_so_far(#{ finding: \"two fit\" }, \"two fit\", \"three and four\");";
    let measured = "let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 4 }, \"ok\");";
    for (ends, args, code) in [
        ("sleep(1000);", &["--max-time", "2s"][..], 124),
        (
            "let text = \"x\"; text.pad(100000, \"x\"); loop { record(\"more\", text); }",
            &["--max-disk", "1MB"],
            1,
        ),
        ("throw \"no\";", &[], 1),
    ] {
        let script = format!("{measured} {so_far} {ends}");
        let run = Profiler::new()
            .file("s.rhai", script)
            .args(["run", "s.rhai", "--out", "out"]);
        let run = run
            .args(args)
            .run()
            .code(code)
            .stdout("two fit")
            .stdout("three and four");
        let shown = json_of(show(run.folder(), &["--json"]).as_bytes());
        assert_eq!(shown["result"], json!({ "finding": "two fit" }), "{ends}");
        assert!(show(run.folder(), &[]).contains("two fit"), "{ends}");
    }
}

#[test]
fn a_later_result_replaces_one_so_far() {
    let script = "show_so_far(1, \"FIRST\", \"SECOND\"); show_so_far(2, \"SECOND\", \"\"); show(3, \"THIRD\")";
    let run = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out"]);
    let run = run.run().success().stdout("THIRD").nowhere("FIRST").nowhere("SECOND");
    let shown = show(run.folder(), &[]);
    assert!(
        shown.contains("THIRD") && !shown.contains("SECOND") && !shown.contains("not finished"),
        "{shown}"
    );
    let document = json_of(show(run.folder(), &["--json"]).as_bytes());
    assert_eq!((&document["result"], document.get("stopped")), (&json!(3), None));
}

#[test]
fn a_fleet_says_which_jobs_ended() {
    let jobs = "jobs:\n  - { script: ./quick.rhai }\n  - { script: ./slow.rhai }\n  - { script: ./slow.rhai, set: { a: 1 } }\n";
    let run = Profiler::new()
        .file("jobs.yaml", jobs)
        .file("quick.rhai", "show(#{ finding: \"all fit\" }, \"all fit\")")
        .file("slow.rhai", "let p = params(#{ a: param(0, \"a\") }); sleep(1000);")
        .args(["fleet", "jobs.yaml", "--set", "options.slots=2"]);
    let (output, folder) = cut(run, "\"kind\":\"job\"", 1, Signal::SIGINT);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(
        stdout.to_lowercase().contains("all fit") && stdout.contains("2 of 3 jobs"),
        "{stdout}"
    );
    let document = json_of(show(folder.path(), &["--json"]).as_bytes());
    assert_eq!(document["result"]["jobs"].as_array().unwrap().len(), 1, "{document}");
}
