//! A user resumes a run whose host died at an arbitrary moment.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::run::{SEARCH, journal};
use crate::support::{Profiler, SHARED_STATE, eventually, temp, wait_for_text};

fn program(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.env("XDG_STATE_HOME", SHARED_STATE);
    command
        .current_dir(folder)
        .env("HOME", folder)
        .args(["run", "line.rhai", "--json", "--set", "pause=0.004"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The points of a journal in order, without a torn last line.
fn points(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| event["event"] == "point")
        .map(|event| event["point"].to_string())
        .collect()
}

#[test]
fn ten_kills_at_random_instants_change_nothing() {
    let folder = temp();
    fs::write(folder.path().join("line.rhai"), SEARCH).unwrap();
    let undisturbed = program(folder.path(), &["--out", "whole"]).output().unwrap();
    let whole: Value = serde_json::from_slice(&undisturbed.stdout).unwrap();
    let needed = points(&folder.path().join("whole")).len();

    let out = folder.path().join("killed");
    let mut kills = 0;
    let mut before = Vec::new();
    for number in 0..10_u64 {
        let args: &[&str] = if out.join("manifest.json").exists() {
            &["--resume", "killed"]
        } else {
            &["--out", "killed"]
        };
        let mut child = program(folder.path(), args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Waits for two more of about 24 points, then for a varying moment, which may fall within a write.
        eventually("two more points", || {
            points(&out).len() >= before.len() + 2 || child.try_wait().unwrap().is_some()
        });
        std::thread::sleep(Duration::from_micros(number * 731));
        child.kill().unwrap();
        kills += u64::from(!child.wait().unwrap().success());
        let now = points(&out);
        assert_eq!(now[..before.len()], before[..], "no line is lost or changed");
        before = now;
    }
    assert!(kills >= 5, "{kills} kills hit a living run");
    let last = program(folder.path(), &["--resume", "killed"]).output().unwrap();
    let resumed: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!(resumed["result"]["frontier"], whole["result"]["frontier"]);
    let all = points(&out);
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "no finished probe is repeated");
    assert!(
        all.len() as u64 <= needed as u64 + kills,
        "{} instead of {needed}",
        all.len()
    );
}

#[test]
fn an_unfinished_grid_goes_on_where_it_was() {
    let script = r#"
        import "std/search" as search;
        let map = boundary(#{ input: [1, 9], output: [1, 9] }, #{});
        let ask = |q| {
            print(`asked ${q.input} ${q.output}`);
            sleep(0.05);
            if q.input + q.output <= 10 { "ok" } else { "oom" }
        };
        search::grid(map, ask, #{ grid_size: 9 });
        map.frontier()
    "#;
    let profiler = Profiler::new().file("grid.rhai", script);
    let (mut child, folder) = profiler.args(["run", "grid.rhai", "--out", "out"]).spawn();
    let program = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
        command.env("XDG_STATE_HOME", SHARED_STATE);
        let output = command
            .current_dir(folder.path())
            .args(["run", "grid.rhai"])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let out = folder.path().join("out");
    eventually("the middle of the grid", || points(&out).len() >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    let had = points(&out);
    let resumed = program(&["--resume", "out"]);
    for point in had {
        let point: Value = serde_json::from_str(&point).unwrap();
        let asked = format!("asked {} {}\n", point["input"], point["output"]);
        assert!(!resumed.contains(&asked), "asked again: {asked}{resumed}");
    }
    let found = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with("asked"))
            .collect::<String>()
    };
    assert_eq!(found(&resumed), found(&program(&["--out", "whole"])));
    assert!(resumed.contains("asked"), "the kill came too late");
}

#[test]
fn a_torn_last_line_is_cut() {
    let script = r#"let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 4 }, "ok"); throw "later""#;
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .code(1);
    let out = outcome.folder().join("out");
    let path = out.join("journal.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(r#"{"event":"point","boundary":0,"poi"#);
    fs::write(&path, text).unwrap();
    let _ = Profiler::new().arg("show").arg(&out).run().success().stdout("1 point;");
    let again = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .env("XDG_STATE_HOME", SHARED_STATE)
        .current_dir(outcome.folder())
        .args(["run", "s.rhai", "--resume", "out"])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(1), "it throws again");
    let kinds: Vec<_> = journal(&out).into_iter().map(|event| event["event"].clone()).collect();
    assert_eq!(kinds, ["boundary", "point", "end", "resumed", "boundary", "end"]);
}

#[test]
fn a_finished_run_prints_its_result_again() {
    let outcome = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--out", "out", "--json"])
        .run()
        .success();
    let again = |args: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_profiler"))
            .env("XDG_STATE_HOME", SHARED_STATE)
            .current_dir(outcome.folder())
            .args(args)
            .output();
        let output = command.unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let bytes = fs::read(outcome.folder().join("out/journal.jsonl")).unwrap();
    assert_eq!(again(&["run", "--resume", "out", "--json"]), outcome.stdout);
    let shown: Value = serde_json::from_str(&again(&["show", "out", "--json"])).unwrap();
    for (name, value) in outcome.json().as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
    assert!(again(&["run", "line.rhai", "--resume", "out"]).contains("what to run"));
    assert_eq!(
        fs::read(outcome.folder().join("out/journal.jsonl")).unwrap(),
        bytes,
        "nothing was run"
    );
}

#[test]
fn a_search_that_its_budget_ended_goes_on_with_a_larger_one() {
    let folder = temp();
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_profiler"))
            .env("XDG_STATE_HOME", SHARED_STATE)
            .current_dir(&folder)
            .env("HOME", folder.path())
            .args([
                "run",
                "adaptive",
                "--engine",
                "sim",
                "--search.use-report",
                "false",
                "--json",
            ])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document, String::from_utf8(output.stderr).unwrap())
    };
    let search = |document: &Value, key: &str| document["result"]["search"][key].clone();
    let (first, said) = run(&["--search.max-probes", "6", "--out", "out"]);
    assert_eq!(search(&first, "stopped"), "max_probes", "{first}");
    assert!(said.contains("--resume out --search.max-probes 12"), "{said}");
    let before = points(&folder.path().join("out"));
    let (second, _) = run(&["--resume", "out", "--search.max-probes", "60"]);
    assert_eq!(search(&second, "stopped"), "verified", "{second}");
    let after = points(&folder.path().join("out"));
    assert_eq!(after[..before.len()], before, "nothing is sent again");
    assert_eq!(search(&second, "probes"), after.len(), "{second}");
    let (again, _) = run(&["--resume", "out"]);
    assert_eq!(again["result"], second["result"], "the larger budget is kept");
}

#[test]
fn another_run_is_refused_with_the_differences() {
    let started = Profiler::new()
        .file("lib.rhai", "fn f() { 1 }")
        .file(
            "s.rhai",
            r#"import "lib" as lib; params(#{ a: param(1, ""), m: param(#{}, "") }); record("x", 1); throw "no""#,
        )
        .args([
            "run", "s.rhai", "--out", "out", "--set", "a=2", "--set", "m.x=1", "--seed", "4",
        ])
        .run()
        .code(1);
    let folder = started.folder();
    let resume = |args: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_profiler"))
            .env("XDG_STATE_HOME", SHARED_STATE)
            .current_dir(folder)
            .args(["run", "s.rhai", "--resume", "out"])
            .args(args)
            .output();
        let output = command.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(resume(&[]).0, Some(1), "the same run");
    assert_eq!(
        resume(&["--set", "a=2", "--set", "m.x=1"]).0,
        Some(1),
        "the same parameters"
    );
    fs::write(folder.join("lib.rhai"), "fn f() { 2 }").unwrap();
    let (code, stderr) = resume(&["--set", "a=3", "--set", "m.x=1", "--seed", "5"]);
    assert_eq!(code, Some(2), "{stderr}");
    for part in [
        "the module `lib.rhai` has changed",
        "`a` was 2 and is 3",
        "the seed was 4 and is 5",
    ] {
        assert!(stderr.contains(part), "{part}\n{stderr}");
    }
    fs::write(folder.join("s.rhai"), "1").unwrap();
    assert!(resume(&[]).1.contains("the script `s.rhai` has changed"));
}

#[test]
fn two_hosts_cannot_use_one_folder() {
    let profiler = Profiler::new().file("s.rhai", r#"print("here"); sleep(60.0);"#);
    let (mut child, folder) = profiler.args(["run", "s.rhai", "--out", "out"]).spawn();
    wait_for_text(&folder.path().join("out/journal.jsonl"), "here", 1);
    let output = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .env("XDG_STATE_HOME", SHARED_STATE)
        .current_dir(folder.path())
        .args(["run", "s.rhai", "--resume", "out"])
        .output()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another profiler is using the run"));
}

#[test]
fn a_run_that_was_killed_before_its_first_event_is_begun_by_a_resume() {
    let done = Profiler::new()
        .file("line.rhai", SEARCH)
        .args(["run", "line.rhai", "--out", "out", "--set", "limit=300", "--seed", "5"])
        .run()
        .success();
    let program = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
        command.env("XDG_STATE_HOME", SHARED_STATE);
        command.current_dir(done.folder()).env("HOME", done.folder()).args(args);
        command.output().unwrap()
    };
    // The state between the two writes: the manifest says `running`, and the script is stored.
    let out = done.folder().join("out");
    let mut manifest: Value = serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap();
    let result: Value = serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    manifest["status"] = "running".into();
    manifest["ended"] = Value::Null;
    manifest["modules"] = serde_json::json!({});
    for left in [None, Some("")] {
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("manifest.json"), manifest.to_string()).unwrap();
        if let Some(text) = left {
            fs::write(out.join("journal.jsonl"), text).unwrap();
        }
        let shown = program(&["show", "out"]);
        let stdout = String::from_utf8(shown.stdout).unwrap();
        assert!(
            stdout.contains("nothing was recorded yet") && !stdout.contains("missing"),
            "{stdout}"
        );
        assert!(program(&["report", "out"]).status.success());
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(
            page.contains("nothing was recorded yet") && !page.contains("Missing:"),
            "{left:?}"
        );
        let resumed = program(&["run", "--resume", "out", "--json"]);
        let again: Value = serde_json::from_slice(&resumed.stdout).unwrap();
        assert_eq!(again, result, "the same run, seed and parameters");
        assert!(journal(&out).iter().all(|event| event["event"] != "resumed"));
    }
}

#[test]
fn a_secret_that_was_set_is_in_no_file_and_is_asked_for_again() {
    let script = r#"
        let p = params(#{ env: param(#{}, "variables") });
        warn(`given ${p.env.MY_TOKEN}`);
        let map = boundary(#{ input: [1, 9] }, #{});
        map.record(#{ input: 4 }, "ok");
        throw `later: ${p.env.MY_TOKEN}`
    "#;
    let set = ["--set", r#"env={"MY_TOKEN":"hf_never-to-be-seen"}"#];
    let begun = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out"])
        .args(set)
        .run()
        .code(1)
        .stderr("given ***")
        .nowhere("never-to-be-seen");
    for entry in walk(&begun.folder().join("out")) {
        let text = String::from_utf8_lossy(&fs::read(&entry).unwrap()).into_owned();
        assert!(!text.contains("never-to-be-seen"), "{}", entry.display());
    }
    let resume = |args: &[&str]| {
        let profiler = Profiler::new().current_dir(begun.folder());
        profiler.args(["run", "s.rhai", "--resume", "out"]).args(args).run()
    };
    let _ = resume(&[]).code(2).stderr("was given a secret").stderr("--set");
    let _ = resume(&set).code(1).stderr("later: ***");
}

/// The files below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    files.collect()
}
