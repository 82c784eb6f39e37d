//! A user's engine dies within a load without an exit: its process lives and serves no more, or it is not our process.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use super::{finished, records};
use crate::support::{Profiler, wait_for_text};

#[test]
fn a_process_that_lives_and_serves_no_more_is_started_again() {
    let text = r#"import "std/engines" as engines;
        let wrong = #{ after: 20, fail_request: #{ after: 3, message: "EngineCore is gone", log: ["EngineCore died"], then: "dead" } };
        let engine = engines::describe("sim", #{ sim: #{ time_scale: 0.02, misbehave: wrong } });
        let load = |requests| engine.load(#{ concurrency: 4, requests: requests, input: 16, output: 8 });
        [load.call(60), load.call(12)]"#;
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    let [first, second] = [&load.answer[0], &load.answer[1]];
    assert_eq!(
        (&first["completed"], &first["stopped"], &first["died"]["exit_code"]),
        (&json!(20), &json!("died"), &Value::Null),
        "{first}"
    );
    let failures = &first["failures"];
    // Each of the four requests in flight may or may not have been admitted before the engine died. Those that it turns
    // away are sent again, until none was let in for a minute.
    assert!(
        (1..=4).contains(&failures["in_stream"]["count"].as_u64().unwrap()),
        "{failures}"
    );
    assert!(failures["status_503"]["count"].as_u64() >= Some(1), "{failures}");
    assert!(first["rejected"].as_u64() > Some(4), "{first}");
    assert_eq!(second["completed"], 12, "{second}");
    let stderr = &load.outcome.stderr;
    let message = "its process is alive but no longer serves";
    assert!(stderr.contains(message), "{stderr}");
    assert!(
        !stderr.contains("it may serve other clients"),
        "it could not count them: {stderr}"
    );
}

#[test]
fn an_engine_that_was_attached_to_and_killed_ends_the_run_once_it_is_needed_again() {
    let serve = [
        "sim",
        "--profile",
        "llama-8b-24gb-vllm",
        "--max-model-len",
        "2048",
        "--time-scale",
        "0.05",
    ];
    let (mut engine, _home) = Profiler::new().args(serve).spawn();
    let mut url = String::new();
    BufReader::new(engine.stdout.as_mut().unwrap())
        .read_line(&mut url)
        .unwrap();
    let log = BufReader::new(engine.stderr.take().unwrap()).lines();
    assert!(log.map_while(Result::ok).any(|line| line.contains("startup complete")));
    let text = format!(
        "import \"std/engines\" as engines;
        let engine = engines::attach(\"vllm\", #{{ url: \"{}\" }});
        let load = engine.load(#{{ concurrency: 4, requests: 400, input: 16, output: 100 }});
        print(`${{load.stopped}}: ${{load.issued}} = ${{load.completed + load.failed + load.cut_off}}`);
        engine.load(#{{ concurrency: 4, requests: 4, input: 16, output: 8 }})",
        url.trim()
    );
    let program = Profiler::new().file("main.rhai", text);
    let kept = program.folder().join("run/loads/1.jsonl");
    let (profiler, _folder) = program
        .args(["run", "main.rhai", "--out", "run", "--allow", "net=127.0.0.1"])
        .spawn();
    wait_for_text(&kept, "\n", 8);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let output = profiler.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let records = records(&kept);
    let issued = records.len();
    for part in [
        "it no longer answers",
        "the attached engine no longer answers",
        "start it again, and resume the run",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains(&format!("died: {issued} = {issued}")), "{stdout}");
    assert!(records.iter().filter(|record| record["outcome"] == "completed").count() >= 8);
}
