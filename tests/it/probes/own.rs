//! A user writes a probe: what it sees, what it may print, and how it ends.

use serde_json::json;

use super::{said, script};
use crate::support::{Outcome, Profiler};

/// Runs `mine.py` through `probe::run` with these options.
fn run(program: &str, options: &str) -> Outcome {
    script(&format!(r#"probe::run("./mine.py", #{{ {options} }})"#))
        .file("mine.py", program)
        .run()
}

#[test]
fn it_gives_its_document_and_sees_no_secrets() {
    let program = r#"
import json, os, sys
import profiler_probe
print("working", file=sys.stderr)
secret = [name for name in os.environ if "secret" in os.environ[name]]
print(json.dumps({"args": sys.argv[1:], "colour": os.environ.get("COLOUR"), "secret": secret, "schema": profiler_probe.SCHEMA}))
"#;
    let options = r#"args: #{ fast: true, max_tokens: 5 }, env: #{ COLOUR: "red", MY_API_KEY: "secret" }"#;
    let text = format!(r#"probe::run("./mine.py", #{{ {options} }})"#);
    let program = script(&text).file("mine.py", program);
    let outcome = program
        .env("HF_TOKEN", "secret")
        .env("AWS_SECRET_ACCESS", "secret")
        .run()
        .success();
    assert_eq!(said(&outcome, "mine"), "working\n");
    let result = &outcome.json()["result"];
    assert_eq!(result["args"], json!(["--fast", "--max-tokens", "5"]));
    assert_eq!((&result["colour"], &result["secret"]), (&json!("red"), &json!([])));
    assert_eq!(result["schema"], "profiler-probe/1");
}

#[test]
fn what_is_no_document_is_a_fault_with_its_last_words() {
    run("import sys\nprint('hello')\nprint('boo', file=sys.stderr)", "")
        .code(1)
        .stderr("did not print one JSON object, but `hello`")
        .stderr("boo");
    run("raise ValueError('the reason')", "")
        .code(1)
        .stderr("ended with status 1")
        .stderr("the reason");
    run("print('{}' + ' ' * (17 << 20))", "")
        .code(1)
        .stderr("at most 16 MiB");
    run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "")
        .code(1)
        .stderr("status 139");
}

#[test]
fn it_ends_with_all_that_it_started_when_its_time_is_up() {
    let program =
        "import subprocess, sys, time\nprint('slow', file=sys.stderr, flush=True)\nsubprocess.run(['sleep', '1234.5'])";
    let begun = std::time::Instant::now();
    run(program, "timeout: 0.5")
        .code(1)
        .stderr("was ended after 0.5 s")
        .stderr("slow");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert!(!crate::support::engines::runs("1234.5"));
}

#[test]
fn wrong_names_and_options_are_refused() {
    run("", "timeout: -1").code(2).stderr("`timeout`");
    run("", "fast: true").code(2).stderr("unknown option `fast`");
    run("", r#"python: "/bin/sh""#).code(2).stderr("not Python");
    run("", r#"args: #{ a: #{} }"#).code(2).stderr("args.a");
    run("", "shm_size: 1").code(2).stderr("belong to a container");
    let refused = |text: &str| script(text).run();
    refused(r#"probe::run("../other.py", #{})"#)
        .code(2)
        .stderr("../other.py");
    refused(r#"probe::run("alocator", #{})"#).code(2).stderr("`allocator`?");
    refused(r#"probe::run("profiler_probe", #{})"#)
        .code(2)
        .stderr("profiler_probe");
    let without = Profiler::new().file("main.rhai", r#"probe::run("allocator", #{})"#);
    without
        .args(["run", "main.rhai"])
        .run()
        .code(3)
        .stderr("--allow process");
    let dry = Profiler::new().file("main.rhai", r#"probe::run("allocator", #{})"#);
    dry.args(["run", "main.rhai", "--dry-run", "--allow", "process"])
        .run()
        .success();
}

#[test]
fn a_resume_does_not_repeat_it() {
    let text = r#"
let first = probe::run("./mine.py", #{});
if first.count == 1 { throw "stopped here"; }
first
"#;
    let program = "import json, os\nwith open(os.environ['HOME'] + '/count', 'a') as f: f.write('x')\nprint(json.dumps({'count': os.path.getsize(os.environ['HOME'] + '/count')}))";
    let begun = Profiler::new().file("main.rhai", text).file("mine.py", program);
    let first = begun
        .args(["run", "main.rhai", "--allow", "process", "--out", "kept"])
        .run()
        .code(1);
    let counted = || std::fs::read_to_string(first.folder().join("count")).unwrap();
    assert_eq!(counted(), "x");
    let again = Profiler::new()
        .current_dir(first.folder())
        .env("HOME", first.folder())
        .args(["run", "main.rhai", "--allow", "process", "--resume", "kept"]);
    again.run().code(1).stderr("stopped here");
    assert_eq!(counted(), "x", "answered from the journal");
    let kept = std::fs::read_to_string(first.folder().join("kept/journal.jsonl")).unwrap();
    assert!(kept.contains(r#""kind":"experiment""#) && kept.contains("mine.py"));
}
