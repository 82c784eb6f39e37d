//! A user probes several engines in parallel: simulated ones, and servers that run already.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sim::process::Served;
use crate::support::{Profiler, killed_and_resumed_at};

/// A search with two simulated engines.
fn search() -> Profiler {
    Profiler::new().args([
        "run",
        "adaptive",
        "--json",
        "--set",
        "engine=sim",
        "--set",
        "search.parallel=2",
        "--set",
        "sim.time_scale=0.05",
    ])
}

fn journal(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The maximum number of concurrent probes, and the number of finished probes per engine.
fn overlap(events: &[Value]) -> (i64, BTreeMap<u64, usize>) {
    let (mut now, mut most, mut finished) = (0, 0, BTreeMap::new());
    for event in events.iter().filter(|event| event["kind"] == "probe") {
        match event["event"].as_str().unwrap() {
            "began" => now += 1,
            _ => {
                now -= 1;
                *finished.entry(event["engine"].as_u64().unwrap()).or_default() += 1;
            }
        }
        most = most.max(now);
    }
    (most, finished)
}

#[test]
fn two_engines_find_what_one_does() {
    let both = search().args(["--out", "out"]).run().success();
    let text = std::fs::read_to_string(both.folder().join("out/journal.jsonl")).unwrap();
    let events = journal(&text);
    let (most, finished) = overlap(&events);
    assert_eq!(most, 2);
    assert_eq!(finished.len(), 2, "{finished:?}");
    // Each engine has its own log and memory series, and the probes that it answered.
    let started = events.iter().filter(|event| event["event"] == "engine").count();
    assert_eq!(started, 2);
    let page = std::fs::read_to_string(both.folder().join("out/report.html")).unwrap();
    for file in [
        "logs/engine-1.log",
        "memory/engine-1.usage.json",
        "logs/engine-2.log",
        "memory/engine-2.usage.json",
    ] {
        assert!(both.folder().join("out").join(file).exists(), "{file}");
    }
    assert!(page.contains("engine-1") && page.contains("engine-2"));
    let one = search().args(["--set", "search.parallel=1"]).run().success();
    for run in [both, one] {
        let document = run.json();
        let answer = &document["result"]["answer"];
        assert_eq!(answer["inequality"]["reported"], 8352, "{answer}");
        assert_eq!(document["result"]["search"]["verified"]["ends"], 2, "{answer}");
    }
}

/// Kills a run after some answers, with two probes in flight, and resumes it. Every answer in the journal is recorded
/// as a point exactly once.
#[test]
fn a_run_that_is_killed_loses_no_answer_of_either_engine() {
    for times in [3, 5, 8] {
        let run = search().args(["--out", "killed", "--set", "search.coverage=0.9"]);
        let (result, text) = killed_and_resumed_at(run, "\"event\":\"done\",\"kind\":\"probe\"", times);
        assert_eq!(result["search"]["stopped"], "coverage", "{result}");
        let events = journal(&text);
        let count = |kind: &str| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for event in events
                .iter()
                .filter(|event| event["event"] == kind && event["kind"] != "estimate")
            {
                let point = if kind == "done" {
                    &event["args"]["point"]
                } else {
                    &event["point"]
                };
                *counts.entry(point.to_string()).or_default() += 1;
            }
            counts
        };
        let (answered, recorded) = (count("done"), count("point"));
        assert_eq!(answered, recorded, "killed after {times} answers");
    }
}

#[test]
fn servers_that_run_are_given_as_a_list() {
    let servers = [(); 2].map(|()| {
        let options = [
            "--profile",
            "llama-8b-24gb-vllm",
            "--max-model-len",
            "8000",
            "--time-scale",
            "0.05",
        ];
        let mut served = Served::start(&options);
        served.until("Application startup complete");
        served
    });
    let urls = serde_json::to_string(&servers.each_ref().map(|served| &served.url)).unwrap();
    let run = Profiler::new()
        .args(["run", "adaptive", "--json", "--out", "out", "--set"])
        .arg(format!("url={urls}"))
        .run()
        .success();
    let text = std::fs::read_to_string(run.folder().join("out/journal.jsonl")).unwrap();
    let (most, finished) = overlap(&journal(&text));
    assert!(most == 2 && finished.len() == 2, "{most} {finished:?}");
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let message = |args: &[&str]| {
        let run = Profiler::new()
            .args(["run", "adaptive", "--set", "search.parallel=2"])
            .args(args);
        run.run().code(2).stderr.clone()
    };
    let one_gpu = message(&["--set", "engine=vllm"]);
    assert!(
        one_gpu.contains("2 engines cannot share 1 GPUs evenly") && one_gpu.contains("gpus=[0,1]"),
        "{one_gpu}"
    );
    let one_server = message(&["--set", "engine=vllm", "--url", "http://127.0.0.1:1"]);
    assert!(
        one_server.contains("one server cannot be probed for 2 points"),
        "{one_server}"
    );
}
