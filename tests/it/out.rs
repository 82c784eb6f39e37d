//! A user names an output file or folder, and it is written there or not at all.

use std::fs;
use std::path::Path;

use crate::support::{Outcome, Profiler};

const SCRIPT: &str = "record(\"sum\", 40 + 2);";

#[track_caller]
fn again(before: &Outcome, args: &[&str]) -> Outcome {
    Profiler::new().current_dir(before.folder()).args(args).run()
}

/// Every file below a folder, with its content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut open = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn a_run_takes_the_folder_that_was_named_or_none() {
    let first = Profiler::new()
        .file("s.rhai", SCRIPT)
        .file("own/notes.txt", "mine")
        .file("file", "mine")
        .file("empty/x", "")
        .args(["run", "s.rhai", "--out", "before"])
        .run()
        .success();
    let folder = first.folder();
    fs::remove_file(folder.join("empty/x")).unwrap();
    let _ = again(&first, &["pack", "before", "before.tar.gz"]).success();
    let kept = content(folder);
    for (out, said) in [
        ("before", "--resume before"),
        ("before/", "--resume before/"),
        ("own", "notes.txt"),
        ("file", "no folder"),
        ("before.tar.gz", "packed run"),
    ] {
        for dry in [&[][..], &["--dry-run"]] {
            let args = [&["run", "s.rhai", "--out", out], dry].concat();
            let refused = again(&first, &args).code(2).stderr(said).stderr("--force-new");
            assert_eq!(refused.stdout, "");
        }
    }
    let document = again(&first, &["run", "s.rhai", "--out", "before", "--json"])
        .code(2)
        .json();
    assert_eq!(document["fault"]["kind"], "usage");
    assert_eq!(content(folder), kept, "nothing was changed");

    let _ = again(&first, &["run", "s.rhai", "--out", "empty"]).success();
    for number in 2..4 {
        let name = format!("before-{number}");
        let numbered = again(&first, &["run", "s.rhai", "--out", "before", "--force-new"]).success();
        let last = numbered.stderr.trim_end().lines().next_back().unwrap();
        assert!(last.contains(&name), "{last}");
        assert!(folder.join(name).join("result.json").is_file());
    }
    // The name is free, so no number is appended.
    let _ = again(&first, &["run", "s.rhai", "--out", "other", "--force-new"]).success();
    assert!(folder.join("other/result.json").is_file());
}

#[test]
fn a_fleet_and_an_attempt_take_a_folder_as_a_run_does() {
    let first = Profiler::new()
        .file("s.rhai", SCRIPT)
        .file("jobs.yaml", "jobs:\n  - { script: ./s.rhai }\n")
        .args(["fleet", "jobs.yaml", "--out", "f", "--set", "options.slots=1"])
        .run()
        .success();
    let fleet = ["fleet", "jobs.yaml", "--set", "options.slots=1", "--out", "f"];
    let _ = again(&first, &fleet).code(2).stderr("--follow f").stderr("--force-new");
    let _ = again(&first, &[&fleet[..], &["--force-new"]].concat()).success();
    assert!(first.folder().join("f-2/result.json").is_file());
    // The second start by a scheduler resumes the first run.
    for attempt in ["1", "2"] {
        let args = ["run", "s.rhai", "--out", "mine", "--attempt", attempt];
        let _ = again(&first, &args).success();
    }
    assert!(!first.folder().join("mine-2").exists());
}

#[test]
fn files_that_are_there_are_not_replaced() {
    let first = Profiler::new()
        .file("s.rhai", SCRIPT)
        .file("mine.rhai", "")
        .file("adaptive.rhai", "")
        .file("r.tar.gz", "")
        .args(["run", "s.rhai", "--out", "r"])
        .run()
        .success();
    let kept = content(first.folder());
    for args in [
        &["new", "strategy", "mine"][..],
        &["fork", "adaptive"],
        &["pack", "r"],
        &["pack", "r", "mine.rhai"],
    ] {
        let _ = again(&first, args).code(2).stderr("exists");
    }
    assert_eq!(content(first.folder()), kept);
}
