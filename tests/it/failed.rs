//! A user's run fails: it reports the fault as a document, and how to resume if there is something to resume.

use serde_json::Value;

use crate::support::{Outcome, Profiler};

const ADVICE: &str = "resume with";
const NOTHING: &str = "nothing was measured; `out` keeps the journal and the logs";

fn run(script: &str, args: &[&str]) -> Outcome {
    let program = Profiler::new()
        .file("s.rhai", script)
        .args(["run", "s.rhai", "--out", "out"]);
    program.args(args).run()
}

#[test]
fn nothing_measured_is_nothing_to_go_on_with() {
    run("warn(\"w\"); throw \"no\"", &[])
        .code(1)
        .stderr(NOTHING)
        .nowhere(ADVICE);
    for (script, code) in [
        ("warn(\"w\"); boundary(#{ input: [9, 1, 3] }, #{})", 2),
        ("process::start(#{ command: [\"true\"] })", 3),
    ] {
        let _ = run(script, &[])
            .code(code)
            .stderr("nothing had started, so the run folder was removed")
            .nowhere(ADVICE);
    }
}

#[test]
fn what_was_measured_can_be_gone_on_with_as_it_was_allowed() {
    let recorded = "let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 4 }, \"ok\"); throw \"later\"";
    let outcome = run(recorded, &["--allow", "process", "--allow", "token"])
        .code(1)
        .stdout(ADVICE)
        .stdout("profiler run s.rhai --resume out --allow process --allow token")
        .nowhere("nothing was measured");
    drop(outcome);
    let probed = "import \"std/engines\" as engines; engines::describe(\"sim\", #{}).probe(#{ input: 9, output: 2 }); throw \"later\"";
    run(probed, &[]).code(1).stdout(ADVICE).nowhere("nothing was measured");
}

#[test]
fn the_fault_is_in_the_document() {
    let outcome = run(
        "warn(\"careful\");\nprocess::start(#{ command: [\"true\"] })",
        &["--json"],
    )
    .code(3);
    let document = outcome.json();
    assert_eq!(
        (&document["result"], &document["script"]),
        (&Value::Null, &"s.rhai".into())
    );
    assert_eq!(document["warnings"][0]["message"], "careful");
    assert_eq!(document["fault"]["kind"], "not_allowed");
    assert_eq!(document["fault"]["at"], "s.rhai:2:10");
    assert!(document["fault"]["message"].as_str().unwrap().contains("process"));
    assert!(document["fault"]["hint"].as_str().unwrap().contains("--allow process"));
    let kept = std::fs::read(outcome.folder().join("out/result.json")).unwrap();
    assert_eq!(document, serde_json::from_slice::<Value>(&kept).unwrap());
    let shown = Profiler::new()
        .args(["show", "--json"])
        .arg(outcome.folder().join("out"))
        .run()
        .success();
    let shown = shown.json();
    for (name, value) in document.as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
}

#[test]
fn what_does_not_begin_is_a_document_too() {
    let compile = run("let a = ;", &["--json"]).code(2);
    assert_eq!(compile.json()["fault"]["kind"], "compile");
    assert_eq!(compile.json()["fault"]["at"], "s.rhai:1:9");
    assert_eq!(compile.json()["run"], Value::Null);
    let usage = run("1", &["--json", "--allow", "everything"]).code(2);
    assert_eq!(usage.json()["fault"]["kind"], "usage");
    let absent = Profiler::new().args(["run", "absent", "--json"]).run();
    assert_eq!(absent.json()["script"], "absent");
    assert!(absent.json()["fault"]["message"].as_str().unwrap().contains("`absent`"));
}
