//! A user's load is cut short by the user, the kernel or a limit of the machine.

use std::fs;
use std::process::Command;

use super::{SLOW, records, script};
use crate::support::{Profiler, temp, wait_for_text};

#[test]
fn a_killed_load_is_done_again_beside_what_it_left() {
    let text = script(SLOW, "concurrency: 4, requests: 60, input: 16, output: 60");
    let program = Profiler::new().file("main.rhai", text);
    let (mut child, folder) = program.args(["run", "main.rhai", "--out", "run"]).spawn();
    let kept = folder.path().join("run/loads/1.jsonl");
    wait_for_text(&kept, "\n", 8);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = records(&kept);
    assert!(before.iter().all(|record| record["outcome"] == "completed"));
    let resumed = Profiler::new()
        .current_dir(folder.path())
        .args(["run", "--resume", "run", "--json"])
        .run()
        .success();
    let answer = &resumed.json()["result"];
    assert_eq!(
        (&answer["completed"], &answer["records"]),
        (&60.into(), &"loads/1-2.jsonl".into()),
        "{answer}"
    );
    assert_eq!(records(&folder.path().join("run/loads/1-2.jsonl")).len(), 60);
    assert_eq!(records(&kept), before, "what the first life measured stays");
}

/// Runs a load of this concurrency under a limit on open files.
fn limited(limit: &str, concurrency: u64) -> std::process::Output {
    let folder = temp();
    let load = format!("concurrency: {concurrency}, requests: {concurrency}, input: 16, output: 1");
    fs::write(folder.path().join("main.rhai"), script(super::FAST, &load)).unwrap();
    Command::new("sh")
        .args([
            "-c",
            &format!("ulimit {limit} 1024 && exec \"$0\" run main.rhai --json"),
        ])
        .arg(env!("CARGO_BIN_EXE_profiler"))
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .output()
        .unwrap()
}

#[test]
fn a_soft_limit_on_open_files_is_raised() {
    let output = limited("-Sn", 1200);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        document["result"]["completed"], 1200,
        "{}",
        document["result"]["failures"]
    );
}

#[test]
fn a_hard_limit_on_open_files_is_named_with_its_remedy() {
    let output = limited("-n", 2000);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    for part in [
        "2000 connections need 2256 open files; the limit is 1024",
        "ulimit -Hn 2256",
        "at most 768 concurrent requests",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}
