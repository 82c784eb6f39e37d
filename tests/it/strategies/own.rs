//! A user writes a strategy by `scripts/README.md`: its example runs unchanged, and the functions that it names exist.

use std::path::Path;

use crate::support::{Outcome, Profiler};

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/README.md")).unwrap()
}

/// The script that begins with this line.
fn example(text: &str, begins: &str) -> String {
    let (_, rest) = text.split_once(begins).unwrap();
    format!("{begins}{}", rest.split_once("```").unwrap().0)
}

fn run(arguments: &[&str]) -> Outcome {
    let staircase = example(&readme(), "//! Walks down the boundary");
    let command = Profiler::new().file("staircase.rhai", staircase);
    command.args(arguments).run().success()
}

#[test]
fn the_example_is_checked_and_runs() {
    let _ = run(&["check", "staircase.rhai"]);
    let _ = run(&["run", "staircase.rhai"])
        .stdout("walked")
        .stdout("input + output ≤ 6,000 tokens");
}

#[test]
fn more_steps_find_more() {
    let probes = |more: &[&str]| {
        let arguments = [&["run", "staircase.rhai", "--json"], more].concat();
        run(&arguments).json()["result"]["points"].as_array().unwrap().len()
    };
    assert!(probes(&["--set", "search.steps=40"]) > probes(&[]));
    assert_eq!(probes(&["--set", "search.max_probes=3"]), 3, "budgets hold for it too");
}

#[test]
fn the_picture_is_drawn_for_the_terminal_and_for_the_report() {
    let run = Profiler::new()
        .file("picture.rhai", example(&readme(), "//! Draws how much"))
        .args(["run", "picture.rhai", "--out", "out"])
        .run()
        .success()
        .stdout("what we serve")
        .stdout("80 GiB");
    let page = std::fs::read_to_string(run.folder().join("out/report.html")).unwrap();
    assert!(page.contains("Longest prompt by concurrency") && page.contains("class=\"plot plot-wide\""));
}

#[test]
fn every_shipped_script_is_named() {
    let text = readme();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rhai") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
    }
}

/// The reference has every function of its tables.
#[test]
fn every_name_is_documented() {
    let text = readme();
    for word in text.split('`').skip(1).step_by(2) {
        let call = word.rsplit("= ").next().unwrap();
        let (Some((name, _)), true) = (
            call.split_once('('),
            call.starts_with("map.") || call.starts_with("steps::"),
        ) else {
            continue;
        };
        let name = name.replace("steps::", "std/search/steps::");
        let _ = Profiler::new().args(["doc", &name]).run().success();
    }
}
