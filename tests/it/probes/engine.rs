//! A user probes an engine in a native process, while it serves and in its place.

use super::{STAND_INS, model, script};
use crate::support::{Outcome, temp};

/// An adapter for `engine.py` with the stand-ins on its path.
fn adapter() -> String {
    format!(
        r#"
fn launch(options) {{
    #{{ command: ["python3", "{STAND_INS}/engine.py", "{{port}}", "127.0.0.1"], env: #{{ PYTHONPATH: "{STAND_INS}", MY_TOKEN: "secret" }} }}
}}
fn ready(engine) {{ engine.get("/health").status == 200 }}
fn request(point) {{ #{{ protocol: "openai_completions", path: "/v1/completions", prompt: "tokens", body: #{{}} }} }}
fn facts() {{ #{{}} }}
fn failures() {{ [] }}
fn flags(limits) {{ [] }}
"#
    )
}

/// Runs a script with `engine`, which is launched with these options but not started.
fn with_engine(options: &str, body: &str) -> Outcome {
    let text = format!(
        r#"import "std/engines" as engines;
let engine = engines::describe("./mine.rhai", #{{ runtime: "process", {options} }});
{body}"#
    );
    let program = "import json, os\nprint(json.dumps({'serving': os.environ.get('PROFILER_SERVING'), 'token': os.environ.get('MY_TOKEN')}))";
    script(&text)
        .file("mine.rhai", adapter())
        .file("look.py", program)
        .run()
}

#[test]
fn the_processes_of_a_serving_engine_tell_their_counters() {
    let outcome = with_engine(
        "in_process: true",
        r#"engine.start();
let report = engine.run_probe("allocator", #{});
#{ report: report, log: engine.logs() }"#,
    )
    .success();
    let result = &outcome.json()["result"];
    let processes = result["report"]["processes"].as_array().unwrap();
    // Only the child uses CUDA. The server process has no probe thread, so it does not answer.
    assert_eq!(processes.len(), 1, "{processes:?}");
    let device = &processes[0]["devices"][0];
    assert_eq!(
        (&device["allocated"], &device["reserved"]),
        (&(4 << 20).into(), &(4 << 20).into())
    );
    assert_eq!(device["device_total"], 1 << 30);
    assert!(device["process_used"].is_null() && device["unknown"]["process_used"].is_string());
    assert_eq!(
        result["log"][0], "environment set up: True",
        "the environment's own sitecustomize ran as well"
    );
}

#[test]
fn without_the_option_nothing_of_it_is_there() {
    let outcome = with_engine("", r#"engine.start(); engine.run_probe("allocator", #{})"#).code(3);
    outcome.stderr("not launched with `in_process: true`");
    let sim = script(r#"import "std/engines" as engines; engines::describe("sim", #{ in_process: true })"#);
    sim.run()
        .code(2)
        .stderr("`in_process` means nothing to the runtime `sim`");
    let sim = script(r#"import "std/engines" as engines; engines::describe("sim", #{}).run_probe("allocator", #{})"#);
    sim.run().code(2).stderr("cannot run in-process probes");
}

#[test]
fn no_second_copy_is_loaded_beside_a_serving_engine_unasked() {
    let folder = temp();
    let model = model(folder.path());
    let run = |before: &str, further: &str| {
        let probe =
            format!(r#"{before} engine.run_probe("allocator", #{{ args: #{{ model: "{model}" {further} }} }}).mode"#);
        with_engine("", &probe)
    };
    run("engine.start();", "")
        .code(2)
        .stderr("an engine serves here")
        .stderr("second_copy");
    let beside = run("engine.start();", ", second_copy: true").success();
    assert_eq!(beside.json()["result"], "loaded");
    let alone = run("", "").success();
    assert_eq!(
        alone.json()["result"],
        "loaded",
        "in the place of an engine that does not run"
    );
}

#[test]
fn a_probe_knows_whether_an_engine_serves_and_not_its_secrets() {
    let outcome = with_engine(
        "",
        r#"let alone = engine.run_probe("./look.py", #{});
engine.start();
let beside = engine.run_probe("./look.py", #{});
engine.stop();
[alone, beside, engine.run_probe("./look.py", #{})]"#,
    )
    .success();
    let result = outcome.json()["result"].clone();
    let seen: Vec<_> = result
        .as_array()
        .unwrap()
        .iter()
        .map(|seen| seen["serving"].as_str())
        .collect();
    assert_eq!(seen, [None, Some("1"), None]);
    assert!(result.as_array().unwrap().iter().all(|seen| seen["token"].is_null()));
}
