//! A user's disk fails under a run: each write, sync, rename and creation of a run's file fails once, in a run of its
//! own, by the fault injection of strace. The run reports it, and a resume ends where an undisturbed run ends, with
//! nothing lost and nothing measured twice.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{eventually, needs_strace, temp, wait_for_text};

const SCRIPT: &str = r#"
    import "std/engines" as engines;
    let engine = engines::describe("vllm", #{ runtime: "sim", model: "", sim: #{ time_scale: 0 } });
    let map = boundary(#{ input: [1, 16384], output: [16, 16] }, #{});
    for input in [16384, 1000, 4000] {
        let point = #{ input: input, output: 16 };
        if !map.recorded(point) { map.record(point, engine.probe(point)); }
    }
    map.frontier()
"#;

/// System calls, the error injected once, and the file of the run that they must concern; "" for any file.
const FAULTS: [(&str, &str, &str); 10] = [
    ("write", "ENOSPC", "journal.jsonl"),
    ("write", "EIO", "manifest.json.new"),
    ("write", "ENOSPC", "result.json.new"),
    ("write", "EIO", "script.rhai.new"),
    ("fsync,fdatasync", "EIO", ""),
    ("renameat,renameat2", "EIO", ""),
    ("openat", "EMFILE", "journal.jsonl"),
    ("openat", "EACCES", "manifest.json.new"),
    ("openat", "EIO", "result.json.new"),
    ("mkdirat", "ENOSPC", ""),
];

fn profiler(folder: &Path, out: &str) -> Vec<String> {
    let option = match folder.join("out/manifest.json").exists() {
        true => "--resume",
        false => "--out",
    };
    ["run", "s.rhai", "--json", "--seed", "1", option, out]
        .map(str::to_owned)
        .into()
}

fn start(mut command: Command, folder: &Path) -> Output {
    command.current_dir(folder).env("HOME", folder).output().unwrap()
}

/// Resumes the run after a fault, and compares its result with that of an undisturbed run.
fn check(folder: &Path, what: &str, whole: &Value) {
    let out = folder.join("out");
    let journal = || fs::read_to_string(out.join("journal.jsonl")).unwrap_or_default();
    let before = journal();
    let before = &before[..before.rfind('\n').map_or(0, |end| end + 1)];
    if !out.join("manifest.json").exists() {
        // The fault came before the folder was a run: start anew.
        let _ = fs::remove_dir_all(&out);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.args(profiler(folder, "out"));
    let output = start(command, folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{what}: {stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["result"], *whole, "{what}: {stderr}");
    let after = journal();
    assert!(after.starts_with(before), "{what}: a line is lost");
    let mut finished = HashMap::new();
    for event in after.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if event["event"] == "done" {
            *finished.entry(event["args"].to_string()).or_insert(0) += 1;
        }
    }
    assert!(
        finished.len() == 3 && finished.values().all(|times| *times == 1),
        "{what}: {finished:?}"
    );
    fs::remove_dir_all(&out).unwrap();
}

fn undisturbed(folder: &Path) -> Value {
    fs::write(folder.join("s.rhai"), SCRIPT).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.args(profiler(folder, "whole"));
    let output = start(command, folder);
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["result"].clone()
}

#[test]
fn a_call_that_fails_is_told_and_loses_nothing() {
    if !needs_strace() {
        return;
    }
    let folder = temp();
    let folder = &folder.path().canonicalize().unwrap();
    let whole = undisturbed(folder);
    assert_eq!(whole.as_array().unwrap().len(), 1);
    for (calls, error, file) in FAULTS {
        for nth in 1.. {
            let mut command = Command::new("strace");
            command.args([
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-o",
                "trace",
                "-e",
                &format!("trace={calls}"),
            ]);
            command.args(["-e", &format!("inject={calls}:error={error}:when={nth}")]);
            if !file.is_empty() {
                // Matches the file by its descriptor, or by its name relative to an open folder.
                command.arg("-P").arg(folder.join("out").join(file)).args(["-P", file]);
            }
            command
                .arg(env!("CARGO_BIN_EXE_profiler"))
                .args(profiler(folder, "out"));
            let output = start(command, folder);
            let stderr = String::from_utf8_lossy(&output.stderr);
            let trace = fs::read_to_string(folder.join("trace")).unwrap();
            let what = format!("{calls} of {file}, number {nth}: {error}");
            let Some(call) = trace.lines().find(|line| line.ends_with("(INJECTED)")) else {
                assert!(nth > 1, "{what}: there is no such call: {stderr}");
                assert_eq!(output.status.code(), Some(0), "{what}: {stderr}");
                fs::remove_dir_all(folder.join("out")).unwrap();
                break;
            };
            // A failed report page or memory series leaves the answer whole, so it is only a warning; the page itself
            // states what it could not read.
            let failed = output.status.code() != Some(0) && stderr.contains("error: ");
            let warned = stderr.contains("warning: ") || call.contains("O_RDONLY");
            assert!(failed || warned, "{what}: {call}: {stderr}");
            check(folder, &format!("{what}: {call}"), &whole);
        }
    }
}

/// A size limit on the run's files makes writes short, and then fail.
#[test]
fn short_writes_lose_nothing() {
    let folder = temp();
    let folder = folder.path();
    let whole = undisturbed(folder);
    let journal = fs::metadata(folder.join("whole/journal.jsonl")).unwrap().len();
    for part in 1..8 {
        // POSIX counts in blocks of 512 bytes. A write beyond the limit returns an error only if the signal is ignored.
        let blocks = journal * part / 8 / 512;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_profiler"))
            .args(profiler(folder, "out"));
        let output = start(command, folder);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() != Some(0) && stderr.contains("File too large"),
            "{blocks} blocks: {stderr}"
        );
        check(folder, &format!("{blocks} blocks"), &whole);
    }
}

/// A folder that is removed during the run ends the run at the next answer.
#[test]
fn a_removed_folder_is_noticed() {
    let folder = temp();
    let folder = folder.path();
    let script = r#"
        import "std/engines" as engines;
        let engine = engines::describe("vllm", #{ runtime: "sim", model: "", sim: #{ time_scale: 0 } });
        let input = 1;
        loop { input += 1; engine.probe(#{ input: input, output: 16 }); }
    "#;
    fs::write(folder.join("s.rhai"), script).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.current_dir(folder).env("HOME", folder);
    command
        .args(profiler(folder, "out"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let run = command.spawn().unwrap();
    wait_for_text(&folder.join("out/journal.jsonl"), r#""event":"done""#, 1);
    // The first removal may fail because the run is writing another file.
    let _ = fs::remove_dir_all(folder.join("out"));
    eventually("gone", || {
        !folder.join("out").exists() || fs::remove_dir_all(folder.join("out")).is_ok()
    });
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr.contains("was removed while the run was under way"), "{stderr}");
}
