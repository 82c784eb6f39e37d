//! A user runs probes in containers: each is copied in, runs there, and leaves nothing behind.

use super::STAND_INS;
use crate::support::{Outcome, Profiler, image, needs_docker};

/// Runs a script with the host's Python, mounted from `/usr` into an image that has none.
fn run(script: &str, allow: &str, env: &[(&str, &str)]) -> Outcome {
    let mounts = format!("mount=/usr,mount={STAND_INS},image={},entrypoint", image::shell());
    let adapter = format!(
        r#"
fn launch(options) {{
    #{{
        image: "{image}", entrypoint: ["/usr/bin/python3"], args: ["{STAND_INS}/engine.py", "8000", "0.0.0.0"], port: 8000,
        env: #{{ PYTHONPATH: "{STAND_INS}" }},
        mounts: [#{{ host: "/usr", container: "/usr" }}, #{{ host: "{STAND_INS}", container: "{STAND_INS}" }}],
        stop_grace: 0.1,
    }}
}}
fn ready(engine) {{ engine.get("/health").status == 200 }}
fn request(point) {{ #{{ protocol: "openai_completions", path: "/v1/completions", prompt: "tokens", body: #{{}} }} }}
fn facts() {{ #{{}} }}
fn failures() {{ [] }}
fn flags(limits) {{ [] }}
"#,
        image = image::shell()
    );
    let look = "import json, os, sys\nprint(json.dumps({'argv': sys.argv, 'files': sorted(os.listdir(os.path.dirname(os.path.dirname(sys.argv[0]))))}))";
    let program = Profiler::new()
        .file("main.rhai", script)
        .file("mine.rhai", adapter)
        .file("look.py", look);
    let program = program.args(["run", "main.rhai", "--json", "--allow", &format!("{mounts},{allow}")]);
    env.iter()
        .fold(program, |program, (name, value)| program.env(name, value))
        .run()
}

const LAUNCH: &str = r#"import "std/engines" as engines;
let engine = engines::describe("./mine.rhai", #{ runtime: "docker", in_process: true, stop_grace: 0.1 });
"#;

#[test]
fn a_serving_container_is_asked_from_within() {
    if !needs_docker() {
        return;
    }
    let script = format!(
        r#"{LAUNCH}engine.start();
let report = engine.run_probe("allocator", #{{}});
#{{ report: report, log: engine.logs() }}"#
    );
    let outcome = run(&script, "", &[]).success();
    let result = &outcome.json()["result"];
    assert_eq!(result["report"]["processes"][0]["devices"][0]["allocated"], 4 << 20);
    assert_eq!(result["log"][0], "environment set up: True");
}

#[test]
fn a_scripts_own_program_in_an_engines_container_needs_the_users_word() {
    if !needs_docker() {
        return;
    }
    let script = format!(
        r#"{LAUNCH}engine.start();
let first = engine.run_probe("./look.py", #{{ args: ["a b"] }});
[first, engine.run_probe("./look.py", #{{}})]"#
    );
    run(&script, "", &[])
        .code(3)
        .stderr("`./look.py`, which the script brings")
        .stderr("--allow exec");
    let outcome = run(&script, ",exec", &[]).success();
    let result = &outcome.json()["result"];
    let argv = result[0]["argv"].as_array().unwrap();
    assert!(
        argv[0].as_str().unwrap().ends_with("/look.py") && argv[1] == "a b",
        "{argv:?}"
    );
    let folders = |seen: &serde_json::Value| seen.to_string().matches("profiler-probe-").count();
    assert_eq!(
        folders(&result[1]["files"]),
        1,
        "the first one's folder is gone: {result}"
    );
}

#[test]
fn a_probe_takes_the_place_of_an_engine_that_does_not_run() {
    if !needs_docker() {
        return;
    }
    let place = r#"engine.run_probe("allocator", #{ python: "/usr/bin/python3" })"#;
    run(&format!("{LAUNCH}{place}"), "", &[])
        .code(3)
        .stderr("was not launched with `in_process: true`");
    let alone = format!(
        r#"probe::run("./look.py", #{{ image: "{}", python: "/usr/bin/python3", mounts: [#{{ host: "/usr", container: "/usr" }}] }})"#,
        image::shell()
    );
    let outcome = run(&alone, "", &[]).success();
    assert!(
        outcome.json()["result"]["argv"][0]
            .as_str()
            .unwrap()
            .ends_with("/look.py")
    );
}
