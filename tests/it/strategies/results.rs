//! A user imports files of tgi-profiler, continues from them, and writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::import::fixture;
use crate::support::{Profiler, temp};

/// Runs `profiler run neighbours` over the box of the fixture, with few probes, into `out`.
fn neighbours(out: &Path, more: &[&str]) -> Value {
    let command = Profiler::new()
        .args(["run", "neighbours", "--json", "--seed", "1", "--out"])
        .arg(out);
    let command = command.args([
        "--set",
        "engine=sim",
        "--set",
        "model=meta-llama/Llama-3.1-8B-Instruct",
        "--set",
        "input=[2048,32768]",
        "--set",
        "output=[512,32768]",
    ]);
    command
        .args(["--set", "search.grid_size=4"])
        .args(more)
        .run()
        .success()
        .json()["result"]
        .clone()
}

fn written(run: &Path) -> PathBuf {
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let mut files = entries.filter(|path| path.to_string_lossy().contains("profile_res_"));
    let file = files.next().expect("a file of results");
    assert_eq!(files.next(), None);
    file
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Verdicts and causes by point, in the order of recording.
fn answers(rows: &Value, answer: impl Fn(&Value) -> Value) -> Vec<Value> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| json!([row["point"], answer(row)["verdict"], answer(row)["cause"]]))
        .collect()
}

#[test]
fn what_is_written_has_their_shape_and_comes_back_as_it_was() {
    let folder = temp();
    let run = folder.path().join("run");
    let result = neighbours(
        &run,
        &["--set", "search.refinement_rounds=1", "--set", "output_tolerance=128"],
    );
    let file = written(&run);
    let (ours, theirs) = (read(&file), read(Path::new(&fixture("tgi-profiler.json"))));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&ours), keys(&theirs));
    assert_eq!(keys(&ours["config"]), keys(&theirs["config"]));
    assert_eq!(keys(&ours["results"][0]), keys(&theirs["results"][0]));
    assert_eq!(
        (&ours["config"]["grid_size"], &ours["config"]["refinement_rounds"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(ours["config"]["output_tolerance_pct"], 0.25, "128 of at least 512");
    let shown = Profiler::new()
        .arg("show")
        .arg(&file)
        .arg("--json")
        .run()
        .success()
        .json();
    assert_eq!(shown["format"], "tgi-profiler");
    assert_eq!(
        shown["boundary"]["axes"],
        json!({ "input": [2048, 32768], "output": [512, 32768] })
    );
    let back = answers(&shown["boundary"]["points"], |row| row["answer"].clone());
    assert_eq!(back, answers(&result["points"], Value::clone));
    assert!(back.len() > 5, "{back:?}");
}

#[test]
fn a_search_goes_on_from_their_file_and_asks_nothing_again() {
    let folder = temp();
    let from = format!("resume_from={}", fixture("tgi-profiler.json"));
    let result = neighbours(&folder.path().join("run"), &["--set", &from]);
    let points: Vec<Value> = result["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["point"].clone())
        .collect();
    let theirs = read(Path::new(&fixture("tgi-profiler.json")));
    let theirs: Vec<Value> = theirs["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!({ "input": row["input_length"], "output": row["output_length"] }))
        .collect();
    assert_eq!(points[..theirs.len()], theirs[..]);
    assert!(points.len() > theirs.len());
    let unique: BTreeSet<String> = points.iter().map(Value::to_string).collect();
    assert_eq!(unique.len(), points.len(), "none asked twice");
    // A failed start does not count as out of memory unless the user says so.
    assert_eq!(result["points"][2]["moves"], "none");
    let trusting = neighbours(
        &folder.path().join("trusting"),
        &["--set", &from, "--set", "trust_failures=true"],
    );
    assert_eq!(trusting["points"][2]["moves"], "fails");
}

#[test]
fn our_own_file_is_gone_on_from_too() {
    let folder = temp();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let before = neighbours(&first, &["--set", "search.max_probes=6"]);
    let from = format!("resume_from={}", written(&first).display());
    let after = neighbours(&second, &["--set", &from]);
    let (before, after) = (
        answers(&before["points"], Value::clone),
        answers(&after["points"], Value::clone),
    );
    assert_eq!(after[..before.len()], before[..]);
    assert!(after.len() > before.len());
}

#[test]
fn each_point_keeps_its_time_and_its_words() {
    let folder = temp();
    let from = format!("resume_from={}", fixture("tgi-profiler.json"));
    let run = folder.path().join("run");
    neighbours(&run, &["--set", &from, "--set", "search.max_probes=2"]);
    let (ours, theirs) = (read(&written(&run)), read(Path::new(&fixture("tgi-profiler.json"))));
    let theirs = theirs["results"].as_array().unwrap();
    assert_eq!(&ours["results"].as_array().unwrap()[..theirs.len()], &theirs[..]);
    let own: Vec<&str> = ours["results"].as_array().unwrap()[theirs.len()..]
        .iter()
        .map(|row| row["timestamp"].as_str().unwrap())
        .collect();
    assert!(
        !own.is_empty() && own.iter().all(|time| !time.starts_with("2025") && !time.ends_with('Z')),
        "{own:?}"
    );
}

#[test]
fn a_file_of_another_search_is_refused_unless_it_is_named() {
    let run = |script: &str, more: &[&str]| {
        let set = format!("resume_from={}", fixture("tgi-profiler.json"));
        let run = Profiler::new().args([
            "run",
            script,
            "--set",
            "engine=sim",
            "--set",
            &set,
            "--out",
            "run",
            "--json",
        ]);
        run.args(["--set", "search.max_probes=1"]).args(more).run()
    };
    for script in ["neighbours", "adaptive"] {
        let refused = run(script, &[]).code(2).stderr("meta-llama/Llama-3.1-8B-Instruct");
        let _ = refused.stderr("--resume-other");
        let named = ["--model", "meta-llama/Llama-3.1-8B-Instruct"];
        let _ = run(script, &[&named[..], &["--gpus", "1"]].concat())
            .code(2)
            .stderr("the GPUs [0]");
        let _ = run(script, &[&named[..], &["--input", "128..4096"]].concat())
            .code(2)
            .stderr("the range [2048, 32768] of input");
        for taken in [&named[..], &["--resume-other", "true"]] {
            let outcome = run(script, taken);
            let points = outcome.json()["result"]["points"].clone();
            assert_eq!(points[7]["verdict"], "oom", "{script} {taken:?}: {}", outcome.stderr);
            assert_eq!(points[7]["point"], json!({ "input": 32768, "output": 512 }));
        }
    }
    // Their points are of one request at a time.
    for other in [
        ["--workload", "chat", "--resume-other", "true"],
        ["--concurrency", "1..8", "--resume-other", "true"],
        ["--input", "128", "--output", "64"],
    ] {
        let _ = run("adaptive", &other).code(2).stderr("one request at a time");
    }
}

#[test]
fn no_file_is_read_that_the_user_did_not_name() {
    let script = format!(
        "params(#{{ resume_from: param((), \"a file\") }}); files::results(\"{}\")",
        fixture("tgi-profiler.json")
    );
    let run = |arguments: &[&str]| {
        let command = Profiler::new().file("main.rhai", &script).file(
            "p.json",
            format!(r#"{{ "resume_from": "{}" }}"#, fixture("tgi-profiler.json")),
        );
        command.args(["run", "main.rhai"]).args(arguments).run()
    };
    let refused = run(&[])
        .code(3)
        .stderr("not allowed to read `")
        .stderr("--allow mount=");
    let _ = refused.stdout("");
    // A parameter file may come from a stranger.
    let _ = run(&["--params", "p.json"]).code(3);
    let allowed = format!("mount={}/tests/data/foreign", env!("CARGO_MANIFEST_DIR"));
    let _ = run(&["--allow", &allowed]).success().stdout("start_failed");
}

#[test]
fn a_resumed_run_has_what_it_read_before() {
    let script = r#"let p = params(#{ resume_from: param((), "a file") });
        print(`${files::results(p.resume_from).points.len()} points`);
        throw "later";"#;
    let text = std::fs::read_to_string(fixture("tgi-profiler.json")).unwrap();
    let folder = temp();
    std::fs::write(folder.path().join("main.rhai"), script).unwrap();
    std::fs::write(folder.path().join("r.json"), text).unwrap();
    let run = |arguments: &[&str]| {
        Profiler::new()
            .current_dir(folder.path())
            .args(["run", "main.rhai"])
            .args(arguments)
            .run()
    };
    let _ = run(&["--out", "run", "--set", "resume_from=r.json", "--allow", "mount=r.json"])
        .code(1)
        .stdout("8 points");
    std::fs::remove_file(folder.path().join("r.json")).unwrap();
    let _ = run(&["--resume", "run"]).code(1).stdout("8 points").stderr("later");
}

#[test]
fn what_is_no_boundary_is_refused() {
    let run = |name: &str| {
        let set = format!("resume_from={}", fixture(name));
        Profiler::new()
            .args(["run", "neighbours", "--set", "engine=sim", "--set", &set])
            .run()
    };
    let _ = run("vllm-bench-run.json").code(2).stderr("no points that fit or fail");
    let _ = run("not-there.json").code(2).stderr("not-there.json");
    let script = "files::write_results(boundary(#{ concurrency: [1, 9] }, #{}), \"tgi-profiler\", #{})";
    let _ = Profiler::new()
        .file("m.rhai", script)
        .args(["run", "m.rhai"])
        .run()
        .code(2)
        .stderr("knows the axes `input` and `output`");
    let script = "files::write_results(boundary(#{ input: [1, 9] }, #{}), \"vllm\", #{})";
    let _ = Profiler::new()
        .file("m.rhai", script)
        .args(["run", "m.rhai"])
        .run()
        .code(2)
        .stderr("the only format is `tgi-profiler`");
}
