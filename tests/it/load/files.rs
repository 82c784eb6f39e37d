//! A user replays traces and prompts from files: their effect, that only files named by the user are read, and the
//! files that a script leaves.

use std::fs;

use super::{finished, script};
use crate::support::{Outcome, Profiler, temp};

const TRACE: &str = "{\"timestamp\": 1000, \"input_length\": 20, \"output_length\": 3, \"hash_ids\": [1]}\n\
                     {\"timestamp\": 1000, \"input_length\": 30, \"output_length\": 1, \"hash_ids\": []}\n\
                     {\"timestamp\": 1250, \"input_length\": 25, \"output_length\": 2, \"hash_ids\": []}\n";

fn with_file(option: &str, more: &str, text: &str) -> Profiler {
    let params = format!("let p = params(#{{ {option}: param((), \"a file\") }});\n");
    let load = script("sim: #{ time_scale: 0.0 }", &format!("{option}: p.{option}{more}"));
    let script = load.replacen("let engine", &format!("{params}let engine"), 1);
    Profiler::new().file("main.rhai", script).file("in/given.jsonl", text)
}

#[test]
fn a_trace_is_replayed_as_it_came() {
    let load = finished(
        with_file("trace", "", TRACE),
        &["--set", "trace=in/given.jsonl", "--allow", "mount=in"],
    );
    assert_eq!(
        (load.counts(), &load.answer["stopped"]),
        ([3, 3, 0, 0], &"arrivals".into()),
        "{}",
        load.answer
    );
    assert_eq!(load.numbers("scheduled"), [0.0, 0.0, 0.25]);
    assert_eq!(
        (load.numbers("input"), load.numbers("output")),
        (vec![20.0, 30.0, 25.0], vec![3.0, 1.0, 2.0])
    );
}

#[test]
fn prompts_of_a_file_are_sent_in_turn_and_once_unless_more_is_asked() {
    let text = "{\"prompt\": \"one two three\", \"output\": 2}\n{\"prompt\": \"four five\", \"max_tokens\": 3}\n";
    let set = ["--set", "prompts=in/given.jsonl", "--allow", "mount=in"];
    let once = finished(with_file("prompts", ", concurrency: 1", text), &set);
    assert_eq!(once.counts(), [2, 2, 0, 0], "{}", once.answer);
    assert_eq!(once.numbers("output"), [2.0, 3.0]);
    // The simulated engine counts words as tokens.
    let counted: Vec<u64> = once
        .records
        .iter()
        .map(|record| record["counted"]["input"].as_u64().unwrap())
        .collect();
    assert_eq!(counted[0], counted[1] + 1, "{}", once.answer);
    let twice = finished(with_file("prompts", ", concurrency: 1, requests: 4", text), &set);
    assert_eq!(
        (twice.counts()[1], twice.numbers("output")),
        (4, vec![2.0, 3.0, 2.0, 3.0])
    );
    assert!(
        twice.answer["warnings"].to_string().contains("reused"),
        "{}",
        twice.answer
    );
}

fn refused(program: Profiler, args: &[&str]) -> Outcome {
    program.args(["run", "main.rhai"]).args(args).run()
}

#[test]
fn no_file_is_read_that_the_user_did_not_name() {
    let fixed = |folder: &std::path::Path| script("", &format!("trace: \"{}/in/given.jsonl\"", folder.display()));
    let folder = temp();
    fs::create_dir(folder.path().join("in")).unwrap();
    fs::write(folder.path().join("in/given.jsonl"), TRACE).unwrap();
    let program = || Profiler::new().file("main.rhai", fixed(folder.path()));
    let _ = refused(program(), &[])
        .code(3)
        .stderr("is not allowed")
        .stderr("--allow mount=");
    let allow = format!("mount={}", folder.path().display());
    let _ = refused(program(), &["--allow", &allow]).success();
    // Parameters of a script that is not shipped grant nothing, whatever their names.
    let named = format!("files.any={}/in/given.jsonl", folder.path().display());
    let text = format!(
        "params(#{{ files: param(#{{ any: () }}, \"files\") }});\n{}",
        fixed(folder.path())
    );
    let text = text.replacen("params(", "import \"std/engines\" as engines;\nparams(", 1);
    let text = text.replacen("\nimport \"std/engines\" as engines;\nlet", "\nlet", 1);
    let _ = refused(Profiler::new().file("main.rhai", &text), &["--set", &named]).code(3);
    // A parameter file grants nothing either: a stranger may have written it.
    let params = format!(
        "{{ \"files\": {{ \"any\": \"{}/in/given.jsonl\" }} }}",
        folder.path().display()
    );
    let program = Profiler::new().file("main.rhai", &text).file("p.json", params);
    let _ = refused(program, &["--params", "p.json"]).code(3);
}

#[test]
fn a_wrong_line_of_a_file_is_named() {
    let set = ["--set", "trace=in/given.jsonl", "--allow", "mount=in"];
    let text = format!("{TRACE}{{\"timestamp\": 1, \"input_length\": 3}}\n");
    let _ = refused(with_file("trace", "", &text), &set)
        .code(2)
        .stderr("`in/given.jsonl`: line 4 of the trace has no `output_length`");
    let _ = refused(
        with_file("prompts", ", concurrency: 1", "only text\n"),
        &["--set", "prompts=in/given.jsonl", "--allow", "mount=in"],
    )
    .code(2)
    .stderr("prompt 1 of the file does not say how long its answer is");
}

#[test]
fn a_script_reads_what_the_user_named_and_leaves_files_of_its_own() {
    let text = "let p = params(#{ batch: param((), \"a file\") });
        let batch = files::yaml(p.batch);
        files::append(\"rows.csv\", \"model\\n\");
        for model in batch.models { files::append(\"rows.csv\", model + \"\\n\"); }
        files::write(\"deep/all.json\", \"{}\");
        [batch.models.len(), files::lines(p.batch).len()]";
    let folder = temp();
    fs::write(folder.path().join("main.rhai"), text).unwrap();
    fs::write(folder.path().join("b.yaml"), "models:\n  - a\n  - b\n").unwrap();
    let run = |args: &[&str]| {
        Profiler::new()
            .current_dir(folder.path())
            .args(["run", "main.rhai", "--json"])
            .args(args)
            .run()
    };
    let outcome = run(&["--out", "run", "--set", "batch=b.yaml", "--allow", "mount=b.yaml"]).success();
    assert_eq!(outcome.json()["result"], serde_json::json!([2, 3]));
    assert_eq!(
        fs::read_to_string(folder.path().join("run/files/rows.csv")).unwrap(),
        "model\na\nb\n"
    );
    assert!(folder.path().join("run/files/deep/all.json").exists());
    let _ = run(&["--params", "p.json", "--set", "x=1"]).code(2);
    for (text, code, part) in [
        ("files::text(\"/etc/hostname\")", 3, "is not allowed"),
        ("files::write(\"../x\", \"\")", 2, "not a valid file name"),
        ("files::write(\"/tmp/x\", \"\")", 2, "not a valid file name"),
        ("files::append(\"a/../../x\", \"\")", 2, "not a valid file name"),
        ("files::write(\".hidden\", \"\")", 2, "not a valid file name"),
    ] {
        let outcome = Profiler::new().file("main.rhai", text).args(["run", "main.rhai"]).run();
        let _ = outcome.code(code).stderr(part);
    }
}

#[test]
fn what_is_appended_is_the_same_after_a_resume() {
    let text = "files::append(\"rows.csv\", \"a\\n\"); files::append(\"rows.csv\", \"b\\n\"); throw \"later\";";
    let folder = temp();
    fs::write(folder.path().join("main.rhai"), text).unwrap();
    let run = |args: &[&str]| {
        Profiler::new()
            .current_dir(folder.path())
            .args(["run", "main.rhai"])
            .args(args)
            .run()
    };
    let _ = run(&["--out", "run"]).code(1);
    let _ = run(&["--resume", "run"]).code(1);
    assert_eq!(
        fs::read_to_string(folder.path().join("run/files/rows.csv")).unwrap(),
        "a\nb\n"
    );
}
