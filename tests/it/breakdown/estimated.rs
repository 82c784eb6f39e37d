//! A user compares the memory that the model's architecture predicts with what the engine was found to hold.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, Profiler};

fn breakdown(sets: &[&str]) -> Profiler {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    Profiler::new()
        .args(["run", "memory_breakdown", "--out", "run"])
        .args(sets)
}

/// The output of `show` for a run of the breakdown.
fn shown(run: &Outcome) -> Outcome {
    Profiler::new()
        .arg("show")
        .arg(run.folder().join("run"))
        .run()
        .success()
}

fn result(run: &Outcome) -> Value {
    let text = fs::read(run.folder().join("run/result.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["result"].take()
}

/// The table row with this title, split into words.
#[track_caller]
fn row<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.trim_start().starts_with(title));
    let line = line.unwrap_or_else(|| panic!("no row `{title}`: {text}"));
    line.split_whitespace().collect()
}

#[test]
fn measured_stands_beside_estimated_in_the_page_and_in_show() {
    let run = breakdown(&["engine=sim", "input=1000", "output=128", "concurrency=2"])
        .run()
        .success()
        .stdout("estimate  off by");
    let found = result(&run);
    let estimate = &found["details"]["estimate"];
    // 2 sequences of 1128 tokens of 131,072 bytes, exactly as requested.
    let part = |component: &str| {
        let parts = estimate["all"]["parts"].as_array().unwrap();
        parts.iter().find(|part| part["component"] == component).unwrap()["bytes"].clone()
    };
    assert_eq!(part("kv_used"), 2 * 1128 * 131_072);
    assert_eq!(part("weights"), 2 * 8_030_261_248_u64);
    let text = shown(&run).stdout;
    assert_eq!(row(&text, "weights")[1..4], ["14.96", "14.96", "0.00"], "{text}");
    assert_eq!(row(&text, "KV cache in use")[4..7], ["0.28", "0.28", "0.00"], "{text}");
    assert!(
        text.contains("estimate: by the architecture (llama, 8.03 B parameters): concurrency 2, 1000 + 128"),
        "{text}"
    );
    // One warm-up and three measured repeats; the estimate is not an experiment.
    assert!(text.contains("experiments finished: 4"), "{text}");
    let html = fs::read_to_string(run.folder().join("run/report.html")).unwrap();
    for text in ["off by", "Hatched bars were expected", "were expected"] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("no estimate was recorded"));
}

#[test]
fn where_nobody_knows_the_architecture_one_line_says_so() {
    // A user's profile without a shape, and a model that is not on this machine.
    let shipped = include_str!("../../../src/sim/profiles/llama-8b-24gb-vllm.toml");
    let profile = shipped.replace("shape = \"llama-3.1-8b\"\n", "");
    assert_ne!(profile, shipped);
    let run = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let script = include_str!("../../../scripts/memory_breakdown.rhai");
        Profiler::new()
            .file("mine.rhai", script)
            .file("mine.toml", profile.as_str())
            .file(
                "shape/config.json",
                include_str!("../../data/shapes/llama-1b-shape.config.json"),
            )
            .args(["run", "mine.rhai", "--out", "run", "--set", "profile=./mine.toml"])
            .args(["--set", "engine=sim"])
            .args(sets)
            .run()
            .success()
    };
    let unknown = run(&["model=nobody/knows-it"]);
    let line =
        "none: the architecture of nobody/knows-it is not on this machine; `architecture=true` reads it on the hub";
    assert_eq!(result(&unknown)["details"]["estimate"], line);
    let text = shown(&unknown).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("estimate: {line}")), "{text}");
    assert!(!text.contains("off by"), "{text}");
    let html = fs::read_to_string(unknown.folder().join("run/report.html")).unwrap();
    assert!(html.contains("estimate: none: ") && !html.contains("no estimate was recorded"));
    // A local folder is read without `architecture=true`.
    let folder = run(&["model=./shape"]);
    assert_eq!(result(&folder)["details"]["estimate"]["question"]["input"], 2048);
    let weights = &result(&folder)["details"]["estimate"]["all"]["parts"][0]["bytes"];
    assert_eq!(*weights, 2 * 1_104_218_112_u64);
}

#[test]
fn a_prompt_of_ones_own_is_estimated_by_what_the_engine_counted() {
    let run = breakdown(&[
        "engine=sim",
        "prompt=a few words of my own",
        "output=7",
        "concurrency=4",
    ])
    .run()
    .success();
    let question = &result(&run)["details"]["estimate"]["question"];
    let input = question["input"].as_u64().unwrap();
    assert!((1..100).contains(&input), "{question}");
    assert_eq!((&question["output"], &question["concurrency"]), (&7.into(), &1.into()));
}
